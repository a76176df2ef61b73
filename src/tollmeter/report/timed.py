# SPDX-License-Identifier: Apache-2.0
"""The output of `toll time`: a few lines for each command, and its comparison with the first one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from math import inf, log, log1p
from statistics import fmean

from tollmeter.experiment.limits import LEAST_VISITS, SOME
from tollmeter.judgement.convergence import budget_beyond, budget_text
from tollmeter.judgement.opposed import is_same, pair_name
from tollmeter.model import EXIT_STATUS, OUTPUT_GAUGE, Opposed, Outcome, Results, Row
from tollmeter.report.numbers import count, percent, plain, plus_minus, ratio_in_words, size, time

COMMAND, TIME = "command", "time"
"""Names of the parameter and of the first metric in a run of commands."""
ITEM, IN_ALL, TOLL = "item", "in all", "shortest system call"
"""The second parameter of a bill, and its values for a whole run and for the boundary alone."""
RATIO_SHARE = 1 / 3
"""Half-width of a ratio at which the run ends, as a share of the requested precision: a difference of the whole
precision is then resolved."""


def gauges_of(outcomes: Sequence[Outcome], name: str, gauge: str) -> Iterator[float]:
    """Yields a gauge of one command's executions, in order; executions without the gauge are left out."""
    for outcome in outcomes:
        if outcome.status == "ok" and dict(outcome.point.parameters)[COMMAND] == name and gauge in outcome.gauges:
            yield outcome.gauges[gauge]


def lines(
    results: Results, shells: Mapping[str, str], precision: float, budget_s: float, metrics: Sequence[str] = ()
) -> Iterator[str]:
    """Yields the lines of the answer. shells: shell of each command, the reference first; empty for a command without a
    shell. precision: requested half-width of a time, as a share, and the least difference that is reported. metrics:
    requested in addition to time."""
    run = results.index.run
    rows: dict[str, dict[str, Row]] = {}
    for row in results.index.rows:
        rows.setdefault(str(row.parameters[COMMAND]), {})[row.metric] = row
    points = {dict(outcome.point.parameters)[COMMAND]: pair_name(outcome.point) for outcome in results.outcomes}
    against = {gap.point: f"not compared: {gap.reason}" for gap in reversed(run.uncompared)}
    pairs = results.index.opposed
    against |= {
        pair.point: pair_verdict(pair, precision, budget_s, run.seconds) for pair in pairs if pair.metric == TIME
    }
    for place, (name, shell) in enumerate(shells.items(), 1):
        yield f"{place}  {name}" if len(shells) > 1 else name
        point = points.get(name, "")
        if shell:
            yield f"   started by {shell} -c: the times contain the shell's"
        taken = partial(gauges_of, results.outcomes, name)
        yield from (f"   {line}" for line in _of_command(taken, rows.get(name, {}), metrics))
        if place > 1:
            yield f"   against 1  {against.get(point, f'not compared: command {place} has no result')}"
            yield from (f"   {line}" for line in _of_metrics(pairs, point, metrics))
    first_outputs = {output for name in shells for output in islice(gauges_of(results.outcomes, name, OUTPUT_GAUGE), 1)}
    if len(first_outputs) > 1:
        yield "The commands print different output."
    others = run.surroundings.others if run.surroundings else None
    if others and others > SOME:
        yield f"Other programs took {percent(others)} of the CPUs' time meanwhile."


def _of_metrics(pairs: Sequence[Opposed], point: str, metrics: Sequence[str]) -> Iterator[str]:
    """Yields the comparison of each metric of a command with the first command's, if both are above 0."""
    of_metric = {pair.metric: pair for pair in pairs if pair.point == point}
    for name in metrics:
        if pair := of_metric.get(name):
            change = _by(pair, {"ns": "as long", "J": "as much"}.get(pair.unit, "as many"))
            yield f"           {name}: {change}{'' if pair.verdict == 'cannot tell' else f', {_MORE[pair.verdict]}'}"


