# SPDX-License-Identifier: Apache-2.0
"""A curve over size as points with noise: its monotone fit, and its flat pieces by dynamic programming.

Sizes in bytes, values in the unit they come in.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

import numpy as np
from scipy.optimize import isotonic_regression

from tollmeter.analysis.stats import Array
from tollmeter.model import Record

MOST_SEGMENTS = 9
RELATIVE_NOISE = 0.02


class Curve(Record, frozen=True):
    """Latency over size. noise: relative standard error of each value, which so many visits gave."""

    sizes: Array
    values: Array
    noise: Array
    visits: int


def curve(
    sizes: Sequence[float], values: Sequence[float], noise: Sequence[float] | None = None, visits: int = 4
) -> Curve:
    """Orders the points by size.

    noise: relative standard errors. A few visits tell a point's noise badly, so a point has that of all points
    unless its own is more than twice as large, and none has less than 2 %.
    """
    order = np.argsort(np.asarray(sizes, float), kind="stable")
    own = np.zeros(len(order)) if noise is None else np.asarray(noise, float)
    usual = max(float(np.median(own)) if len(own) else 0.0, RELATIVE_NOISE)
    return Curve(
        sizes=np.asarray(sizes, float)[order],
        values=np.asarray(values, float)[order],
        noise=np.maximum(own / 2, usual)[order],
        visits=visits,
    )


def monotone(points: Curve) -> Array:
    """The nearest values in log that never fall (Barlow et al. 1972), weighted by their noise."""
    fitted = isotonic_regression(np.log(points.values), weights=1 / points.noise**2)
    return np.asarray(np.exp(fitted.x))


def segments(points: Curve) -> tuple[int, ...]:
    """Where each flat piece of the monotone fit begins: least squares on log latency, as many pieces as BIC allows.

    Exact, by dynamic programming over all places of all cuts (Bellman and Roth 1969).
    """
    logs, weights = np.log(monotone(points)), 1 / points.noise**2
    cost = _piece_costs(logs, weights)
    count = len(logs)
    best = [cost[0]]
    cuts: list[Array] = []
    for _ in range(1, min(MOST_SEGMENTS, count)):
        through = best[-1][:-1, None] + cost[1:, :]
        cuts.append(np.argmin(through, axis=0) + 1)
        best.append(np.min(through, axis=0))
    scores = [bic(float(row[-1]), count, 2 * pieces + 1) for pieces, row in enumerate(best)]
    return _starts(cuts, int(np.argmin(scores)), count)


def _piece_costs(logs: Array, weights: Array) -> Array:
    """Weighted squares of the piece from i to j about its mean; infinite where j < i."""
    zero = np.zeros(1)
    weight, first, second = (
        np.concatenate([zero, np.cumsum(term)]) for term in (weights, weights * logs, weights * logs**2)
    )
    total, linear, square = (part[None, 1:] - part[:-1, None] for part in (weight, first, second))
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.maximum(square - linear**2 / total, 0)
    return np.asarray(np.where(np.tri(len(logs), k=-1, dtype=bool), inf, cost))


def _starts(cuts: Sequence[Array], pieces_less_one: int, count: int) -> tuple[int, ...]:
    starts: list[int] = []
    end = count - 1
    for piece in range(pieces_less_one, 0, -1):
        start = int(cuts[piece - 1][end])
        starts.append(start)
        end = start - 1
    return (0, *reversed(starts))


def bic(squares: float, count: int, parameters: int) -> float:
    """Bayesian information criterion (Schwarz 1978); less is better.

    squares are in units of the noise, which is known up to a factor that is at least one.
    """
    return count * log(max(squares / count, 1.0)) + min(squares, count) + parameters * log(count)
