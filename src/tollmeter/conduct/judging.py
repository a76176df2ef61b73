# SPDX-License-Identifier: Apache-2.0
"""Asks the judge between rounds which visits each point needs, and which points curves lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.conduct.beside import ReviewThread
from tollmeter.conduct.stage import Judge
from tollmeter.experiment.limits import FEW, LEAST_VISITS
from tollmeter.model import Outcome, Point
from tollmeter.model.topology import matrix_of
from tollmeter.plan import Plan, SweepCurve

Seen = Mapping[Point, list[Outcome]]


class Judging:
    """The reviews of one run. seen: its visits by point."""

    def __init__(self, plan: Plan, judge: Judge, *, beside: bool = False) -> None:
        """Creates the reviews of a run. beside: whether a review may run during visits."""
        self._plan = plan
        self._judge = judge
        self.seen: dict[Point, list[Outcome]] = {}
        self._reviewed = 0
        self._unread: list[Outcome] = []
        self._wanted: dict[Point, float] = {}
        self._wide: dict[Point, tuple[int, Sequence[tuple[int, ...]]]] = {}
        self._beside = ReviewThread[dict[Point, float]](is_allowed=beside and not plan.is_of_pairs)

    def add(self, outcome: Outcome) -> None:
        """Adds a new visit."""
        self.seen.setdefault(outcome.point, []).append(outcome)
        self._unread.append(outcome)
        self._beside.add(outcome)

    @property
    def is_under_way(self) -> bool:
        """Returns whether a review is running during visits."""
        return self._beside.is_under_way

    def begin(self, *, anew: bool = False) -> None:
        """Begins a review of all visits if their number grew by a tenth since the last review; with `anew`, if it grew
        at all."""
        visits = self._reviewed + len(self._unread)
        if self._beside.is_under_way or not self._unread or (not anew and visits < (1 + FEW) * self._reviewed):
            return
        new, self._unread, self._reviewed = self._unread, [], visits
        seen = {point: list(outcomes) for point, outcomes in self.seen.items()}
        self._beside.begin(lambda: self._all_wanted(seen), new)

    def _all_wanted(self, seen: Seen) -> dict[Point, float]:
        """Returns the number of visits that each point needs."""
        self._judge.look([outcome for outcomes in seen.values() for outcome in outcomes])
        wanted: dict[Point, float] = {}
        for point in seen:
            self._want(point, seen, wanted)
        return wanted

    def take(self, *, wait: bool = False) -> bool:
        """Applies the review that was begun if it is complete, and returns whether it was. wait: whether to wait for
        it."""
        wanted = self._beside.taken(wait=wait)
        if wanted is None:
            return False
        self._wanted = wanted
        self._wide.clear()
        return True

    def close(self) -> None:
        """Waits for a review in progress."""
        self._beside.close()

    def full_width(self, point: Point) -> float:
        """Returns the independent additions per cycle of the uncontended core; 0 if unknown."""
        return self._judge.full_width(point)

    def differing(self) -> Sequence[Point]:
        """Returns the points that were measured in another state of the machine than the others; none while a review is
        running."""
        return () if self.is_under_way else self._judge.differing(self.seen)

    def visits_wanted(self, point: Point) -> float:
        """Returns the total number of visits that the point needs by the last review; for a point that was not
        reviewed, the number for an interval. The reference point of interleaved comparisons needs as many as the point
        compared with it that needs most."""
        if point not in self._wanted and self.is_under_way:
            return LEAST_VISITS
        return self._want(point, self.seen, self._wanted)

    def _want(self, point: Point, seen: Seen, wanted: dict[Point, float]) -> float:
        """Returns the number of visits that a point needs, and keeps it. wanted: known numbers."""
        if point not in wanted:
            wanted[point] = self._visits_wanted(point, seen, wanted)
        return wanted[point]

    def _visits_wanted(self, point: Point, seen: Seen, wanted: dict[Point, float]) -> float:
        """Returns the number of visits that a point needs, by the judge. seen: visits of each point."""
        visits = seen.get(point, [])
        firsts = [first for first, reference in self._plan.against.items() if reference == point]
        ratios = [self._want(first, seen, wanted) for first in firsts if not _is_refused(seen.get(first, ()))]
        second = self._plan.against.get(point)
        if second and not _is_refused(visits) and not _is_refused(seen.get(second, ())):
            ratios = [self._judge.visits_wanted_against([*visits, *seen.get(second, ())], (point, second))]
        if ratios:
            return max(ratios)
        # If only ratios were requested, a point without a possible ratio needs no visit.
        if self._plan.is_of_pairs:
            return 0
        return self._judge.visits_wanted(visits, self._plan.probes[point.probe])

    def wide_pairs(self, point: Point) -> Sequence[tuple[int, ...]]:
        """Returns the pairs of CPUs of a matrix that need another visit, by the last review."""
        self.take(wait=True)
        visits = len(self.seen.get(point, ()))
        if point not in self._wide:
            points_of_matrix = [other for other in self.seen if matrix_of(other) == matrix_of(point)]
            pairs = self._judge.wide_pairs(
                [outcome for other in points_of_matrix for outcome in self.seen[other]], point
            )
            self._wide[point] = visits, pairs
        since, pairs = self._wide[point]
        return pairs[visits - since :]

    def wished(self, curve: SweepCurve) -> list[Point]:
        """Returns the points that the curve lacks; for a refused curve, the first points of its replacement."""
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
        """Returns the visits of each visited point of a curve, by its value."""
        return {value: outcomes for value in curve.grid if (outcomes := self.seen.get(curve.at(value)))}


def _is_refused(outcomes: Sequence[Outcome]) -> bool:
    """Returns whether there are visits, and the machine does not support any."""
    return bool(outcomes) and all(outcome.status == "unsupported" for outcome in outcomes)