def _of_command(
    taken: Callable[[str], Iterator[float]], rows: Mapping[str, Row], metrics: Sequence[str]
) -> Iterator[str]:
    """Yields the lines of one command. taken: returns a gauge of its executions. User and system time are means, since
    many kernels account whole ticks."""
    row = rows.get(TIME)
    if row is None or row.median is None:
        yield f"no time: {row.reason if row and row.reason else 'it was not run'}"
        return
    yield f"time       {_time_of_runs(row, row.median)}"
    value = {name: metric.median or 0.0 for name, metric in rows.items()}
    cpu = "   ".join(f"{name} {time(fmean(taken(name)))}" for name in ("user", "system"))
    yield f"CPU        {cpu}   peak resident {size(float(round(value['peak'])))}"
    yield (
        f"switches   {count(value['voluntary'])} voluntary, {count(value['involuntary'])} involuntary   "
        f"faults {count(value['minor_faults'])} minor, {count(value['major_faults'])} major   "
        f"blocks {count(value['blocks_in'])} in, {count(value['blocks_out'])} out"
    )
    if "instructions" in value and not metrics:
        yield f"counted    {count(value['instructions'])} instructions in user mode"
    for place, name in enumerate(name for name in metrics if name in rows and rows[name].median is not None):
        yield f"{'counted' if not place else '':<11}{name} {_amount(rows[name])}"
    if failed := Counter(map(int, taken(EXIT_STATUS))):
        counts = ", ".join(f"{status}: {times}" for status, times in sorted(failed.items()))
        yield f"exit       {failed.total()} of {row.visits} runs ended with a status other than 0 ({counts})"
    outputs = [*taken(OUTPUT_GAUGE)]
    if different := sum(output != outputs[0] for output in outputs):
        yield f"output     differs from the first run's in {different} of {len(outputs)} runs"


def _time_of_runs(row: Row, median: float) -> str:
    runs = f"min {time(row.minimum)}   {count(row.visits, 'run')}"
    if row.visits < LEAST_VISITS:
        return f"{time(median)}   {runs}: an interval takes {LEAST_VISITS}"
    return f"{time_with_interval(median, row.low, row.high)}   {runs}"


def time_with_interval(median: float, low: float | None, high: float | None) -> str:
    """Returns a time in ns and its interval in words: `1.43 ms ±12 % (1.28 ms to 1.61 ms, 95 %)`."""
    return f"{time(median)} {plus_minus(median, low, high)} ({time(low)} to {time(high)}, 95 %)"


def pair_verdict(pair: Opposed, precision: float, budget_s: float, seconds: float) -> str:
    """Returns the verdict on a pair of commands, in words. precision: least difference that is reported, as a share.
    seconds: duration of the run, whose budget was `budget_s`."""
    if pair.verdict != "cannot tell":
        return f"{pair.verdict}: {_by(pair)}"
    if is_same(pair, precision) and not pair.low <= 1 <= pair.high:
        return f"{_small(pair)}, below the threshold of {percent(precision)}"
    if is_same(pair, precision):
        return f"same within {percent(precision)}: {_by(pair)}"
    half, enough = log(pair.high / pair.low) / 2, log1p(precision * RATIO_SHARE)
    needed_s = seconds * (half / enough) ** 2 if enough else inf
    return f"cannot tell: {_by(pair)}; --budget {budget_text(int(budget_beyond(budget_s, needed_s)))} would decide"


def _small(pair: Opposed) -> str:
    """Returns a sentence on a small difference, of a pair whose interval excludes 1."""
    change, *ends = (100 * abs(end - 1) for end in (pair.ratio, pair.low, pair.high))
    return f"{change:.1f} % {'slower' if pair.low > 1 else 'faster'} ({min(ends):.1f} to {max(ends):.1f} %)"


_MORE = {"slower": "more", "faster": "fewer", "differs": "another number"}


def _amount(row: Row) -> str:
    """Returns a count, or a time, with its interval."""
    median = row.median or 0.0
    of_unit = {"ns": f"{time(median)}", "J": f"{plain(median)} J"}
    number = of_unit.get(row.unit, count(round(median)))
    return f"{number} {plus_minus(median, row.low, row.high)}".rstrip() if row.visits >= LEAST_VISITS else number


def _by(pair: Opposed, of: str = "as long") -> str:
    return ratio_in_words(pair.ratio, pair.low, pair.high, of)
