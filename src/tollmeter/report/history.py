# SPDX-License-Identifier: Apache-2.0
"""Rows over the runs of a machine: a line of blocks for each series, and a table of one series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log
from statistics import fmean, median
from typing import Any

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.judgement.compare import SAME_INSTRUCTIONS
from tollmeter.judgement.row_series import RowSeries, SeriesPoint, SeriesStep, cycles_of_point, host_key
from tollmeter.model import Row, assignments
from tollmeter.numbers.rows import Key, row_key
from tollmeter.report import tables
from tollmeter.report.blocks import Block, Cell, Column, Figure, Line, Listing, Table, heading
from tollmeter.report.numbers import count, quantity
from tollmeter.report.numbers import cycles as cycles_text
from tollmeter.report.text_layout import INDENT

BLOCKS = "▁▂▃▄▅▆▇█"
CHANGE = "│"
_WIDEST, _NARROW = 72, 24
"""Highest width of a series that is drawn alone, and width of a series in a table, in characters."""
MOST_TABLES, MOST_USUAL = 6, 20
"""Highest number of series with a table each, and of unchanged series in a list."""
STATES = {
    "uncontended": "uncontended core", "all": "over all samples", "contended": "contended core",
    "unknown": "contention unknown", "first": "first mode", "second": "second mode",
}  # fmt: skip


def blocks(
    series: Sequence[RowSeries], labels: Mapping[Key, str], runs: int, width: int, *, usual: Sequence[Key] | None = None
) -> Iterator[Block]:
    """Yields the series that changed, one line each, then the unchanged series of `usual`; without `usual` all series,
    each with a table if they are few. width: width of a line of block characters."""
    by_machine: dict[object, list[RowSeries]] = {}
    for row_series in series:
        by_machine.setdefault(host_key(row_series.machine), []).append(row_series)
    for of_machine in by_machine.values():
        yield heading(_machine_line(of_machine))
        if usual is None and len(of_machine) <= MOST_TABLES:
            for row_series in of_machine:
                yield from _series(row_series, min(_WIDEST, width))
            continue
        changed = [row_series for row_series in of_machine if row_series.steps]
        for part in (changed, _unchanged(of_machine, usual)) if usual is not None else (of_machine,):
            if part:
                yield from _overview(part, labels)
        longest = max(len(row_series.readings) for row_series in of_machine)
        yield f"{len(changed)} of {len(of_machine)} series changed; the longest has {count(longest, 'run')}."
    if runs == 1:
        yield "There is one run, and one point has no change."


def _unchanged(series: Sequence[RowSeries], usual: Sequence[Key]) -> list[RowSeries]:
    """Returns the unchanged series in the order of `usual`, for each row the series with most runs."""
    longest: dict[Key, RowSeries] = {}
    for row_series in sorted(series, key=lambda each: len(each.readings)):
        longest[row_key(row_series.row)] = row_series
    known = [longest[key] for key in usual if key in longest]
    return [row_series for row_series in known if not row_series.steps][:MOST_USUAL]


def _machine_line(series: Sequence[RowSeries]) -> str:
    machine = series[-1].machine
    sources = sorted({(reading.source.started, reading.source.name) for each in series for reading in each.readings})
    days = [started.date().isoformat() for started, _ in (sources[0], sources[-1])]
    when = f"on {days[0]}" if days[0] == days[1] else f"from {days[0]} to {days[1]}"
    guest = f"{machine.hypervisor} guest" if machine.hypervisor else "no hypervisor seen"
    many = count(len(sources), "run")
    return " · ".join((tables.cpu_of(machine), guest, f"host {machine.host}", f"{many} {when}"))


# ---- one line a series ----------------------------------------------------------------------------------------------


def _overview(series: Sequence[RowSeries], labels: Mapping[Key, str]) -> Iterator[Block]:
    columns = [Column("Rows"), Column("runs", True, spare=2), Column("", True, spare=1), Column("last", True)]
    shared = _shared_differences(series)
    lines = []
    for each in series:
        cells = (_series_name(each, labels), str(len(each.readings)), _drawn(each, _NARROW), _figure(each.row))
        dated = ((_day(each, step), step) for step in each.steps)
        texts = (f"{day} {_change_text(each, step, shared.get(day, ()))}" for day, step in dated)
        lines.append(Line(cells, "; ".join(texts)))
    yield Table(columns, lines)
    for day, differences in shared.items():
        yield f"Before and since {day}: {'; '.join(differences)}."


def _shared_differences(series: Sequence[RowSeries]) -> dict[str, tuple[str, ...]]:
    """Returns by day the differences that all changes of that day share, if there are several changes."""
    by_day: dict[str, list[SeriesStep]] = {}
    for each in series:
        for step in each.steps:
            by_day.setdefault(_day(each, step), []).append(step)
    shared = {
        day: tuple(each for each in steps[0].differences if all(each in step.differences for step in steps))
        for day, steps in by_day.items() if len(steps) > 1
    }  # fmt: skip
    return {day: differences for day, differences in shared.items() if differences}


def _day(series: RowSeries, step: SeriesStep) -> str:
    return series.readings[step.place].source.started.date().isoformat()


def _series_name(series: RowSeries, labels: Mapping[Key, str] = {}) -> str:
    """Returns the name of a series: its label on the first screen, else probe, parameters and metric; then the ABI, the
    target and clock if they are not the usual ones, and the core state."""
    row = series.row
    words = labels.get(row_key(row)) or " ".join((row.probe, *assignments(row.parameters.items()), row.metric))
    places = [row.abi, "" if row.target in ("", "local") else row.target, "" if row.clock == "hardware" else row.clock]
    return ", ".join(filter(None, (words, *places, STATES.get(row.state or "", ""))))


# ---- one series -----------------------------------------------------------------------------------------------------


def _series(series: RowSeries, width: int) -> Iterator[Block]:
    many = len(series.readings)
    closing = [] if series.steps else [f"No change in {many} runs." if many > 1 else "1 run: one point has no change."]
    if series.left_out:
        several = f"{series.left_out} more runs have" if series.left_out > 1 else "1 more run has"
        lacking = f"fewer than {LEAST_VISITS} visits or {LEAST_LAYOUTS} layouts"
        closing.append(f"{several} this row without an interval ({lacking}).")
    yield heading(_series_name(series))
    yield Listing((_drawn(series, width),), INDENT)
    yield _series_table(series)
    if closing:
        yield " ".join(closing)


def _series_table(series: RowSeries) -> Table:
    """Returns a table with a line for each run, with a mark and the differences at the first run of each new level."""
    columns = [Column("Date"), Column("run"), Column(series.row.metric, True)]
    columns += [Column("cycles", True, spare=1)] if series.in_cycles else []
    steps = {step.place: step for step in series.steps}
    lines = []
    for place, reading in enumerate(series.readings):
        started = reading.source.started.strftime("%Y-%m-%d %H:%M")
        cells: tuple[Cell, ...] = (started, reading.source.name, _figure(reading.row))
        cells += (cycles_text(cycles_of_point(reading)),) if series.in_cycles else ()
        mark = "≠" if place in steps else ""
        lines.append(Line((*cells, mark), _change_text(series, steps[place]) if mark else ""))
    return Table([*columns, Column("")], lines)


def _change_text(series: RowSeries, step: SeriesStep, elsewhere: Sequence[str] = ()) -> str:
    """Returns `× 1.21 ±1 % in cycles, slower: kernel 6.1 to 6.2`, or that no recorded fact differs. elsewhere:
    differences that are printed below the table."""
    ratio = step.change.ratio
    figure = quantity(ratio.value, "ratio", ratio.low, ratio.high)
    unit = " in cycles" if series.in_cycles else ""
    named = [each for each in step.differences if each not in elsewhere]
    named += [SAME_INSTRUCTIONS] if step.change.same_instructions else []
    why = (
        "; ".join([*named, *(["see below"] if elsewhere else [])])
        or "no recorded fact of the machine or the build differs"
    )
    return f"× {figure.number} {figure.sure}{unit}, {step.change.verdict}: {why}"


def _figure(row: Row) -> Figure:
    return quantity(row.median, row.unit, row.low, row.high)


def _drawn(series: RowSeries, width: int) -> str:
    """Returns one block character for each run, or for several if they do not fit, and a line before each change. The
    heights span the values, and at least twice the usual interval, so that scatter does not look like a change."""
    values = [log(_compared_value(series, reading)) for reading in series.readings]
    usual = median(
        log(reading.row.high / reading.row.low) for reading in series.readings if reading.row.high and reading.row.low
    )
    middle = (max(values) + min(values)) / 2
    span = max(max(values) - min(values), 2 * usual) or 1.0
    runs_per_block = -(-len(values) // max(1, width - len(series.steps)))
    steps = {step.place for step in series.steps}
    drawn = ""
    for begin in range(0, len(values), runs_per_block):
        height = (fmean(values[begin : begin + runs_per_block]) - middle) / span + 0.5
        drawn += CHANGE * any(place in steps for place in range(begin, begin + runs_per_block))
        drawn += BLOCKS[min(len(BLOCKS) - 1, int(height * len(BLOCKS)))]
    return drawn


def _compared_value(series: RowSeries, reading: SeriesPoint) -> float:
    return (cycles_of_point(reading) if series.in_cycles else None) or reading.row.median or 1.0


# ---- for other programs ---------------------------------------------------------------------------------------------


def point_records(series: Sequence[RowSeries]) -> Iterator[dict[str, Any]]:
    """Yields a line for each run of each series; the first run of a new level has `ratio`, `verdict`, `differences`."""
    for row_series in series:
        steps = {step.place: step for step in row_series.steps}
        for place, reading in enumerate(row_series.readings):
            machine, row, step = reading.source.machine, reading.row, steps.get(place)
            ratio = step.change.ratio if step else None
            yield {
                "started": reading.source.started.isoformat(), "run": reading.source.name, "host": machine.host,
                "cpu": machine.cpu, "hypervisor": machine.hypervisor or "", "kernel": machine.kernel,
                "probe": row.probe, "revision": row.revision, "abi": row.abi, "target": row.target,
                "clock": row.clock, "parameters": row.parameters, "metric": row.metric, "state": row.state or "",
                "unit": row.unit, "value": row.median, "low": row.low, "high": row.high,
                "cycles": cycles_of_point(reading) if row_series.in_cycles else None,
                "ratio": ratio and ratio.value, "ratio_low": ratio and ratio.low, "ratio_high": ratio and ratio.high,
                "verdict": step.change.verdict if step else "",
                "differences": "; ".join(step.differences) if step else "",
            }  # fmt: skip
