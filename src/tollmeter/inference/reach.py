# SPDX-License-Identifier: Apache-2.0
"""Determines the size up to which a cache serves reads, as distinct from its size by latency.

Reading runs at the rate of a cache while the lines are in it. A read loop returns to a line much sooner than a walk of
dependent loads does, so that other workloads have less time to evict the line. So the capacity of a shared cache by
reading may differ from its capacity by latency, and both are right. Sizes are in bytes, rates in bytes a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, median_low

import msgspec
import numpy as np

from tollmeter.experiment.limits import (
    ALIKE,
    CLEARLY,
    FAR_APART,
    FEW,
    HARDLY,
    LEAST_VALUES,
    LEAST_VISITS,
    MORE_THAN_TWICE,
    SAME_WITHIN,
)
from tollmeter.inference.answers import middle
from tollmeter.inference.curves import APART, inside, size_of
from tollmeter.inference.knees import CurveFit, Knee
from tollmeter.maths.fits import nearest_rising
from tollmeter.model import Probe, Row
from tollmeter.numbers.meanings import meaning, with_meaning

Within = tuple[float, float]

READING = "read-bandwidth-of-size"
LEAST_BEYOND = 2


def reading_rows(rows: Sequence[Row], probes: Mapping[str, Probe]) -> list[list[Row]]:
    """Returns the rows of read bandwidth over size, one list for each probe and kernel, smallest size first."""
    by_kernel: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in inside(with_meaning(rows, probes, READING), (0, np.inf)):
        if row.unit == "B/s":
            by_kernel[row.probe, kernel_of(row)].append(row)
    return [sorted(kernel, key=size_of) for kernel in by_kernel.values()]


def missing_kernels(rows: Sequence[Row], probes: Mapping[str, Probe], within: Within) -> dict[str, str]:
    """Returns the requested kernels that this machine supports but that have no number at any size well inside a level,
    each with the reason. The fastest kernel may be one of them. within: bounds of the level in bytes."""
    rows_of_level = [row for row in inside(rows, within) if meaning(row, probes) == READING]
    numbered = {kernel_of(row) for row in rows_of_level if row.status == "ok"}
    return {kernel_of(row): row.reason or row.status for row in rows_of_level
            if row.status != "unsupported" and kernel_of(row) not in numbered}  # fmt: skip


def kernel_of(row: Row) -> str:
    """Returns the name of the kernel of a row; if `best` was requested, of the kernel that was best."""
    return row.chosen.get("kernel") or str(row.parameters.get("kernel"))


@dataclass(frozen=True)
class ReadCurve:
    """The read rate of a kernel in a level, in bytes a second. low..high: 95 % interval, None for too few visits."""

    rate: float
    kernel: str
    low: float | None = None
    high: float | None = None


def fastest(kernels: Sequence[Sequence[Row]], within: Within) -> ReadCurve | None:
    """Returns the read rate of the fastest kernel in a level: the median over the sizes well inside it, and the medians
    of the interval ends. None if no kernel was timed there. within: bounds of the level in bytes."""
    curves = []
    for rows in filter(None, (inside(kernel, within) for kernel in kernels)):
        rate, name = float(np.median([middle(row) for row in rows])), kernel_of(rows[0])
        ends = [(row.low, row.high) for row in rows if row.low is not None and row.high is not None]
        if median_low([row.visits for row in rows]) < LEAST_VISITS or len(ends) < len(rows):
            curves.append(ReadCurve(rate, name))
        else:
            low = float(np.median([low or rate for low, _ in ends]))
            high = float(np.median([high or rate for _, high in ends]))
            curves.append(ReadCurve(rate, name, min(low, rate), max(high, rate)))
    return max(curves, key=lambda curve: curve.rate, default=None)


def reading_reach(kernels: Sequence[Sequence[Row]], within: Within) -> Within | None:
    """Returns the last size that is read at the rate of the sizes within the bounds, and the first size that is clearly
    read more slowly, for the kernel with most sizes. None if reading never slows down, or was not timed both inside and
    well beyond the bounds. within: bounds in bytes."""
    sweep = max(kernels, key=len, default=())
    inside_rows = inside(sweep, within)
    from_here = inside(sweep, (within[0], np.inf))
    if not inside_rows or len(from_here) < len(inside_rows) + LEAST_BEYOND:
        return None
    # Time of a byte at each size, relative to the level, by the nearest curve that never falls: no size is read faster
    # than a smaller one.
    times_per_byte = np.exp(nearest_rising([-np.log(middle(row)) for row in from_here]))
    times_per_byte /= float(np.median([1 / middle(row) for row in inside_rows]))
    last, first = np.flatnonzero(times_per_byte <= 1 + ALIKE), np.flatnonzero(times_per_byte >= 1 + CLEARLY)
    if not len(last) or not len(first):
        return None
    return float(size_of(from_here[last[-1]])), float(size_of(from_here[first[0]]))


# ---- capacity --------------------------------------------------------------------------------------------------------

LEVELS = ("first", "second")
SAME_COUNT = 1 + HARDLY
"""Largest ratio of the page counts of two layouts that agree."""
MOST_SMEARED = 2.0
"""Largest ratio of the counted size of a cache to its boundary in the curve, where some page colours overflow early."""


def with_counted_sizes(
    fit: CurveFit, sweep: Sequence[Row], rows: Sequence[Row], probes: Mapping[str, Probe]
) -> CurveFit:
    """Returns the fit of a sweep with the cache sizes that rows of the meaning `capacity` counted. A counted size
    replaces a boundary that agrees with it, or a boundary below it that page colours moved down; else it splits a level
    that joins two levels."""
    by_level = {row.parameters.get("level"): row for row in with_meaning(rows, probes, "capacity") if row.low}
    places = []
    for level, row in ((level, by_level[name]) for level, name in enumerate(LEVELS) if name in by_level):
        size, contended = row.quartiles[1], _is_beside_sibling(row, rows)
        knee = Knee(size_bytes=size, low=size / (1 + SAME_WITHIN), high=size * (1 + SAME_WITHIN))
        if contended or row.layouts < LEAST_VISITS or size > SAME_COUNT * (row.minimum or 0.0):
            fit = _with_least(fit, knee, is_least=contended)
            continue
        place = next(
            (at for at, other in enumerate(fit.knees) if knee.low <= other.high and other.low <= knee.high), None
        )
        if place is not None:
            old = fit.knees[place]
            is_closer = knee.high / knee.low < old.high / old.low
        else:
            moved_down = (at for at, other in enumerate(fit.knees)
                       if at >= level and other.size_bytes < size <= MOST_SMEARED * other.size_bytes)  # fmt: skip
            place, is_closer = next(moved_down, None), True
        if place is not None:
            places.append(place)
            if is_closer:
                fit = msgspec.structs.replace(fit, knees=(*fit.knees[:place], knee, *fit.knees[place + 1 :]))
        elif (split := _split(fit, knee, sweep)) is not None:
            places.append(split.knees.index(knee))
            fit = split
        if level == 0 and place:  # no cache ends before the first one
            fit, places = without(fit, range(place)), [0]
    return without(fit, range(places[0] + 1, places[1])) if len(places) == len(LEVELS) else fit


def _is_beside_sibling(row: Row, rows: Sequence[Row]) -> bool:
    """Returns whether a sibling hyperthread was busy during the walks through the counted pages. row: the count."""
    walked = (other for other in rows if (other.probe, other.parameters) == (row.probe, row.parameters))
    return max(map(contended_share, walked), default=0.0) > FEW


def contended_share(row: Row) -> float:
    """Returns the share of the samples of a row that ran beside a busy sibling hyperthread."""
    return max((state.share for state in row.states if state.state == "contended"), default=0.0)


def _with_least(fit: CurveFit, count: Knee, *, is_least: bool) -> CurveFit:
    """Returns the fit with a lower bound of a size from a page count. A count can only be too low: a cache that
    contains as many pages has at least this capacity. is_least: whether a sibling hyperthread was busy; then the curve
    gives no lower bound, and the count is the only one."""
    place = next((at for at, other in enumerate(fit.knees) if count.low <= other.high), None)
    if place is None:
        return fit
    old = fit.knees[place]
    knee = Knee(
        size_bytes=max(old.size_bytes, count.size_bytes),
        low=count.low if is_least else max(old.low, count.low),
        high=max(old.high, count.high),
        is_least=is_least or old.is_least,
    )
    return msgspec.structs.replace(fit, knees=(*fit.knees[:place], knee, *fit.knees[place + 1 :]))


def _split(fit: CurveFit, knee: Knee, sweep: Sequence[Row]) -> CurveFit | None:
    """Returns the fit with a boundary inside a level other than the last; None unless the sizes on both sides show two
    levels."""
    place = sum(other.size_bytes < knee.size_bytes for other in fit.knees)
    if place == len(fit.knees):
        return None
    low, high = ([0.0] + [other.size_bytes for other in fit.knees])[place : place + 2]
    sides = (
        (low * (1 + FAR_APART), knee.size_bytes / (1 + FAR_APART)),
        (knee.size_bytes * (1 + FAR_APART), high / (1 + FAR_APART)),
    )
    before, behind = ([row.median for row in inside(sweep, side) if row.median] for side in sides)
    if not before or not behind or min(behind) < APART * median(before):
        return None
    latencies = median(before), min(behind)  # other workloads on a shared cache only add time
    spreads = [fit.spreads[place] / fit.latencies[place] * latency for latency in latencies]
    return CurveFit(
        knees=(*fit.knees[:place], knee, *fit.knees[place:]),
        latencies=(*fit.latencies[:place], *latencies, *fit.latencies[place + 1 :]),
        spreads=(*fit.spreads[:place], *spreads, *fit.spreads[place + 1 :]),
    )


def without_false_levels(fit: CurveFit, sweep: Sequence[Row]) -> CurveFit:
    """Returns the fit without false levels just beyond the capacity of a cache. Up to twice the capacity an
    adjacent-line prefetcher fetches every second line in advance, so the latency is the mean of both levels. If a cache
    replaces lines at random, its misses increase with the size, so the latency rises without a plateau."""
    sizes, latencies = [knee.size_bytes for knee in fit.knees], fit.latencies
    means = [(before + behind) / 2 for before, behind in zip(latencies, latencies[2:], strict=False)]
    return without(fit, [
        place
        for place in range(1, len(sizes))
        if fit.knees[place].low < MORE_THAN_TWICE * sizes[place - 1]
        and (abs(latencies[place] / means[place - 1] - 1) < CLEARLY
             or _rises(sweep, (fit.knees[place - 1].high, fit.knees[place].low)))
    ])  # fmt: skip


def _rises(sweep: Sequence[Row], within: Within) -> bool:
    """Returns whether the latency grows at least in proportion to the size, over the whole range."""
    rows = inside(sweep, within)
    if len(rows) < LEAST_VALUES:
        return False
    return middle(rows[-1]) / middle(rows[0]) > size_of(rows[-1]) / size_of(rows[0])


def without(fit: CurveFit, places: Collection[int]) -> CurveFit:
    """Returns the fit without these boundaries and the levels before them. places: numbers of the boundaries, from
    0."""
    kept = [place for place in range(len(fit.knees)) if place not in places]
    levels = [*kept, len(fit.knees)]
    return CurveFit(
        knees=tuple(fit.knees[place] for place in kept),
        latencies=tuple(fit.latencies[place] for place in levels),
        spreads=tuple(fit.spreads[place] for place in levels),
    )
