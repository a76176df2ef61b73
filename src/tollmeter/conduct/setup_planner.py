# SPDX-License-Identifier: Apache-2.0
"""Plans which layouts a target sets up before their visits are requested."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tollmeter.conduct.stage import Stage
from tollmeter.model import Point, Visit
from tollmeter.plan import Costs
from tollmeter.targets import PrestagesLayouts
from tollmeter.targets.setup_queue import IdleWorker, PendingSetup, SetupSchedule


class SetupPlanner:
    """costs: measured set-up times, which show the slow layouts. meanwhile: host work beside a calm visit."""

    def __init__(self, stage: Stage, costs: Costs, meanwhile: Callable[[], None]) -> None:
        self._stage = stage
        self._costs = costs
        self._meanwhile = meanwhile
        self._pending: dict[Point, PendingSetup] = {}

    def expect(self, visits: Iterable[Visit]) -> set[Point]:
        """Schedules the set-ups of the next layouts' first visits, in order. Returns the points with slow ones."""
        self._pending = {visit.point: self._of(visit) for visit in visits if self._is_prepared(visit.point)}
        beside = self._stage.beside
        targets = self._stage.targets
        for target in dict.fromkeys(targets.values()):  # kinds of core share that of this machine
            if beside and isinstance(target, PrestagesLayouts):
                own = [setup for point, setup in self._pending.items() if targets[point.target] is target]
                target.expect(SetupSchedule(beside.cpu, own, beside.may_begin, beside.is_calm, self._meanwhile))
        return {point for point, setup in self._pending.items() if not setup.is_quick}

    def is_ready(self, point: Point) -> bool:
        """Whether the layout of the point's next visit is set up, or is not set up before its visit."""
        target, setup = self._stage.targets[point.target], self._pending.get(point)
        return setup is None or (isinstance(target, PrestagesLayouts) and target.is_ready(setup.key))

    def is_begun(self, point: Point) -> bool:
        """Whether the set-up of the point's layout is complete or running."""
        target = self._stage.targets[point.target]
        return (
            point in self._pending
            and isinstance(target, PrestagesLayouts)
            and target.is_begun(self._pending[point].key)
        )

    def learn(self, point: Point, cpus: tuple[int, ...]) -> None:
        """Records what the layout of a point that was just visited cost, and how much memory it holds."""
        if self.has_ended(point, cpus):
            self._costs.learn_that_it_ends(point)
        elif worker := self._idle_worker(point, cpus):
            self._costs.learn_layout(point, worker.bytes, worker.setup_s)

    def has_ended(self, point: Point, cpus: tuple[int, ...]) -> bool:
        """Whether the process of a visited layout has ended, by itself or to free its memory."""
        return (
            isinstance(self._stage.targets[point.target], PrestagesLayouts) and self._idle_worker(point, cpus) is None
        )

    def _idle_worker(self, point: Point, cpus: tuple[int, ...]) -> IdleWorker | None:
        target = self._stage.targets[point.target]
        key = self._stage.executables[point.probe, point.abi], point.parameters, cpus
        return target.idle_worker(key) if isinstance(target, PrestagesLayouts) else None

    def _of(self, visit: Visit) -> PendingSetup:
        point = visit.point
        executable, slow = self._stage.executables[point.probe, point.abi], self._costs.is_slow(point)
        return PendingSetup(executable, visit, self._costs.held_bytes(point), is_quick=not slow)

    def _is_prepared(self, point: Point) -> bool:
        beside = self._stage.beside
        target = self._stage.targets[point.target]
        return bool(beside and beside.may_begin(point) and isinstance(target, PrestagesLayouts))
