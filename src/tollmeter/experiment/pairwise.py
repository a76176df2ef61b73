# SPDX-License-Identifier: Apache-2.0
"""The middle of all pairs without writing the pairs out: of forty thousand visits there are eight hundred million."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_MOST_WRITTEN = 8
"""Candidates for each value: as many are sorted, and more are narrowed down."""


def middle_of_pairs(values: Array, sign: int, least: int) -> float:
    """Median of x[j] + sign * x[i] over all j >= i + least of the ordered values; there must be one such pair. Sums for
    sign 1; for sign -1 distances."""
    ordered = np.sort(values)
    return middle_of_sums(ordered, sign * ordered, np.arange(len(ordered)) + least)


def middle_of_sums(ordered: Array, own: Array, starts: NDArray[np.intp]) -> float:
    """Median of all sums ordered[j] + own[i], j from starts[i]."""
    total = int((len(ordered) - starts).sum())
    lower, upper = _from_rank(ordered, own, starts, (total - 1) // 2)
    return lower if total % 2 else (lower + upper) / 2


def of_rank(ordered: Array, own: Array, starts: NDArray[np.intp], rank: int) -> float:
    """Of all sums ordered[j] + own[i], j from starts[i], the one before which `rank` others come."""
    return _from_rank(ordered, own, starts, rank)[0]


def _from_rank(ordered: Array, own: Array, starts: NDArray[np.intp], rank: int) -> tuple[float, float]:
    """That and the next one: a reach of values is halved until few pairs are left in it."""
    low, below = float(ordered[0] + own.min()) - 1.0, starts
    high = float(ordered[-1] + own.max())
    upto = np.full(len(own), len(ordered))
    while (upto - below).sum() > _MOST_WRITTEN * (len(ordered) + len(own)):
        middle = low + (high - low) / 2
        if not low < middle < high:
            left = np.broadcast_to(high, int((upto - below).sum()))  # equal values have any number of equal sums
            break
        inside = np.maximum(np.searchsorted(ordered, middle - own, side="right"), starts)
        if (inside - starts).sum() > rank:
            high, upto = middle, inside
        else:
            low, below = middle, inside
    else:
        lengths = upto - below
        first = np.repeat(np.arange(len(own)), lengths)
        second = np.arange(len(first)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(below, lengths)
        left = np.sort(ordered[second] + own[first])
    place = min(rank - int((below - starts).sum()), len(left) - 1)
    if place + 1 < len(left):
        return float(left[place]), float(left[place + 1])
    beyond = upto < len(ordered)
    return float(left[place]), float((ordered[upto[beyond]] + own[beyond]).min(initial=np.inf))
