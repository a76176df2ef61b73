# SPDX-License-Identifier: Apache-2.0
"""Change points of a series of values with errors: where its level changes, and not where a single value is off.

Optimal partitioning (Jackson et al. 2005) with a bounded loss (Fearnhead and Rigaill 2019): the squared distance from
the level in standard errors, and never more than `_MOST_LOSS`, so that outliers do not make levels. The levels are
looked for among the values, which makes it a path through a table of values and levels, in quadratic time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

PENALTY = 15.0
"""Loss that a change point must save. Of modelled series of 20 to 100 values without a change less than 1 in 100 has
one (bench/changes.py)."""
_MOST_LOSS = 0.75 * PENALTY
"""Below the penalty: one value at the end makes no level, and two do; between two changes three do."""
_QUANTILE, _NORMAL_QUANTILE = 0.8, 1.2815516
"""Of the distances of neighbours, which a change and some outliers leave alone; and the same of normal values."""
_LEAST_FOR_SCATTER = 5


def change_points(values: Sequence[float], errors: Sequence[float]) -> list[int]:
    """Places of the first value of each level but the first. errors: standard errors, above zero."""
    if len(values) < 2:
        return []
    every = np.asarray(values, float)
    levels = np.unique(every)
    distances = (every[:, None] - levels[None, :]) / (np.asarray(errors, float) * scatter(values, errors))[:, None]
    losses = np.minimum(distances**2, _MOST_LOSS)
    cost, starts = losses[0], []
    for loss in losses[1:]:
        best = int(np.argmin(cost))
        starts.append((cost > cost[best] + PENALTY, best))
        cost = np.minimum(cost, cost[best] + PENALTY) + loss
    return _traced(starts, int(np.argmin(cost)))


def _traced(starts: Sequence[tuple[NDArray[np.bool_], int]], level: int) -> list[int]:
    """Back from the last value's level. starts: for each value but the first whether each of its levels begins with it,
    and the level before."""
    places = []
    for place in range(len(starts), 0, -1):
        begins, before = starts[place - 1]
        if begins[level]:
            places.append(place)
            level = before
    return places[::-1]


def scatter(values: Sequence[float], errors: Sequence[float]) -> float:
    """How many times their errors the values scatter, by the distances of neighbours; never below 1."""
    every, own = np.asarray(values, float), np.asarray(errors, float)
    if len(every) < _LEAST_FOR_SCATTER:
        return 1.0
    distances = np.abs(np.diff(every)) / np.hypot(own[1:], own[:-1])
    return max(1.0, float(np.quantile(distances, _QUANTILE)) / _NORMAL_QUANTILE)


def level(values: Sequence[float], errors: Sequence[float], scattered: float) -> tuple[float, float]:
    """The level that values share and its standard error, without outliers. scattered: as `scatter` of the series."""
    every, own = np.asarray(values, float), np.asarray(errors, float) * scattered
    losses = np.minimum(((every[:, None] - every[None, :]) / own[:, None]) ** 2, _MOST_LOSS).sum(axis=0)
    near = np.abs(every - every[int(np.argmin(losses))]) <= own * _MOST_LOSS**0.5
    weights = np.where(near, own**-2, 0.0)
    return float((every * weights).sum() / weights.sum()), float(weights.sum() ** -0.5)
