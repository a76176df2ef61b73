# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run under way, in the form in which conduct tells of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tollmeter.conduct import Observer
from tollmeter.model import Machine, Outcome, Point, Visit
from tollmeter.numbers.rows import rows_of_point
from tollmeter.plan import Plan
from tollmeter.plan.effort import VISITS_WANTED
from tollmeter.report.progress import Progress


@contextlib.contextmanager
def watching(plan: Plan, machine: Machine) -> Iterator[Observer]:
    """Shows progress on standard error until the end, however it comes."""
    with Progress(plan.probes) as progress:
        visits = VISITS_WANTED * sum(len(plan.placements(point)) for point in plan.points())
        progress.start(machine, plan.suite, plan.seed, visits, plan.budget_seconds)
        yield Watching(plan, progress)


class Watching:
    """Implements conduct.Observer. The first visit of each point of the machine's own ABI gives a first number."""

    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._abi = next((point.abi for point in plan.points()), "")
        self._numbered: set[Point] = set()

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        self._progress.visit(visit.point, fraction, 1.0, seconds_left)

    def outcome(self, outcome: Outcome) -> None:
        point = outcome.point
        if outcome.status == "ok" and point.abi == self._abi and point not in self._numbered:
            self._numbered.add(point)
            self._progress.numbers(rows_of_point([outcome], self._plan.probes[point.probe]))
