# SPDX-License-Identifier: Apache-2.0
"""A series that is flat, jumps, and is flat again: where it jumps, by least squares with known errors.

Exact for every number of jumps, by dynamic programming over all places (Bellman and Roth 1969); as many jumps as the
Bayesian information criterion allows. What is fitted only ever rises: that is what caches and buffers do that overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, log

import numpy as np

from tollmeter.analysis.stats import Array
from tollmeter.model import Record

CHI_SQUARE_95 = 3.84


class Jump(Record, frozen=True):
    """The series rises between places at-1 and at; between low-1 and low at the earliest, high-1 and high at the latest
    (95 %). before and after: the levels on its two sides."""

    at: int
    low: int
    high: int
    before: float
    after: float


def jumps(values: Sequence[float], errors: Sequence[float], most: int = 4) -> tuple[Jump, ...]:
    """values in order of their axis, with standard errors. Scatter beyond the errors widens them."""
    if not len(values):
        return ()
    level, weight = np.asarray(values, float), 1 / np.asarray(errors, float) ** 2
    cost = _costs(level, weight)
    fits = [_cuts(cost, pieces) for pieces in range(1, min(most + 1, len(level)) + 1)]
    scale = max(min(squares for squares, _ in fits) / max(len(level) - 2 * len(fits), 1), 1.0)
    rising = [(squares, cuts) for squares, cuts in fits if _rises(level, weight, cuts)]
    _, starts = min(rising, key=lambda fit: fit[0] / scale + 2 * len(fit[1]) * log(max(len(level), 2)))
    bounds = [0, *starts, len(level)]
    return tuple(_jump(level, weight, cost, bounds[place : place + 3], scale) for place in range(len(starts)))


def _costs(level: Array, weight: Array) -> Array:
    """Weighted squares of the piece i..j about its mean; infinite where j < i."""
    sums = [np.concatenate([[0.0], np.cumsum(term)]) for term in (weight, weight * level, weight * level**2)]
    total, linear, square = (part[None, 1:] - part[:-1, None] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.maximum(square - linear**2 / total, 0)
    return np.asarray(np.where(np.tri(len(level), k=-1, dtype=bool), inf, cost))


def _cuts(cost: Array, pieces: int) -> tuple[float, tuple[int, ...]]:
    """The least squares of so many pieces, and where each but the first begins."""
    best = cost[0]
    back = []
    for _ in range(1, pieces):
        through = best[:-1, None] + cost[1:, :]
        back.append(np.argmin(through, axis=0) + 1)
        best = np.min(through, axis=0)
    end, starts = len(cost) - 1, []
    for choice in reversed(back):
        starts.append(int(choice[end]))
        end = starts[-1] - 1
    return float(best[-1]), tuple(reversed(starts))


def _mean(level: Array, weight: Array, start: int, end: int) -> float:
    return float(np.average(level[start:end], weights=weight[start:end]))


def _rises(level: Array, weight: Array, cuts: Sequence[int]) -> bool:
    means = [_mean(level, weight, start, end) for start, end in pairwise([0, *cuts, len(level)])]
    return all(before < after for before, after in pairwise(means))


def _jump(level: Array, weight: Array, cost: Array, bounds: Sequence[int], scale: float) -> Jump:
    """One jump between its neighbours' places, with the places that are nearly as likely."""
    first, at, end = bounds
    places = range(first + 1, end)
    squares = np.array([cost[first, place - 1] + cost[place, end - 1] for place in places])
    likely = np.flatnonzero(squares <= squares.min() + CHI_SQUARE_95 * scale)
    return Jump(
        at=at,
        low=places[int(likely[0])],
        high=places[int(likely[-1])],
        before=_mean(level, weight, first, at),
        after=_mean(level, weight, at, end),
    )
