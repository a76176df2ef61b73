# SPDX-License-Identifier: Apache-2.0
"""Estimates that hold for timings: many small visits, long tails to the right, visits that differ from each other.

Samples of one visit share its pages, its placement and its moment, so they are not independent of each other: every
interval here resamples or compares whole visits. All functions are pure and deterministic; random numbers come from
a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from tollmeter.model import Record

Array = NDArray[np.float64]

RESAMPLES = 999
VALUES_DRAWN = 300_000
SEED = 0x70_11
LEAST_FOR_MODES = 12
EXACT_PAIRS = 2500


class Estimate(Record, frozen=True):
    """A value and its 95 % interval, in the unit of what was estimated."""

    value: float
    low: float
    high: float

    def half_width(self) -> float:
        """Half of the interval as a share of the value; infinite where the value is zero."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else inf


def median_of_visits(visits: Sequence[Sequence[float]]) -> Estimate:
    """Median of all samples, with a bootstrap interval clustered over visits.

    Whole visits are drawn with replacement (Davison and Hinkley 1997, section 3.8). Few visits make the percentile
    interval too narrow, so its ends are moved out by the small-sample factor of Hesterberg (2015, section 4); the
    lower one by ratio where it is positive, and stays so. One visit alone cannot say how visits differ: its samples
    are then drawn in place of visits, and the interval speaks of that visit only. Raises ValueError without a sample.
    """
    filled = [visit for visit in visits if len(visit)]
    if not filled:
        raise ValueError("no sample")
    clusters = filled if len(filled) > 1 else [[value] for value in filled[0]]
    values = np.concatenate([np.asarray(cluster, dtype=float) for cluster in clusters])
    owner = np.repeat(np.arange(len(clusters)), [len(cluster) for cluster in clusters])
    order = np.argsort(values, kind="stable")
    middle = float(np.median(values))
    medians = _weighted_medians(values[order], _draws(len(clusters), _resamples(len(values)))[:, owner[order]])
    low, high = (float(end) for end in np.percentile(medians, [2.5, 97.5]))
    return _widened(middle, low, high, _few(len(clusters)))


