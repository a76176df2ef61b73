# SPDX-License-Identifier: Apache-2.0
"""The page of two runs, A and B: their differences, both memories and tolls, and every chart of both. Two runs of one
system also get the changed rows; two machines get ratios, and no "faster" or "slower"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.judgement.compare import NOT_CALLED_CHANGED, compare, machine_differences, ratio_of
from tollmeter.model import Failure, Results, Row, Toll
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Column, Figure, Line, Table
from tollmeter.report.charts import SIDES, Overlay, comparable, overlaid
from tollmeter.report.charts.chart import benches, pictures
from tollmeter.report.compared_rows import Compared, differences, not_compared, revisions, row_table, run_name
from tollmeter.report.numbers import DASH, MODES, guess, of_toll, quantity
from tollmeter.report.page import BESIDE_MEMORY, put, rendered
from tollmeter.report.shown import best_known

CANNOT_TELL = 4
STATES = {
    "uncontended": "on an uncontended core", "all": "over all samples", "contended": "on a contended core",
    "unknown": "contention unknown",
}  # fmt: skip


@dataclass(frozen=True)
class Two:
    """Two runs with the charts of both. labels: names of the runs in the charts, beginning with A and with B."""

    runs: tuple[Results, Results]
    labels: tuple[str, str]
    drawn: Overlay


def two(runs: tuple[Results, Results]) -> Two:
    """Returns two runs with their charts. Raises Failure (4) if no chart is of points that both measured; the chart of
    steadiness, which every run has, does not count."""
    named = labels(runs)
    drawn = overlaid(runs, named)
    if not any(chart.probes for chart in drawn.charts):
        first, second = map(run_name, runs)
        raise Failure(f"{first} and {second} have no chart in common: {_why_none(runs)}", CANNOT_TELL)
    return Two(runs, named, drawn)


def write(pair: Two, path: Path) -> None:
    """Writes the page, completely or not at all. Raises Failure (5) if it cannot."""
    put(render(pair), path)


def render(pair: Two) -> str:
    """Returns the page's text."""
    return rendered("overlay.html", pair.drawn.charts, _words(pair), "overlay.css")


def save(pair: Two, folder: Path) -> tuple[Path, ...]:
    """Writes pictures of all charts of both runs, and returns their paths. Raises Failure (5) if they cannot be
    written."""
    return pictures(pair.drawn.charts, pair.runs, folder)


def labels(runs: tuple[Results, Results]) -> tuple[str, str]:
    """Returns labels by the first difference of the two runs: the CPU, the kernel, or the run."""
    first, second = (
        (tables.cpu_of(results.index.machine), results.index.machine.kernel, run_name(results),
         results.index.run.started) for results in runs
    )  # fmt: skip
    names = next((both for both in zip(first, second, strict=True) if both[0] != both[1]), (first[2], second[2]))
    return f"{SIDES[0]} · {names[0]}", f"{SIDES[1]} · {names[1]}"


def _why_none(runs: tuple[Results, Results]) -> str:
    clocks = [{bench.clock for bench in benches(results)} for results in runs]
    probes = [{row.probe for row in results.index.rows if row.status == "ok"} for results in runs]
    if not probes[0] & probes[1]:
        return "no probe has a number in both"
    if not clocks[0] & clocks[1]:
        return "they were timed by clocks of different kinds"
    if not probes[0] & probes[1] - {*revisions(runs)}:
        return "all probes of both have different revisions"
    return "too few points were measured in both"


def _words(pair: Two) -> dict[str, Any]:
    differ, others, same = differences(pair.runs, SIDES)
    return {
        "run": pair.runs[0].index.run,
        "sides": [_side(*side) for side in zip(pair.runs, SIDES, pair.labels, strict=True)],
        "differ": differ,
        "others": others,
        "same": same,
        "apart": not_compared(pair.runs),
        "changed": changed_rows(pair.runs),
        "memory": memory_of_both(pair.runs),
        "tolls": tolls_table(pair.runs, whole=False),
        "all_tolls": tolls_table(pair.runs, whole=True),
        "curves": [group for group in pair.drawn.groups if group[0].name in BESIDE_MEMORY],
        "groups": [group for group in pair.drawn.groups if group[0].general and group[0].name not in BESIDE_MEMORY],
        "single": [group for group in pair.drawn.groups if not group[0].general],
        "only": [(letter, titles) for letter, titles in zip(SIDES, pair.drawn.only, strict=True) if titles],
    }


