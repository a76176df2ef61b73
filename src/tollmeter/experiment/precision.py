# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals from components of variance, in logarithms, since costs scatter in proportion to their size.

Samples of one visit differ by noise; medians of visits differ by memory layout and moment; and runs differ by
conditions that last longer than a run. Visits are the observations. Visits of one layout carry less information than
the same number of visits of separate layouts: at least two fifths of the variance is attributed to the layout. The
standard deviation of a few visits is shrunk towards that of the run's other points of the same probe (Smyth 2004,
limma's moderated variance). One run cannot estimate the between-run variance: it comes from the machine's earlier runs,
or is the shipped value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import ALIKE, FEW, FLOOR_SD, LEAST_VALUES, LEAST_VISITS
from tollmeter.experiment.runs_differ import NORMAL_DISTANCE, USUAL_IS_WORTH, USUAL_RUNS_SD
from tollmeter.maths.distributions import (
    EFFICIENCY_OF_MIDDLE,
    KNOWN,
    NORMAL,
    combined,
    digamma,
    half_width,
    trigamma,
)
from tollmeter.model import Record

Array = NDArray[np.float64]

PAIR_VISITS = 2
"""Number of visits of each pair of CPUs of a matrix, in rounds that are far apart."""
LEAST_LAYOUTS = 2
"""Number of layouts that a point needs to converge: with one, the variance between layouts is unknown."""
USUAL_VISITS_SD = 0.02
"""Standard deviation of the logarithms of visits, if no point of the metric shows it."""
LEAST_SHARED = 0.4
"""Smallest share of the variance between visits that is attributed to layouts, since visits of two or three layouts
underestimate it. With 0 instead, intervals contained the median of twelve runs in 92 % of the rows instead of 97 %
(decision 10)."""
_LEAST_FREEDOM, _MOST_FREEDOM = 1.0, 10.0
"""Limits of the degrees of freedom of the prior: the points of a metric scatter alike, but not equally."""
MOST_PAIRED = 128
"""Largest number of values of which all pairs are computed at once: memory grows with the square of the number, to a
gigabyte at ten thousand."""
_MOST_COMPARED = 512
"""Number of values whose pairs of one layout are compared; of more values, a part is taken."""
_STEPS = 4
"""Number of steps of the search for a number of visits."""


class Estimate(Record, frozen=True):
    """A value and its 95 % interval, in the unit of the estimated quantity. error: standard error of the logarithm by
    the visits alone, without the between-run variance that the interval includes; None for a value that is not
    positive. freedom: degrees of freedom of `error`; 0 if it has none."""

    value: float
    low: float
    high: float
    error: float | None = None
    freedom: float = 0.0

    def share_half_width(self) -> float:
        """Returns half of the interval as a share of the value; infinite if the value is zero."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else inf


def log_error(low: float, high: float) -> float:
    """Returns the standard error of the logarithm of a value, from its 95 % interval alone; infinite if the interval
    reaches zero."""
    return log(high / low) / 2 / NORMAL if 0 < low <= high < inf else inf


class Scatter(Record, frozen=True):
    """Prior knowledge of the scatter of a point, in logarithms. visits_sd: standard deviation of visits of different
    layouts. freedom: the number of visits that this knowledge counts as; small if points of one metric scatter
    differently. runs_sd: between-run standard deviation. layouts: share of the variance between visits that is between
    layouts."""

    visits_sd: float = USUAL_VISITS_SD
    freedom: float = USUAL_IS_WORTH
    runs_sd: float = USUAL_RUNS_SD
    layouts: float = LEAST_SHARED


def middle_of(values: Array) -> float:
    """Returns the median of a small array, in a twentieth of the time of numpy's: a run computes thousands."""
    ordered = np.sort(values, axis=None)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def middles_of(values: Array, counts: NDArray[np.int64]) -> Array:
    """Returns the medians of consecutive stretches of values. counts: length of each stretch, at least one."""
    starts, middles = np.cumsum(counts) - counts, np.empty(len(counts))
    for count in np.unique(counts).tolist():
        of_count = counts == count
        ordered = np.sort(values[starts[of_count, None] + np.arange(count)], axis=1)
        middles[of_count] = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    return middles


