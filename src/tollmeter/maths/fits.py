# SPDX-License-Identifier: Apache-2.0
"""Computes least squares with bounds and with an order, for dozens of observations and few unknowns; and change
points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tollmeter.maths.distributions import NORMAL, student_reach

Array = NDArray[np.float64]

_EXACT = 1e-11
"""Rounding error of a slope, as a share of the lengths of the vectors from which it is computed."""
_TURNS_EACH = 10


def bounded(terms: Array, target: Array, low: Sequence[float], high: Sequence[float]) -> Array:
    """Returns the unknowns x with low <= x <= high that minimise |terms x - target| (Stark and Parker 1995).

    Some unknowns are free, and all others are at a bound. The method solves for the free unknowns. If one would leave
    its bounds, it is fixed at the bound that it meets first. If none does, the unknown whose bound increases the error
    most becomes free."""
    least, most = np.asarray(low, float), np.asarray(high, float)
    lengths = np.linalg.norm(terms, axis=0) * np.linalg.norm(target)
    solution: Array = np.clip(np.linalg.lstsq(terms, target, rcond=None)[0], least, most)
    free = (solution > least) & (solution < most)
    for _ in range(_TURNS_EACH * len(solution)):
        solution, free = _settled(terms, target, (least, most), solution, free)
        slope = terms.T @ (target - terms @ solution)
        gain = np.where(free, 0.0, np.where(solution <= least, slope, -slope))
        gain[(least == most) | (gain <= _EXACT * lengths)] = 0.0
        if not gain.any():
            break
        free[int(np.argmax(gain))] = True
    return solution


def _settled(
    terms: Array, target: Array, bounds: tuple[Array, Array], start: Array, free: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """Returns the solution for the free unknowns, and which are still free: those that meet a bound on the way from
    `start` to the solution are fixed there."""
    least, most = bounds
    start, free = start.copy(), free.copy()
    while free.any():
        rest = target - terms[:, ~free] @ start[~free]
        aim = start.copy()
        aim[free] = np.linalg.lstsq(terms[:, free], rest, rcond=None)[0]
        met = np.where(aim < least, least, np.where(aim > most, most, np.nan))
        if np.isnan(met).all():
            return aim, free
        shares = (met - start) / np.where(aim == start, 1.0, aim - start)
        share = float(np.nanmin(shares))
        stopped = shares <= share
        start = np.where(stopped, met, start + share * (aim - start))
        free &= ~stopped
    return start, free


def not_negative(terms: Array, target: Array) -> Array:
    """Returns the unknowns, none below zero, that minimise |terms x - target|."""
    count = terms.shape[1]
    return bounded(terms, target, [0.0] * count, [np.inf] * count)


def nearest_rising(values: Sequence[float] | Array, weights: Sequence[float] | Array | None = None) -> Array:
    """Returns the nearest values that never fall, by weighted least squares: neighbours out of order get their common
    mean (Barlow et al. 1972)."""
    pools: list[tuple[float, float, int]] = []
    given = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    for value, weight in zip(map(float, values), map(float, given), strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] >= mean:
            before, weight_before, count_before = pools.pop()
            mean = (before * weight_before + mean * total) / (weight_before + total)
            total, count = weight_before + total, count_before + count
        pools.append((mean, total, count))
    return np.repeat([mean for mean, _, _ in pools], [count for _, _, count in pools])


def line_slope(places: Sequence[float], values: Sequence[float], errors: Sequence[float]) -> tuple[float, float]:
    """Returns the slope of the straight line by weighted least squares, and half of its 95 % interval. errors: standard
    errors, above zero. If the values are further from the line than their errors, the interval is widened in
    proportion."""
    x, y, weights = np.asarray(places, float), np.asarray(values, float), np.asarray(errors, float) ** -2
    x = x - np.average(x, weights=weights)
    spread = float((weights * x * x).sum())
    rise = float((weights * x * y).sum()) / spread
    freedom = len(x) - 2
    if not freedom:
        return rise, NORMAL * spread**-0.5
    rest = y - np.average(y, weights=weights) - rise * x
    misfit = max(1.0, float((weights * rest * rest).sum()) / freedom)
    return rise, student_reach(freedom) * (misfit / spread) ** 0.5


# ---- change points ---------------------------------------------------------------------------------------------------

# Finds the change points of a series of values with errors, where its level changes; single outliers are no levels.
#
# Optimal partitioning (Jackson et al. 2005) with a bounded loss (Fearnhead and Rigaill 2019): the squared distance from
# the level in standard errors, at most `_MOST_LOSS`, so that outliers do not make levels. Only the values themselves
# are candidates for levels, at most some hundred, so the optimum is a path through a table of values and levels.

PENALTY = 15.0
"""Loss that a change point must save. Of modelled series of 20 to 100 values without a change, fewer than 1 in 100 have
one (bench/changes.py)."""
_MOST_LOSS = 0.75 * PENALTY
"""Largest loss of one value. It is below the penalty: a single value at the end makes no level, and two values do;
between two changes, three values do."""
_APART = 1 / 64
"""Smallest distance in standard errors between candidate levels: with one level for each of 10,000 values, the search
took 10 s and 2.4 GB."""
_QUANTILE, _NORMAL_QUANTILE = 0.8, 1.2815516
"""Quantile of the distances of neighbours by which scatter is estimated, since a change and some outliers do not affect
it; and the same quantile for normal values."""
_LEAST_FOR_SCATTER = 5


def change_points(values: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Returns the indices of the first value of each level after the first level. errors: standard errors, above
    zero."""
    if len(values) < 2:
        return []
    all_values = np.asarray(values, float)
    spread = np.asarray(errors, float) * scatter(values, errors)
    levels = np.unique(all_values)
    levels = levels[np.unique(np.floor(levels / (_APART * np.median(spread))), return_index=True)[1]]
    losses = (
        np.minimum(((value - levels) / error) ** 2, _MOST_LOSS) for value, error in zip(all_values, spread, strict=True)
    )
    cost, starts = next(losses), []
    for loss in losses:
        best = int(np.argmin(cost))
        starts.append((cost > cost[best] + PENALTY, best))
        cost = np.minimum(cost, cost[best] + PENALTY) + loss
    at, places = int(np.argmin(cost)), []
    for place in range(len(starts), 0, -1):  # back from the last value's level
        begins, before = starts[place - 1]
        if begins[at]:
            places.append(place)
            at = before
    return places[::-1]


