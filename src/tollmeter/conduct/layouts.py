# SPDX-License-Identifier: Apache-2.0
"""Which layout the next visit of a point uses, and how many visits a round makes at once.

A layout stays in memory between visits, but a large one only until others need its memory: by the next round it is
mostly gone, and to set up another takes as long as ten visits. So a round makes all visits of a large layout while it
exists, two points interleaved."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from tollmeter.model import Point

_INTERLEAVED = 2
"""Large points whose visits are interleaved: this many fit together into the memory that all large layouts may hold
(targets/residents.py), and visits of one point are a moment apart."""

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
    """The order of one round's visits, each point as often as `times` states.

    Repeated visits of a point are interleaved with the next points, A b A c A d, or with another repeated point, A B A
    B; no third point begins before these two are done. A slow set-up is visited as soon as it is ready, and of the
    others those that are ready come first. A slow point that is not ready when all others are done comes last, or, if
    it is in may_wait, is `left`: points of the next round are visited during its set-up."""

    def __init__(
        self,
        order: Iterable[Point],
        times: Mapping[Point, int],
        slow: Container[Point] = (),
        may_wait: Container[Point] = (),
    ) -> None:
        self._times = times
        self._slow, self._others = deque[Point](), deque[Point]()
        self._again: deque[tuple[Point, int]] = deque()
        self._begun, self._overtaken = 0, 0
        for point in order:
            (self._slow if point in slow else self._others).append(point)
        self._may_wait = may_wait if self._others else ()
        self.left: list[Point] = []

    def each(self, is_ready: Callable[[Point], bool]) -> Iterator[Point]:
        """is_ready: whether its layout waits for it; asked before each visit, of the next slow one and some others."""
        while self._slow or self._others:
            if not self._others and self._slow[0] in self._may_wait and not is_ready(self._slow[0]):
                self.left.append(self._slow.popleft())
                continue
            point = self._next(is_ready)
            if self._times[point] > 1 and self._begun == _INTERLEAVED:
                yield from self._rest()
            yield point
            if self._times[point] > 1:
                self._again.append((point, self._times[point] - 1))
                self._begun += 1
            elif self._again:
                yield self._once_more()
        yield from self._rest()

    def _rest(self) -> Iterator[Point]:
        """Of what has begun."""
        while self._again:
            yield self._once_more()

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

    def _once_more(self) -> Point:
        point, left = self._again.popleft()
        if left > 1:
            self._again.append((point, left - 1))
        elif not self._again:
            self._begun = 0
        return point
