# SPDX-License-Identifier: Apache-2.0
"""Tells places which layouts to prepare before their visits are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tollmeter.conduct.stage import Stage
from tollmeter.model import Point, Visit
from tollmeter.plan import Costs
from tollmeter.targets import Foresees
from tollmeter.targets.setup_queue import Coming, Forecast, Staying


class Foresight:
    """Of one run. costs: what tells which layouts take long. meanwhile: what is done beside a visit that is calm."""

    def __init__(self, stage: Stage, costs: Costs, meanwhile: Callable[[], None]) -> None:
        self._stage = stage
        self._costs = costs
        self._meanwhile = meanwhile
        self._coming: dict[Point, Coming] = {}

    def expect(self, visits: Iterable[Visit]) -> set[Point]:
        """visits: the first ones of layouts, in their order. Those of the points whose layouts are slow, and prepared
        ahead of them."""
        self._coming = {visit.point: self._of(visit) for visit in visits if self._is_prepared(visit.point)}
        beside = self._stage.beside
        for name, target in self._stage.targets.items():
            if beside and isinstance(target, Foresees):
                own = [one for point, one in self._coming.items() if point.target == name]
                target.expect(Forecast(beside.cpu, own, beside.may_begin, beside.is_calm, self._meanwhile))
        return {point for point, coming in self._coming.items() if not coming.is_quick}

    def is_ready(self, point: Point) -> bool:
        """Whether the layout of its next visit waits for it, or is none that is prepared before."""
        target, coming = self._stage.targets[point.target], self._coming.get(point)
        return coming is None or (isinstance(target, Foresees) and target.is_ready(coming.place))

    def is_begun(self, point: Point) -> bool:
        """Whether it does, or is on its way."""
        target = self._stage.targets[point.target]
        return point in self._coming and isinstance(target, Foresees) and target.is_begun(self._coming[point].place)

    def learn(self, point: Point, cpus: tuple[int, ...]) -> None:
        """Of a point that was just visited: what its layout took, and holds."""
        if self.is_gone(point, cpus):
            self._costs.learn_that_it_ends(point)
        elif layout := self._staying(point, cpus):
            self._costs.learn_layout(point, layout.bytes, layout.prepared_s)

    def is_gone(self, point: Point, cpus: tuple[int, ...]) -> bool:
        """Whether its layout, which was visited, has ended: for want of room, or by itself."""
        return isinstance(self._stage.targets[point.target], Foresees) and self._staying(point, cpus) is None

    def _staying(self, point: Point, cpus: tuple[int, ...]) -> Staying | None:
        target = self._stage.targets[point.target]
        place = self._stage.executables[point.probe, point.abi], point.parameters, cpus
        return target.staying(place) if isinstance(target, Foresees) else None

    def _of(self, visit: Visit) -> Coming:
        point = visit.point
        executable, slow = self._stage.executables[point.probe, point.abi], self._costs.is_slow(point)
        return Coming(executable, visit, self._costs.held_bytes(point), is_quick=not slow)

    def _is_prepared(self, point: Point) -> bool:
        beside = self._stage.beside
        place = self._stage.targets[point.target]
        return bool(beside and beside.may_begin(point) and isinstance(place, Foresees))
