# SPDX-License-Identifier: Apache-2.0
"""Where a rate falls as vectors grow, and whether memory can be the cause.

The curve's flat pieces (`curves.segments`) give the places of the falls. A cache is named only if two things hold: the
memory that one iteration touches outgrows it there, and an operation loses no more than the hardware's own way through
the same memory takes in all. Soft floating point fails the second: its branches depend on the values, the core learns
those of short vectors that repeat, and past some length it no longer does. That fall depends on the length, and
coincides with the end of a cache only by chance. Its loss is at most the cost of branch mispredictions. The time of a
trap has another origin, and its falls have no cause here.

Only the hardware's own way can be compared with its own falls: its instructions take as long for every value and at
every length, so that memory is the remaining cause. Any other way needs the hardware's own beside it at the same
length, over as many bytes; without it, the cause stays unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf, log
from typing import NamedTuple

import numpy as np

from tollmeter.inference.answers import middle, number, relative_error
from tollmeter.inference.curves import NoisyCurve, curve, segments
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.model import Fall, Lengths, Level, Machine, Outcome, Probe, Record, Row, Value
from tollmeter.numbers.meanings import main_place, with_meaning

RATE = "flops-of-n"
AXIS = "n"
WAY = "way"
LEAST_LENGTHS = 5
BEGUN = 1.05
"""The cost of a call is spread over more and more operations: the curve begins where it no longer matters."""
LEAST_FALL = 1.1
PLATEAU = 2.5
"""A level holds over more than an octave; what is shorter is the slope between two."""
NEAR = 1.5
ALLOWANCE = 1.25
MOST_GUESSED_CYCLES = 200.0
"""What wrong guesses may cost an operation: some ten of its branches depend on the values, and after each a core begins
anew about 20 cycles later. What a trap gains or loses is another thing, and mostly more."""
USUAL_HZ = 1e9
NS_PER_SECOND = 1e9

Key = tuple[str, str, str, tuple[tuple[str, Value], ...]]
Cache = tuple[str, float, float]
"""Name, and the least and most bytes that it may hold."""


Place = tuple[str, str, Value, int]
"""Probe, target, length, and the bytes that an iteration touches."""


class Sweep(Record, frozen=True):
    """A rate at every length, shortest first; footprints: bytes that an iteration touches, 0 where not reported."""

    rows: tuple[Row, ...]
    footprints: tuple[int, ...]

    def costs_ns(self) -> list[float]:
        return [cost_ns(row) for row in self.rows]


def lengths(
    outcomes: Iterable[Outcome],
    rows: Sequence[Row],
    probes: Mapping[str, Probe],
    machine: Machine,
    hierarchy: Sequence[Level] = (),
) -> tuple[Lengths, ...]:
    """One for each rate over length that a machine's own clock timed: an emulator has no caches to fall out of."""
    curves = sweeps(outcomes, rows, probes)
    place = main_place(sweep.rows[0].target for sweep in curves)
    caches, twins = _caches(machine, hierarchy), _twins(curves, probes)
    known = _Known(twins, MOST_GUESSED_CYCLES * NS_PER_SECOND / (machine.core_clock_hz or USUAL_HZ))
    return tuple(_falls_of(sweep, known, caches if sweep.rows[0].target == place else ()) for sweep in curves)


def sweeps(outcomes: Iterable[Outcome], rows: Sequence[Row], probes: Mapping[str, Probe]) -> list[Sweep]:
    of_points = {outcome.point: outcome.work for outcome in outcomes if outcome.status == "ok"}
    touched = {
        (point.probe, point.abi, point.target, tuple(sorted(point.parameters))): work
        for point, work in of_points.items()
    }
    groups: dict[Key, list[Row]] = {}
    for row in with_meaning(rows, probes, RATE):
        if row.clock == "hardware" and isinstance(row.parameters.get(AXIS), int):
            groups.setdefault((row.probe, row.abi, row.target, _others(row)), []).append(row)
    made = []
    for group in groups.values():
        ranked = sorted(group, key=lambda row: number(row, AXIS))
        works = (touched.get((r.probe, r.abi, r.target, tuple(sorted(r.parameters.items())))) for r in ranked)
        made.append(Sweep(rows=tuple(ranked), footprints=tuple(int(w.footprint_bytes) if w else 0 for w in works)))
    return [sweep for sweep in made if len(sweep.rows) >= LEAST_LENGTHS]


def _others(row: Row) -> tuple[tuple[str, Value], ...]:
    return tuple(sorted((name, value) for name, value in row.parameters.items() if name != AXIS))


def cost_ns(row: Row) -> float:
    """Of one operation: of a rate its inverse, of a cost itself."""
    return NS_PER_SECOND / middle(row) if row.better == "more" else middle(row)


def times_as_fast(row: Row, other: Row) -> float:
    """How many times as fast one row is as another of the same clock, whichever way their unit counts."""
    assert (row.target, row.clock, row.unit) == (other.target, other.clock, other.unit)
    return middle(row) / middle(other) if row.better == "more" else middle(other) / middle(row)


