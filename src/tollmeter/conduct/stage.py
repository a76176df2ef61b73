# SPDX-License-Identifier: Apache-2.0
"""The components that a run uses, and the observers that it informs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tollmeter.conduct.stopping import Stopping
from tollmeter.conduct.surroundings import Watch
from tollmeter.model import Outcome, Point, Probe, Visit
from tollmeter.store.journal import Journal
from tollmeter.targets.local import WorkerPool
from tollmeter.targets.target import Target


class Judge(Protocol):
    """Judges the precision of numbers. It is injected, since the analysis is in a higher layer."""

    def look(self, outcomes: Sequence[Outcome]) -> None:
        """Reads the new visits among all outcomes, and updates properties that a single point does not show."""

    def full_width(self, point: Point) -> float:
        """Returns the independent additions per cycle of the uncontended core, by the last look; 0 if unknown."""

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        """Returns the total number of visits that the point needs: at most its present number if it has converged;
        infinite if no number suffices. outcomes: visits of the point."""

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        """Returns the total number of visits that each of two interleaved points needs. outcomes: visits of both. pair:
        the point and its reference."""

    def wide_pairs(self, outcomes: Sequence[Outcome], point: Point) -> Sequence[tuple[int, ...]]:
        """Returns the pairs of CPUs of a point whose intervals are too wide. outcomes: visits of its matrix."""

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        """Returns points that were measured in another state of the machine than the other points, and need another
        visit."""

    def excess(self, outcome: Outcome) -> str:
        """Returns how a visit exceeds an absolute limit that the user set, which ends the run; empty if it does not."""

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]: ...


class Observer:
    """Receives the progress of a run, and ignores it. A subclass must be quick; it is never called during a visit."""

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        """Receives the visit that begins, the used share of the budget, and the remaining seconds of the budget."""

    def outcome(self, outcome: Outcome) -> None:
        """Receives the outcome of a visit."""


class Stage(NamedTuple):
    """The components of a run. executables: path by probe and ABI. now: returns monotonic seconds. pool: the processes
    that wait for visits on this machine, or None. watch: reports other activity on this machine; None if this machine
    is not measured. reviews_beside: whether the host has a CPU for reviews on which no single worker is measured."""

    targets: Mapping[str, Target]
    executables: Mapping[tuple[str, str], str]
    journal: Journal
    judge: Judge
    observer: Observer
    stopping: Stopping
    now: Callable[[], float] = time.monotonic
    pool: WorkerPool | None = None
    watch: Watch | None = None
    reviews_beside: bool = False
