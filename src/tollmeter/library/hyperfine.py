# SPDX-License-Identifier: Apache-2.0
"""Writes results of `toll time` as hyperfine's JSON, and compares two stored results."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.experiment.limits import SAME_WITHIN
from tollmeter.experiment.precision import Estimate, Scatter, estimate
from tollmeter.experiment.runs_differ import USUAL_RUNS_SD
from tollmeter.judgement.compare import is_within, ratio_of_estimates
from tollmeter.library.typed_commands import Command
from tollmeter.model import EXIT_STATUS, Failure, Outcome, Record, json_document
from tollmeter.protocol import clean
from tollmeter.report.numbers import count, percent, ratio_in_words
from tollmeter.report.timed import COMMAND, TIME, gauges_of, time_with_interval

_LEAST_TIMES = 5
_NS = 1e9


class Result(Record, frozen=True):
    """One of hyperfine's results; times in seconds."""

    command: str
    mean: float | None = None
    stddev: float | None = None
    median: float | None = None
    user: float | None = None
    system: float | None = None
    min: float | None = None
    max: float | None = None
    times: tuple[float, ...] | None = None
    exit_codes: tuple[int | None, ...] | None = None
    parameters: dict[str, str] = {}


def results_of(commands: Sequence[Command], outcomes: Sequence[Outcome]) -> list[Result]:
    """Returns the results of the timed commands."""
    results = []
    for command in commands:
        times, user, system = (
            [value / _NS for value in gauges_of(outcomes, command.name, gauge)] for gauge in (TIME, "user", "system")
        )
        if not times:
            continue
        exit_codes = tuple(
            int(outcome.gauges.get(EXIT_STATUS, 0))
            for outcome in outcomes
            if outcome.status == "ok" and dict(outcome.point.parameters)[COMMAND] == command.name
        )
        results.append(Result(
            command=command.name, mean=statistics.fmean(times),
            stddev=statistics.stdev(times) if len(times) > 1 else None, median=statistics.median(times),
            user=statistics.fmean(user), system=statistics.fmean(system), min=min(times), max=max(times),
            times=tuple(times), exit_codes=exit_codes, parameters=dict(command.parameters),
        ))  # fmt: skip
    return results


def as_json(results: Sequence[Result]) -> bytes:
    kept: list[dict[str, Any]] = [
        {name: value for name, value in msgspec.to_builtins(result).items() if name != "parameters" or value}
        for result in results
    ]
    return json_document({"results": kept})


def as_csv(results: Sequence[Result]) -> bytes:
    """Returns hyperfine's columns as CSV, and one column for each parameter."""
    import csv
    import io

    names = ("command", "mean", "stddev", "median", "user", "system", "min", "max")
    parameters = [*dict.fromkeys(name for result in results for name in result.parameters)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *(f"parameter_{name}" for name in parameters)])
    for result in results:
        values = [getattr(result, name) for name in names]
        writer.writerow(
            ["" if value is None else value for value in values] + [*map(result.parameters.get, parameters)]
        )
    return text.getvalue().encode()


def as_markdown(results: Sequence[Result]) -> bytes:
    """Returns hyperfine's columns as Markdown. Relative: ratio of the medians to the first command."""
    base = (results[0].median or 0.0) if results else 0.0
    lines = ["| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |", "|:---|---:|---:|---:|---:|"]
    for result in results:
        mean, low, high, middle = (
            (value or 0.0) * 1e3 for value in (result.mean, result.min, result.max, result.median)
        )
        spread = "" if result.stddev is None else f" ± {result.stddev * 1e3:.1f}"
        command = result.command.replace("|", "\\|")
        lines.append(f"| `{command}` | {mean:.1f}{spread} | {low:.1f} | {high:.1f} | {middle / base / 1e3:.2f} |")
    return ("\n".join(lines) + "\n").encode()


def read_results(path: Path) -> tuple[Result, ...]:
    """Returns the results in hyperfine's JSON. Raises Failure (2) for other content."""
    try:
        document = clean(msgspec.json.decode(path.read_bytes()))
        results = document.get("results") if isinstance(document, dict) else None
        return msgspec.convert(results, tuple[Result, ...])
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is not what hyperfine --export-json writes: {error}") from error


def compared_sentences(results: Sequence[Result]) -> Iterator[str]:
    """Yields each stored command with its interval, and the ratio of the others to the first. hyperfine runs each
    command in one block, so that changes between blocks are not in a command's scatter: each interval includes the
    between-run variance."""
    first: Estimate | None = None
    for place, result in enumerate(results, 1):
        yield f"{place}  {result.command}"
        usable = [time for time in result.times or () if time > 0]
        if len(usable) < _LEAST_TIMES:
            yield f"   no interval: {len(usable)} times are stored, and {_LEAST_TIMES} are needed"
            continue
        layouts, scatter = [*range(len(usable))], Scatter()
        estimated = estimate(usable, layouts, scatter, (min(usable), max(usable)))
        interval = time_with_interval(*(_NS * second for second in (estimated.value, estimated.low, estimated.high)))
        yield f"   time       {interval}   {count(len(usable), 'run')}"
        if first:
            yield f"   against 1  {_against(first, estimated)}"
        elif place == 1:
            first = estimated
    if not first and len(results) > 1:
        yield "The first command has no interval: nothing can be compared with it."


def _against(first: Estimate, second: Estimate) -> str:
    ratio = ratio_of_estimates(first, second, USUAL_RUNS_SD)
    text = ratio_in_words(ratio.value, ratio.low, ratio.high, "as long")
    if ratio.low > 1 or ratio.high < 1:
        return f"{'slower' if ratio.value > 1 else 'faster'}: {text}"
    return (
        f"same within {percent(SAME_WITHIN)}: {text}" if is_within(ratio, SAME_WITHIN)
        else f"cannot tell: {text}; `toll time` with both commands, interleaved, would decide"
    )  # fmt: skip
