# SPDX-License-Identifier: Apache-2.0
"""Robust statistics of values with long right tails. All functions are pure and deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import ALIKE, LEAST_FOR_SCATTER, LEAST_SAMPLES, MOSTLY, SOME
from tollmeter.experiment.precision import Estimate, middle_of_sums, middles_of, of_rank
from tollmeter.maths.distributions import NORMAL

__all__ = ["Array", "Estimate", "benjamini_hochberg", "bimodal_split", "hodges_lehmann_ratio", "modes", "quartiles"]

Array = NDArray[np.float64]

LEAST_FOR_MODES = 2 * LEAST_FOR_SCATTER
EXACT_PAIRS = 2500
"""Number of pairs of values up to which ranks have their exact distribution; with more pairs it is nearly normal."""
_LEAST_SEEN = 2
_APART = log(1 + ALIKE)
_APART_OF_FEW = LEAST_SAMPLES * _APART
"""Smallest distance of two modes in logarithms: 10 %, and more for few batches; a quarter for six."""
_EMPTY, _EMPTY_OF_FEW = MOSTLY, 1.7
"""Share of the distance between two modes that must be empty: half, and more for few visits. For visits that scatter by
10 %, half alone called one in eight unimodal points of six visits bimodal, and three quarters one in fifty."""
_MIXED = 0.05
"""Highest share of batches in the empty part: the state may have changed during them."""


def quartiles(values: Sequence[float] | Array) -> tuple[float, float]:
    """Returns the lower and the upper quartile, by linear interpolation."""
    lower, upper = np.percentile(np.asarray(values, dtype=float), [25, 75])
    return float(lower), float(upper)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Returns the p-values adjusted for the false discovery rate: for each the lowest rate at which it counts as a
    discovery (Benjamini and Hochberg 1995)."""
    order = np.argsort(p_values)[::-1]
    ranks = np.arange(len(p_values), 0, -1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum.accumulate(np.asarray(p_values, dtype=float)[order] * len(p_values) / ranks)
    return [float(p_value) for p_value in np.minimum(adjusted, 1.0)]


def modes(visits: Sequence[Sequence[float] | Array] | Array) -> tuple[float, ...]:
    """Returns the medians of two modes, lower first; an empty tuple if one mode explains the values. visits: values of
    each visit.

    Three visits with little scatter inside each look like modes. So two modes are reported only if two visits (or the
    only visit) contain both, or if the medians of the visits form two modes."""
    filled = [visit for visit in visits if len(visit)]
    if not filled:
        return ()
    values, counts = np.concatenate(filled).astype(float), np.array([*map(len, filled)])
    pair = _two_modes(values)
    if not pair or _visits_with_both(values, counts, pair) >= min(2, len(filled)):
        return pair
    return _two_modes(middles_of(values, counts))


def _two_modes(values: Array) -> tuple[float, ...]:
    """Returns the medians of two modes, by the best cut in two (least squares on logarithms); empty unless the cut
    separates modes.

    Each part must contain at least 15 % of the values and five of them. The parts must be 5 % apart, and further than
    those of a uniform distribution that is cut in two (whose Ashman's D is 3.5, with more scatter for few values). The
    middle third between them must be nearly empty."""
    ordered = np.sort(values)
    if len(ordered) < LEAST_FOR_MODES or ordered[0] <= 0:
        return ()
    logs = np.log(ordered)
    count, sums = np.arange(1, len(logs)), np.cumsum(logs)[:-1]
    between = sums**2 / count + (logs.sum() - sums) ** 2 / (len(logs) - count)
    cut = int(np.argmax(between)) + 1  # least squares within the parts are most squares between them
    lower, upper = logs[:cut], logs[cut:]
    if min(len(lower), len(upper)) < max(5, 0.15 * len(logs)):
        return ()
    left, right = float(np.median(lower)), float(np.median(upper))
    # The distance of the parts in units of their spread (Ashman, Bird and Zepf 1994).
    spread = sqrt(float(lower.var(ddof=1) + upper.var(ddof=1)))
    ashman = inf if spread == 0 else sqrt(2) * float(upper.mean() - lower.mean()) / spread
    third = (right - left) / 3
    inside = int(((logs > left + third) & (logs < right - third)).sum())
    smaller = min(int((logs <= left + third).sum()), int((logs >= right - third).sum()))
    is_empty = inside / max(smaller, 1) < 0.25
    is_apart = ashman >= 4 + 60 / len(logs) and right - left > log(1.05)
    return (exp(left), exp(right)) if is_apart and is_empty else ()


def _visits_with_both(values: Array, counts: NDArray[np.int64], pair: tuple[float, ...]) -> int:
    """Returns the number of visits that have at least 10 % of their values on each side of the middle between two
    modes. counts: number of values of each visit."""
    above = values > sqrt(pair[0] * pair[1])
    shares = np.add.reduceat(above, np.cumsum(counts) - counts, dtype=np.int64) / counts
    return int(((shares >= 0.1) & (shares <= 0.9)).sum())


def bimodal_split(visits: Sequence[Array]) -> float | None:
    """Returns the logarithm that separates two modes; None for one mode. visits: logarithms of the batches of each
    visit.

    A point with two modes has two costs and none between them: a cache that keeps the data in some laps only, a line
    whose home is near or far, a branch in the kernel's entry path that the core predicts or mispredicts. Batches are
    examined and not medians of visits: a state may last for a few batches or for seconds, and the median of a visit
    with both states may lie anywhere.

    Each mode must contain a fifth of all batches and occur in two visits; the modes must be 10 % apart, with most of
    the gap nearly empty."""
    if len(visits) < LEAST_FOR_SCATTER:
        return None
    ordered = np.sort(np.concatenate(visits))
    least, mixed = int(np.ceil(SOME * len(ordered))), int(_MIXED * len(ordered))
    widths = ordered[least + mixed : len(ordered) - least + 1] - ordered[least - 1 : len(ordered) - least - mixed]
    if not len(widths):
        return None
    below = least - 1 + int(np.argmax(widths))
    above = below + 1 + mixed
    distance = float(np.median(ordered[above:]) - np.median(ordered[: below + 1]))
    empty_width = ordered[above] - ordered[below]
    if (
        distance < _APART + _APART_OF_FEW / len(ordered)
        or empty_width < (_EMPTY + _EMPTY_OF_FEW / len(visits)) * distance
    ):
        return None
    cut = float(ordered[above] + ordered[below]) / 2
    visits_on_side = [sum(bool((side * (logs - cut) > 0).any()) for logs in visits) for side in (-1, 1)]
    return cut if min(visits_on_side) >= _LEAST_SEEN else None


def hodges_lehmann_ratio(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """Returns the median of all ratios new/old, with the 95 % interval of the Mann-Whitney statistic (Lehmann 1963).
    All values are positive.

    With fewer than four values on each side, too few for 95 %, the interval is 0 to infinity."""
    pairs, skipped = len(old) * len(new), _ranks_outside(len(old), len(new))
    ordered, negated_old = np.sort(np.log(np.asarray(new, float))), -np.log(np.asarray(old, float))
    starts = np.zeros(len(negated_old), dtype=np.intp)
    value = exp(middle_of_sums(ordered, negated_old, starts))
    if skipped < 0:
        return Estimate(value=value, low=0.0, high=inf)
    low, high = (of_rank(ordered, negated_old, starts, rank)[0] for rank in (skipped, pairs - 1 - skipped))
    return Estimate(value=value, low=exp(low), high=exp(high))


@lru_cache(maxsize=1024)
def _ranks_outside(first: int, second: int) -> int:
    """Returns the number of the smallest pairwise differences that lie below a 95 % interval, less one; -1 if there are
    too few pairs for one. first, second: numbers of values."""
    if first * second > EXACT_PAIRS:
        spread = sqrt(first * second * (first + second + 1) / 12)
        return max(int(first * second / 2 - NORMAL * spread), 0)
    chances = _u_distribution(first, second)
    return int(np.searchsorted(np.cumsum(chances), 0.025, side="right")) - 1


@lru_cache(maxsize=256)
def _u_distribution(first: int, second: int) -> Array:
    """Returns the probability of each value 0..first*second of the Mann-Whitney statistic if both samples have one
    distribution.

    The counts are the coefficients of the Gaussian binomial: product over i of (1 - q^(second+i)) / (1 - q^i)."""
    counts = np.zeros(first * second + 1)
    counts[0] = 1
    for i in range(1, first + 1):
        shift = second + i
        if shift < len(counts):
            counts[shift:] -= counts[:-shift].copy()
        for place in range(i, len(counts)):
            counts[place] += counts[place - i]
    return np.asarray(counts / counts.sum())