def quantiles_of(values: Array, counts: NDArray[np.int64], share: float) -> Array:
    """Returns one quantile of each consecutive stretch of values, interpolated at the rank that is median-unbiased for
    every distribution (Hyndman and Fan 1996, definition 8). counts: length of each stretch, at least one. share: the
    quantile, 0 to 1."""
    starts, quantiles = np.cumsum(counts) - counts, np.empty(len(counts))
    for count in np.unique(counts).tolist():
        of_count = counts == count
        ordered = np.sort(values[starts[of_count, None] + np.arange(count)], axis=1)
        rank = min(max(share * (count + 1 / 3) - 2 / 3, 0.0), count - 1.0)
        below, above = int(rank), min(int(rank) + 1, count - 1)
        quantiles[of_count] = ordered[:, below] + (rank - below) * (ordered[:, above] - ordered[:, below])
    return quantiles


def hodges_lehmann(values: Sequence[float] | Array) -> float:
    """Returns the Hodges-Lehmann estimate of location: the median of all pairwise means (1963). It is nearly as
    efficient as the mean, and its breakdown point is 29 %. Raises ValueError without a value."""
    array = np.asarray(values, dtype=float)
    if not len(array):
        raise ValueError("no value")
    if len(array) > MOST_PAIRED:
        return middle_of_pairs(array, 1, 0) / 2
    first, second = _pairs(len(array), 0)
    return middle_of(array[first] + array[second]) / 2


@lru_cache(maxsize=512)
def _pairs(count: int, least: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns the indices i and j of all pairs of `count` values with j >= i + least."""
    return np.triu_indices(count, least)


def shamos_sd(values: Sequence[float] | Array) -> float:
    """Returns the Shamos estimate of the standard deviation, from the median distance of all pairs (1976); 0 for one
    value."""
    array = np.asarray(values, dtype=float)
    if len(array) < 2:
        return 0.0
    if len(array) > MOST_PAIRED:
        return middle_of_pairs(array, -1, 1) / NORMAL_DISTANCE
    first, second = _pairs(len(array), 1)
    return middle_of(np.abs(array[first] - array[second])) / NORMAL_DISTANCE


def estimate(
    visits: Sequence[float] | Array, layouts: Sequence[int], scatter: Scatter, reach: tuple[float, float]
) -> Estimate:
    """Returns the value of a point and its interval. visits: one positive value for each visit. layouts: layout of each
    visit. reach: lowest and highest value of any batch, which the interval exceeds by at most the between-run
    variance."""
    logs = np.log(np.asarray(visits, dtype=float))
    middle = hodges_lehmann(logs)
    error, freedom = _error(logs, layouts, scatter, scatter.visits_sd)
    half = half_width(*combined([(error, freedom), (scatter.runs_sd, KNOWN)]))
    beyond = NORMAL * scatter.runs_sd
    low = max(middle - half, min(log(reach[0]), middle) - beyond)
    high = min(middle + half, max(log(reach[1]), middle) + beyond)
    return Estimate(
        value=exp(middle), low=exp(low), high=exp(high), error=error * (high - low) / (2 * half), freedom=freedom
    )


def estimate_of_few(logs: Array, common_sd: float) -> Estimate:
    """Returns the estimate of a few visits, each of its own layout, whose common standard deviation is known from
    thousands of similar points. logs: logarithm of each visit. The deviation of two visits is estimated by the sample
    standard deviation, since Shamos's estimate is biased for them."""
    sample_sd = float(logs.std(ddof=1)) if len(logs) > 1 else 0.0
    spread, freedom = shrink_sd(sample_sd, len(logs) - 1.0, common_sd, _MOST_FREEDOM)
    middle, error = hodges_lehmann(logs), spread / sqrt(EFFICIENCY_OF_MIDDLE * len(logs))
    half = half_width(*combined([(error, freedom), (USUAL_RUNS_SD, KNOWN)]))
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half), error=error, freedom=freedom)


