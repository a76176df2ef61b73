# SPDX-License-Identifier: Apache-2.0
"""A curve over size as points with noise: its monotone fit, and its flat pieces.

Sizes in bytes, values in the unit they come in."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np

from tollmeter.inference.steps import best_cuts, piece_costs
from tollmeter.maths.fits import nearest_rising
from tollmeter.model import Record
from tollmeter.numbers.stats import Array

MOST_SEGMENTS = 9
RELATIVE_NOISE = 0.02


class NoisyCurve(Record, frozen=True):
    """Latency over size. noise: relative standard error of each value, which so many visits gave."""

    sizes: Array
    values: Array
    noise: Array
    visits: int


def curve(
    sizes: Sequence[float], values: Sequence[float], noise: Sequence[float] | None = None, visits: int = 4
) -> NoisyCurve:
    """Orders the points by size.

    noise: relative standard errors. A few visits estimate a point's noise badly, so a point has the noise of all points
    unless its own is more than twice as large, and none has less than 2 %."""
    order = np.argsort(np.asarray(sizes, float), kind="stable")
    own = np.zeros(len(order)) if noise is None else np.asarray(noise, float)
    usual = max(float(np.median(own)) if len(own) else 0.0, RELATIVE_NOISE)
    return NoisyCurve(
        sizes=np.asarray(sizes, float)[order],
        values=np.asarray(values, float)[order],
        noise=np.maximum(own / 2, usual)[order],
        visits=visits,
    )


def monotone(points: NoisyCurve) -> Array:
    """The nearest values in log that never fall (Barlow et al. 1972), weighted by their noise."""
    return np.asarray(np.exp(nearest_rising(np.log(points.values), 1 / points.noise**2)))


def segments(points: NoisyCurve) -> tuple[int, ...]:
    """Where each flat piece of the monotone fit begins: least squares on log latency, as many pieces as BIC allows."""
    cuts = best_cuts(piece_costs(np.log(monotone(points)), 1 / points.noise**2), MOST_SEGMENTS)
    best = min(cuts, key=lambda cut: bic(cut.squares, len(points.sizes), 2 * len(cut.starts) + 1))
    return (0, *best.starts)


def bic(squares: float, count: int, parameters: int) -> float:
    """Bayesian information criterion (Schwarz 1978); less is better.

    squares are in units of the noise, which is known up to a factor that is at least one."""
    return count * log(max(squares / count, 1.0)) + min(squares, count) + parameters * log(count)
