# SPDX-License-Identifier: Apache-2.0
"""Least squares with bounds, and with an order: for some dozens of observations and a few unknowns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_EXACT = 1e-11
"""What is left of a slope after rounding, as a share of the lengths that it is made of."""
_TURNS_EACH = 10


def bounded(terms: Array, wanted: Array, low: Sequence[float], high: Sequence[float]) -> Array:
    """The unknowns x with low <= x <= high that make |terms x - wanted| least (Stark and Parker 1995).

    A set of unknowns is free, all others are at a bound. The free ones are solved for; one that would leave its bounds
    is held at the bound that it meets first. Once none does, the unknown whose bound holds back most is set free."""
    least, most = np.asarray(low, float), np.asarray(high, float)
    lengths = np.linalg.norm(terms, axis=0) * np.linalg.norm(wanted)
    solution: Array = np.clip(np.linalg.lstsq(terms, wanted, rcond=None)[0], least, most)
    free = (solution > least) & (solution < most)
    for _ in range(_TURNS_EACH * len(solution)):
        solution, free = _settled(terms, wanted, (least, most), solution, free)
        slope = terms.T @ (wanted - terms @ solution)
        gain = np.where(free, 0.0, np.where(solution <= least, slope, -slope))
        gain[(least == most) | (gain <= _EXACT * lengths)] = 0.0
        if not gain.any():
            break
        free[int(np.argmax(gain))] = True
    return solution


def _settled(
    terms: Array, wanted: Array, bounds: tuple[Array, Array], start: Array, free: NDArray[np.bool_]
) -> tuple[Array, NDArray[np.bool_]]:
    """The solution of the free unknowns, less those that meet a bound on the way from `found` to it."""
    least, most = bounds
    start, free = start.copy(), free.copy()
    while free.any():
        rest = wanted - terms[:, ~free] @ start[~free]
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


def not_negative(terms: Array, wanted: Array) -> Array:
    """The unknowns, none below zero, that make |terms x - wanted| least."""
    count = terms.shape[1]
    return bounded(terms, wanted, [0.0] * count, [np.inf] * count)


def nearest_rising(values: Sequence[float] | Array, weights: Sequence[float] | Array | None = None) -> Array:
    """The nearest values that never fall, by weighted least squares: violators are pooled (Barlow et al. 1972)."""
    pools: list[tuple[float, float, int]] = []
    given = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    for value, weight in zip(map(float, values), map(float, given), strict=True):
        mean, total, count = value, weight, 1
        while pools and pools[-1][0] >= mean:
            before, own, several = pools.pop()
            mean = (before * own + mean * total) / (own + total)
            total, count = own + total, several + count
        pools.append((mean, total, count))
    return np.repeat([mean for mean, _, _ in pools], [count for _, _, count in pools])