def log_half_width(logs: Array, layouts: Sequence[int], scatter: Scatter) -> float:
    """Returns the half-width of the 95 % interval of the Hodges-Lehmann estimate, in logarithms. logs, layouts:
    logarithm and layout of each visit."""
    return half_width(*combined([_error(logs, layouts, scatter, scatter.visits_sd), (scatter.runs_sd, KNOWN)]))


def _error(values: Array, layouts: Sequence[int], scatter: Scatter, visits_sd: float) -> tuple[float, float]:
    """Returns the part of a standard error that shrinks with more visits, and its degrees of freedom. visits_sd: prior
    standard deviation, in the unit of the values."""
    measured = between_visits(values, layouts, scatter.layouts)
    spread, freedom = shrink_sd(*measured, visits_sd, scatter.freedom)
    return spread / sqrt(EFFICIENCY_OF_MIDDLE * effective(layouts, scatter.layouts)), freedom


def between_visits(values: Array, layouts: Sequence[int], shared: float) -> tuple[float, float]:
    """Returns the standard deviation of visits of different layouts, and its degrees of freedom, from visits some of
    which share a layout. shared: share of the variance that is between layouts; pairs of one layout differ only by the
    remaining variance. The degrees of freedom of both kinds of pairs together are Satterthwaite's (1946), for layouts
    of equal sizes."""
    sizes, visits = Counter(layouts).values(), len(values)
    if visits < 2:
        return 0.0, 0.0
    same_layout_share = sum(size * (size - 1) for size in sizes) / (visits * (visits - 1))
    within, between = 1 - shared, 1 - shared + shared * visits / len(sizes)
    sums = [(visits - len(sizes)) * within, (len(sizes) - 1) * between]
    squares = sums[0] * within + sums[1] * between
    freedom = sum(sums) ** 2 / squares if squares else visits - 1.0  # the limit for one layout, as shared nears 1
    return shamos_sd(values) / sqrt(max(FEW, 1 - shared * same_layout_share)), freedom


def shrink_sd(spread: float, freedom: float, prior: float, prior_freedom: float) -> tuple[float, float]:
    """Returns a standard deviation shrunk towards its prior, and its degrees of freedom. Each deviation is weighted by
    its degrees of freedom."""
    both = freedom + prior_freedom
    return max(FLOOR_SD, sqrt((freedom * spread**2 + prior_freedom * prior**2) / both)), both


def effective(layouts: Sequence[int], shared: float) -> float:
    """Returns the effective number of visits: as many visits of separate layouts carry the same information (Kish 1965,
    design effect). shared: share of the variance that is between layouts."""
    count = len(layouts)
    squares = sum(size**2 for size in Counter(layouts).values())
    return count / (1 + (squares / count - 1) * shared)


def in_plain_numbers(
    visits: Sequence[float] | Array, layouts: Sequence[int], around: float, scatter: Scatter
) -> Estimate:
    """Returns the estimate of a difference that may be zero or negative, without logarithms. around: the value of which
    the scatter is a share, in the unit of the visits."""
    array = np.asarray(visits, dtype=float)
    middle = hodges_lehmann(array)
    error, freedom = _error(array, layouts, scatter, scatter.visits_sd * around)
    half = half_width(*combined([(error, freedom), (scatter.runs_sd * around, KNOWN)]))
    of_log = error / middle if middle > half else None
    return Estimate(value=middle, low=middle - half, high=middle + half, error=of_log, freedom=freedom)


