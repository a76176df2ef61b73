# SPDX-License-Identifier: Apache-2.0
"""Asks the judge between rounds: what each point still wants, and where curves want more points."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.model.topology import matrix_of
from tollmeter.plan import Plan, SweepCurve

_REVIEWED_AGAIN = 1.1
"""Visits that a review needs, as a multiple of those of the review before: one takes as long as several visits."""


class Judging:
    """Of one run. seen: its visits by point."""

    def __init__(self, plan: Plan, judge: Judge) -> None:
        self._plan = plan
        self._judge = judge
        self.seen: dict[Point, list[Outcome]] = {}
        self._reviewed = 0
        self._wanted: dict[Point, float] = {}
        self._wide: dict[Point, tuple[int, Sequence[tuple[int, ...]]]] = {}

    def add(self, outcome: Outcome) -> None:
        """Adds a new visit."""
        self.seen.setdefault(outcome.point, []).append(outcome)

    def review(self, *, anew: bool = False) -> bool:
        """Looks at all visits if there are a tenth more than at the last review, or, anew, if there are any more: what
        points want is then computed again. Returns whether it did."""
        visits = sum(map(len, self.seen.values()))
        if visits == self._reviewed or (not anew and visits < _REVIEWED_AGAIN * self._reviewed):
            return False
        self._reviewed = visits
        self._judge.look([outcome for several in self.seen.values() for outcome in several])
        self._wanted.clear()
        self._wide.clear()
        return True

    def full_width(self, point: Point) -> float:
        return self._judge.full_width(point)

    def differing(self) -> Sequence[Point]:
        """Points that were measured in another state of the machine than the rest."""
        return self._judge.differing(self.seen)

    def visits_wanted(self, point: Point) -> float:
        """The number of visits that the point needs in all, by the last review. The second point of interleaved
        comparisons is wanted as long as any first point is."""
        if point not in self._wanted:
            self._wanted[point] = self._visits_wanted(point)
        return self._wanted[point]

    def _visits_wanted(self, point: Point) -> float:
        seen = self.seen.get(point, [])
        second = self._plan.against.get(point)
        if second:
            return self._judge.visits_wanted_against([*seen, *self.seen.get(second, ())], (point, second))
        if self._plan.against:
            return max(self.visits_wanted(first) for first, second in self._plan.against.items() if second == point)
        return self._judge.visits_wanted(seen, self._plan.probes[point.probe])

    def wide_pairs(self, point: Point) -> Sequence[tuple[int, ...]]:
        """Of a matrix the pairs of CPUs that are to be visited once more, by the last review."""
        seen = len(self.seen.get(point, ()))
        if point not in self._wide:
            alike = [other for other in self.seen if matrix_of(other) == matrix_of(point)]
            pairs = self._judge.wide_pairs([outcome for other in alike for outcome in self.seen[other]], point)
            self._wide[point] = seen, pairs
        since, pairs = self._wide[point]
        return pairs[seen - since :]

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
