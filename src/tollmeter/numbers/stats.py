# SPDX-License-Identifier: Apache-2.0
"""Robust descriptions of values that have long tails to the right. Pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.precision import Estimate, middle_of_sums, middles_of, of_rank

__all__ = ["Array", "Estimate", "benjamini_hochberg", "hodges_lehmann_ratio", "modes", "quartiles"]

Array = NDArray[np.float64]

LEAST_FOR_MODES = 12
EXACT_PAIRS = 2500


def quartiles(values: Sequence[float] | Array) -> tuple[float, float]:
    """Lower and upper quartile, by linear interpolation."""
    lower, upper = np.percentile(np.asarray(values, dtype=float), [25, 75])
    return float(lower), float(upper)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for the false discovery rate: for each the least rate at which it counts as a discovery
    (Benjamini and Hochberg 1995)."""
    order = np.argsort(p_values)[::-1]
    ranks = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum.accumulate(np.asarray(p_values, dtype=float)[order] * len(p_values) / ranks)
    return [float(p_value) for p_value in np.minimum(adjusted, 1.0)]


def modes(visits: Sequence[Sequence[float] | Array] | Array) -> tuple[float, ...]:
    """The medians of two modes, lower first, or nothing where one mode explains the values.

    Visits differ from each other, and three visits with little spread inside look like modes. So two modes are seen
    only where two visits (or the only one) took both, or where the visits' medians fall into two modes themselves.
    """
    filled = [visit for visit in visits if len(visit)]
    if not filled:
        return ()
    values, counts = np.concatenate(filled).astype(float), np.array([*map(len, filled)])
    pair = _two_modes(values)
    if not pair or _visits_with_both(values, counts, pair) >= min(2, len(filled)):
        return pair
    return _two_modes(middles_of(values, counts))


def _two_modes(values: Array) -> tuple[float, ...]:
    """The best cut in two (least squares on logarithms), where it is one.

    Each part holds 15 % of the values and five of them, the parts are 5 % apart, they stand further apart than those
    of a cut uniform distribution (its Ashman's D is 3.5, and scatters more the fewer the values), and the middle third
    between them is nearly empty.
    """
    ordered = np.sort(values)
    if len(ordered) < LEAST_FOR_MODES or ordered[0] <= 0:
        return ()
    logs = np.log(ordered)
    cut = _best_cut(logs)
    lower, upper = logs[:cut], logs[cut:]
    if min(len(lower), len(upper)) < max(5, 0.15 * len(logs)):
        return ()
    left, right = float(np.median(lower)), float(np.median(upper))
    apart = _ashman(lower, upper) >= 4 + 60 / len(logs)
    return (exp(left), exp(right)) if apart and right - left > log(1.05) and _valley(logs, left, right) < 0.25 else ()


def _visits_with_both(values: Array, counts: NDArray[np.int64], pair: tuple[float, ...]) -> int:
    """How many visits hold at least 10 % of their values on either side of the middle between two modes. counts: values
    of each."""
    above = values > sqrt(pair[0] * pair[1])
    shares = np.add.reduceat(above, np.cumsum(counts) - counts, dtype=np.int64) / counts
    return int(((shares >= 0.1) & (shares <= 0.9)).sum())


def _best_cut(ordered: Array) -> int:
    """Where to cut ordered values in two so that the squares within both parts are least."""
    count = np.arange(1, len(ordered))
    sums = np.cumsum(ordered)[:-1]
    between = sums**2 / count + (ordered.sum() - sums) ** 2 / (len(ordered) - count)
    return int(np.argmax(between)) + 1


def _ashman(lower: Array, upper: Array) -> float:
    """Distance of two parts in units of their spread (Ashman, Bird and Zepf 1994)."""
    spread = sqrt(float(lower.var(ddof=1) + upper.var(ddof=1)))
    return inf if spread == 0 else sqrt(2) * float(upper.mean() - lower.mean()) / spread


def _valley(ordered: Array, left: float, right: float) -> float:
    """Values in the middle third between two places, as a share of what an even spread of the smaller part gives."""
    third = (right - left) / 3
    inside = int(((ordered > left + third) & (ordered < right - third)).sum())
    smaller = min(int((ordered <= left + third).sum()), int((ordered >= right - third).sum()))
    return inside / max(smaller, 1)


def hodges_lehmann_ratio(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """Median of all ratios new/old, with the 95 % interval that the Mann-Whitney statistic gives (Lehmann 1963).

    Positive values only. Where there are too few values for 95 % (fewer than four against four), the interval is
    everything: 0 to infinity.
    """
    pairs, skipped = len(old) * len(new), _ranks_outside(len(old), len(new))
    ordered, own = np.sort(np.log(np.asarray(new, float))), -np.log(np.asarray(old, float))
    starts = np.zeros(len(own), dtype=np.intp)
    value = exp(middle_of_sums(ordered, own, starts))
    if skipped < 0:
        return Estimate(value=value, low=0.0, high=inf)
    low, high = (of_rank(ordered, own, starts, rank) for rank in (skipped, pairs - 1 - skipped))
    return Estimate(value=value, low=exp(low), high=exp(high))


@lru_cache(maxsize=1024)
def _ranks_outside(first: int, second: int) -> int:
    """How many of the least pairwise differences lie outside a 95 % interval; -1 where even all are too few."""
    if first * second > EXACT_PAIRS:
        spread = sqrt(first * second * (first + second + 1) / 12)
        return max(int(first * second / 2 - 1.96 * spread), 0)
    chances = _u_distribution(first, second)
    return int(np.searchsorted(np.cumsum(chances), 0.025, side="right")) - 1


@lru_cache(maxsize=256)
def _u_distribution(first: int, second: int) -> Array:
    """Chance of each value 0..first*second of the Mann-Whitney statistic where nothing differs.

    The counts are the coefficients of the Gaussian binomial: product over i of (1 - q^(second+i)) / (1 - q^i).
    """
    counts = np.zeros(first * second + 1)
    counts[0] = 1
    for i in range(1, first + 1):
        shift = second + i
        if shift < len(counts):
            counts[shift:] -= counts[:-shift].copy()
        for place in range(i, len(counts)):
            counts[place] += counts[place - i]
    return np.asarray(counts / counts.sum())
