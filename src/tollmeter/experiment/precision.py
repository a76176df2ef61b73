# SPDX-License-Identifier: Apache-2.0
"""How sure a number is: components of variance, in logarithms, since costs scatter by shares.

A sample differs from the next by noise; the median of a visit from the next visit's by its memory layout and its
moment; and a run's from the next run's by what lasts longer than a run. Visits are the observations, and visits of one
layout are worth less than as many of several: two fifths of the variance, or more, are taken to be the layout's. The
standard deviation of a few visits is shrunk to that of the run's other points of the same probe (Smyth 2004, limma's
moderated variance). The variance between runs cannot be seen by one run: it is learned from the machine's earlier runs,
or is the shipped one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.pairwise import middle_of_pairs
from tollmeter.experiment.usual_runs import USUAL_RUNS_SD
from tollmeter.maths.distributions import digamma, student_reach, trigamma
from tollmeter.model import Record

Array = NDArray[np.float64]

LEAST_VISITS = 3
LEAST_LAYOUTS = 2
"""For a point to converge: of one, the variance between layouts is unknown."""
USUAL_VISITS_SD = 0.02
LEAST_SHARED = 0.4
"""Share of the variance between visits that is between layouts, at the least: visits of two or three layouts estimate
it too low. Without it intervals held the median of twelve runs in 92 % of the rows in place of 97 (decision 27)."""
_PRIOR_FREEDOM = 4.0
_LEAST_FREEDOM, _MOST_FREEDOM = 1.0, 10.0
_LEAST_POINTS = 4
_NORMAL = 1.959964
_FLOOR_SD = 1e-4
_LEAST_LEFT = 0.1
_HARDLY_MORE = 1.1
MOST_PAIRED = 128
"""Values whose pairs are written out: what they take grows with the square, a gigabyte at ten thousand."""
_MOST_TOLD_APART = 512
_STEPS = 4


class Estimate(Record, frozen=True):
    """A value and its 95 % interval, in the unit of what was estimated."""

    value: float
    low: float
    high: float

    def half_width(self) -> float:
        """Half of the interval as a share of the value; infinite where the value is zero."""
        return (self.high - self.low) / 2 / abs(self.value) if self.value else inf


class Scatter(Record, frozen=True):
    """What is known before a point's own visits are looked at, as standard deviations of logarithms. visits_sd: of
    visits of different layouts. freedom: how many visits that knowledge is worth: few where points of one kind scatter
    very differently. layouts: the share of the variance between visits that is between layouts.
    """

    visits_sd: float = USUAL_VISITS_SD
    freedom: float = _PRIOR_FREEDOM
    runs_sd: float = USUAL_RUNS_SD
    layouts: float = LEAST_SHARED


def middle_of(values: Array) -> float:
    """Median of a small array, in a twentieth of the time that numpy's takes: a run under way asks for thousands."""
    ordered = np.sort(values, axis=None)
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def location(values: Sequence[float] | Array) -> float:
    """Median of all pairwise means (Hodges and Lehmann 1963): nearly as sharp as the mean, and three visits in ten may
    be anything. Raises ValueError without a value."""
    found = np.asarray(values, dtype=float)
    if not len(found):
        raise ValueError("no value")
    if len(found) > MOST_PAIRED:
        return middle_of_pairs(found, 1, 0) / 2
    first, second = _pairs(len(found), 0)
    return middle_of(found[first] + found[second]) / 2


