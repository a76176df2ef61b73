# SPDX-License-Identifier: Apache-2.0
"""Where curves want more points, asked no more often than there is something new to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.plan import Curve, Plan

ASKED_AGAIN = 1.2
"""Times the visits: what they say changes no faster, and reading all of them anew each time took longer than the visit,
as soon as there were fifty."""


class Refinement:
    """Of all curves of a plan."""

    def __init__(self, plan: Plan, judge: Judge) -> None:
        self._plan = plan
        self._judge = judge
        self._wishes: dict[Curve, tuple[int, list[Point]]] = {}

    def forget(self) -> None:
        """What is known of the machine has changed."""
        self._wishes.clear()

    def wished(self, curve: Curve, seen: Mapping[Point, Sequence[Outcome]]) -> list[Point]:
        """Asked when the curve has a fifth more visits than when it was asked."""
        of_curve = {value: seen.get(curve.at(value), []) for value in curve.grid}
        count = sum(map(len, of_curve.values()))
        if count >= ASKED_AGAIN * self._wishes.get(curve, (0, []))[0]:
            self._wishes[curve] = count, self._wished_now(curve, of_curve)
        return self._wishes[curve][1] if count else []

    def _wished_now(self, curve: Curve, seen: Mapping[int, Sequence[Outcome]]) -> list[Point]:
        measured = {value: found for value, found in seen.items() if any(told.status == "ok" for told in found)}
        if not measured:
            return []
        wished = self._judge.refine(measured, self._plan.probes[curve.like.probe], curve.grid)
        return [curve.at(value) for value in wished if value in curve.grid]
