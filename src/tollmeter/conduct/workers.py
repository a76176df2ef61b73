# SPDX-License-Identifier: Apache-2.0
"""The processes of a run's layouts: which ones are set up before their visits, and what they cost."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.conduct.stage import Stage
from tollmeter.model import Point, Visit
from tollmeter.plan import Costs
from tollmeter.targets import PrestagesLayouts
from tollmeter.targets.worker_pool import PendingSetup, SetupSchedule


class Workers:
    """Of one run. costs: what layouts have cost, and so which are slow."""

    def __init__(self, stage: Stage, costs: Costs) -> None:
        self._stage = stage
        self._costs = costs
        self._pending: dict[Point, PendingSetup] = {}

    def prefetch(self, visits: Iterable[Visit]) -> set[Point]:
        """Has the slow set-ups of a round made before their visits. visits: the first ones of their layouts, in order.
        Returns the points of these set-ups."""
        self._pending = {visit.point: self._of(visit) for visit in visits if self._is_prefetched(visit.point)}
        beside, targets = self._stage.beside, self._stage.targets
        for target in dict.fromkeys(targets.values()):  # kinds of core share that of this machine
            if beside and isinstance(target, PrestagesLayouts):
                own = [setup for point, setup in self._pending.items() if targets[point.target] is target]
                target.expect(SetupSchedule(beside.cpu, own, beside.may_begin, beside.is_calm))
        return {*self._pending}

    def is_ready(self, point: Point) -> bool:
        """Whether the layout of the point's next visit is set up, or is not set up before its visit."""
        target, setup = self._target(point), self._pending.get(point)
        return setup is None or (target is not None and target.is_ready(setup.key))

    def is_begun(self, point: Point) -> bool:
        """Whether the set-up of the point's layout is complete or running."""
        target, setup = self._target(point), self._pending.get(point)
        return setup is not None and target is not None and target.is_begun(setup.key)

    def has_ended(self, place: tuple[Point, tuple[int, ...]]) -> bool:
        """Whether the process of a visited layout has ended, by itself or to free its memory."""
        point, cpus = place
        target = self._target(point)
        key = self._stage.executables[point.probe, point.abi], point.parameters, cpus
        return target is not None and target.setup_s(key) is None

    def learn(self, visit: Visit) -> None:
        """Records what the layout of a point that was just visited cost."""
        target = self._target(visit.point)
        setup_s = target.setup_s(self._of(visit).key) if target else None
        if setup_s is not None:
            self._costs.learn_layout(visit.point, setup_s)
        elif target:
            self._costs.learn_that_it_ends(visit.point)

    def _target(self, point: Point) -> PrestagesLayouts | None:
        target = self._stage.targets[point.target]
        return target if isinstance(target, PrestagesLayouts) else None

    def _of(self, visit: Visit) -> PendingSetup:
        return PendingSetup(self._stage.executables[visit.point.probe, visit.point.abi], visit)

    def _is_prefetched(self, point: Point) -> bool:
        beside = self._stage.beside
        is_here = beside is not None and beside.may_begin(point) and self._target(point) is not None
        return is_here and self._costs.is_slow(point)
