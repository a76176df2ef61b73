# SPDX-License-Identifier: Apache-2.0
"""The measured memory hierarchy: levels with their size, latency, read bandwidth and parallelism.

All values come from rows, selected by meaning. The sizes that the operating system reports are shown for comparison;
they name the levels, and may reject a boundary of few visits. A level that was not measured is absent. A curve that is
too poor to separate levels gives none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, takewhile
from math import inf, log, sqrt
from statistics import median

import msgspec
import numpy as np

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, LEAST_VISITS, MIB, MORE_THAN_TWICE, MOSTLY
from tollmeter.experiment.run_record import MOST_LEVELS
from tollmeter.inference.curves import (
    APART,
    are_few,
    best_pages,
    both_states,
    inside,
    is_mixed,
    latency_rows,
    size_of,
    to_fit,
    undisturbed_curve,
)
from tollmeter.inference.knees import CurveFit, Knee, fit_levels
from tollmeter.inference.reach import (
    Within,
    contended_share,
    fastest,
    missing_kernels,
    reading_reach,
    reading_rows,
    with_counted_sizes,
    without_false_levels,
)
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import USUAL_PAGE_BYTES, Cache, Level, Machine, Probe, Row, State
from tollmeter.numbers.meanings import meaning, native
from tollmeter.numbers.plausible import in_one_place

BEYOND = 2
MEMORY = "memory"
OR_MEMORY = f" or {MEMORY}"
"""Suffix of the name of a level that may be either this cache or memory."""
MOST_APART = 64
"""Largest ratio of the ends of a boundary's interval: the capacities of neighbouring caches differ by less, so a wider
interval contains two levels."""
MOST_MISSED = 2
"""Largest ratio of the time at one size to the latency of its level: a larger one shows that the fit has joined several
levels."""

BEYOND_UNTOLD = 8 * MIB
"""Bytes of a walk that reaches memory even if the system reports no cache: most guests get less of a shared cache."""


@dataclass(frozen=True)
class _Evidence:
    """The evidence for the levels. rows: native rows. sweep: rows of one latency curve, in ascending size. fit: levels
    of this curve. reading: the rows of each read kernel."""

    machine: Machine
    probes: Mapping[str, Probe]
    rows: Sequence[Row]
    sweep: Sequence[Row]
    reading: Sequence[Sequence[Row]]
    fit: CurveFit

    def mixed_sizes(self, place: int) -> list[tuple[int, tuple[State, State]]]:
        """Returns the sizes in bytes that this level serves in some visits only, each with both states. The first state
        has the latency nearest to this level's. place: number of the level, from 0."""
        latencies = np.asarray(self.fit.latencies)
        mixed = [(size_of(row), states) for row in self.sweep if (states := both_states(row))]
        return [
            (size, states)
            for size, states in mixed
            if int(np.argmin(np.abs(np.log(latencies / states[0].median)))) == place
        ]

    def bounds(self, place: int) -> Within:
        """Returns the capacities, in bytes, of the previous level and of this one; 0 before the first, and infinity for
        the last."""
        sizes = [0.0, *(knee.size_bytes for knee in self.fit.knees), inf]
        return sizes[place], sizes[place + 1]

    def well_inside(self, place: int) -> Within:
        """Returns the range of sizes, in bytes, that clearly exceed the previous level and clearly fit into this one.
        For the last level it is the farther half of the sweep, since the nearer half may contain a cache that was not
        resolved."""
        low, high = self.bounds(place)
        if high == inf:
            return max(low * (1 + FAR_APART), size_of(self.sweep[-1]) / 2), inf
        return low * (1 + FAR_APART), high / (1 + FAR_APART)