def _side(results: Results, letter: str, label: str) -> dict[str, Any]:
    """Returns one of the two runs, for the head and the memory part."""
    run = results.index.run
    return {
        "letter": letter, "label": label, "facts": tables.facts_of(results.index.machine),
        "over": f"toll run {run.suite} · {tables.when(results)} · {tables.extent(results)}",
        "verdict": f"{run_verdict.verdict_word(run)}: {run_verdict.verdict_meaning(results)}",
        "unfinished": "" if run.verdict == "interrupted" else tables.unfinished(results),
        "no_levels": tables.no_levels(results),
    }  # fmt: skip


def memory_of_both(runs: tuple[Results, Results]) -> Table | None:
    """Returns the levels of A and B side by side, main memory last; None if neither run has a memory table."""
    both = [tables.memory_table(results) for results in runs]
    columns = max((memory.columns for memory in both if memory), key=len, default=())
    lines: dict[str, list[Line]] = {}
    for memory, letter in zip(both, SIDES, strict=True):
        if memory is None:
            continue
        for line in memory.rows:
            cells = dict(zip((column.name for column in memory.columns), line.cells, strict=True))
            level = str(line.cells[0])
            others = (cells.get(column.name, "") for column in columns[1:])
            lines.setdefault(level, []).append(Line((f"{level} {letter}", *others), line.note))
    order = sorted(lines, key=lambda level: not re.fullmatch(r"L\d.*", level))
    return Table(columns, [line for level in order for line in lines[level]]) if lines else None


def changed_rows(runs: tuple[Results, Results]) -> Table | None:
    """Returns the table of changed rows; None for two systems, or if nothing changed."""
    old, new = (results.index for results in runs)
    if machine_differences(old.machine, new.machine):
        return None
    compared = Compared(runs, SIDES, (compare(old, new),))
    changes = (change for change in compared.comparisons[0].changes if change.verdict not in NOT_CALLED_CHANGED)
    return row_table(compared, [compared.key(change.old) for change in changes])


# ---- tolls ----------------------------------------------------------------------------------------------------------


def tolls_table(runs: tuple[Results, Results], *, whole: bool) -> Table | None:
    """Returns the tolls of either run with the ratio, A's first, cheapest first. whole: all of them."""
    both = comparable(runs)
    first, second = ({_key(toll): toll for toll in results.index.tolls} for results in both)
    few = {_key(toll) for results in both for toll in best_known(results)} & first.keys() & second.keys()
    lines = []
    for key in {**first, **second}:
        tolls = first.get(key), second.get(key)
        named = tolls[0] or tolls[1]
        if named and (whole or key in few) and any(toll and toll.value is not None for toll in tolls):
            cells = [of_toll(toll) if toll and toll.value is not None else DASH for toll in tolls]
            ratio, note = _ratio(both, *tolls)
            lines.append(Line((named.toll, *cells, ratio), note))
    columns = [Column("toll"), *(Column(name, right=True) for name in (*SIDES, f"{SIDES[1]} / {SIDES[0]}"))]
    return Table(columns, lines, "All tolls" if whole else "Tolls") if lines else None


def _key(toll: Toll) -> tuple[object, ...]:
    return toll.probe, toll.metric, tuple(sorted(toll.parameters.items()))


def _ratio(runs: tuple[Results, Results], first: Toll | None, second: Toll | None) -> tuple[Figure | str, str]:
    """Returns B's toll over A's, with its interval if both have one; or why there is none."""
    for toll, letter in ((first, SIDES[0]), (second, SIDES[1])):
        if toll is None or toll.value is None:
            return DASH, f"no number in {letter}: {toll.reason if toll and toll.reason else 'not measured'}"
    assert first is not None and second is not None
    states = [toll.states[0].state if toll.states else "unknown" for toll in (first, second)]
    if any(state in MODES for state in states):
        return DASH, "bimodal: one of two costs"
    note = f"A {STATES[states[0]]}, B {STATES[states[1]]}" if states[0] != states[1] else ""
    ratio = ratio_of(_in_ns(runs[0], first), _in_ns(runs[1], second))
    if min(first.visits, second.visits) < LEAST_VISITS or not isfinite(ratio.high):
        return guess(ratio.value, "ratio"), note
    return quantity(ratio.value, "ratio", ratio.low, ratio.high), note


def _in_ns(results: Results, toll: Toll) -> Row:
    """Returns the row of a toll, in the toll's unit."""
    place = (toll.probe, toll.metric, toll.abi, toll.target, toll.parameters, "hardware")
    row = next(row for row in results.index.rows
               if (row.probe, row.metric, row.abi, row.target, row.parameters, row.clock) == place)  # fmt: skip
    return msgspec.structs.replace(row, unit=toll.unit, median=toll.value, low=toll.low, high=toll.high)