def greatest(values: Sequence[float], runs_sd: float = USUAL_RUNS_SD) -> Estimate:
    """Returns the greatest value of all visits, and an interval for the greatest value of another run of equal length.
    values: greatest value of each visit. runs_sd: between-run standard deviation of logarithms.

    Its scatter does not depend on the number of visits: maxima follow an extreme-value law, and the maximum of maxima
    follows the same law with another mean (max-stability: Coles 2001, section 3.1.3). Two runs scatter independently.
    The estimate uses logarithms, since delays have heavy tails, and ignores zeros."""
    top, logs = max(values), np.log([value for value in values if value > 0])
    if not len(logs):
        return Estimate(value=top, low=top, high=top)
    freedom = max(1.0, len(logs) - 1.0)
    spread = max(FLOOR_SD, float(np.std(logs, ddof=1)) if len(logs) > 1 else 0.0)
    error = sqrt(2) * spread
    half = half_width(*combined([(error, freedom), (runs_sd, KNOWN)]))
    return Estimate(value=top, low=top * exp(-half), high=top * exp(half), error=error, freedom=freedom)


def common_scatter(series: Sequence[tuple[Array, Sequence[int]]], runs_sd: float = USUAL_RUNS_SD) -> Scatter:
    """Returns the common scatter of the points of one metric. series: for each point the logarithms of its visits, and
    their layouts. Points with fewer visits than an interval needs are ignored."""
    usable = [(logs, layouts) for logs, layouts in series if len(logs) >= LEAST_VISITS]
    if not usable:
        return Scatter(runs_sd=runs_sd)
    shares = [share for logs, layouts in usable if (share := _layout_share(logs, layouts)) is not None]
    shared = max(LEAST_SHARED, float(np.median(shares))) if shares else LEAST_SHARED
    measured = [between_visits(logs, layouts, shared) for logs, layouts in usable]
    visits_sd, freedom = _usual_scatter([(max(FLOOR_SD, spread), freedom) for spread, freedom in measured])
    return Scatter(visits_sd=visits_sd, freedom=freedom, runs_sd=runs_sd, layouts=shared)


