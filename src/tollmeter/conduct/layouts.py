# SPDX-License-Identifier: Apache-2.0
"""Which layout the next visit of a point uses, and the order of a round's visits."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from tollmeter.model import Point

_MOST_OVERTAKEN = 16
"""Visits that are made before one whose layout must be set up first."""

_Place = tuple[Point, tuple[int, ...]]


class Layout(NamedTuple):
    """Of one point on some CPUs: which one, of which round, and how many visits it has served."""

    number: int = 0
    round: int = 0
    served: int = 0


class Layouts:
    """Of all points of a run."""

    def __init__(self) -> None:
        self._now: dict[_Place, Layout] = {}

    def next(self, place: _Place, round_: int, serves: int, *, has_ended: bool) -> Layout:
        """The layout of the placement's next visit, with the number of visits that it has served. serves: visits that
        one layout serves in all; it serves more in the round that it was made for. has_ended: whether the process of
        the last visit has ended."""
        last = self._now.get(place, Layout(round=round_))
        is_over = (has_ended and last.served > 0) or (last.round != round_ and last.served >= serves)
        return Layout(last.number + 1, round_) if is_over else last

    def serve(self, place: _Place, layout: Layout) -> None:
        """One more visit."""
        self._now[place] = layout._replace(served=layout.served + 1)


class RoundOrder:
    """The order of one round's visits: ready set-ups first. A slow point that is not ready when all others are done
    comes last, or, if it is in may_wait, is `left` for the next round."""

    def __init__(self, order: Iterable[Point], slow: Container[Point] = (), may_wait: Container[Point] = ()) -> None:
        self._slow, self._others = deque[Point](), deque[Point]()
        self._overtaken = 0
        for point in order:
            (self._slow if point in slow else self._others).append(point)
        self._may_wait = may_wait if self._others else ()
        self.left: list[Point] = []

    def each(self, is_ready: Callable[[Point], bool]) -> Iterator[Point]:
        """is_ready: whether its layout waits for it; asked before each visit, of the next slow one and some others."""
        while self._slow or self._others:
            if not self._others and self._slow[0] in self._may_wait and not is_ready(self._slow[0]):
                self.left.append(self._slow.popleft())
            else:
                yield self._next(is_ready)

    def _next(self, is_ready: Callable[[Point], bool]) -> Point:
        """Of the others the first that is ready, of a few; if none is, the first has to be waited for."""
        if self._slow and (not self._others or is_ready(self._slow[0])):
            return self._slow.popleft()
        few = itertools.islice(self._others, 1 + _MOST_OVERTAKEN - self._overtaken)
        place = next((place for place, point in enumerate(few) if is_ready(point)), 0)
        self._overtaken = self._overtaken + 1 if place else 0
        point = self._others[place]
        del self._others[place]
        return point
