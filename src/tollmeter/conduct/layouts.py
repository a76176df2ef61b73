# SPDX-License-Identifier: Apache-2.0
"""Which layout of a point the next visit is of, and how many visits a round makes at once.

A layout stays in memory between visits, but large ones only until others need their room: one that came again in the
next round would be laid out anew, which takes as long as ten visits. So a round makes all visits of a large layout
while it is there, two points in turns, and the next round has another one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tollmeter.model import Point

_IN_TURNS = 2
"""Large points that are visited in turns: so many fit side by side into what all large ones may hold together
(targets/local.py), and visits of one point are a moment apart."""

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

    def taken(self, place: _Place, round_: int, serves: int, *, one_round: bool) -> Layout:
        """The layout of a visit that is made now; it has served so many before. serves: how many it may in all.
        one_round: whether it will be gone by the next."""
        last = self._now.get(place, Layout(round=round_))
        if last.served >= serves or (one_round and last.round != round_):
            last = Layout(last.number + 1, round_)
        self._now[place] = last._replace(served=last.served + 1)
        return last


def in_bursts(points: Sequence[Point], times: Mapping[Point, int]) -> Iterator[Point]:
    """The points in their order, each as often as times says; neighbours that come several times in turns, A B A B."""
    for several, group in itertools.groupby(points, key=lambda point: times[point] > 1):
        listed = list(group)
        step = _IN_TURNS if several else len(listed)
        for first in range(0, len(listed), step):
            together = listed[first : first + step]
            for turn in range(max(times[point] for point in together)):
                yield from (point for point in together if turn < times[point])
