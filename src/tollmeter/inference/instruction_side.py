# SPDX-License-Identifier: Apache-2.0
"""Finds the capacities of the structures that supply a core with instructions, by rises of the cost over a number of
items.

A structure that overflows multiplies the cost of its items, so steps are searched in logarithms. Steps at neighbouring
numbers, or within `ONE_RISE`, are one rise, which counts if it is as high as the step between two levels. If a curve
shows two structures, the first ends at the first rise, and the second at the highest of the other rises. Rises between
them may belong to the first structure, which still serves some items. If items fill all sets alike, the capacity is the
number before the first step of a rise; else it is the last number below the middle of the rise, since some sets
overflow before the structure is full. A capacity is not resolved if there are fewer rises than structures, or if its
position is uncertain by more than a quarter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from statistics import median
from typing import NamedTuple

import msgspec

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, LEAST_VALUES
from tollmeter.inference.answers import (
    InferredNumber,
    Parameters,
    absolute_error,
    middle,
    number,
    of_number,
    relative_error,
    series,
)
from tollmeter.inference.curves import APART, Jump, jumps
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Inference, Probe, Row
from tollmeter.numbers.meanings import with_meaning

MOST_STEPS = 6
"""Largest number of steps that are searched in one curve."""
ONE_RISE = 1 + FAR_APART
"""Largest ratio of two item counts whose steps are one rise. Sets that overflow one after another raise the cost in
several steps, up to 1.5 times the capacity, and the next structure contains at least twice as many items."""


class SweptCurve(NamedTuple):
    """A swept curve and the structures that it shows. means: meaning of its rows. axis: the swept parameter. unit: unit
    of the capacities. structures: the one that ends at the first rise, and the one that ends at the highest of the
    other rises. only: name and value of another parameter that a row must have. where: text that names the other
    parameters. each: units of the axis for one item. least: cost of an item in the unit of the rows, if the rows
    contain only the additional cost. fills_alike: whether items at equal distances fill all sets alike, so that the
    first item too many raises the cost.

    Translations do not fill sets alike: a hash distributes them, and they share their buffer with translations of data.
    A queue ends in one step, below which the instructions themselves take time."""

    means: str
    axis: str
    unit: str
    structures: tuple[str, ...]
    only: tuple[str, str] | None = None
    where: str = ""
    each: int = 1
    least: float = 0.0
    fills_alike: bool = False


BYTES_OF_MOVE = 4
"""Bytes of an instruction of `moves` (probes/cpu/fetch.c), which an operation cache holds as one item."""
CYCLES_OF_JUMP = 1.0
NEAR = LEAST_VALUES
"""Number of points on each side of a rise whose median is the level there."""


CURVES = (
    SweptCurve(
        "jump-of-chain", "jumps", "count", ("L1 BTB", "L2 BTB"), where=", jumps {spacing} B apart", fills_alike=True
    ),
    SweptCurve("code-of-size", "size", "count", ("op cache",), ("code", "moves"), each=BYTES_OF_MOVE),
    SweptCurve("code-of-size", "size", "B", ("L1I",), ("code", "nops")),
    SweptCurve("translation-of-code", "pages", "count", ("L1 ITLB", "L2 ITLB"), least=CYCLES_OF_JUMP),
    SweptCurve("cost-of-fillers", "fillers", "count", ("reorder buffer",), ("filler", "mix")),
    SweptCurve("cost-of-fillers", "fillers", "count", ("integer scheduler",), ("filler", "add")),
    SweptCurve("cost-of-fillers", "fillers", "count", ("load queue",), ("filler", "load")),
    SweptCurve("cost-of-fillers", "fillers", "count", ("store queue",), ("filler", "store")),
)


def instruction_side(rows: Sequence[Row], probes: Mapping[str, Probe]) -> Iterable[Inference]:
    """Returns the capacity of each structure of the instruction side. rows: of one ABI and target."""
    capacities: list[Inference] = []
    for curve in CURVES:
        rows_of_curve = [row for row in with_meaning(rows, probes, curve.means) if _is_of(curve, row)]
        for others, points in series(rows_of_curve, curve.axis).items():
            capacities += _of_curve(curve, others, points)
    first_cache = next((one for one in capacities if one.parameters["structure"] == "L1I"), None)
    return (_beside(first_cache, one) for one in capacities)


def _beside(first_cache: Inference | None, capacity: Inference) -> Inference:
    """Returns a capacity, without its number if it is that of an op cache whose cost rises only where the code no
    longer fits into the L1I: six decoders deliver as many moves per cycle as an op cache."""
    if capacity.parameters["structure"] != "op cache" or capacity.high is None or first_cache is None:
        return capacity
    if first_cache.low is None or BYTES_OF_MOVE * (capacity.high + 1) <= first_cache.low:
        return capacity
    moves_in_cache = first_cache.low / BYTES_OF_MOVE
    why = f"the cost rises where the L1I ends, and not before: it holds {moves_in_cache:,.0f} of these"
    return msgspec.structs.replace(capacity, value=None, low=None, high=None, reason=why)


def _is_of(curve: SweptCurve, row: Row) -> bool:
    """Returns whether a row has the parameter value that the curve requires."""
    return curve.only is None or row.parameters.get(curve.only[0]) == curve.only[1]


def _of_curve(curve: SweptCurve, others: Parameters, points: Sequence[Row]) -> Iterator[Inference]:
    """Yields the capacity of each structure that a curve shows. others: parameters except the axis. points: rows in the
    order of the axis."""
    rises = _rises(points, curve) if len(points) >= LEAST_VALUES else []
    highest = sorted(rises[1:], key=lambda rise: rise.after - rise.before)[-1:]
    rises_of_structures = [*rises[:1], *highest][: len(curve.structures)]
    for place, structure in enumerate(curve.structures):
        if len(points) < LEAST_VALUES:
            capacity = InferredNumber(why=f"only {len(points)} numbers of {curve.axis} were timed")
        elif len(rises_of_structures) < len(curve.structures):
            times = "rises once" if rises_of_structures else "does not rise"
            capacity = InferredNumber(why=f"the cost {times} up to {number(points[-1], curve.axis):,} {curve.axis}")
        else:
            capacity = _held(points, curve, rises_of_structures[place])
        parameters = dict(others) | {"structure": structure}
        name = structure + curve.where.format(**parameters)
        yield of_number(name, "held", capacity, curve.unit, parameters=parameters)


def _rises(points: Sequence[Row], curve: SweptCurve) -> list[Jump]:
    """Returns the rises that are as high as the step between two levels, in the order of the axis. Each rise has the
    position at which a structure ends, and the levels before and after it."""
    levels = [log(max(middle(row), 0.0) + curve.least) for row in points]
    errors = [_error(row, curve.least) for row in points]
    groups: list[list[Jump]] = []
    for step in jumps(levels, [max(error, ALIKE) for error in errors], MOST_STEPS):
        if groups and _is_near(points, groups[-1][-1].at, step.at, curve.axis):
            groups[-1].append(step)
        else:
            groups.append([step])
    begins = [0, *(group[-1].at for group in groups)]
    ends = [*(group[0].at for group in groups[1:]), len(points)]
    rises = []
    for group, begin, end in zip(groups, begins, ends, strict=False):
        before = median(levels[max(group[0].at - NEAR, 0) : group[0].at])
        after = median(levels[max(end - NEAR, group[0].at) : end])
        rise = group[0] if curve.fills_alike else _middle_of(group, levels[:end], errors, begin)
        rises.append(msgspec.structs.replace(rise, before=before, after=after))
    return [rise for rise in rises if rise.after - rise.before >= log(APART)]


def _is_near(points: Sequence[Row], last: int, at: int, axis: str) -> bool:
    """Returns whether two steps belong to one rise: at neighbouring points, or within ONE_RISE."""
    return at == last + 1 or number(points[at], axis) < ONE_RISE * number(points[last], axis)


def _middle_of(group: Sequence[Jump], levels: Sequence[float], errors: Sequence[float], begin: int) -> Jump:
    """Returns the position at which the levels pass the middle of a rise. group: its steps. begin: index of the first
    point to examine."""
    before, after = group[0].before, group[-1].after
    half = (before + after) / 2
    places = range(begin, len(levels))
    at = next((place for place in places if levels[place] > half), group[-1].at)
    below = [place for place in places if levels[place] + NORMAL * errors[place] < half and place < at]
    above = [place for place in places if levels[place] - NORMAL * errors[place] > half and place >= at]
    low, high = below[-1] + 1 if below else begin + 1, above[0] if above else len(levels) - 1
    return Jump(at=at, low=low, high=high, before=before, after=after)


def _error(row: Row, least: float) -> float:
    """Returns the standard error of the logarithm of a row, without between-run variance: only rows of one run are
    compared, which share it. least: as in SweptCurve."""
    if least:
        return absolute_error(row) / (max(middle(row), 0.0) + least)
    return relative_error(row) if row.error is None else row.error


def _held(points: Sequence[Row], curve: SweptCurve, step: Jump) -> InferredNumber:
    """Returns the capacity at a step: the last number before it. low: the last number that certainly fits. high: the
    last number that may fit."""
    low, value = (number(points[at - 1], curve.axis) for at in (step.low, step.at))
    beyond = number(points[step.high], curve.axis)
    if beyond > (1 + CLEARLY) * low:
        return InferredNumber(why=f"the cost rises somewhere from {low:,} to {beyond:,} {curve.axis}")
    each = curve.each
    return InferredNumber(value=value / each, low=low / each, high=(beyond - 1) / each)
