# SPDX-License-Identifier: Apache-2.0
"""A series that is flat, jumps, and is flat again: where it jumps, by least squares with known errors.

As many jumps as the Bayesian information criterion allows. What is fitted only ever rises: that is what caches and
buffers do that overflow."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf, log

import numpy as np

from tollmeter.model import Record
from tollmeter.numbers.stats import Array

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
    cost = piece_costs(level, weight)
    cuts = best_cuts(cost, most + 1)
    scale = max(min(cut.squares for cut in cuts) / max(len(level) - 2 * len(cuts), 1), 1.0)
    rising = [cut for cut in cuts if _rises(level, weight, cut.starts)]
    best = min(rising, key=lambda cut: cut.squares / scale + 2 * len(cut.starts) * log(max(len(level), 2)))
    ends = [0, *best.starts, len(level)]
    return tuple(_jump(level, weight, cost, ends[place : place + 3], scale) for place in range(len(best.starts)))


def _mean(level: Array, weight: Array, start: int, end: int) -> float:
    return float(np.average(level[start:end], weights=weight[start:end]))


def _rises(level: Array, weight: Array, cuts: Sequence[int]) -> bool:
    means = [_mean(level, weight, start, end) for start, end in pairwise([0, *cuts, len(level)])]
    return all(before < after for before, after in pairwise(means))


def _jump(level: Array, weight: Array, cost: Array, ends: Sequence[int], scale: float) -> Jump:
    """One jump between its neighbours' places, with the places that are nearly as likely."""
    first, at, end = ends
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


# ---- flat pieces -----------------------------------------------------------------------------------------------------

# A series cut into flat pieces by weighted least squares, exactly, for every number of pieces.
#
# Dynamic programming over all places of all cuts (Bellman and Roth 1969). The caller chooses the number of pieces,
# since it knows the cost of a cut.


class Pieces(Record, frozen=True):
    """squares: what is left about the pieces' means. starts: where each piece but the first begins."""

    squares: float
    starts: tuple[int, ...]


def piece_costs(values: Array, weights: Array) -> Array:
    """Weighted squares of the piece i..j about its mean; infinite where j < i."""
    sums = [np.concatenate([[0.0], np.cumsum(term)]) for term in (weights, weights * values, weights * values**2)]
    total, linear, square = (part[None, 1:] - part[:-1, None] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.maximum(square - linear**2 / total, 0)
    return np.asarray(np.where(np.tri(len(values), k=-1, dtype=bool), inf, cost))


def best_cuts(cost: Array, most: int) -> list[Pieces]:
    """The best cut into one piece, two, and so on up to `most`, or as many as there are values."""
    best = cost[0]
    back: list[Array] = []
    cuts = [Pieces(squares=float(best[-1]), starts=())]
    for _ in range(1, min(most, len(cost))):
        through = best[:-1, None] + cost[1:, :]
        back.append(np.argmin(through, axis=0) + 1)
        best = np.min(through, axis=0)
        cuts.append(Pieces(squares=float(best[-1]), starts=_starts(back)))
    return cuts


def _starts(back: Sequence[Array]) -> tuple[int, ...]:
    """Back from the last place through the best place of each cut before it."""
    end, starts = len(back[0]), []
    for choice in reversed(back):
        starts.append(int(choice[end - 1]))
        end = starts[-1]
    return tuple(reversed(starts))