def hierarchy(rows: Sequence[Row], probes: Mapping[str, Probe], machine: Machine) -> tuple[Level, ...]:
    """Returns the levels, nearest first, with `memory` last if the sweep went beyond all caches; empty without a usable
    latency curve."""
    native_rows = native(rows, machine.architecture)
    curves = latency_rows(native_rows, probes)
    if not curves:
        return ()
    fits = {pages: _fit(sweep, pages, machine) for pages, sweep in curves.items()}
    # A fit that joins two levels says nothing of either; another page mode may have resolved them.
    separated = {pages: sweep for pages, sweep in curves.items() if not _joins_levels(fits[pages], sweep)}
    best = best_pages(separated or curves)
    sweep = curves[best]
    if best == "small" and "local" in curves:
        joined = _less_translation(fits[best], fits["local"], sweep)
    else:
        joined = _joined(fits[best], [fits[pages] for pages in curves if pages != best])
    # One visit of the farthest size does not show that a level was missed, where sizes before it have more.
    well_visited = [row for row in sweep if row.visits >= LEAST_VISITS] or sweep
    is_missed = to_fit(well_visited).values[-1] > MOST_MISSED * joined.latencies[-1]
    if is_missed or any(knee.high > MOST_APART * knee.low for knee in joined.knees):
        return ()
    fit = without_false_levels(with_counted_sizes(joined, sweep, native_rows, probes), sweep)
    evidence = _Evidence(
        machine, probes, native_rows + _unvisited(rows, native_rows[0]), sweep, reading_rows(native_rows, probes), fit
    )
    names = _names(fit, float(size_of(sweep[-1])), machine)
    levels = tuple(_level(name, place, evidence) for place, name in enumerate(names))
    return _with_first_cache(levels, sweep, machine)


def _unvisited(rows: Sequence[Row], like: Row) -> list[Row]:
    """Returns the requested rows without a visit, whose clock is therefore unknown, of the ABI and target of `like`."""
    return [row for row in rows if row.clock == "none" and (row.target, row.abi) == (like.target, like.abi)]


def _joins_levels(fit: CurveFit, sweep: Sequence[Row]) -> bool:
    """Returns whether the fit has joined several levels: at some size of a level every batch took a multiple of the
    latency of the level, or all sizes took longer than the latency of the first level. Other workloads delay some
    batches, and seldom all."""
    ends = [0.0, *(end for knee in fit.knees for end in (knee.low, knee.high)), inf]
    for low, high, latency in zip(ends[::2], ends[1::2], fit.latencies, strict=True):
        least_times_ns = [
            row.minimum or row.median or 0.0 for row in sweep if low < size_of(row) < high and both_states(row) is None
        ]
        if any(least > MOST_MISSED * latency for least in least_times_ns):
            return True
    return fit.latencies[0] <= (1 - CLEARLY) * min(row.median or inf for row in sweep)


def os_sizes(machine: Machine) -> tuple[Cache, ...]:
    """Returns the data and unified caches that the operating system reports, one for each level, nearest first."""
    levels: dict[int, Cache] = {}
    for cache in machine.caches:
        if cache.kind != "instruction" and cache.size_bytes:
            levels.setdefault(cache.level, cache)
    return tuple(levels[level] for level in sorted(levels))


def beyond_bytes(machine: Machine) -> float:
    """Returns the bytes of the smallest buffer that certainly exceeds every cache that the system reports."""
    known = machine.data_sizes().values()
    return BEYOND * max(known) if known else BEYOND_UNTOLD


def _fit(rows: Sequence[Row], pages: str, machine: Machine) -> CurveFit:
    """Returns the fit of the measured curve; or of the undisturbed curve, if other workloads blur the last knee and the
    undisturbed curve splits it into two.

    A sweep of few visits that ends inside the last cache has at most as many levels as the system reports caches:
    otherwise the scatter of single visits would add a boundary, and the level beyond it would be named memory. rows:
    one curve, in ascending size. pages: page mode of the curve."""
    reported = len(os_sizes(machine))
    ends_inside = reported and size_of(rows[-1]) < beyond_bytes(machine)
    most = reported if ends_inside and are_few(rows) else 1 + MOST_LEVELS
    page_bytes = USUAL_PAGE_BYTES if pages == "huge" else machine.page_bytes
    fit = _without_unseen_levels(rows, 1 + MOST_LEVELS, page_bytes)
    if most <= MOST_LEVELS:
        fit = _first_levels(fit, most) or _without_unseen_levels(rows, most, page_bytes)
    if not blurred(fit, rows):
        return fit
    undisturbed = _without_unseen_levels(undisturbed_curve(rows), most, page_bytes)
    return undisturbed if len(undisturbed.knees) > len(fit.knees) else fit