def _usual_scatter(spreads: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Returns the prior standard deviation and its degrees of freedom (Smyth 2004, section 6.2, with medians in place
    of means). The logarithms of variances scatter by trigamma(d/2) if all points have one variance, and by
    trigamma(d0/2) more if their variances come from a prior of d0 degrees of freedom. spreads: standard deviation and
    degrees of freedom of each point."""
    expected = np.array([digamma(freedom / 2) - log(freedom / 2) for _, freedom in spreads])
    logs = 2 * np.log([spread for spread, _ in spreads]) - expected
    if len(spreads) < LEAST_VALUES:
        return max(FLOOR_SD, exp(float(np.max(logs)) / 2)), _LEAST_FREEDOM
    excess = shamos_sd(logs) ** 2 - float(np.mean([trigamma(freedom / 2) for _, freedom in spreads]))
    freedom = 2 / excess if excess > 0 else _MOST_FREEDOM  # trigamma(x) is about 1/x
    freedom = min(_MOST_FREEDOM, max(_LEAST_FREEDOM, freedom))
    return max(FLOOR_SD, exp((float(np.median(logs)) + digamma(freedom / 2) - log(freedom / 2)) / 2)), freedom


def _layout_share(logs: Array, layouts: Sequence[int]) -> float | None:
    """Returns the share of the variance that is between layouts: 1 - (squared distance of pairs of one layout) / (of
    pairs of two layouts), each by the median. None if no two visits share a layout, or all do."""
    # A few hundred visits suffice. Of more, the visits of some layouts are used, or some visits of each of few layouts.
    step = -(-len(logs) // _MOST_COMPARED)
    names, place = np.unique(np.asarray(layouts), return_inverse=True)
    kept = (place if len(names) >= LEAST_VALUES * step else np.arange(len(logs))) % step == 0
    logs, place = logs[kept], place[kept]
    first, second = np.triu_indices(len(logs), 1)
    same = place[first] == place[second]
    if not same.any() or same.all():
        return None
    squares = (logs[first] - logs[second]) ** 2
    other = float(np.median(squares[~same]))
    return float(np.clip(1 - np.median(squares[same]) / other, -1, 1)) if other > 0 else None


def is_of_runs(half: float, runs_sd: float) -> bool:
    """Returns whether nine tenths of a half-width come from between-run variance, so that no further visit of this run
    narrows it. half: half-width in logarithms."""
    return half <= (1 + ALIKE) * NORMAL * runs_sd


def is_limited(precision: float, runs_sd: float) -> bool:
    """Returns whether between-run variance alone takes nine tenths of an interval of the requested precision."""
    return (1 + ALIKE) * NORMAL * runs_sd >= log(1 + precision)


def visits_for(precision: float, seen: int, error: float, scatter: Scatter) -> float:
    """Returns the total number of visits that a point needs for a half-width of `precision`; if between-run variance is
    wider, the number after which this dominates the interval. seen: present visits. error: standard error of the
    logarithm by these visits. Student's t is taken for the needed number, since t for the present few visits would give
    twice too many."""
    target, runs = max(log(1 + precision), (1 + ALIKE) * NORMAL * scatter.runs_sd), scatter.runs_sd**2
    reach = NORMAL
    for _ in range(_STEPS):
        visits = max(float(LEAST_VISITS), seen * error**2 / ((target / reach) ** 2 - runs))
        of_visits = error * sqrt(seen / visits), round(visits) - 1 + scatter.freedom
        reach = half_width(1.0, combined([of_visits, (scatter.runs_sd, KNOWN)])[1])
    return visits


# ---- the median of all pairs -----------------------------------------------------------------------------------------

# The median of all pairs without storing the pairs: forty thousand visits have eight hundred million pairs.

_MOST_WRITTEN = 8
"""Number of remaining pairs per value below which the pairs are sorted. While more remain, the range is halved."""


def middle_of_pairs(values: Array, sign: int, least: int) -> float:
    """Returns the median of x[j] + sign * x[i] over all j >= i + least, where x is the sorted values. At least one pair
    must exist. sign: 1 for sums, -1 for distances."""
    ordered = np.sort(values)
    return middle_of_sums(ordered, sign * ordered, np.arange(len(ordered)) + least)


def middle_of_sums(ordered: Array, own: Array, starts: NDArray[np.intp]) -> float:
    """Returns the median of all sums ordered[j] + own[i] with j >= starts[i]. ordered: ascending."""
    total = int((len(ordered) - starts).sum())
    lower, upper = of_rank(ordered, own, starts, (total - 1) // 2)
    return lower if total % 2 else (lower + upper) / 2


def of_rank(ordered: Array, own: Array, starts: NDArray[np.intp], rank: int) -> tuple[float, float]:
    """Returns the sum of this rank, from 0, among all sums ordered[j] + own[i] with j >= starts[i], and the next larger
    sum. Bisects the range of values until few pairs remain in it."""
    low, below = float(ordered[0] + own.min()) - 1.0, starts
    high = float(ordered[-1] + own.max())
    upto = np.full(len(own), len(ordered))
    while (upto - below).sum() > _MOST_WRITTEN * (len(ordered) + len(own)):
        middle = low + (high - low) / 2
        if not low < middle < high:
            left = np.broadcast_to(high, int((upto - below).sum()))  # equal values have any number of equal sums
            break
        inside = np.maximum(np.searchsorted(ordered, middle - own, side="right"), starts)
        if (inside - starts).sum() > rank:
            high, upto = middle, inside
        else:
            low, below = middle, inside
    else:
        lengths = upto - below
        first = np.repeat(np.arange(len(own)), lengths)
        second = np.arange(len(first)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + np.repeat(below, lengths)
        left = np.sort(ordered[second] + own[first])
    place = min(rank - int((below - starts).sum()), len(left) - 1)
    if place + 1 < len(left):
        return float(left[place]), float(left[place + 1])
    beyond = upto < len(ordered)
    return float(left[place]), float((ordered[upto[beyond]] + own[beyond]).min(initial=np.inf))
