# SPDX-License-Identifier: Apache-2.0
"""The parts of a run: what it uses, and what it reports to."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tollmeter.conduct.stopping import Stopping
from tollmeter.conduct.surroundings import Watch
from tollmeter.model import Outcome, Point, Probe, Visit
from tollmeter.store.journal import Journal
from tollmeter.targets import Target
from tollmeter.targets.local import WorkerPool


class Judge(Protocol):
    """Decides which numbers are precise enough. Injected, since the analysis is above this package."""

    def look(self, outcomes: Sequence[Outcome]) -> None:
        """Reads the visits that are new among all so far, and learns what no single point shows."""

    def full_width(self, point: Point) -> float:
        """Independent additions in a cycle of the uncontended core, by the last look; 0 if unknown."""

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        """Visits that the point needs in all: no more than it has if converged; infinite if no number suffices."""

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        """The same for the two points of an interleaved comparison. outcomes: of both."""

    def wide_pairs(self, outcomes: Sequence[Outcome], point: Point) -> Sequence[tuple[int, ...]]:
        """The pairs of CPUs of a point whose intervals are not narrow enough. outcomes: of its matrix."""

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        """Points that were measured in another state of the machine than the rest, and are to be visited again."""

    def excess(self, outcome: Outcome) -> str:
        """How a visit is beyond an absolute limit, which ends the run; empty where it is not."""

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]: ...


class Observer(Protocol):
    """Is informed of the run's progress; must be quick, and is never called during a visit."""

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None: ...

    def outcome(self, outcome: Outcome) -> None: ...


class Stage(NamedTuple):
    """The parts of a run. executables: path by (probe, ABI). now: monotonic seconds. pool: the processes that wait for
    visits on this machine, or None. watch: reports other activity here; None where nothing is measured here.
    reviews_beside: whether the host has a CPU for reviews on which no single worker is measured."""

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
