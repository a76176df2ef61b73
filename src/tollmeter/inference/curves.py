# SPDX-License-Identifier: Apache-2.0
"""Turns rows into curves over size, and curves into points with noise; finds flat pieces and jumps.

If other workloads evict lines before a lap ends, a shared cache serves a size in one visit and not in the next. Such a
row has a `first` and a `second` state, and its median is only that of the more frequent one. It shows that a cache ends
at this size. It does not show the latency of a level, since no level has a latency between the two states.

Sizes are in bytes, values in the unit of the input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, inf, log
from statistics import median, median_low

import msgspec
import numpy as np

from tollmeter.experiment.limits import FAR_APART, LEAST_VALUES, LEAST_VISITS
from tollmeter.experiment.precision import USUAL_VISITS_SD
from tollmeter.experiment.run_record import MOST_LEVELS
from tollmeter.inference.answers import number
from tollmeter.maths.distributions import NORMAL
from tollmeter.maths.fits import nearest_rising
from tollmeter.model import Probe, Record, Row, State
from tollmeter.numbers.meanings import with_meaning
from tollmeter.numbers.stats import Array

BEST_PAGES_FIRST = ("huge", "small", "local")
TORN = 2.0
APART = 1.35
"""Smallest ratio of the latencies of two levels: two states with a smaller ratio belong to one level."""
MOST_SEGMENTS = 2 * MOST_LEVELS + 1
"""Largest number of plateaus and rises of a curve: two for each cache, and memory."""


def size_of(row: Row) -> int:
    """Returns the size of a row in bytes."""
    return number(row, "size")


def inside(rows: Sequence[Row], within: tuple[float, float]) -> list[Row]:
    """Returns the rows whose size is within these bounds (bytes), without rows that have no size."""
    sized = [row for row in rows if isinstance(row.parameters.get("size"), int)]
    return [row for row in sized if within[0] <= size_of(row) <= within[1]]


def latency_rows(rows: Sequence[Row], probes: Mapping[str, Probe]) -> dict[str, list[Row]]:
    """Returns the latency curves in ns with enough points, by page mode, each ordered by size."""
    curves: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in with_meaning(rows, probes, "latency-of-size"):
        if row.unit == "ns" and isinstance(row.parameters.get("size"), int):
            curves[str(row.parameters.get("pages", ""))].setdefault(size_of(row), row)
    return {
        pages: [points[size] for size in sorted(points)]
        for pages, points in curves.items()
        if len(points) >= LEAST_VALUES
    }


def best_pages(curves: Mapping[str, Sequence[Row]]) -> str:
    """Returns the page mode that shows the hierarchy best: huge pages, whose translations hit; then small pages; then
    page-local order, which a prefetcher may partly predict. A curve that ends at less than half of the largest size is
    not considered."""
    farthest = max(size_of(points[-1]) for points in curves.values())
    complete = [pages for pages, points in curves.items() if 2 * size_of(points[-1]) >= farthest]
    rank = {pages: place for place, pages in enumerate(BEST_PAGES_FIRST)}
    return min(complete, key=lambda pages: (rank.get(pages, len(rank)), pages))


def both_states(row: Row) -> tuple[State, State] | None:
    """Returns the two states of a row if they differ by as much as two levels; else None."""
    states = {state.state: state for state in row.states}
    first, second = states.get("first"), states.get("second")
    return (first, second) if first and second and second.median >= APART * first.median else None


def is_mixed(row: Row) -> bool:
    """Returns whether two levels served the visits of a row, although its batches are too few to show two modes."""
    if row.shares and row.error is not None:  # the interval includes the variance between runs of a shared cache
        return both_states(row) is None and exp(2 * NORMAL * row.error) > TORN
    return both_states(row) is None and (row.high or 0.0) > TORN * (row.low or inf)


def are_few(rows: Sequence[Row]) -> bool:
    """Returns whether more than half of the rows have too few visits for an interval."""
    return bool(rows) and median_low([row.visits for row in rows]) < LEAST_VISITS


def to_fit(rows: Sequence[Row]) -> NoisyCurve:
    """Returns the curve to which levels are fitted. Sizes with two states are omitted, so that none becomes a level and
    a knee may lie anywhere in the gap. At the end of the sweep the second state is used instead, as the latency of the
    next level."""
    one_state = [place for place, row in enumerate(rows) if both_states(row) is None]
    kept = [rows[place] for place in one_state]
    for row in rows[one_state[-1] + 1 if one_state else 0 :]:
        if states := both_states(row):
            low, middle, high = states[1].low, states[1].median, states[1].high
            kept.append(msgspec.structs.replace(row, median=middle, low=low, high=high, quartiles=()))
    return _with_noise(kept if len(kept) >= LEAST_VALUES else rows)


def undisturbed_curve(rows: Sequence[Row]) -> list[Row]:
    """Returns the curve with each mixed size at its undisturbed latency: at most that of any batch of this or a larger
    size, since other workloads only add time, and latency never falls as the size grows. rows: one sweep, smallest size
    first."""
    undisturbed, least = [], inf
    for row in reversed(rows):
        least = min(least, row.minimum or inf)
        lowest = {"median": least, "low": least, "high": least * TORN, "quartiles": ()}
        undisturbed.append(msgspec.structs.replace(row, **lowest) if is_mixed(row) else row)
    return undisturbed[::-1]


def _with_noise(rows: Sequence[Row]) -> NoisyCurve:
    """Returns the points of a sweep, smallest size first, each with the noise that its interval shows."""
    values = np.array([_undisturbed(row) for row in rows])
    # If a batch of this or a larger size had the latency of the first cache, this replaces the median: the first cache
    # serves only its own core, and a busy sibling hyperthread only adds time.
    least = np.minimum.accumulate([row.minimum or inf for row in reversed(rows)])[::-1]
    values = np.where((least < APART * least[0]) & (values > APART * least), least, values)
    noise = [_noise(row) for row in rows]
    visits = max(int(median(row.visits for row in rows)), 1)
    return noisy_curve([size_of(row) for row in rows], values.tolist(), noise, visits)


def _noise(row: Row) -> float:
    """Returns the standard deviation of the logarithm of a row within this run, without the variance of a shared cache
    between runs."""
    middle = row.median or 0.0
    if row.shares and row.error is not None:
        return row.error
    return log((row.high or middle) / max(row.low or 0.0, middle / 10)) / (2 * NORMAL)


def _undisturbed(row: Row) -> float:
    """Returns the median of a row, or its lower quartile if the median is at least 1.5 times as high.

    Page colours scatter the latency of a visit to both sides of the median. Other workloads on a shared cache only add
    time: they evict lines, so that a size that fits has the latency of one that does not."""
    middle, lower = row.median or 0.0, row.quartiles[0] if row.quartiles else 0.0
    return lower if 0 < lower < middle / (1 + FAR_APART) else middle


# ---- points with noise -----------------------------------------------------------------------------------------------


class NoisyCurve(Record, frozen=True):
    """Latency over size, ascending. noise: relative standard error of each value. visits: number of visits of each
    value."""

    sizes: Array
    values: Array
    noise: Array
    visits: int


def noisy_curve(
    sizes: Sequence[float], values: Sequence[float], noise: Sequence[float] | None = None, visits: int = 4
) -> NoisyCurve:
    """Returns the points in the order of size.

    noise: relative standard errors. Since a few visits estimate the noise of a point badly, each point has the common
    noise of all points, at least 2 %, unless its own is more than twice as large."""
    order = np.argsort(np.asarray(sizes, float), kind="stable")
    own_noise = np.zeros(len(order)) if noise is None else np.asarray(noise, float)
    common_noise = max(float(np.median(own_noise)) if len(own_noise) else 0.0, USUAL_VISITS_SD)
    return NoisyCurve(
        sizes=np.asarray(sizes, float)[order],
        values=np.asarray(values, float)[order],
        noise=np.maximum(own_noise / 2, common_noise)[order],
        visits=visits,
    )


def monotone(points: NoisyCurve) -> Array:
    """Returns the nearest curve, in logarithms, that never falls (Barlow et al. 1972), weighted by the noise."""
    return np.asarray(np.exp(nearest_rising(np.log(points.values), 1 / points.noise**2)))


def segments(points: NoisyCurve) -> tuple[int, ...]:
    """Returns the index at which each plateau of the monotone curve begins, by least squares on log latency. The
    Bayesian information criterion selects the number of plateaus."""
    cost = piece_costs(np.log(monotone(points)), 1 / points.noise**2)
    cuts = best_cuts(cost, MOST_SEGMENTS)
    return (0, *min(cuts, key=lambda cut: bic(squares_of(cost, cut), len(points.sizes), 2 * len(cut) + 1)))


def bic(squares: float, count: int, parameters: int) -> float:
    """Returns the Bayesian information criterion (Schwarz 1978); lower is better.

    squares: residual sum of squares in units of the noise, which is known up to a factor of at least one."""
    return count * log(max(squares / count, 1.0)) + min(squares, count) + parameters * log(count)


# ---- flat pieces and jumps -------------------------------------------------------------------------------------------


class Jump(Record, frozen=True):
    """A rise of a series between the indices at-1 and at. low, high: the same as `at` for the first and the last
    position in its 95 % interval. before, after: levels on both sides."""

    at: int
    low: int
    high: int
    before: float
    after: float


def jumps(values: Sequence[float], errors: Sequence[float], most: int = 4) -> tuple[Jump, ...]:
    """Returns the rises of a series of plateaus that never falls, like the cost of a cache or buffer that overflows, by
    least squares with known errors. The Bayesian information criterion selects their number. values: in the order of
    the axis. errors: standard errors, which are widened if the values scatter more."""
    if not len(values):
        return ()
    level, weight = np.asarray(values, float), 1 / np.asarray(errors, float) ** 2

    def means(starts: Sequence[int]) -> list[float]:
        ends = pairwise([0, *starts, len(level)])
        return [float(np.average(level[start:end], weights=weight[start:end])) for start, end in ends]

    cost = piece_costs(level, weight)
    cuts = best_cuts(cost, most + 1)
    scale = max(min(squares_of(cost, cut) for cut in cuts) / max(len(level) - 2 * len(cuts), 1), 1.0)
    rising = [cut for cut in cuts if all(before < after for before, after in pairwise(means(cut)))]
    best = min(rising, key=lambda cut: squares_of(cost, cut) / scale + 2 * len(cut) * log(max(len(level), 2)))
    ends, levels, rises = [0, *best, len(level)], means(best), []
    for first, at, end, before, after in zip(ends, ends[1:], ends[2:], levels, levels[1:], strict=False):
        places = range(first + 1, end)
        squares = np.array([cost[first, place - 1] + cost[place, end - 1] for place in places])
        likely = np.flatnonzero(squares <= squares.min() + NORMAL**2 * scale)
        low, high = places[int(likely[0])], places[int(likely[-1])]
        rises.append(Jump(at=at, low=low, high=high, before=before, after=after))
    return tuple(rises)


def piece_costs(values: Array, weights: Array) -> Array:
    """Returns a table of the weighted squares of each piece i..j about its mean; infinite if j < i."""
    sums = [np.concatenate([[0.0], np.cumsum(term)]) for term in (weights, weights * values, weights * values**2)]
    total, linear, square = (part[None, 1:] - part[:-1, None] for part in sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = np.maximum(square - linear**2 / total, 0)
    return np.asarray(np.where(np.tri(len(values), k=-1, dtype=bool), inf, cost))


def squares_of(cost: Array, starts: Sequence[int]) -> float:
    """Returns the weighted squares of all pieces about their means. cost: as `piece_costs` returns it. starts: as in
    `best_cuts`."""
    return sum(float(cost[start, end - 1]) for start, end in pairwise([0, *starts, len(cost)]))


def best_cuts(cost: Array, most: int) -> list[Sequence[int]]:
    """Returns the best cuts into one piece, two pieces, and so on up to `most` or the number of values; each cut is the
    list of the indices at which its pieces after the first begin. Dynamic programming over all positions makes them
    exact (Bellman and Roth 1969). The caller chooses the number of pieces, since it knows the penalty of a cut."""
    best = cost[0]
    back: list[Array] = []
    cuts: list[Sequence[int]] = [()]
    for _ in range(1, min(most, len(cost))):
        through = best[:-1, None] + cost[1:, :]
        back.append(np.argmin(through, axis=0) + 1)
        best = np.min(through, axis=0)
        end, starts = len(back[0]), []
        for choice in reversed(back):
            end = int(choice[end - 1])
            starts.append(end)
        cuts.append(starts[::-1])
    return cuts
