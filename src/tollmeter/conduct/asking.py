# SPDX-License-Identifier: Apache-2.0
"""What the judge says of a run's points: asked when there is something new to see, and beside visits that allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tollmeter.conduct.refining import ASKED_AGAIN
from tollmeter.conduct.stage import Judge
from tollmeter.model import Outcome, Point
from tollmeter.plan import Plan

_LOOKED_AGAIN = 1.7
"""Times the visits that were there when all were looked at last: what points have in common is by then better known,
and some that passed for done, or out of reach, are open."""
_FEW = 8
"""Visits that are read and asked about beside another: 1 ms each, where that takes 15 at least."""


class _Wanted(NamedTuple):
    """visits: in all. again: how many there are when it is worth asking once more."""

    visits: float
    again: float


class Asking:
    """Of one run. seen: its visits by point, which others add to."""

    def __init__(self, plan: Plan, judge: Judge, seen: Mapping[Point, Sequence[Outcome]]) -> None:
        self._plan = plan
        self._judge = judge
        self._seen = seen
        self._wanted: dict[Point, _Wanted] = {}
        self._looked_at = 0
        self._unread: list[Outcome] = []

    def hear(self, told: Outcome) -> None:
        """A new visit."""
        self._unread.append(told)

    def read(self) -> None:
        """What nobody has read, together."""
        self._judge.read(self._unread)
        self._unread = []

    def beside_a_visit(self) -> None:
        """What is read and asked of a few before it when their round is over, once all were looked at: before that it
        would be read again. Points against each other are asked about in pairs, when both were visited."""
        if not self._looked_at or self._plan.against:
            return
        few, self._unread = self._unread[:_FEW], self._unread[_FEW:]
        self._judge.read(few)
        for point in {told.point for told in few}:
            self.visits_wanted(point)

    def look(self) -> bool:
        """At all that was seen, whenever there is so much more of it. Whether it did: what points want is then asked
        anew."""
        seen = sum(map(len, self._seen.values()))
        if seen < _LOOKED_AGAIN * self._looked_at:
            return False
        self._looked_at = seen
        self._judge.look([told for several in self._seen.values() for told in several])
        self._wanted.clear()
        return True

    def visits_wanted(self, point: Point) -> float:
        """In all. Asked when there are as many visits as it wanted, or a fifth more than when it was asked: between
        rounds there are hundreds of points to ask about."""
        seen, known = self._seen.get(point, []), self._wanted.get(point)
        if known is None or len(seen) >= known.again:
            visits = self._asked_for(point, seen)
            again = max(len(seen) + 1, min(visits, ASKED_AGAIN * len(seen)))
            known = self._wanted[point] = _Wanted(visits, again)
        return known.visits

    def _asked_for(self, point: Point, seen: Sequence[Outcome]) -> float:
        """A point that others stand against is wanted for as long as they are."""
        other = self._plan.against.get(point)
        if other:
            return self._judge.visits_wanted_against([*seen, *self._seen.get(other, ())], (point, other))
        if self._plan.against:
            return max(self.visits_wanted(one) for one, last in self._plan.against.items() if last == point)
        return self._judge.visits_wanted(seen, self._plan.probes[point.probe])