def _first_levels(fit: CurveFit, most: int) -> CurveFit | None:
    """Returns the fit cut to `most` levels: the nearest `most - 1`, then one level with the latency of the largest
    sizes; None if the fit has fewer levels, or two neighbours whose latencies are so similar that one may be scatter
    (MOST_MISSED). A new fit of `most` levels would join the first two if a guest has only a share of the last cache."""
    steps = [after / before for before, after in pairwise(fit.latencies)]
    if len(steps) < most or min(steps) < MOST_MISSED:
        return None
    kept = slice(most - 1)
    return CurveFit(
        knees=fit.knees[kept], latencies=(*fit.latencies[kept], fit.latencies[-1]),
        spreads=(*fit.spreads[kept], fit.spreads[-1]),
    )  # fmt: skip


def _without_unseen_levels(rows: Sequence[Row], most: int, page_bytes: int) -> CurveFit:
    """Returns the fit without levels between two others whose latency is the median of no size. Such a level arises
    from sizes that each neighbouring level serves at some times, since the fit uses the lower quartiles."""
    fit = fit_levels(to_fit(rows), most, page_bytes)
    while not all(_is_seen(fit, place, rows) for place in range(1, len(fit.knees))):
        fit = fit_levels(to_fit(rows), len(fit.knees), page_bytes)
    return fit


def _is_seen(fit: CurveFit, place: int, rows: Sequence[Row]) -> bool:
    """Returns whether the median of some size of the level is near to its latency. place: number of the level, from
    0."""
    latency, end = fit.latencies[place], fit.knees[place].size_bytes
    medians = [row.median or 0.0 for row in rows if fit.knees[place - 1].size_bytes < size_of(row) < end]
    return any(abs(typical - latency) < CLEARLY * latency for typical in medians)


def _joined(best: CurveFit, others: Sequence[CurveFit]) -> CurveFit:
    """Returns the best curve's levels, with each size averaged with the sizes that other page modes measured.

    All page modes measure the same caches with different page placement. A knee of another curve is used if that curve
    has as many knees and the intervals overlap. Weights are the inverse squares of the intervals' widths (logarithms).
    The interval does not become narrower than the mean interval, since the curves share errors that averaging does not
    reduce."""
    comparable = [fit for fit in others if len(fit.knees) == len(best.knees)]
    joined = []
    for place, knee in enumerate(best.knees):
        others_there = (fit.knees[place] for fit in comparable)
        overlapping = [knee, *(other for other in others_there if other.low <= knee.high and knee.low <= other.high)]
        weights = [1 / log(other.high / other.low) ** 2 for other in overlapping]
        size, low, high = (
            float(np.exp(np.average(np.log(ends), weights=weights)))
            for ends in zip(*((other.size_bytes, other.low, other.high) for other in overlapping), strict=True)
        )
        joined.append(msgspec.structs.replace(knee, size_bytes=size, low=low, high=high))
    return msgspec.structs.replace(best, knees=tuple(joined))


def _less_translation(small: CurveFit, local: CurveFit, sweep: Sequence[Row]) -> CurveFit:
    """Returns the levels of small pages with the knees of page-local order. A knee that exists only while each load
    changes the page belongs to a translation buffer, which also blurs the other knees. The latencies remain those of
    small pages, which include translation. If page-local order has more knees than small pages, a prefetcher made them,
    and the levels of small pages are returned."""
    if len(local.knees) > len(small.knees):
        return small
    ends = [0.0, *(knee.size_bytes for knee in local.knees), inf]
    latencies = []
    for (low, high), latency in zip(pairwise(ends), local.latencies, strict=True):
        inside = [row.median or 0.0 for row in sweep if low * (1 + FAR_APART) <= size_of(row) <= high / (1 + FAR_APART)]
        latencies.append(median(inside) if inside else latency)
    return CurveFit(knees=_joined(local, [small]).knees, latencies=tuple(latencies), spreads=local.spreads)


