# SPDX-License-Identifier: Apache-2.0
"""Asks the judge about a run's points: when there are new visits, and beside visits that allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tollmeter.conduct.refining import ASKED_AGAIN
from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.plan import Plan

_LOOKED_AGAIN = 1.7
"""The judge looks at all visits again when there are this many times as many as at its last look: it then knows better
what the points have in common, and some points that counted as done, or as out of reach, are open."""
_FEW = 8
"""Visits that are read beside another visit: 1 ms each, where a visit takes at least 15 ms."""


class _Wanted(NamedTuple):
    """visits: in all. again: how many there are when it is worth asking once more."""

    visits: float
    again: float


class JudgeQueries:
    """Of one run. seen: its visits by point; the run adds to them."""

    def __init__(self, plan: Plan, judge: Judge, seen: Mapping[Point, Sequence[Outcome]]) -> None:
        self._plan = plan
        self._judge = judge
        self._seen = seen
        self._wanted: dict[Point, _Wanted] = {}
        self._looked_at = 0
        self._unread: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        """Adds a new visit."""
        self._unread.append(outcome)

    def read(self) -> None:
        """Reads all new visits together."""
        self._judge.read(self._unread)
        self._unread = []

    def beside_a_visit(self) -> None:
        """Reads a few new visits before their round ends, once the judge has looked at all: before that they would be
        read again. Points of an interleaved comparison are judged in pairs, after both were visited."""
        if not self._looked_at or self._plan.against:
            return
        few, self._unread = self._unread[:_FEW], self._unread[_FEW:]
        self._judge.read(few)
        for point in {outcome.point for outcome in few}:
            self.visits_wanted(point)

    def look(self) -> bool:
        """Lets the judge look at all visits if enough are new. Returns whether it did, and wants are recomputed."""
        seen = sum(map(len, self._seen.values()))
        if seen < _LOOKED_AGAIN * self._looked_at:
            return False
        self._looked_at = seen
        self._judge.look([outcome for several in self._seen.values() for outcome in several])
        self._wanted.clear()
        return True

    def visits_wanted(self, point: Point) -> float:
        """The number of visits that the point needs in all. The judge is asked again when there are as many visits, or
        a fifth more than at the last time: between rounds there are hundreds of points."""
        seen, known = self._seen.get(point, []), self._wanted.get(point)
        if known is None or len(seen) >= known.again:
            visits = self._ask_judge(point, seen)
            again = max(len(seen) + 1, min(visits, ASKED_AGAIN * len(seen)))
            known = self._wanted[point] = _Wanted(visits, again)
        return known.visits

    def _ask_judge(self, point: Point, seen: Sequence[Outcome]) -> float:
        """The second point of interleaved comparisons is wanted as long as any first point is."""
        second = self._plan.against.get(point)
        if second:
            return self._judge.visits_wanted_against([*seen, *self._seen.get(second, ())], (point, second))
        if self._plan.against:
            return max(self.visits_wanted(first) for first, second in self._plan.against.items() if second == point)
        return self._judge.visits_wanted(seen, self._plan.probes[point.probe])