# ---- one curve --------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What falls are compared with: the time of the hardware's own way, and the greatest cost of branch
    mispredictions."""

    twins: Mapping[Place, float]
    guessed_ns: float


def _falls_of(sweep: Sweep, known: _Known, caches: Sequence[Cache]) -> Lengths:
    first, begun = sweep.rows[0], _begin(sweep)
    points = _curve(sweep.rows[begun:])
    pieces = _levels(points)
    levels = [_level(points, piece) for piece in pieces]
    places = [(begun + start, begun + end) for start, end in pieces]
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
            _fall(_Step(sweep, *ends, *costs), known, caches)
            for ends, costs in zip(pairwise(places), pairwise(levels), strict=True)
        ),
    )


def _begin(sweep: Sweep) -> int:
    """Where the cost first is what it is at its least; the last LEAST_LENGTHS points always stay."""
    costs = sweep.costs_ns()
    begun = next(place for place, cost in enumerate(costs) if cost <= BEGUN * min(costs))
    return min(begun, len(costs) - LEAST_LENGTHS)


def _curve(rows: Sequence[Row]) -> NoisyCurve:
    """Over length: the caches come in only where a fall is to be named."""
    visits = int(np.median([row.visits for row in rows]))
    noise = [relative_error(row) for row in rows]
    return curve([number(row, AXIS) for row in rows], [cost_ns(row) for row in rows], noise, max(visits, 1))


Piece = tuple[int, int]
"""First and last point of a flat piece."""


def _levels(points: NoisyCurve) -> list[Piece]:
    """Flat pieces that differ by LEAST_FALL and more, less those that are only the slope between two others."""
    starts = [*segments(points), len(points.sizes)]
    pieces = [(start, end - 1) for start, end in pairwise(starts)]
    while (weakest := _weakest(points, pieces)) is not None:
        pieces[weakest : weakest + 2] = [(pieces[weakest][0], pieces[weakest + 1][1])]
    inner = [piece for piece in pieces[1:-1] if points.sizes[piece[1]] / points.sizes[piece[0]] >= PLATEAU]
    return [pieces[0], *inner, *(pieces[-1:] if len(pieces) > 1 else [])]


def _weakest(points: NoisyCurve, pieces: Sequence[Piece]) -> int | None:
    levels = [_level(points, piece) for piece in pieces]
    rises = [after / before for before, after in pairwise(levels)]
    weakest = min(range(len(rises)), key=rises.__getitem__, default=None)
    return weakest if weakest is not None and rises[weakest] < LEAST_FALL else None


def _level(points: NoisyCurve, piece: Piece) -> float:
    inside = slice(piece[0], piece[1] + 1)
    return float(np.exp(np.average(np.log(points.values[inside]), weights=1 / points.noise[inside] ** 2)))


# ---- what a fall is of ------------------------------------------------------------------------------------------


class _Step(NamedTuple):
    """From one flat piece of a sweep to the next, and what an operation costs on both."""

    sweep: Sweep
    before: Piece
    after: Piece
    before_ns: float
    after_ns: float


def _fall(step: _Step, known: _Known, caches: Sequence[Cache]) -> Fall:
    last, first = step.before[1], step.after[0]
    rows, touched = step.sweep.rows, (step.sweep.footprints[last], step.sweep.footprints[first])
    lost = step.after_ns - step.before_ns
    least = max(known.twins.get(_place(step.sweep, place), 0.0) for place in range(first, step.after[1] + 1))
    levels = _ending(touched, caches) if lost <= ALLOWANCE * least else ()
    return Fall(
        after_n=number(rows[last], AXIS),
        by_n=number(rows[first], AXIS),
        after_bytes=touched[0],
        by_bytes=touched[1],
        slower=step.after_ns / step.before_ns,
        lost_ns=lost,
        least_ns=least,
        cause="memory" if levels else "length" if 0 < ALLOWANCE * least < lost <= known.guessed_ns else "unknown",
        levels=levels,
    )


def _twins(every: Iterable[Sweep], probes: Mapping[str, Probe]) -> dict[Place, float]:
    """The least time of one operation the hardware's own way, of all ABIs; waiting for memory is included."""
    least_ns: dict[Place, float] = {}
    for sweep in every:
        first = sweep.rows[0]
        if first.parameters.get(WAY) == own_way(probes[first.probe]):
            for place, row in enumerate(sweep.rows):
                if sweep.footprints[place]:
                    key = _place(sweep, place)
                    least_ns[key] = min(cost_ns(row), least_ns.get(key, inf))
    return least_ns


def own_way(probe: Probe) -> str | None:
    """The hardware's: a probe lists its ways with the fastest first. None where it has one way only."""
    return next((parameter.choices[0] for parameter in probe.parameters if parameter.name == WAY), None)


def _place(sweep: Sweep, place: int) -> Place:
    row = sweep.rows[place]
    return row.probe, row.target, row.parameters[AXIS], sweep.footprints[place]


def _caches(machine: Machine, hierarchy: Sequence[Level]) -> tuple[Cache, ...]:
    """The caches as this run measured them, else as the system reports them."""
    measured = {level.level: level for level in hierarchy if level.size_low and level.size_high}
    caches = []
    for cache in os_sizes(machine):
        name = f"L{cache.level}" if cache.level > 1 else "L1d"
        level = measured.get(name)
        size = float(cache.size_bytes)
        caches.append((name, (level and level.size_low) or size, (level and level.size_high) or size))
    return tuple(caches)


def _ending(touched: tuple[int, int], caches: Sequence[Cache]) -> tuple[str, ...]:
    """The caches that the memory outgrows between these two; else the nearest, if it is near."""
    after, by = touched
    if not after or not by:
        return ()
    inside = tuple(name for name, low, high in caches if high >= after and low <= by)
    near = [
        (abs(log(low * high / after / by)), name)
        for name, low, high in caches
        if after / NEAR <= high and low <= by * NEAR
    ]
    return inside or tuple(name for _, name in sorted(near)[:1])
