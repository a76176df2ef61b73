# SPDX-License-Identifier: Apache-2.0
"""All that a run acts upon, and is told by."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from tollmeter.conduct.prestaging import Beside
from tollmeter.conduct.stopping import Stopping
from tollmeter.conduct.surroundings import Watch
from tollmeter.model import Outcome, Point, Probe, Visit
from tollmeter.store.journal import Journal
from tollmeter.targets import Target


class Judge(Protocol):
    """What analysis knows of whether a number is good enough; injected, since imports flow the other way."""

    def look(self, outcomes: Sequence[Outcome]) -> None:
        """At all that was measured so far, for what no point tells alone."""

    def read(self, outcomes: Sequence[Outcome]) -> None:
        """New visits of any points, which together take less time than when each point is asked about."""

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        """In all, to know the point well enough: no more than there are where it is, infinite where none would do."""

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        """The same of each of two points, to know well enough what one takes of the other. outcomes: of both."""

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        """What was measured in another state of the machine than the rest, and is to be visited again for it."""

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]: ...


class Observer(Protocol):
    """Sees the run go by; must be quick, and is never called while a visit measures."""

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None: ...

    def outcome(self, outcome: Outcome) -> None: ...


class Stage(NamedTuple):
    """All that a run acts upon. targets: by name. executables: path by (probe, ABI). now: monotonic seconds.
    beside: where layouts are prepared before their visits; None where they are not.
    watch: on what else goes on here; None where nothing is measured here."""

    targets: Mapping[str, Target]
    executables: Mapping[tuple[str, str], str]
    journal: Journal
    judge: Judge
    observer: Observer
    stopping: Stopping
    now: Callable[[], float] = time.monotonic
    beside: Beside | None = None
    watch: Watch | None = None
