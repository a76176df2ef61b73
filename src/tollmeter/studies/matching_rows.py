# SPDX-License-Identifier: Apache-2.0
"""Selects the rows of a run that a figure of a study refers to, or gives the reason why there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from math import log
from typing import NamedTuple

import msgspec

from tollmeter.experiment.limits import MOSTLY
from tollmeter.judgement.compare import in_one_core_state, ratio_of
from tollmeter.judgement.opposed import pair_name
from tollmeter.judgement.verdict import has_interval
from tollmeter.model import PRECISION, FigureLine, Results, Row, RowOf, StudyFigure
from tollmeter.model.topology import RELATION
from tollmeter.numbers.counted import GUEST_EXITS
from tollmeter.numbers.meanings import HERE, main_abi, meaning, metric_of
from tollmeter.numbers.stats import Estimate

COUNTED, VIRTUAL = "instructions", "virtual"
NOT_TOGETHER = "No two of these rows were timed by one clock in one place."
_BLIND: dict[str, tuple[str, ...]] = {"": (COUNTED,), "instructions": ()}
"""Clocks that cannot answer a claim, by its subject. For all other subjects, neither clock of an emulator can."""


def picked(results: Results, wanted: RowOf | None, about: str = "") -> list[Row]:
    """Returns the rows with a number that match all fields of the selection; the ABI `native` is the machine's own.
    about: subject of the claim.

    A study states times. A count of a program's instructions lacks the share of the kernel and of memory, so it is used
    only for claims that accept it. An emulator measures neither a cache nor the time of a machine."""
    blind = _BLIND.get(about, (COUNTED, VIRTUAL))
    rows = matching(results, wanted) if wanted is not None else []
    return [row for row in rows if row.status == "ok" and row.median is not None and row.clock not in blind]


def matching(results: Results, wanted: RowOf) -> list[Row]:
    """Returns all rows that match the selection, of any status and clock."""
    abi = main_abi(results.index.rows, results.index.machine.architecture) if wanted.abi == "native" else wanted.abi

    def is_of_meaning(row: Row) -> bool:
        metric = metric_of(row, results.probes)
        return metric is not None and metric.means == wanted.means

    return [
        row
        for row in results.index.rows
        if wanted.probe in (None, row.probe)
        and wanted.metric in (None, row.metric)
        and abi in (None, row.abi)
        and (wanted.target is None or fnmatchcase(row.target, wanted.target))
        and wanted.parameters.items() <= row.parameters.items()
        and (RELATION not in row.parameters or RELATION in wanted.parameters)
        and (wanted.means is None or is_of_meaning(row))
    ]


def _rows_or_gaps(results: Results, wanted: RowOf) -> Sequence[Row]:
    """Returns the matching rows; if there are none, unsupported rows with the same choices. A gap at one length or size
    applies to all lengths and sizes, but a gap of one choice does not apply to another choice."""
    choices = {name: value for name, value in wanted.parameters.items() if isinstance(value, str)}
    anywhere = msgspec.structs.replace(wanted, parameters=choices)
    return matching(results, wanted) or [row for row in matching(results, anywhere) if row.status == "unsupported"]


def failure(results: Results, wanted: RowOf) -> str:
    """Returns why a matching row has no number, as a sentence; empty if each has one, or if no row matches."""
    failed = next((row for row in _rows_or_gaps(results, wanted) if row.status != "ok" and row.reason), None)
    return f"{failed.probe} gave no number: {failed.reason}." if failed else ""


def own_reason(results: Results, wanted: RowOf) -> str:
    """Returns why a matching row has no number, or none that answers the claim, as a sentence; empty if no row
    matches."""
    if reason := failure(results, wanted):
        return reason
    same = _rows_or_gaps(results, wanted)
    counted = next((row for row in same if row.clock == COUNTED), None)
    if counted is not None:
        return (
            f"{counted.target} counts the program's own instructions, without its kernel's work and memory costs. "
            "A guest (--target guest) or a board times it."
        )
    virtual = next((row for row in same if row.clock == VIRTUAL), None)
    reason = f"In the virtual time of {virtual.target} there are no caches and no pipeline." if virtual else ""
    return reason and with_mend(reason, results)


def with_mend(reason: str, results: Results) -> str:
    """Returns the reason, followed by how to measure in real time if the suite states it."""
    return f"{reason} {results.suite.mend}" if results.suite and results.suite.mend else reason


# ---- guest exits ----------------------------------------------------------------------------------------------------

HOSTED = "A software hypervisor took part in each operation: the cost is not the hardware's."


def exits_of(results: Results, row: Row) -> float | None:
    """Returns the number of guest exits of one operation, as the host counts them; None without a count."""
    point = row.probe, row.abi, row.target, row.parameters
    beside = (
        other for other in results.index.rows if (other.probe, other.abi, other.target, other.parameters) == point
    )
    return next((other.median for other in beside if meaning(other, results.probes) == GUEST_EXITS), None)


def is_hosted(results: Results, row: Row) -> bool:
    """Returns whether a software hypervisor took part in most operations of a row."""
    return (exits_of(results, row) or 0.0) > MOSTLY


# ---- redrawn lines --------------------------------------------------------------------------------------------------

Place = tuple[str, str, str]
"""Target, clock and ABI."""


def figure_lines(results: Results, figure: StudyFigure, places: list[Place]) -> dict[str, list[tuple[Row, Row | None]]]:
    """Returns the lines of a figure by name: their rows, each with its divisor if it is a ratio. Two ABIs are two
    lines; if these are equal at every position, one line represents both. A row is drawn in the first line that selects
    it."""
    by_name: dict[tuple[str, str], list[tuple[Row, Row | None]]] = {}
    for line in figure.line:
        drawn_before = {id(row) for pairs in by_name.values() for row, other in pairs if other is None}
        for place in places:
            of_line = _pairs(results, figure, line, place)
            by_name[line.name, place[2]] = [pair for pair in of_line if pair[1] or id(pair[0]) not in drawn_before]
    has_several_abis = len({abi for (_, abi), pairs in by_name.items() if pairs}) > 1
    drawn: dict[tuple[str, tuple[str, ...]], list[tuple[Row, Row | None]]] = {}
    for (name, abi), pairs in by_name.items():
        alike_ones = (key for key, other in drawn.items() if key[0] == name and _are_alike(figure, other, pairs))
        key = next(alike_ones, (name, ())) if pairs else None
        if key:
            drawn[name, (*key[1], abi)] = drawn.pop(key, pairs)
    return {f"{name}, {', '.join(abis)}" if has_several_abis else name: pairs for (name, abis), pairs in drawn.items()}


def _are_alike(
    figure: StudyFigure, some: Sequence[tuple[Row, Row | None]], others: Sequence[tuple[Row, Row | None]]
) -> bool:
    """Returns whether two lines have equal positions, and numbers that differ by at most 3 % at each."""

    def numbers(pairs: Sequence[tuple[Row, Row | None]]) -> dict[float, float]:
        return {at(figure, row): (row.median or 0) / ((other.median if other else 0) or 1) for row, other in pairs}

    one, two = numbers(some), numbers(others)
    return one.keys() == two.keys() and all(abs(one[place] / two[place] - 1) <= PRECISION for place in one)


def at(figure: StudyFigure, row: Row) -> float:
    """Returns the position of a row on the axis; 0 if the row has none, 1 if the figure has no axis."""
    place = row.parameters.get(figure.axis) if figure.axis else 1
    return place if isinstance(place, int) else 0


def why_none(results: Results, figure: StudyFigure) -> str:
    """Returns why this run draws no line of a figure: the `missing` of the figure, else the reason of its first row
    that has one, else that there are too few numbers."""
    reasons = (own_reason(results, line.row) for line in figure.line)
    return figure.missing or next(filter(None, reasons), "This run has too few numbers for this figure.")


def _pairs(results: Results, figure: StudyFigure, line: FigureLine, place: Place) -> Iterator[tuple[Row, Row | None]]:
    """Yields each row of a line with the row that divides it. With `line.over` this is its row at the same position,
    and rows without one are left out; it may be of another ABI. Otherwise it is the row of the line nearest to
    `figure.base`, or None without a base."""
    rows = _rows_of_line(results, figure, line.row, place)
    over = (*place[:2], (line.over.abi if line.over else None) or place[2])
    others = {at(figure, row): row for row in _rows_of_line(results, figure, line.over, over)} if line.over else {}
    nearest = min(rows, key=lambda row: abs(log(at(figure, row) / figure.base)), default=None) if figure.base else None
    for row in rows:
        other = others.get(at(figure, row)) if line.over else nearest
        if other is not None or not (line.over or figure.base):
            yield row, other


def _rows_of_line(results: Results, figure: StudyFigure, wanted: RowOf, place: Place) -> list[Row]:
    """Returns the rows of a line in the order of the axis."""
    here = [row for row in matching(results, wanted) if (row.target, row.clock, row.abi) == place]
    usable = [row for row in here if row.status == "ok" and (row.median or 0) > 0 and at(figure, row) > 0]
    return sorted(usable, key=lambda row: at(figure, row))


# ---- ratios ----------------------------------------------------------------------------------------------------------


class RatioOfRows(NamedTuple):
    """The ratio of two rows. thin: whether one has too few visits for an interval. mixed: whether they share no state
    of the core."""

    ratio: Estimate
    thin: bool = False
    mixed: bool = False

    @property
    def is_known(self) -> bool:
        """Returns whether the ratio has an interval."""
        return not (self.thin or self.mixed)


def ratio_of_rows(results: Results, old: Row, new: Row) -> RatioOfRows:
    """Returns the ratio new over old that all sentences, tables, charts and claims of a study use. If there are enough
    interleaved visits, it is their ratio, in which drift cancels, except for a row with two modes, whose mean is the
    cost of no visit. Otherwise it is the ratio of the two rows in one core state."""
    if old.target == new.target == HERE and not {old.state, new.state} & {"first", "second"}:
        pair = pair_name(new), pair_name(old), new.metric, old.metric
        for done in results.index.opposed:
            if (done.point, done.against, done.metric, done.metric_against or done.metric) == pair:
                return RatioOfRows(Estimate(done.ratio, done.low, done.high))
    sides = in_one_core_state(old, new)
    thin = not (has_interval(old) and has_interval(new))
    return RatioOfRows(ratio_of(*sides), thin, mixed=sides[0].state != sides[1].state)
