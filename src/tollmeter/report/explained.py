# SPDX-License-Identifier: Apache-2.0
"""The output of `--explain` for a row: its visits, drawn on one scale, and its discarded samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tollmeter.model import EventSource, Metric, Row, assignments
from tollmeter.numbers.meanings import WORST
from tollmeter.report.blocks import Block, Column, Line, Listing, Table, heading
from tollmeter.report.history import BLOCKS, STATES
from tollmeter.report.numbers import DASH, count, of_row, percent, plain, quantity
from tollmeter.report.text_layout import SCALE, interval, position_on_scale
from tollmeter.root import typed

MOST_VISITS = 24
"""Visits that fit on a screen."""
MOST_ROWS = 4
"""Rows of one answer, each of which takes a screen."""
_LEVELS = SCALE * 2
_STANDS_FOR = {
    "quantile": "the lower quartile of its batches", "median": "the median of its batches",
    "mean": "the mean of its batches, over time",
}  # fmt: skip


class ExplainedVisit(NamedTuple):
    """A visit of an explained row. cpus: the timed worker's first. contended: share of its samples, None if not
    measured. value: its contribution, None if it has none; low, high: range of the central nine tenths of its
    batches."""

    visit: int
    cpus: tuple[int, ...]
    layout: int
    used: int
    discarded: int
    contended: float | None
    value: float | None
    low: float | None
    high: float | None


class ExplainedRow(NamedTuple):
    """The explanation of a row. aside: number of discarded samples by reason; failed: number of visits without a value
    by reason. seen: totals of the evidence over all samples, by its kind. counted: sentences on counts of the system.
    values, discarded: values of single batches, used and discarded, in the metric's unit. clock_hz: core clock to which
    times are converted; None if they are not. way: steps from a sample to a value. stands_for: the statistic of a
    visit."""

    row: Row
    metric: Metric
    visits: tuple[ExplainedVisit, ...]
    aside: Counter[str]
    failed: Counter[str]
    seen: dict[str, str]
    counted: tuple[str, ...]
    values: tuple[float, ...]
    discarded: tuple[float, ...]
    clock_hz: float | None
    way: tuple[str, ...] = ()
    stands_for: str = ""


def row_blocks(explained: ExplainedRow) -> Iterator[Block]:
    """Yields how the number of a row came about: its state, visits, distribution, evidence, counts and events."""
    row = explained.row
    named = " ".join((row.probe, row.metric, *assignments(row.parameters.items())))
    yield heading(f"How {named} ({row.abi}, {row.target}) came about")
    number = str(of_row(row)) if row.status == "ok" else f"no number, {row.status.replace('_', ' ')}"
    state = f", {STATES[row.state]}" if row.state in STATES else ""
    yield f"{number}{state}{': ' if row.reason else ''}{row.reason or ''}."
    yield " ".join([*explained.way, *_of_the_row(explained)])
    if table := _visits(explained):
        yield table
    if len(row.states) > 1:
        columns = [Column("State of the core"), Column("share", True), Column("median", True)]
        yield Table(columns, [
            Line((STATES.get(state.state, state.state), percent(state.share),
                  quantity(state.median, row.unit, state.low, state.high)))
            for state in row.states
        ])  # fmt: skip
    yield from _histogram(explained)
    yield from _evidence(explained)
    yield from explained.counted
    yield from _events(row)


_COUNTED_BY: dict[EventSource, str] = {
    "pmu": "the CPU, with the kernel's part", "pmu in user mode": "the CPU, in user mode",
    "account": "the kernel, for this thread", "trace": "a traced copy, in user mode",
}  # fmt: skip


def _events(row: Row) -> Iterator[Block]:
    """Yields the event counts of one operation, with the lowest and the highest visit."""
    if not row.counters:
        return
    columns = [Column("Events of one operation"), Column("", True), Column("visits", True), Column("counted by")]
    lines = []
    for name, rate in row.counters.items():
        spread = f" ({plain(rate.low)} to {plain(rate.high)})" if rate.high > rate.low else ""
        lines.append(Line((name, f"{plain(rate.value)}{spread}", str(rate.visits), _COUNTED_BY[rate.source])))
    yield Table(columns, lines)
    cycles, instructions = row.counters.get("cycles"), row.counters.get("instructions")
    if cycles and instructions and cycles.source == instructions.source and cycles.value > 0:
        yield f"{plain(instructions.value / cycles.value)} instructions per cycle."


def left_out(rows: Sequence[Row], folder: str) -> Iterator[str]:
    """Yields a sentence on the selected rows that are not explained, with the command that explains one."""
    if left := [" ".join((row.probe, *assignments(row.parameters.items()))) for row in rows[MOST_ROWS:]]:
        yield f"{count(len(left), 'row')} more: `{typed('show', folder, '--explain', *left[0].split())}` explains one."


def _of_the_row(explained: ExplainedRow) -> Iterator[str]:
    """Yields sentences on how visits become the number and its interval."""
    row = explained.row
    if explained.clock_hz:
        yield f"Times follow the core's clock, and are stated at {explained.clock_hz / 1e9:.2f} GHz."
    if explained.stands_for:
        yield f"A visit counts as {_STANDS_FOR[explained.stands_for]}."
    if row.status == "ok" and row.visits:
        counted = "the median of" if row.clock == "instructions" else "the Hodges-Lehmann median of"
        made = "the greatest of" if explained.metric.means == WORST else counted
        layouts = f" in {count(row.layouts, 'memory layout')}" if row.layouts else ""
        used_visits = sum(visit.value is not None for visit in explained.visits)
        some = f"{used_visits} of {count(row.visits, 'visit')}, those seen often enough in this state of the core"
        yield f"The number is {made} {some if used_visits < row.visits else count(row.visits, 'visit')}{layouts}."
    if row.error is not None:
        scatter = (
            f"the scatter of its visits (standard error {percent(row.error)}, {row.freedom:.1f} degrees of freedom)"
        )
        runs = f" and of what runs of this machine differ by ({percent(row.runs_sd)})" if row.runs_sd else ""
        made = "Another run as long exceeds its end in one case in forty, by"
        yield f"{made if explained.metric.means == WORST else 'Its 95 % interval is made of'} {scatter}{runs}."


def _visits(explained: ExplainedRow) -> Table | None:
    """Returns a table of visits on one scale, with the row's interval below. Of many visits, some are shown, evenly
    spaced."""
    shown = [visit for visit in explained.visits if visit.value is not None]
    if not shown:
        return None
    every = -(-len(shown) // MOST_VISITS)
    row, unit, kept = explained.row, explained.row.unit, shown[::every]
    ends = [end for visit in kept for end in (visit.low, visit.value, visit.high) if end is not None]
    low, high = min([*ends, row.low or ends[0]]), max([*ends, row.high or ends[0]])
    layouts = {visit.layout: place for place, visit in enumerate(reversed(shown))}
    numbered = {layout: place for place, layout in enumerate(reversed(layouts), 1)}
    lines = [
        Line((
            str(visit.visit), ",".join(map(str, visit.cpus)), str(numbered[visit.layout]), f"{visit.used}",
            str(visit.discarded or ""), DASH if visit.contended is None else percent(visit.contended),
            quantity(visit.value, unit), interval(visit.low, visit.value, visit.high, (low, high)),
        ))
        for visit in kept
    ]  # fmt: skip
    if row.status == "ok":
        drawn = interval(row.low, row.median, row.high, (low, high), "╞═╪╡")
        lines.append(Line(("all", "", "", "", "", "", quantity(row.median, unit), drawn)))
    if every > 1:
        note = f"every {every}th of {count(len(shown))} visits"
        lines[-1] = Line(lines[-1].cells, note)
    columns = [
        Column("Visit", True), Column("CPU", spare=3), Column("layout", True, spare=2),
        Column("samples", True, spare=1), Column("discarded", True), Column("contended", True, spare=4),
        Column("value", True),
        Column(f"{quantity(low, unit)} to {quantity(high, unit)}"),
    ]  # fmt: skip
    return Table(columns, lines)


def _histogram(explained: ExplainedRow) -> Iterator[Listing]:
    """Yields histograms of all batches, and of the discarded samples on the same scale."""
    values, discarded = explained.values, explained.discarded
    if len(values) < MOST_VISITS:
        return
    unit = explained.row.unit
    ends = min(*values, *discarded), max(*values, *discarded)
    lines = [f"{_drawn(values, ends)}  {count(len(values))} values of batches that are used"]
    if discarded:
        lines.append(f"{_drawn(discarded, ends)}  {count(len(discarded))} samples that are discarded")
    first, last = (str(quantity(end, unit)) for end in ends)
    yield heading("How often each value was taken")
    yield Listing((*lines, f"{first}{last:>{max(0, _LEVELS - len(first))}}"), indent=2)


def _drawn(values: Sequence[float], ends: tuple[float, float]) -> str:
    counts = Counter(position_on_scale(value, ends, _LEVELS) for value in values)
    most = max(counts.values())
    return "".join(
        BLOCKS[min(len(BLOCKS) - 1, counts[place] * len(BLOCKS) // most)] if counts[place] else " "
        for place in range(_LEVELS)
    )


def _evidence(explained: ExplainedRow) -> Iterator[Block]:
    if explained.seen:
        columns = [Column("Evidence beside all samples"), Column("", True)]
        yield Table(columns, [*map(Line, explained.seen.items())])
    for counts, what in ((explained.aside, "Discarded samples"), (explained.failed, "Visits without a number")):
        if counts:
            lines = [Line((reason, count(number))) for reason, number in counts.most_common()]
            yield Table([Column(what), Column("", True)], lines)
        elif counts is explained.aside and explained.seen:
            yield "No sample was discarded."
