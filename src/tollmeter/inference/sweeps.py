# SPDX-License-Identifier: Apache-2.0
"""Latency rows as curves over size, one for each page mode, and the points that two levels serve in turn.

A shared cache serves a size in one visit and not in the next, depending on whether a lap ends before other workloads
have evicted its lines. Such a row has a `first` and a `second` state, and its own median is only the more frequent one.
It shows that the cache ends there, and is not the latency of a level: no level of the machine has a latency in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf, log
from statistics import median, median_low

import msgspec
import numpy as np

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.inference.curves import NoisyCurve, curve
from tollmeter.model import Probe, Row, State
from tollmeter.numbers.meanings import with_meaning
from tollmeter.numbers.stats import Array

BEST_PAGES_FIRST = ("huge", "small", "local")
LEAST_POINTS = 5
DISTURBED = 1.5
TORN = 2.0
FAR_FROM_KNEE = 1.5
"""Ratio of sizes: a size so far from a boundary is served by one level."""
APART = 1.35
"""Two states that are closer belong to one level; no two levels are that close (`search.LEAST_RATIO`)."""


def size_of(row: Row) -> int:
    return int(row.parameters["size"])


def inside(rows: Sequence[Row], within: tuple[float, float]) -> list[Row]:
    """The rows whose size lies there; those without a size are left out."""
    sized = [row for row in rows if isinstance(row.parameters.get("size"), int)]
    return [row for row in sized if within[0] <= size_of(row) <= within[1]]


def latency_rows(rows: Sequence[Row], probes: Mapping[str, Probe]) -> dict[str, list[Row]]:
    """Latency curves in ns with enough points, by page mode, ordered by size."""
    curves: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in with_meaning(rows, probes, "latency-of-size"):
        if row.unit == "ns" and isinstance(row.parameters.get("size"), int):
            curves[str(row.parameters.get("pages", ""))].setdefault(size_of(row), row)
    return {
        pages: [points[size] for size in sorted(points)]
        for pages, points in curves.items()
        if len(points) >= LEAST_POINTS
    }


def best_pages(curves: Mapping[str, Sequence[Row]]) -> str:
    """Huge pages, whose translations stay near; then small ones. Page-local order comes last: a prefetcher may predict
    some of it. A curve that ends early has a lower rank."""
    farthest = max(size_of(points[-1]) for points in curves.values())
    complete = [pages for pages, points in curves.items() if 2 * size_of(points[-1]) >= farthest]
    rank = {pages: place for place, pages in enumerate(BEST_PAGES_FIRST)}
    return min(complete, key=lambda pages: (rank.get(pages, len(rank)), pages))


def both_states(row: Row) -> tuple[State, State] | None:
    """The two states of the row, where they differ by as much as two levels."""
    states = {state.state: state for state in row.states}
    first, second = states.get("first"), states.get("second")
    return (first, second) if first and second and second.median >= APART * first.median else None


def is_mixed(row: Row) -> bool:
    """Whether its visits were served by two levels, without two modes that so few batches would show."""
    return both_states(row) is None and (row.high or 0.0) > TORN * (row.low or inf)


def are_few(rows: Sequence[Row]) -> bool:
    """Whether more than half of them rest on too few visits for an interval."""
    return bool(rows) and median_low([row.visits for row in rows]) < LEAST_VISITS


def to_fit(rows: Sequence[Row]) -> NoisyCurve:
    """What levels are fitted to. A size of two states is left out, so that it can be no level, and a knee may lie
    anywhere in the gap. At the sweep's end the second state stays: that is what lies beyond."""
    steady = [place for place, row in enumerate(rows) if both_states(row) is None]
    end = steady[-1] + 1 if steady else 0
    kept = [rows[place] for place in steady] + [_in_second_state(row) for row in rows[end:]]
    return _curve(kept if len(kept) >= LEAST_POINTS else rows)


def undisturbed_curve(rows: Sequence[Row]) -> list[Row]:
    """Each mixed size at its undisturbed latency, which is at most that of any batch of it or of a larger size: other
    workloads only add, and a size is at least as far as a smaller one. rows: one sweep, nearest first."""
    calm, least = [], inf
    for row in reversed(rows):
        least = min(least, row.minimum or inf)
        calm.append(_of_least(row, least) if is_mixed(row) else row)
    return calm[::-1]


def _of_least(row: Row, least: float) -> Row:
    return msgspec.structs.replace(row, median=least, low=least, high=least * TORN, quartiles=())


def _in_second_state(row: Row) -> Row:
    both = both_states(row)
    return row if both is None else _of_state(row, both[1])


def _of_state(row: Row, state: State) -> Row:
    return msgspec.structs.replace(row, median=state.median, low=state.low, high=state.high, quartiles=())


def _curve(rows: Sequence[Row]) -> NoisyCurve:
    values = _served_by_first(rows, np.array([_undisturbed(row) for row in rows])).tolist()
    medians = [row.median or 0.0 for row in rows]
    lows = [max(row.low or 0.0, middle / 10) for row, middle in zip(rows, medians, strict=True)]
    highs = [row.high or middle for row, middle in zip(rows, medians, strict=True)]
    noise = [log(high / low) / 3.92 for high, low in zip(highs, lows, strict=True)]
    visits = max(int(median(row.visits for row in rows)), 1)
    return curve([size_of(row) for row in rows], values, noise, visits)


def _served_by_first(rows: Sequence[Row], values: Array) -> Array:
    """With each size at the least that it or a larger one ever took, where that is the first cache's latency and the
    median is not: the first cache serves no core but its own, and a busy sibling hyperthread only adds."""
    least = np.minimum.accumulate([row.minimum or inf for row in reversed(rows)])[::-1]
    return np.where((least < APART * least[0]) & (values > APART * least), least, values)


def _undisturbed(row: Row) -> float:
    """The median, or the lower quartile where half of the samples took 1.5 times as long or more.

    A visit's page colours scatter its latency to both sides, and the median is the middle. Other users of a shared
    cache only ever add: they evict lines, and a size that fits is timed as if it did not."""
    middle, lower = row.median or 0.0, row.quartiles[0] if row.quartiles else 0.0
    return lower if 0 < lower < middle / DISTURBED else middle