def _names(fit: CurveFit, farthest: float, machine: Machine) -> list[str]:
    """Returns the names `L1d`, `L2` ... in order. If fewer levels were found than the system reports, a level takes the
    name of the reported cache that its size agrees with.

    The farthest plateau is memory if the sweep went well beyond the largest reported cache, or well beyond the last
    boundary of the curve where that is the boundary of the last reported cache. In a shorter sweep the farthest plateau
    is either memory or the last-level cache, of which other workloads may have used a part or all. farthest: largest
    size, in bytes."""
    known = [*machine.data_sizes().values()]
    count = len(fit.knees)
    numbers = _agreeing(fit.knees, known) if len(known) > count else tuple(range(count))
    names = ["L1d" if number == 0 else f"L{number + 1}" for number in numbers]
    is_shown = bool(known and numbers) and numbers[-1] + 1 >= len(known) and farthest >= BEYOND * fit.knees[-1].high
    if count and (is_shown or farthest >= beyond_bytes(machine)):
        return [*names, MEMORY]
    # A boundary of few visits may be that of any cache in its interval; the next level is beyond all of these caches.
    within = sum(size <= fit.knees[-1].high for size in known) if count else 0
    following = max(numbers[-1] + 2, min(within + 1, len(known))) if numbers else 1
    if known and 1 < following >= len(known):
        return [*names, f"L{len(known)}{OR_MEMORY}"]
    return [*names, "L1d" if following == 1 else f"L{following}"]


def _with_first_cache(levels: tuple[Level, ...], sweep: Sequence[Row], machine: Machine) -> tuple[Level, ...]:
    """Returns the levels with the first one named L1d, without a size, if few visits show one boundary and it agrees
    with a later cache: the sizes below the boundary have the latency of L1d."""
    first, known = levels[0], [*machine.data_sizes().values()]
    if _number(first.level) < 2 or not known or size_of(sweep[0]) > known[0] or not are_few(sweep):
        return levels
    without = msgspec.structs.replace(first, level="L1d", size_bytes=None, size_low=None, size_high=None)
    os_size = _os_size("L1d", machine)
    return (
        msgspec.structs.replace(without, os_size_bytes=os_size, not_apart_from=first.level, not_apart_why=TOO_FEW),
        *levels[1:],
    )


