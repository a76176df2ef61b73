# SPDX-License-Identifier: Apache-2.0
"""Asks the judge between rounds: what each point still wants, and where curves want more points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.model.topology import matrix_of
from tollmeter.plan import Plan, SweepCurve

_LOOKED_AGAIN = 1.1
"""The judge looks at all visits again when there are this many times as many as at its last look: that takes 0.1 s of a
default run, and shows what the points have in common."""

_ASKED_AGAIN = 1.2
"""The judge is asked about a point again when it has this many times as many visits: its answer changes no faster."""


class _Wanted(NamedTuple):
    """visits: in all. again: how many there are when it is worth asking once more."""

    visits: float
    again: float


class _Wide(NamedTuple):
    """Pairs of CPUs whose intervals were wide when the point had so many visits."""

    visits: int
    pairs: Sequence[tuple[int, ...]]


class Judging:
    """Of one run. seen: its visits by point."""

    def __init__(self, plan: Plan, judge: Judge) -> None:
        self._plan = plan
        self._judge = judge
        self.seen: dict[Point, list[Outcome]] = {}
        self._new: list[Outcome] = []
        self._looked_at = 0
        self._wanted: dict[Point, _Wanted] = {}
        self._wide: dict[Point, _Wide] = {}

    def add(self, outcome: Outcome) -> None:
        """Adds a new visit."""
        self.seen.setdefault(outcome.point, []).append(outcome)
        self._new.append(outcome)

    def read(self) -> None:
        """Reads the new visits together, and looks at all visits if there are enough new ones. What the points want is
        then computed anew."""
        self._judge.read(self._new)
        self._new = []
        visits = sum(map(len, self.seen.values()))
        if visits >= _LOOKED_AGAIN * self._looked_at:
            self._looked_at = visits
            self._judge.look([outcome for several in self.seen.values() for outcome in several])
            self._wanted.clear()

    def differing(self) -> Sequence[Point]:
        """Points that were measured in another state of the machine than the rest."""
        return self._judge.differing(self.seen)

    def visits_wanted(self, point: Point) -> float:
        """The number of visits that the point needs in all."""
        seen, known = len(self.seen.get(point, ())), self._wanted.get(point)
        if known is None or seen >= known.again:
            visits = self._ask_judge(point)
            again = max(seen + 1, min(visits, _ASKED_AGAIN * seen))
            known = self._wanted[point] = _Wanted(visits, again)
        return known.visits

    def wide_pairs(self, point: Point) -> Sequence[tuple[int, ...]]:
        """Of a matrix the pairs of CPUs that are to be visited once more. The judge is asked again when they were."""
        seen = self.seen.get(point, [])
        known = self._wide.get(point)
        if known is None or (known.pairs and len(seen) >= known.visits + len(known.pairs)):
            alike = [other for other in self.seen if matrix_of(other) == matrix_of(point)]
            pairs = self._judge.wide_pairs([outcome for other in alike for outcome in self.seen[other]], point)
            known = self._wide[point] = _Wide(len(seen), pairs)
        return known.pairs[len(seen) - known.visits :]

    def _ask_judge(self, point: Point) -> float:
        """The second point of interleaved comparisons is wanted as long as any first point is."""
        seen = self.seen.get(point, [])
        second = self._plan.against.get(point)
        if second:
            return self._judge.visits_wanted_against([*seen, *self.seen.get(second, ())], (point, second))
        if self._plan.against:
            return max(self.visits_wanted(first) for first, second in self._plan.against.items() if second == point)
        return self._judge.visits_wanted(seen, self._plan.probes[point.probe])

    def wished(self, curve: SweepCurve) -> list[Point]:
        """Points that the curve lacks; of a curve that is refused, those of the one in its place."""
        of_curve = self._visits_by_value(curve)
        if curve.refused and of_curve and all(_is_refused(outcomes) for outcomes in of_curve.values()):
            curve = curve.in_place()
            of_curve = self._visits_by_value(curve)
            if not set(of_curve) >= set(curve.begun):
                return [curve.at(value) for value in curve.begun]
        measured = {
            value: outcomes
            for value, outcomes in of_curve.items()
            if any(outcome.status == "ok" for outcome in outcomes)
        }
        if not measured:
            return []
        wished = self._judge.refine(measured, self._plan.probes[curve.like.probe], curve.grid)
        return [curve.at(value) for value in wished if value in curve.grid]

    def _visits_by_value(self, curve: SweepCurve) -> dict[int, Sequence[Outcome]]:
        return {value: outcomes for value in curve.grid if (outcomes := self.seen.get(curve.at(value)))}


def _is_refused(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.status == "unsupported" for outcome in outcomes)
