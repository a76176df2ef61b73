# SPDX-License-Identifier: Apache-2.0
"""Finds where a rate falls as vectors grow, and whether memory can be the cause.

The plateaus of the curve (`curves.segments`) give the lengths of the falls. A fall is attributed to a cache only if two
conditions hold: the memory of one iteration exceeds the cache at this length, and an operation loses at most the whole
time of the hardware instruction on as much memory. Soft floating point fails the second condition: its branches depend
on the values, and the branch predictor learns the values of short vectors, which repeat, but not those of long ones.
This fall depends on the length, and coincides with the end of a cache only by chance; its loss is at most the cost of
branch mispredictions. Falls of trapped instructions have no known cause.

Hardware instructions take equal time for every value and length, so memory is the only possible cause of their falls.
Any other implementation needs a hardware row of equal length and bytes for comparison; without one, the cause is
unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, log
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, LEAST_VALUES, MORE_THAN_TWICE, SAME_WITHIN
from tollmeter.inference.answers import middle, number, relative_error
from tollmeter.inference.curves import NoisyCurve, noisy_curve, segments
from tollmeter.model import Fall, Lengths, Level, Machine, Outcome, Probe, Record, Row, Value
from tollmeter.numbers.meanings import main_place, with_meaning
from tollmeter.numbers.readings import NS_PER_SECOND

RATE = "flops-of-n"
AXIS = "n"
WAY = "way"
MOST_GUESSED_CYCLES = 200.0
"""Highest cost of branch mispredictions in one operation, in cycles: about ten of its branches depend on the values,
and each misprediction costs about 20 cycles. A trap usually costs more, and has another cause."""

Cache = tuple[str, float, float]
"""Name of a cache, and the smallest and largest capacity that it may have, in bytes."""
Place = tuple[str, str, Value, int]
"""Probe, target, length, and the bytes that an iteration touches."""
PointKey = tuple[str, str, str, tuple[tuple[str, Value], ...]]
"""Probe, ABI, target, and the parameters by name."""
Piece = tuple[int, int]
"""First and last point of a flat piece."""


class Sweep(Record, frozen=True):
    """A rate at every length, shortest first. footprints: bytes that an iteration touches at each length, 0 if not
    reported."""

    rows: tuple[Row, ...]
    footprints: tuple[int, ...]

    def place(self, at: int) -> Place:
        """Returns the point at this index without its ABI and implementation, by which it is compared with hardware."""
        row = self.rows[at]
        return row.probe, row.target, row.parameters[AXIS], self.footprints[at]


class _Known(NamedTuple):
    """Limits of what a cause can explain. twins: time of the hardware instruction at each place, in ns. guessed_ns:
    highest cost of the branch mispredictions of an operation."""

    twins: Mapping[Place, float]
    guessed_ns: float


def lengths(
    outcomes: Iterable[Outcome],
    rows: Sequence[Row],
    probes: Mapping[str, Probe],
    machine: Machine,
    hierarchy: Sequence[Level] = (),
) -> tuple[Lengths, ...]:
    """Returns one record for each rate over length that hardware timed; an emulator has no caches."""
    curves = sweeps(outcomes, rows, probes)
    place = main_place(sweep.rows[0].target for sweep in curves)
    caches = _caches(machine, hierarchy)
    guessed_ns = MOST_GUESSED_CYCLES * NS_PER_SECOND / (machine.core_clock_hz or NS_PER_SECOND)
    known = _Known(_twins(curves, probes), guessed_ns)
    return tuple(_falls_of(sweep, known, caches if sweep.rows[0].target == place else ()) for sweep in curves)


def sweeps(outcomes: Iterable[Outcome], rows: Sequence[Row], probes: Mapping[str, Probe]) -> list[Sweep]:
    """Returns the rows of each rate by length, one sweep for each probe, ABI, target and set of other parameters.
    Sweeps of fewer than LEAST_VALUES rows are omitted."""
    footprints = _footprints(outcomes)
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in with_meaning(rows, probes, RATE):
        if row.clock == "hardware" and isinstance(row.parameters.get(AXIS), int):
            groups.setdefault((row.probe, row.abi, row.target, _others(row)), []).append(row)
    all_sweeps = []
    for group in groups.values():
        ranked = sorted(group, key=lambda row: number(row, AXIS))
        touched = (footprints.get(_key(row.probe, row.abi, row.target, row.parameters), 0) for row in ranked)
        all_sweeps.append(Sweep(rows=tuple(ranked), footprints=tuple(touched)))
    return [sweep for sweep in all_sweeps if len(sweep.rows) >= LEAST_VALUES]


def _footprints(outcomes: Iterable[Outcome]) -> dict[PointKey, int]:
    """Returns the bytes that an iteration of each point touches."""
    measured = ((outcome.point, outcome.work) for outcome in outcomes if outcome.status == "ok")
    return {
        _key(point.probe, point.abi, point.target, point.values()): int(work.footprint_bytes)
        for point, work in measured
    }


def _key(probe: str, abi: str, target: str, parameters: Mapping[str, Value]) -> PointKey:
    return probe, abi, target, tuple(sorted(parameters.items()))


def _others(row: Row) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted((name, value) for name, value in row.parameters.items() if name != AXIS))


def cost_ns(row: Row) -> float:
    """Returns the ns of one operation: the median of a time, or the inverse of a rate."""
    return NS_PER_SECOND / middle(row) if row.better == "more" else middle(row)


def times_as_fast(row: Row, other: Row) -> float:
    """Returns how many times as fast one row is as another, for times and for rates. Both rows have one target, clock
    and unit."""
    assert (row.target, row.clock, row.unit) == (other.target, other.clock, other.unit)
    return middle(row) / middle(other) if row.better == "more" else middle(other) / middle(row)


# ---- one curve --------------------------------------------------------------------------------------------------


def _falls_of(sweep: Sweep, known: _Known, caches: Sequence[Cache]) -> Lengths:
    """Returns the falls of one sweep. caches: caches to which they may be attributed."""
    first = sweep.rows[0]
    costs_ns = [cost_ns(row) for row in sweep.rows]
    # The sweep begins where the cost first reaches its minimum, and always has the last LEAST_VALUES points.
    cheapest = next(place for place, cost in enumerate(costs_ns) if cost <= (1 + SAME_WITHIN) * min(costs_ns))
    begin = min(cheapest, len(costs_ns) - LEAST_VALUES)
    rows = sweep.rows[begin:]
    visits = int(np.median([row.visits for row in rows]))
    noise = [relative_error(row) for row in rows]
    points = noisy_curve([number(row, AXIS) for row in rows], costs_ns[begin:], noise, max(visits, 1))
    pieces = _levels(points)
    levels = [_level(points, piece) for piece in pieces]
    places = [(begin + start, begin + end) for start, end in pieces]
    return Lengths(
        probe=first.probe,
        abi=first.abi,
        target=first.target,
        clock=first.clock,
        metric=first.metric,
        parameters=dict(_others(first)),
        first_n=number(first, AXIS),
        last_n=number(sweep.rows[-1], AXIS),
        usual_ns=levels[0],
        falls=tuple(
            _fall(sweep, ends, costs, known, caches)
            for ends, costs in zip(pairwise(places), pairwise(levels), strict=True)
        ),
    )


def _levels(points: NoisyCurve) -> list[Piece]:
    """Returns the first and last plateau, and those between them that differ by at least 10 % and are not only a
    slope."""
    starts = [*segments(points), len(points.sizes)]
    pieces = [(start, end - 1) for start, end in pairwise(starts)]
    while len(pieces) > 1:
        rises = [after / before for before, after in pairwise([_level(points, piece) for piece in pieces])]
        weakest = min(range(len(rises)), key=rises.__getitem__)
        if rises[weakest] >= 1 + ALIKE:
            break
        pieces[weakest : weakest + 2] = [(pieces[weakest][0], pieces[weakest + 1][1])]
    inner = [piece for piece in pieces[1:-1] if points.sizes[piece[1]] / points.sizes[piece[0]] >= MORE_THAN_TWICE]
    return [pieces[0], *inner, *(pieces[-1:] if len(pieces) > 1 else [])]


def _level(points: NoisyCurve, piece: Piece) -> float:
    """Returns the mean level of a piece, in logarithms and weighted by the noise."""
    inside = slice(piece[0], piece[1] + 1)
    return float(np.exp(np.average(np.log(points.values[inside]), weights=1 / points.noise[inside] ** 2)))


# ---- causes of falls --------------------------------------------------------------------------------------------


def _fall(
    sweep: Sweep, pieces: tuple[Piece, Piece], costs_ns: tuple[float, float], known: _Known, caches: Sequence[Cache]
) -> Fall:
    """Returns the fall between two adjacent plateaus of a sweep. pieces: first and last index of each. costs_ns: cost
    of an operation on each."""
    (_, last), (first, last_of_piece) = pieces
    before_ns, after_ns = costs_ns
    touched = sweep.footprints[last], sweep.footprints[first]
    lost_ns = after_ns - before_ns
    hardware_ns = max(known.twins.get(sweep.place(place), 0.0) for place in range(first, last_of_piece + 1))
    levels = _ending(touched, caches) if lost_ns <= (1 + CLEARLY) * hardware_ns else ()
    return Fall(
        after_n=number(sweep.rows[last], AXIS),
        by_n=number(sweep.rows[first], AXIS),
        after_bytes=touched[0],
        by_bytes=touched[1],
        slower=after_ns / before_ns,
        lost_ns=lost_ns,
        least_ns=hardware_ns,
        cause="memory"
        if levels
        else "length"
        if 0 < (1 + CLEARLY) * hardware_ns < lost_ns <= known.guessed_ns
        else "unknown",
        levels=levels,
    )


def _twins(curves: Iterable[Sweep], probes: Mapping[str, Probe]) -> dict[Place, float]:
    """Returns the shortest time of one operation by hardware instruction at each place, over all ABIs, including waits
    for memory."""
    least_ns: dict[Place, float] = {}
    for sweep in curves:
        first = sweep.rows[0]
        if first.parameters.get(WAY) == own_way(probes[first.probe]):
            for at, row in enumerate(sweep.rows):
                if sweep.footprints[at]:
                    place = sweep.place(at)
                    least_ns[place] = min(cost_ns(row), least_ns.get(place, inf))
    return least_ns


def own_way(probe: Probe) -> str | None:
    """Returns the implementation by hardware instruction: the first choice of the parameter `way`. None if the probe
    has only one implementation."""
    return next((parameter.choices[0] for parameter in probe.parameters if parameter.name == WAY), None)


def _caches(machine: Machine, hierarchy: Sequence[Level]) -> tuple[Cache, ...]:
    """Returns the caches as this run measured them, else as the system reports them."""
    measured = {level.level: level for level in hierarchy if level.size_low and level.size_high}
    caches = []
    for place, bytes_ in machine.data_sizes().items():
        name = f"L{place}" if place > 1 else "L1d"
        level = measured.get(name)
        size = float(bytes_)
        caches.append((name, (level and level.size_low) or size, (level and level.size_high) or size))
    return tuple(caches)


def _ending(touched: tuple[int, int], caches: Sequence[Cache]) -> tuple[str, ...]:
    """Returns the caches whose capacity lies between the memory at both lengths; if there is none, the nearest cache
    within a factor of 1.5. touched: bytes before and after the fall."""
    before_bytes, after_bytes = touched
    if not before_bytes or not after_bytes:
        return ()
    inside = tuple(name for name, low, high in caches if high >= before_bytes and low <= after_bytes)
    near = [
        (abs(log(low * high / before_bytes / after_bytes)), name)
        for name, low, high in caches
        if before_bytes / (1 + FAR_APART) <= high and low <= after_bytes * (1 + FAR_APART)
    ]
    return inside or tuple(name for _, name in sorted(near)[:1])