def _resamples(values: int) -> int:
    """As many as keep the work for one row constant, within bounds that keep the ends of the interval steady."""
    return max(199, min(RESAMPLES, VALUES_DRAWN // values))


@lru_cache(maxsize=256)
def _draws(clusters: int, resamples: int) -> NDArray[np.int32]:
    """How often each of so many clusters is drawn, one row a resample."""
    generator = np.random.default_rng(SEED + clusters)
    return generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples).astype(np.int32)


def _weighted_medians(ordered: Array, weights: NDArray[np.int32]) -> Array:
    """Median of the ordered values, each taken as often as its weight says, one for each row of weights."""
    reached = np.cumsum(weights, axis=1, dtype=np.int32)
    total = reached[:, -1:]
    lower = ordered[np.argmax(2 * reached >= total, axis=1)]
    upper = ordered[np.argmax(2 * reached > total, axis=1)]
    return np.asarray((lower + upper) / 2)


@lru_cache(maxsize=256)
def _few(clusters: int) -> float:
    """How far a percentile interval over so few clusters is moved out; two count as three."""
    count = max(clusters, 3)
    return float(sqrt(count / (count - 1)) * stdtrit(count - 1, 0.975) / ndtri(0.975))


def _widened(middle: float, low: float, high: float, factor: float) -> Estimate:
    """Ends moved out from the middle: downward by ratio, so that what is positive stays so; upward by distance."""
    lower = middle * (low / middle) ** factor if low > 0 else middle - factor * (middle - low)
    return Estimate(value=middle, low=lower, high=middle + factor * (high - middle))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Lower and upper quartile, by linear interpolation."""
    lower, upper = np.percentile(np.asarray(values, dtype=float), [25, 75])
    return float(lower), float(upper)


def slope_minimum(visits: Sequence[tuple[Sequence[float], Sequence[float], float]]) -> float:
    """Least time of one iteration: the least over visits of (min t(2n) - min t(n)) / n.

    Each visit gives its times over n, its times over 2n, and n. The minimum of the differences would be biased low:
    it picks the sample whose first half was disturbed most. Raises ValueError when there is no visit.
    """
    return min((min(longs) - min(shorts)) / iterations for shorts, longs, iterations in visits)


def modes(visits: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The medians of two modes, lower first, or nothing where one mode explains the values.

    Visits differ from each other, and three visits with little spread inside look like modes. So two modes are seen
    only where two visits (or the only one) took both, or where the visits' medians fall into two modes themselves.
    """
    filled = [np.asarray(visit, dtype=float) for visit in visits if len(visit)]
    if not filled:
        return ()
    found = _two_modes(np.concatenate(filled))
    if not found or _visits_with_both(filled, found) >= min(2, len(filled)):
        return found
    return _two_modes(np.array([np.median(visit) for visit in filled]))


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


def _visits_with_both(visits: Sequence[Array], found: tuple[float, ...]) -> int:
    """How many visits hold at least 10 % of their values on either side of the middle between two modes."""
    middle = sqrt(found[0] * found[1])
    shares = [float((visit > middle).mean()) for visit in visits]
    return sum(0.1 <= share <= 0.9 for share in shares)


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
    ratios = np.sort((np.log(np.asarray(new, float))[:, None] - np.log(np.asarray(old, float))[None, :]).ravel())
    skipped = _ranks_outside(len(old), len(new))
    value = exp(float(np.median(ratios)))
    if skipped < 0:
        return Estimate(value=value, low=0.0, high=inf)
    return Estimate(value=value, low=exp(float(ratios[skipped])), high=exp(float(ratios[-1 - skipped])))


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


def mann_whitney(old: Sequence[float], new: Sequence[float]) -> float:
    """Two-sided p that both come from one distribution (1947); 1 where either is empty.

    Exact up to 50 against 50 where no value occurs twice; else normal, corrected for ties and continuity.
    """
    first, second = len(old), len(new)
    if not first or not second:
        return 1.0
    pairs = np.sign(np.asarray(new, float)[:, None] - np.asarray(old, float)[None, :])
    below = float((pairs < 0).sum() + (pairs == 0).sum() / 2)
    extreme = min(below, first * second - below)
    _, ties = np.unique(np.concatenate([old, new]), return_counts=True)
    if first * second <= EXACT_PAIRS and ties.max() == 1:
        return min(2 * float(_u_distribution(first, second)[: int(extreme) + 1].sum()), 1.0)
    total = first + second
    tied = float((ties**3 - ties).sum()) / (total * (total - 1)) if total > 1 else 0.0
    spread = sqrt(first * second / 12 * max(total + 1 - tied, 0))
    return min(2 * float(ndtr((extreme + 0.5 - first * second / 2) / spread)), 1.0) if spread else 1.0


def welch(old: Sequence[float], new: Sequence[float]) -> float:
    """Two-sided p of Welch's t-test (1947) on logarithms of positive values; 1 with fewer than two of either."""
    if min(len(old), len(new)) < 2:
        return 1.0
    left, right = np.log(np.asarray(old, float)), np.log(np.asarray(new, float))
    errors = float(left.var(ddof=1)) / len(left), float(right.var(ddof=1)) / len(right)
    apart = abs(float(left.mean() - right.mean()))
    if sum(errors) == 0:
        return 1.0 if apart == 0 else 0.0
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / (len(left) - 1) + errors[1] ** 2 / (len(right) - 1))
    return 2 * float(stdtr(freedom, -apart / sqrt(sum(errors))))


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """The least false-discovery rate at which each hypothesis would be rejected, in the order given (1995)."""
    p = np.asarray(p_values, dtype=float)
    if not len(p):
        return ()
    order = np.argsort(p)
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.minimum(np.minimum.accumulate(raised[::-1])[::-1], 1.0)
    back = np.empty_like(adjusted)
    back[order] = adjusted
    return tuple(float(value) for value in back)