def scatter(values: Sequence[float], errors: Sequence[float]) -> float:
    """Returns the scatter of the values in multiples of their errors, from the distances of neighbours; at least 1."""
    all_values, standard_errors = np.asarray(values, float), np.asarray(errors, float)
    if len(all_values) < _LEAST_FOR_SCATTER:
        return 1.0
    distances = np.abs(np.diff(all_values)) / np.hypot(standard_errors[1:], standard_errors[:-1])
    return max(1.0, float(np.quantile(distances, _QUANTILE)) / _NORMAL_QUANTILE)


def level(values: Sequence[float], errors: Sequence[float], scattered: float) -> tuple[float, float]:
    """Returns the common level of the values and its standard error, without outliers. scattered: scatter in multiples
    of the errors, as `scatter` returns it for the whole series."""
    all_values, scaled_errors = np.asarray(values, float), np.asarray(errors, float) * scattered
    losses = np.minimum(((all_values[:, None] - all_values[None, :]) / scaled_errors[:, None]) ** 2, _MOST_LOSS).sum(
        axis=0
    )
    near = np.abs(all_values - all_values[int(np.argmin(losses))]) <= scaled_errors * _MOST_LOSS**0.5
    weights = np.where(near, scaled_errors**-2, 0.0)
    return float((all_values * weights).sum() / weights.sum()), float(weights.sum() ** -0.5)
