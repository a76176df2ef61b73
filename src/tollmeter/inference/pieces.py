# SPDX-License-Identifier: Apache-2.0
"""A series cut into flat pieces by weighted least squares, exactly, for every number of pieces.

Dynamic programming over all places of all cuts (Bellman and Roth 1969). The caller chooses the number of pieces, since
it knows the cost of a cut."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from tollmeter.model import Record
from tollmeter.numbers.stats import Array


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
