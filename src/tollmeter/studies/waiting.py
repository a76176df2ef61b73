# SPDX-License-Identifier: Apache-2.0
"""What an instruction of a program takes, and how much of its waiting for memory shows, by its times at several sizes.

The same work is done under each ABI, so that what an instruction takes is one there; from size to size it differs, as
much as mixtures of instructions do. So it is fitted for each size, and held to what it is at the others (ridge
regression: Hoerl and Kennard 1970). Were it one for all sizes, a program that computes less and scans more the larger
it is would have its waiting taken for computing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tollmeter.maths.fits import bounded
from tollmeter.model import Distances, Results, Row
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning

_OFF, _APART = 0.01, 0.1
"""What a time is off by, and what an instruction takes more or less at another size: parts of itself."""

Waits = tuple[float, float]
"""ns of an operation: what is foreseen, and all else."""


class Observed(NamedTuple):
    """One operation at one size under one ABI. time_ns: what it took. computed_ns: of that, all but its page faults."""

    time_ns: float
    computed_ns: float
    instructions: float
    waits: Waits


class Fit(NamedTuple):
    """each_ns: an instruction that waits for nothing. shown: of each kind of waiting, the share that is not hidden."""

    each_ns: float
    shown: Waits

    def waited_ns(self, waits: Waits) -> float:
        return sum(share * wait for share, wait in zip(self.shown, waits, strict=True))


def fit(sizes: Sequence[Sequence[Observed]]) -> list[Fit]:
    """One for each size. sizes: at each of them what was seen, under one ABI or more."""
    every = [(place, observed) for place, group in enumerate(sizes) for observed in group]
    usual = float(np.median([observed.computed_ns / observed.instructions for _, observed in every]))
    rows = [_row(place, observed, len(sizes)) for place, observed in every]
    wanted = [observed.computed_ns / observed.time_ns / _OFF for _, observed in every]
    alike = np.zeros((len(sizes), 3 + len(sizes)))
    alike[:, 3:] = np.eye(len(sizes)) / (_APART * usual)
    terms = np.vstack([np.array(rows), alike])
    free = [np.inf] * len(sizes)
    low, high = [0.0, 0.0, 0.0, *(-bound for bound in free)], [np.inf, 1.0, 1.0, *free]
    solution = bounded(terms, np.append(wanted, np.zeros(len(sizes))), low, high)
    shown = float(solution[1]), float(solution[2])
    return [Fit(float(solution[0] + more), shown) for more in solution[3:]]


def _row(place: int, observed: Observed, sizes: int) -> list[float]:
    """Unknowns: an instruction's time, the shares of both kinds of waiting, and each size's deviation of that time."""
    beside = [observed.instructions if size == place else 0.0 for size in range(sizes)]
    return [value / observed.time_ns / _OFF for value in (observed.instructions, *observed.waits, *beside)]


# ---- waiting --------------------------------------------------------------------------------------------------------

_LINE_BYTES = 64
_NS_PER_S = 1e9


class PriceCurve(NamedTuple):
    """What a load takes, over the bytes until its line comes again, ascending; empty where nothing was measured."""

    sizes: Sequence[float]
    ns: Sequence[float]

    def at(self, size: float) -> float:
        return float(np.interp(np.log(size), np.log(self.sizes), self.ns))

    def beyond_nearest(self, size: float) -> float:
        """More than where the line is as near as can be: that much is part of any instruction that loads."""
        return max(0.0, self.at(size) - self.ns[0])


class Prices(NamedTuple):
    """What this run found memory to cost. load: of one that wanders; line: of one of those read from end to end."""

    fault_ns: float | None
    load: PriceCurve
    line: PriceCurve

    def latency(self, footprint: float) -> float:
        """Of a load anywhere in the footprint, of which no more is known: the mean of the walk's over all sizes up to
        it. A program goes anywhere after any share of all its lines with one chance, so that a level holds of its loads
        what it holds of its bytes."""
        steps = np.append([size for size in self.load.sizes if size < footprint], footprint)
        heights = np.interp(np.log(steps), np.log(self.load.sizes), self.load.ns)
        widths = np.diff(steps, prepend=0.0)
        return float(np.sum(widths * (heights + np.append(heights[0], heights[:-1])) / 2) / footprint)


Apart = Sequence[tuple[float, float, float]]
"""Bytes until a line comes again, with the loads of one operation that are foreseen, and the others."""


def prices_of(results: Results) -> Prices:
    """Prices of the machine's main ABI and small pages, which a program gets by default."""
    rows = [row for row in results.index.rows if row.clock == "hardware"]
    rows = [row for row in rows if row.abi == main_abi(rows, results.index.machine.architecture) and row.target == HERE]
    faults = [row for row in with_meaning(rows, results.probes, "price-of-fault")
              if row.parameters.get("kind") == "anonymous_write"]  # fmt: skip
    walks = [row for row in with_meaning(rows, results.probes, "latency-of-size")
             if row.parameters.get("pages", "small") == "small"]  # fmt: skip
    reads = with_meaning(rows, results.probes, "read-bandwidth-of-size")
    return Prices(
        fault_ns=faults[0].median if faults else None,
        load=_curve({_size(row): row.median or 0.0 for row in walks}),
        line=_curve({size: _LINE_BYTES / rate * _NS_PER_S for size, rate in _fastest(reads).items()}),
    )


def _curve(of_size: Mapping[float, float]) -> PriceCurve:
    sizes = sorted(of_size)
    return PriceCurve(sizes, [of_size[size] for size in sizes])


def _size(row: Row) -> float:
    return float(row.parameters["size"])


def _fastest(reads: Sequence[Row]) -> dict[float, float]:
    """Of several loops the one that lets memory be what is waited for."""
    fastest: dict[float, float] = {}
    for row in reads:
        if row.median:
            fastest[_size(row)] = max(row.median, fastest.get(_size(row), 0.0))
    return fastest


def apart_of(results: Results, row: Row) -> Apart | None:
    """How far apart the loads of this row's point lie, if an emulator saw them."""
    measured = (distances for distances in results.distances if _is_of(distances, row) and distances.loads)
    return next((distances.loads for distances in measured), None)


def _is_of(distances: Distances, row: Row) -> bool:
    return (distances.probe, distances.abi, distances.parameters) == (row.probe, row.abi, row.parameters)


def shrunk(apart: Apart, by: float) -> Apart:
    """Of the same program whose objects are so many times smaller: between two loads of a line lie the same objects."""
    return [(size / by, foreseen, others) for size, foreseen, others in apart]


def waits(apart: Apart, prices: Prices) -> tuple[float, float]:
    """ns of one operation: of what is foreseen, and of all else. Nothing of the first where no reading was measured."""
    foreseen = sum(count * prices.line.beyond_nearest(size) for size, count, _ in apart) if prices.line.sizes else 0.0
    return foreseen, sum(count * prices.load.beyond_nearest(size) for size, _, count in apart)
