# SPDX-License-Identifier: Apache-2.0
"""How much a visit costs in wall time, and how much of it a budget allows."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Point, Record

VISITS_WANTED = 3
"""An interval over visits needs at least as many."""
_LEAST_SHARE, _SHARES = 1 / 40, 2
"""Of the budget for one point: twice what it would have if all had the same, and at least a fortieth."""

_STARTING_S = 0.012
_PREPARING_S_PER_BYTE = 3e-9
"""To touch memory and to thread a random walk through it: most of what a large buffer's visit takes."""
_BATCHES = 3
"""n and 2n iterations."""


class Effort(Record, frozen=True):
    """Of one visit: samples, and ns of the shorter batch. thin: every so-manieth value of a sweep."""

    samples: int = 7
    sample_ns: int = 1_000_000
    thin: int = 1

    def seconds(self) -> float:
        return self.samples * self.sample_ns * _BATCHES * 1e-9


EFFORTS = (
    Effort(),
    Effort(samples=5),
    Effort(samples=5, sample_ns=500_000),
    Effort(samples=4, sample_ns=300_000),
    Effort(samples=3, sample_ns=200_000),
    Effort(samples=3, sample_ns=100_000),
    Effort(samples=3, sample_ns=100_000, thin=2),
)
"""From the best to the least. Below a hundred microseconds a batch no longer dwarfs an interrupt."""


def fair_share_s(budget_s: float, points: int) -> float:
    """Seconds for all visits of one point: what takes long must not cost all others their visits."""
    return budget_s * max(_LEAST_SHARE, _SHARES / max(1, points))


def visits_wanted(cost_s: float, share_s: float) -> int:
    """How many visits a point may have before all others are settled: one at least."""
    return max(1, min(VISITS_WANTED, int(share_s / max(cost_s, 1e-9))))


class Costs:
    """Wall time of a visit to each point: guessed from its sizes, then learned from the visits made."""

    def __init__(self, sizes: dict[str, frozenset[str]]) -> None:
        """sizes: for each probe, the names of its parameters that are sizes."""
        self._sizes = sizes
        self._beyond_samples: dict[Point, float] = {}

    def learn(self, point: Point, effort: Effort, seconds: float) -> None:
        self._beyond_samples[point] = max(0.0, seconds - effort.seconds())

    def of(self, point: Point, effort: Effort) -> float:
        return self._beyond_samples.get(point, self._guess(point)) + effort.seconds()

    def total(self, points: Iterable[Point], effort: Effort) -> float:
        return sum(self.of(point, effort) for point in points)

    def _guess(self, point: Point) -> float:
        names = self._sizes.get(point.probe, frozenset())
        held = sum(value for name, value in point.parameters if name in names and isinstance(value, int))
        return _STARTING_S + held * _PREPARING_S_PER_BYTE
