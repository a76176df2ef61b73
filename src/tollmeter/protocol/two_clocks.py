# SPDX-License-Identifier: Apache-2.0
"""The rate of one clock by another, from moments that the second clock saw late, each by an unknown delay.

A delay is never negative. So no moment lies below the line that joins the earliest ones: the edge, over their middle,
of the lower convex hull. This is the line below all moments with the least sum of distances to them (Moon, Skelly and
Towsley 1999 estimate the skew of two computers so, from one-way delays). A moment that came late, by however much, does
not move it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

Moment = tuple[int, int]
"""By the first clock, and by the second."""

_LEAST = 5
"""Moments in each half."""


class Rate(NamedTuple):
    """value: time of the second clock for one unit of the first. error: how far the rates of the first and of the
    second half of the moments are off it, as a share. It grows with the share of late moments, and where a clock runs
    unevenly."""

    value: float
    error: float


def rate(moments: Sequence[Moment]) -> Rate | None:
    """None where there are too few moments, or a clock stood still."""
    ordered = sorted(moments)
    half = len(ordered) // 2
    if half < _LEAST:
        return None
    whole, *halves = (_slope(part) for part in (ordered, ordered[:half], ordered[half:]))
    if not whole or None in halves:
        return None
    return Rate(whole, max(abs(each / whole - 1) for each in halves if each is not None))


def _slope(ordered: Sequence[Moment]) -> float | None:
    """Of the hull's edge over the middle."""
    count, total = len(ordered), sum(at for at, _ in ordered)
    hull = _lower_hull(ordered)
    for (at, seen), (next_at, next_seen) in pairwise(hull):
        if next_at * count >= total and next_at > at:
            return (next_seen - seen) / (next_at - at)
    return None


def _lower_hull(ordered: Sequence[Moment]) -> list[Moment]:
    """Andrew's monotone chain."""
    hull: list[Moment] = []
    for moment in ordered:
        while len(hull) > 1 and not _is_convex(hull[-2], hull[-1], moment):
            hull.pop()
        hull.append(moment)
    return hull


def _is_convex(first: Moment, middle: Moment, last: Moment) -> bool:
    return (middle[0] - first[0]) * (last[1] - first[1]) > (middle[1] - first[1]) * (last[0] - first[0])