@lru_cache(maxsize=512)
def _pairs(count: int, least: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(count, least)


def scale(values: Sequence[float] | Array) -> float:
    """Standard deviation by the median distance of all pairs (Shamos 1976); 0 of fewer than two."""
    found = np.asarray(values, dtype=float)
    if len(found) < 2:
        return 0.0
    if len(found) > MOST_PAIRED:
        return middle_of_pairs(found, -1, 1) / 0.9539
    first, second = _pairs(len(found), 1)
    return middle_of(np.abs(found[first] - found[second])) / 0.9539


def estimate(visits: Sequence[float], layouts: Sequence[int], scatter: Scatter, reach: tuple[float, float]) -> Estimate:
    """visits: one value each, positive; layouts: which layout each was made in. reach: least and greatest value that
    any batch took: no end lies further out than what was seen, and what runs differ by.
    """
    logs = np.log(np.asarray(visits, dtype=float))
    middle = location(logs)
    half = half_width(logs, layouts, scatter)
    beyond = _NORMAL * scatter.runs_sd
    low = max(middle - half, min(log(reach[0]), middle) - beyond)
    high = min(middle + half, max(log(reach[1]), middle) + beyond)
    return Estimate(value=exp(middle), low=exp(low), high=exp(high))


def half_width(logs: Array, layouts: Sequence[int], scatter: Scatter) -> float:
    """Of the 95 % interval of the location."""
    return sqrt(_reach(logs, layouts, scatter, scatter.visits_sd) ** 2 + (_NORMAL * scatter.runs_sd) ** 2)


def _reach(values: Array, layouts: Sequence[int], scatter: Scatter, visits_sd: float) -> float:
    """The part of a half-width that more visits make less."""
    own = between_visits(values, layouts, scatter.layouts)
    spread, freedom = moderated(*own, visits_sd, scatter.freedom)
    return student_reach(freedom) * spread / sqrt(0.955 * effective(layouts, scatter.layouts))


def between_visits(values: Array, layouts: Sequence[int], shared: float) -> tuple[float, float]:
    """Standard deviation of visits of different layouts, and its degrees of freedom, from visits some of which share
    one. Pairs of one layout differ by 1 - shared of the variance; the degrees of freedom of the sum of both kinds of
    contrasts are Satterthwaite's (1946), with layouts of equal sizes."""
    sizes, visits = Counter(layouts).values(), len(values)
    if visits < 2:
        return 0.0, 0.0
    alike = sum(size * (size - 1) for size in sizes) / (visits * (visits - 1))
    within, between = 1 - shared, 1 - shared + shared * visits / len(sizes)
    sums = [(visits - len(sizes)) * within, (len(sizes) - 1) * between]
    freedom = sum(sums) ** 2 / (sums[0] * within + sums[1] * between)
    return scale(values) / sqrt(max(_LEAST_LEFT, 1 - shared * alike)), freedom


def moderated(spread: float, freedom: float, prior: float, prior_freedom: float) -> tuple[float, float]:
    """A standard deviation pulled to what is usual, and its degrees of freedom."""
    both = freedom + prior_freedom
    return max(_FLOOR_SD, sqrt((freedom * spread**2 + prior_freedom * prior**2) / both)), both


def effective(layouts: Sequence[int], shared: float) -> float:
    """Visits that are worth as much as these, were each of a layout of its own: the design effect of Kish (1965)."""
    count = len(layouts)
    squares = sum(size**2 for size in Counter(layouts).values())
    return count / (1 + (squares / count - 1) * shared)


def in_plain_numbers(visits: Sequence[float], layouts: Sequence[int], around: float, scatter: Scatter) -> Estimate:
    """For a difference, which may be nothing or less: the same without logarithms. around: what the whole takes, of
    which the scatter is a share."""
    found = np.asarray(visits, dtype=float)
    middle = location(found)
    half = sqrt(
        _reach(found, layouts, scatter, scatter.visits_sd * around) ** 2 + (_NORMAL * scatter.runs_sd * around) ** 2
    )
    return Estimate(value=middle, low=middle - half, high=middle + half)


def common_scatter(series: Sequence[tuple[Array, Sequence[int]]], runs_sd: float = USUAL_RUNS_SD) -> Scatter:
    """What the points of one metric scatter by. series: of each point the logs of its visits, and their layouts."""
    told = [(logs, layouts) for logs, layouts in series if len(logs) >= LEAST_VISITS]
    if not told:
        return Scatter(runs_sd=runs_sd)
    shares = [share for logs, layouts in told if (share := _in_common(logs, layouts)) is not None]
    shared = max(LEAST_SHARED, float(np.median(shares))) if shares else LEAST_SHARED
    own = [between_visits(logs, layouts, shared) for logs, layouts in told]
    visits_sd, freedom = _usual_scatter([(max(_FLOOR_SD, spread), freedom) for spread, freedom in own])
    return Scatter(visits_sd=visits_sd, freedom=freedom, runs_sd=runs_sd, layouts=shared)


def _usual_scatter(told: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The scatter that the points have in common, and what it is worth: the logs of variances scatter by trigamma(d/2)
    where all points have one variance, and by trigamma(d0/2) more where theirs come from a prior worth d0 (Smyth 2004,
    section 6.2; medians in place of means). told: standard deviation and degrees of freedom of each point.
    """
    expected = np.array([digamma(freedom / 2) - log(freedom / 2) for _, freedom in told])
    logs = 2 * np.log([spread for spread, _ in told]) - expected
    if len(told) < _LEAST_POINTS:
        return max(_FLOOR_SD, exp(float(np.max(logs)) / 2)), _LEAST_FREEDOM
    excess = scale(logs) ** 2 - float(np.mean([trigamma(freedom / 2) for _, freedom in told]))
    freedom = 2 / excess if excess > 0 else _MOST_FREEDOM  # trigamma(x) is about 1/x
    freedom = min(_MOST_FREEDOM, max(_LEAST_FREEDOM, freedom))
    return max(_FLOOR_SD, exp((float(np.median(logs)) + digamma(freedom / 2) - log(freedom / 2)) / 2)), freedom


def _in_common(logs: Array, layouts: Sequence[int]) -> float | None:
    """1 less the variance of pairs of visits of one layout over that of all pairs; None where no two share a layout."""
    logs, owner = _some_layouts(logs, np.asarray(layouts))
    first, second = np.triu_indices(len(logs), 1)
    same = owner[first] == owner[second]
    if not same.any() or same.all():
        return None
    apart = (logs[first] - logs[second]) ** 2
    other = float(np.median(apart[~same]))
    return float(np.clip(1 - np.median(apart[same]) / other, -1, 1)) if other > 0 else None


def _some_layouts(logs: Array, owner: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Of very many visits those of some layouts, whichever their seeds name; of very few layouts, some visits of all.
    A share of the variance is known well enough from some hundred."""
    step = -(-len(logs) // _MOST_TOLD_APART)
    names, place = np.unique(owner, return_inverse=True)
    kept = (place if len(names) >= _LEAST_POINTS * step else np.arange(len(logs))) % step == 0
    return logs[kept], owner[kept]


def is_of_runs(half: float, scatter: Scatter) -> bool:
    """Whether a half-width is what runs differ by, but for a tenth: no visit of this run makes it narrower."""
    return half <= _HARDLY_MORE * _NORMAL * scatter.runs_sd


def visits_for(precision: float, seen: int, half: float, scatter: Scatter) -> float:
    """How many visits a point wants in all for a half-width, by the one it has; infinite where runs differ by more.
    With more visits their scatter is known better as well: what a few ask for by Student's t is twice too many."""
    wanted, runs = log(1 + precision) ** 2, (_NORMAL * scatter.runs_sd) ** 2
    if wanted <= runs:
        return inf
    of_one = seen * max(0.0, half**2 - runs) / (wanted - runs) / student_reach(seen - 1 + scatter.freedom) ** 2
    found = float(LEAST_VISITS)
    for _ in range(_STEPS):
        found = max(float(LEAST_VISITS), of_one * student_reach(round(found) - 1 + scatter.freedom) ** 2)
    return found
