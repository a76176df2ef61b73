# SPDX-License-Identifier: Apache-2.0
"""The processes of a run's layouts: which ones are set up before their visits, beside which visits, and what they cost.

A process on the host's CPU shares the last-level cache and the memory with the measured CPU. So set-ups run beside
visits that use neither: visits of one worker, without switches and page faults, whose data fit into half of the private
caches of the measured core. Decision 20 states the effect on the measured numbers, decision 45 the gain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tollmeter.model import Machine, PlaceRelation, Point, Probe, Visit
from tollmeter.model.topology import numbers, relation
from tollmeter.plan import Costs
from tollmeter.plan.effort import stated_bytes
from tollmeter.plan.points import HERE
from tollmeter.targets import PrestagesLayouts, Target
from tollmeter.targets.worker_pool import PendingSetup, SetupSchedule

_OF_PRIVATE = 0.5
_SHARING_LAST: tuple[PlaceRelation, ...] = ("same cluster", "same last-level cache")
"""A cluster's CPUs share the last-level cache too. Whether they share another one, the list of caches shows."""

Executables = Mapping[tuple[str, str], str]
"""Paths by probe and ABI."""


class SetupCpu(NamedTuple):
    """cpu: the CPU for set-ups; private_bytes: size of the largest private cache of the measured CPU."""

    cpu: int
    private_bytes: int
    probes: Mapping[str, Probe]

    def may_begin(self, point: Point) -> bool:
        """False for probes that start companions during the set-up, since these stay on the CPU of the set-up.
        Companions that work in the background start with the visit. Cores of another kind may share a cache with the
        CPU for set-ups."""
        probe = self.probes[point.probe]
        if point.target != HERE:
            return False
        steps = any(role.pace != "background" for role in probe.roles)
        return not (steps or probe.switches or probe.spreads)

    def is_calm(self, point: Point, own_bytes: int) -> bool:
        """own_bytes: memory that the process does not share; where the point's sizes state its data, these count."""
        probe = self.probes[point.probe]
        data = stated_bytes(point, probe) or own_bytes
        is_single = not (probe.roles or probe.switches or probe.spreads or probe.faults)
        return point.target == HERE and is_single and data <= _OF_PRIVATE * self.private_bytes


def beside(machine: Machine, measured: int, host: int | None, probes: Mapping[str, Probe]) -> SetupCpu | None:
    """machine: with the caches of a CPU like the measured one. None where the host has no CPU of its own, or one that
    shares more or less than the last-level cache."""
    topology, shared = machine.topology, [cache for cache in machine.caches if len(numbers(cache.shared_cpus)) > 1]
    private_bytes = max((cache.size_bytes for cache in machine.caches if cache not in shared), default=0)
    is_only_last = len(shared) == 1 and shared[0].size_bytes >= private_bytes > 0
    if host is None or topology is None or not is_only_last or relation(topology, measured, host) not in _SHARING_LAST:
        return None
    return SetupCpu(host, private_bytes, probes)


class Workers:
    """Of one run. costs: what layouts have cost, and so which are slow."""

    def __init__(
        self, executables: Executables, targets: Mapping[str, Target], beside: SetupCpu | None, costs: Costs
    ) -> None:
        self._executables, self._targets, self._beside = executables, targets, beside
        self._costs = costs
        self._pending: dict[Point, PendingSetup] = {}

    def prefetch(self, visits: Iterable[Visit]) -> set[Point]:
        """Has the slow set-ups of a round made before their visits. visits: the first ones of their layouts, in order.
        Returns the points of these set-ups."""
        self._pending = {visit.point: self._of(visit) for visit in visits if self._is_prefetched(visit.point)}
        beside, targets = self._beside, self._targets
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
        key = self._executables[point.probe, point.abi], point.parameters, cpus
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
        target = self._targets[point.target]
        return target if isinstance(target, PrestagesLayouts) else None

    def _of(self, visit: Visit) -> PendingSetup:
        return PendingSetup(self._executables[visit.point.probe, visit.point.abi], visit)

    def _is_prefetched(self, point: Point) -> bool:
        is_here = self._beside is not None and self._beside.may_begin(point) and self._target(point) is not None
        return is_here and self._costs.is_slow(point)