def _agreeing(knees: Sequence[Knee], known: Sequence[float]) -> tuple[int, ...]:
    """Returns for each knee the number of its cache, from 0, in ascending order: of all assignments one with the most
    reported sizes inside the knees' intervals, and of these the one with the nearest caches, since other workloads hide
    the far ones. known: reported sizes in bytes."""

    def disagreement(numbers: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        agree = [knee.low <= known[number] <= knee.high for knee, number in zip(knees, numbers, strict=True)]
        return -sum(agree), numbers

    return min(combinations(range(len(known)), len(knees)), key=disagreement)


def _level(name: str, place: int, evidence: _Evidence) -> Level:
    """Returns one level with all its values. place: number of the level, from 0."""
    within, clock_hz = evidence.well_inside(place), evidence.machine.core_clock_hz
    low, high = evidence.bounds(place)
    plateau = [row for row in evidence.sweep if low < size_of(row) < high]
    latency, latency_low, latency_high = _latency(evidence.fit, place, plateau)
    few_samples = sum(row.samples for row in plateau) if are_few(plateau) else 0
    unread = missing_kernels(evidence.rows, evidence.probes, within)
    reads = None if unread else fastest(evidence.reading, within)
    chains = [row for row in evidence.rows if meaning(row, evidence.probes) == "load-of-chains"]
    chains_of_level = _most_inside([row for row in chains if row.status == "ok" and row.unit == "ns"], within)
    loads_in_flight = parallelism(in_one_place(sorted(chains_of_level, key=lambda row: int(row.parameters["chains"]))))
    level = Level(
        level=name,
        size_bytes=None,
        size_low=None,
        size_high=None,
        os_size_bytes=_os_size(name, evidence.machine),
        latency_ns=latency,
        latency_cycles=latency * clock_hz / 1e9 if clock_hz else None,
        read_bytes_per_second=reads.rate if reads else None,
        read_by=reads.kernel if reads else None,
        parallelism=loads_in_flight,
        latency_low=None if few_samples else latency_low,
        latency_high=None if few_samples else latency_high,
        states=_states([states for _, states in evidence.mixed_sizes(place)]),
        few_samples=few_samples,
        read_low=reads.low if reads else None,
        read_high=reads.high if reads else None,
        read_missing=next(iter(unread.values()), ""),
        parallelism_missing=_why_missing(inside(chains, within)) if loads_in_flight is None else "",
    )
    return level if place == len(evidence.fit.knees) else _with_size(level, place, evidence)


def _why_missing(asked: Sequence[Row]) -> str:
    """Returns the first reason among rows that have no number, or whose data were in a cache that other guests use;
    empty if no row was requested."""
    reasons = [row.reason or row.status for row in asked if row.status != "ok" or row.shares]
    return reasons[0] if reasons else "too few counts of chains were measured" if asked else ""


def _with_size(level: Level, place: int, evidence: _Evidence) -> Level:
    """Returns the level of a cache with its size, as the interval of the knee, extended to the sizes that the level
    serves in some visits only and to the end of its reading rate if that is elsewhere. If the knee may belong to two
    caches, returns the level without a size, with the reason and the name of the next level. place: number of the
    level, from 0."""
    knee, within = evidence.fit.knees[place], evidence.well_inside(place)
    if place == len(evidence.fit.knees) - 1:
        reading = reading_reach(evidence.reading, within if within[0] < within[1] else evidence.bounds(place))
        if reading:
            level = msgspec.structs.replace(level, reading_low=reading[0], reading_high=reading[1])
    else:
        reading = None
    known = [*evidence.machine.data_sizes().values()]
    if why := _why_merged(evidence.fit, place, evidence.sweep, level.os_size_bytes, known):
        number = _number(level.level)
        following = f"L{number + 1}" if number < len(known) or not known else MEMORY
        return msgspec.structs.replace(level, not_apart_from=following, not_apart_why=why)
    if place < len(evidence.fit.knees) - 1 and (knee.is_least or _is_contended(knee, evidence.sweep)):
        return msgspec.structs.replace(level, size_low=knee.low)
    sizes = [size for size, _ in evidence.mixed_sizes(place)]
    low, high = min([knee.low, *sizes]), max([knee.high, *sizes])
    if reading and not (reading[0] <= high and low <= reading[1]):
        low, high = min(low, reading[0]), max(high, reading[1])
    return msgspec.structs.replace(level, size_bytes=knee.size_bytes, size_low=low, size_high=high)


def _is_contended(knee: Knee, sweep: Sequence[Row]) -> bool:
    """Returns whether most sizes around a boundary were measured only beside a busy sibling hyperthread, which uses a
    part of the cache."""
    around = inside(sweep, (knee.low / BEYOND, knee.high * BEYOND))
    return 2 * sum(row.state != "uncontended" and contended_share(row) > MOSTLY for row in around) > len(around)


def _states(mixed: Sequence[tuple[State, State]]) -> tuple[State, ...]:
    """Returns the two states of a level that serves some sizes in some visits only: the medians over these sizes.
    mixed: both states of each size."""
    return tuple(
        State(
            state=of_sizes[0].state,
            share=median(state.share for state in of_sizes),
            median=median(state.median for state in of_sizes),
            low=median(state.low for state in of_sizes),
            high=median(state.high for state in of_sizes),
        )
        for of_sizes in zip(*mixed, strict=True)
    )


def _os_size(name: str, machine: Machine) -> int | None:
    """Returns the bytes of the level that the operating system reports; None if it reports no such level."""
    return next((cache.size_bytes for cache in os_sizes(machine) if cache.level == _number(name)), None)


def _number(name: str) -> int:
    """Returns the number of a named level: 1 for L1d, 2 for L2; 0 for memory."""
    return 1 if name == "L1d" else int(name[1:]) if name[1:].isdigit() else 0


def _latency(fit: CurveFit, place: int, plateau: Sequence[Row]) -> tuple[float, float, float]:
    """Returns the latency of the level and its interval, in ns: the medians over the sizes on its plateau, or the fit's
    values if fewer than two sizes are on it. Sizes that a cache shared with other guests may hold in another run are
    omitted if two other sizes show the level. If such sizes are among those of the last level, the fit lies at their
    latency, so two other sizes well beyond the last knee that agree are used instead."""
    fitted, spread = fit.latencies[place], fit.spreads[place]
    unshared = [row for row in plateau if not row.shares]
    beyond = (1 + FAR_APART) * fit.knees[-1].size_bytes if place and place == len(fit.knees) else inf
    far = [row for row in unshared if size_of(row) > beyond]
    is_mixed_memory = len(far) >= 2 and len(unshared) < len(plateau)
    on_plateau = _even(far, median(row.median or 0 for row in far)) if is_mixed_memory else _even(unshared, fitted)
    if len(on_plateau) < 2:
        on_plateau = _even(plateau, fitted)
    if len(on_plateau) < 2:
        return fitted, fitted - NORMAL * spread, fitted + NORMAL * spread
    middle = median(float(row.median or 0) for row in on_plateau)
    low, high = (
        median(float(end or 0) for end in ends) for ends in ([r.low for r in on_plateau], [r.high for r in on_plateau])
    )
    return middle, min(low, middle), max(high, middle)


def _even(rows: Sequence[Row], latency: float) -> list[Row]:
    """Returns the rows whose median is near to this latency (ns)."""
    return [row for row in rows if abs((row.median or 0) - latency) < ALIKE * latency]


def _most_inside(rows: Sequence[Row], within: Within) -> list[Row]:
    """Returns the rows of the size nearest to the middle of a level; for memory, of the largest size. within: bounds of
    the level in bytes."""
    sizes = sorted({size_of(row) for row in inside(rows, within)})
    if not sizes:
        return []
    middle = sqrt(max(within[0], USUAL_PAGE_BYTES) * within[1])
    chosen = sizes[-1] if within[1] == inf else min(sizes, key=lambda size: abs(log(size / middle)))
    return [row for row in rows if row.parameters.get("size") == chosen]


# ---- loads in flight at once -----------------------------------------------------------------------------------------


def parallelism(rows: Sequence[Row]) -> float | None:
    """Returns the number of loads in flight: L / g of the best fit of t(k) = max(L / k, g), where t is the time of one
    load in ns with k chains of dependent loads, L the latency and g the shortest time between two loads (Little 1961).
    None without a row of one chain and rows of at least three numbers of chains.

    The result is at most the highest number of chains: if the time still fell there, more loads may be possible. rows:
    `load-of-chains` of one size."""
    points = {int(row.parameters["chains"]): float(row.median or 0) for row in rows if row.median and row.median > 0}
    if 1 not in points or len(points) < 3:
        return None
    chains = np.array(sorted(points), float)
    logs, widths = np.log([points[int(chain)] for chain in chains]), np.log(chains)
    fits = []  # for each number of counts on the falling side: the squares left, and log of L / g
    for falling in range(1, len(logs) + 1):
        latency = float((logs[:falling] + widths[:falling]).mean())
        gap = float(logs[falling:].mean()) if falling < len(logs) else float(logs[-1])
        squares = float(((logs - np.maximum(latency - widths, gap)) ** 2).sum())
        fits.append((squares, latency - gap))
    _, ratio = min(fits, key=lambda fit: fit[0])
    return float(np.clip(np.exp(ratio), 1.0, chains[-1]))


# ---- knees that may merge two caches ---------------------------------------------------------------------------------

TOO_FEW = f"fewer than {LEAST_VISITS} visits"
BLURRED = "the cache use of other workloads hides the boundary"


def _why_merged(fit: CurveFit, place: int, sweep: Sequence[Row], reported: float | None, known: Sequence[float]) -> str:
    """Returns why this knee may belong to two caches; empty if it belongs to one. reported: this cache's size by the
    system; known: all sizes by the system, in bytes. The reported sizes can reject a size of few visits, and never
    provide one."""
    knee = fit.knees[place]
    if are_few(_near(knee, sweep)) and reported and max(known) > reported and knee.low > reported * (1 + FAR_APART):
        return TOO_FEW
    return BLURRED if knee is fit.knees[-1] and blurred(fit, sweep) else ""


def blurred(fit: CurveFit, sweep: Sequence[Row]) -> bool:
    """Returns whether the last knee may hide a cache: the latency before it ends at so small a size that another cache
    fits between, and visits of the sizes between disagree. Only the last knee is examined: an earlier knee was
    separated from the cache that other workloads may use."""
    if not fit.knees:
        return False
    knee, level = fit.knees[-1], APART * fit.latencies[-2]
    near = _near(knee, sweep)
    flat_sizes = len(list(takewhile(lambda row: (row.median or 0.0) < level, undisturbed_curve(near))))
    has_room = bool(flat_sizes) and knee.size_bytes >= MORE_THAN_TWICE * size_of(near[flat_sizes - 1])
    return has_room and any(is_mixed(row) for row in near[flat_sizes:])


def _near(knee: Knee, sweep: Sequence[Row]) -> list[Row]:
    """Returns the rows up to just beyond a knee."""
    return [row for row in sweep if size_of(row) <= knee.high * (1 + FAR_APART)]


# ---- the system's sizes ----------------------------------------------------------------------------------------------

_MOST_DOUBT = MORE_THAN_TWICE
"""Largest ratio of the ends of the interval of a size that is compared with the system's. If too few visits resolve the
second cache from the third, both look like one cache with an end anywhere between."""


def disagrees(level: Level, machine: Machine) -> bool:
    """Returns whether the size that the system reports lies outside the measured interval by more than CLEARLY. False
    if either size is missing or of too few visits for an interval, or if CPUs outside this machine may use a part of
    the cache."""
    if not level.size_bytes or not level.os_size_bytes or level.few_samples or bytes_left(level, machine) is not None:
        return False
    low, high = level.size_low or level.size_bytes, level.size_high or level.size_bytes
    if high > _MOST_DOUBT * low:
        return False
    nearest = min(max(low, level.os_size_bytes), high)
    return abs(nearest / level.os_size_bytes - 1) > CLEARLY


def bytes_left(level: Level, machine: Machine) -> float | None:
    """Returns the bytes of a shared last-level cache that this machine has at least; None for any other cache, and if
    that is at least three quarters of the cache. CPUs outside the machine are those of other guests, or those on which
    this process may not run."""
    known = [*machine.data_sizes().values()]
    is_last = bool(known) and level.os_size_bytes == known[-1]
    least = level.size_low
    if not (is_last and _is_shared(machine) and least) or least >= (1 - CLEARLY) * known[-1]:
        return None
    return least


def may_be_shared_rest(level: Level, machine: Machine) -> bool:
    """Returns whether a level that the system does not report may be the varying share of the last cache that CPUs
    outside this machine leave to it. The latency of such a level lies between those of the cache and of memory."""
    known = [*machine.data_sizes().values()]
    is_reported = level.os_size_bytes is not None or level.level.endswith(MEMORY)
    return bool(known) and not is_reported and _is_shared(machine) and (level.size_low or 0) < known[-1]


def _is_shared(machine: Machine) -> bool:
    """Returns whether CPUs outside the machine may use its last cache."""
    return machine.hypervisor is not None or 0 < len(machine.allowed_cpus) < machine.cpus
