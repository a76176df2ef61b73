# SPDX-License-Identifier: Apache-2.0
"""Where curves want more points, asked no more often than there is something new to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.plan import Plan, SweepCurve

ASKED_AGAIN = 1.2
"""A curve is judged again when it has this many times as many visits: its result changes no faster, and to read all
visits anew each time took longer than a visit as soon as there were fifty."""


class _Wish(NamedTuple):
    """visits, values: how many the curve had when it was asked."""

    visits: int
    values: int
    points: list[Point]


class Refinement:
    """Of all curves of a plan."""

    def __init__(self, plan: Plan, judge: Judge) -> None:
        self._plan = plan
        self._judge = judge
        self._wishes: dict[SweepCurve, _Wish] = {}

    def forget(self) -> None:
        """What is known of the machine has changed."""
        self._wishes.clear()

    def wished(self, curve: SweepCurve, seen: Mapping[Point, Sequence[Outcome]]) -> list[Point]:
        """Asks when the curve has a new value or a fifth more visits; for a refused curve, its replacement."""
        of_curve = _visits_by_value(curve, seen)
        if curve.refused and of_curve and all(_is_refused(outcomes) for outcomes in of_curve.values()):
            curve = curve.in_place()
            of_curve = _visits_by_value(curve, seen)
            if not set(of_curve) >= set(curve.begun):
                return [curve.at(value) for value in curve.begun]
        visits, before = sum(map(len, of_curve.values())), self._wishes.get(curve, _Wish(0, 0, []))
        if visits >= ASKED_AGAIN * before.visits or len(of_curve) > before.values:
            self._wishes[curve] = _Wish(visits, len(of_curve), self._wished_now(curve, of_curve))
        return self._wishes[curve].points if visits else []

    def _wished_now(self, curve: SweepCurve, seen: Mapping[int, Sequence[Outcome]]) -> list[Point]:
        measured = {
            value: outcomes for value, outcomes in seen.items() if any(outcome.status == "ok" for outcome in outcomes)
        }
        if not measured:
            return []
        wished = self._judge.refine(measured, self._plan.probes[curve.like.probe], curve.grid)
        return [curve.at(value) for value in wished if value in curve.grid]


def _visits_by_value(curve: SweepCurve, seen: Mapping[Point, Sequence[Outcome]]) -> dict[int, Sequence[Outcome]]:
    return {value: outcomes for value in curve.grid if (outcomes := seen.get(curve.at(value)))}


def _is_refused(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.status == "unsupported" for outcome in outcomes)
