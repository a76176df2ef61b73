# SPDX-License-Identifier: Apache-2.0
"""Properties of the memory system besides its levels: translation buffers, write policies, prefetching, and the highest
possible read rates. Sizes in bytes, costs in ns, rates in bytes a second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import exp, inf, log, sqrt
from statistics import median

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, LEAST_VALUES, MORE_THAN_TWICE
from tollmeter.inference.answers import (
    InferredNumber,
    YesOrNo,
    absolute_error,
    middle,
    number,
    of_number,
    of_verdict,
    ratio,
    relative_error,
    rows_meaning,
)
from tollmeter.inference.curves import Jump, jumps
from tollmeter.inference.reach import kernel_of
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import USUAL_LINE_BYTES, Inference, Level, Probe, Row, Value
from tollmeter.numbers.meanings import meaning
from tollmeter.numbers.plausible import LOAD_BYTES, LOADS_PER_CYCLE
from tollmeter.numbers.stats import Estimate

# ---- translation -----------------------------------------------------------------------------------------------------

# Determines the capacity of each translation buffer and the cost of a miss in it, from the extra cost of one line in
# each page over equally many lines in few pages. The extra cost is zero while all translations fit, and rises by a step
# at each buffer that overflows.
#
# A step between two numbers of pages shows that the buffer has room for the smaller number and not for the larger. The
# lines themselves are in caches. Lines in many pages are distributed over the sets differently from adjacent lines, and
# a prefetcher that fetches lines in pairs doubles their number. So a step that is no higher than the step to the next
# cache, at a number of lines that may overflow this cache, is no evidence of translation, and is discarded.

LEAST_SHOWING = 2
"""Smallest number of page counts beyond the capacity of a buffer or a cache that show the cost of a miss."""
LEAST_STEP_NS = 0.4
"""Smallest step in ns that is attributed to a buffer: a miss costs some cycles."""
NEAR_CAPACITY = (1 / MORE_THAN_TWICE, MORE_THAN_TWICE)
"""Range of the ratio of the lines' bytes to the capacity of a cache in which some of its sets may overflow."""


def translation(
    rows: Sequence[Row],
    probes: Mapping[str, Probe],
    levels: Sequence[Level] = (),
    pages: str = "small",
    line_bytes: float = USUAL_LINE_BYTES,
) -> Iterator[Inference]:
    """Yields the capacity of each translation buffer, nearest first, and the cost of a miss in it. rows: of one ABI and
    target; those of the meaning `translation-of-pages` are used. A difference that is not resolved from zero counts as
    zero. pages: kind of pages."""

    def unresolved(why: str) -> Inference:
        name = f"translations kept, {pages} pages"
        return of_number(name, "translations", InferredNumber(why=why), "count", parameters={"pages": pages})

    points = [
        row
        for row in rows
        if meaning(row, probes) == "translation-of-pages"
        and row.parameters.get("pages") == pages
        and ((row.status == "ok" and row.median is not None) or (row.status == "unstable" and row.samples > 0))
    ]
    points.sort(key=lambda row: number(row, "count"))
    known = [absolute_error(row) for row in points if row.median is not None]
    if len(points) < LEAST_VALUES or not known:
        yield unresolved(f"too few numbers of {pages} pages were timed")
        return
    median_error = median(known)
    values = [0.0 if row.median is None else middle(row) for row in points]
    errors = [median_error if row.median is None else max(absolute_error(row), median_error / 4) for row in points]
    counts = [number(row, "count") for row in points]
    steps = [step for step in jumps(values, errors) if step.after - step.before > LEAST_STEP_NS]
    if not steps:
        yield unresolved(f"{counts[-1]} {pages} pages cost no more than {counts[0]}: no buffer overflowed")
        return
    resolved_steps = [
        step for step, end in zip(steps, [*(step.at for step in steps[1:]), len(points)], strict=True)
        if end - step.at >= LEAST_SHOWING and step.after - _half_width(step, errors) > step.before
    ]  # fmt: skip
    if not resolved_steps:
        yield unresolved(f"the costs are too noisy: no step between {counts[0]} and {counts[-1]} is beyond its error")
        return
    steps_of_buffers = [
        step for step in resolved_steps if not _may_be_cache(step, counts[step.at] * line_bytes, levels)
    ]
    if not steps_of_buffers:
        yield unresolved("every step may be a cache's that overflowed")
    for place, step in enumerate(steps_of_buffers, start=1):
        entries, low, high = counts[step.at - 1], counts[step.low - 1], counts[step.high] - 1
        half = _half_width(step, errors)
        kept_entries = InferredNumber(value=float(entries), low=float(low), high=float(high))
        miss_ns = InferredNumber(value=step.after, low=step.after - half, high=step.after + half)
        parameters = {"pages": pages, "buffer": place}
        name = f"translations kept, level {place}, {pages} pages"
        yield of_number(name, "translations", kept_entries, "count", parameters=parameters)
        yield of_number(
            f"a miss of level {place}, {pages} pages", "translation_miss", miss_ns, "ns", parameters=parameters
        )


def _half_width(step: Jump, errors: Sequence[float]) -> float:
    """Returns the half-width of the cost of a miss at a step, in ns, from the points on both sides of the step."""
    return NORMAL * max(errors[step.at - 1], errors[step.at])


def _may_be_cache(step: Jump, bytes_held: float, levels: Sequence[Level]) -> bool:
    """Returns whether a step may be caused by a cache: the lines may overflow this cache, and the step is at most the
    cost of a miss in it. bytes_held: bytes of the lines."""
    for cache, behind in pairwise(levels):
        if cache.size_bytes and cache.latency_ns and behind.latency_ns:
            is_near = NEAR_CAPACITY[0] * cache.size_bytes <= bytes_held <= NEAR_CAPACITY[1] * cache.size_bytes
            if is_near and step.after - step.before <= (1 + CLEARLY) * (behind.latency_ns - cache.latency_ns):
                return True
    return False


# ---- write policies --------------------------------------------------------------------------------------------------

# Determines whether the first cache writes back or writes through, and whether a store that misses all caches allocates
# its line.
#
# * A write-through cache sends every store on to the next level. So a store to lines that fit into the cache costs much
#   more than a load of them, and hardly less than a store to lines that do not fit. A write-back cache keeps a store to
#   lines that fit. Both ratios are needed: in loops that are limited by their own instructions, stores that fit cost as
#   much as other stores, but no more than loads.
# * After stores to uncached lines, a pointer chase through these lines hits if the stores allocated them, and otherwise
#   takes as long as a chase through other lines.
#
# Beyond the first cache a store leaves it under both policies, so that they cannot be distinguished.

THROUGH_BESIDE_MISS = 0.316
THROUGH_BESIDE_LOAD = 1.75
"""Ratios of the cost of a store that fits to one that does not fit, and to a load. Above both, the first cache writes
through."""
FAR_BEYOND = 2


def write_policies(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> Iterator[Inference]:
    """Yields both write policies, each with the ratio that decides it, if this is known."""
    back, allocate = write_back(rows, probes, levels), write_allocate(rows, probes, levels)
    yield of_verdict("the caches are write-back", "write_back", back)
    if back.ratio is not None:
        yield of_number("a store that fits, against one that does not", "store_that_fits", back.ratio, "ratio")
    yield of_verdict("a store that misses allocates its line (write-allocate)", "write_allocate", allocate)
    if allocate.ratio is not None:
        yield of_number("a chase after stores, against one elsewhere", "reload_after_store", allocate.ratio, "ratio")


def write_back(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> YesOrNo:
    """Returns whether the first cache writes back. ratio: cost of a store that fits over one that does not. rows: of
    one ABI and target; those of the meanings `write-policy` and `write-policy-baseline` are used."""
    stores = rows_meaning(rows, probes, "write-policy", test="resident")
    # Stores that do not fit: the largest sizes that exceed the first cache and fit into the second, if there is one.
    first, second = (*_sizes(levels), inf, inf)[:2]
    beyond = [row for row in stores if FAR_BEYOND * first <= number(row, "size") <= (1 - CLEARLY) * second]
    furthest = max((number(row, "size") for row in beyond), default=0)
    fits, misses = _inside(stores, levels), [row for row in beyond if 2 * number(row, "size") >= furthest]
    loads = _inside(rows_meaning(rows, probes, "write-policy-baseline", test="resident"), levels)
    if not fits or not loads or not misses:
        return YesOrNo(why="stores were not timed both inside the first cache and well outside of it")
    beside_miss, beside_load = _over(fits, misses), _over(fits, loads)
    above = [_above(beside_miss, THROUGH_BESIDE_MISS), _above(beside_load, THROUGH_BESIDE_LOAD)]
    if False in above:
        return YesOrNo(holds=True, ratio=beside_miss)
    if None not in above:
        return YesOrNo(holds=False, ratio=beside_miss)
    why = (
        f"a store that fits costs {beside_load.low:.2f} to {beside_load.high:.2f} times a load, and "
        f"{beside_miss.low:.2f} to {beside_miss.high:.2f} times a store that does not fit: either policy does that"
    )
    return YesOrNo(ratio=beside_miss, why=why)


def write_allocate(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> YesOrNo:
    """Returns whether the caches allocate a line on a store. ratio: time of stores and a chase through their lines,
    over the same stores and a chase through other lines. rows: as in `write_back`."""
    tests = _inside(rows_meaning(rows, probes, "write-policy", test="reload"), levels)
    baselines = _inside(rows_meaning(rows, probes, "write-policy-baseline", test="reload"), levels)
    if not tests or not baselines:
        return YesOrNo(why="no chase through lines just stored to was timed inside the first cache")
    times = _over(tests, baselines)
    above = _above(times, 1 - CLEARLY)
    if above is None:
        why = f"a chase after stores takes {times.low:.2f} to {times.high:.2f} times as long as one through other lines"
        return YesOrNo(ratio=times, why=f"{why}: too close to decide")
    return YesOrNo(holds=not above, ratio=times)


def _sizes(levels: Sequence[Level]) -> list[float]:
    """Returns the measured sizes of the caches in bytes, nearest first."""
    return [level.size_bytes for level in levels if level.size_bytes is not None]


def _inside(rows: Sequence[Row], levels: Sequence[Level]) -> list[Row]:
    """Returns the rows of sizes well inside the first cache; if there are none, of sizes that just fit."""
    first = next(iter(_sizes(levels)), 0.0)
    for share in (1 - CLEARLY, 1 + ALIKE):
        if well_inside := [row for row in rows if number(row, "size") <= share * first]:
            return well_inside
    return []


def _over(above: Sequence[Row], below: Sequence[Row]) -> Estimate:
    """Returns the ratio of the medians over several sizes. The errors of the rows are independent."""
    value = median(map(middle, above)) / median(map(middle, below))
    errors = [sqrt(sum(relative_error(row) ** 2 for row in rows)) / len(rows) for rows in (above, below)]
    wide = exp(NORMAL * sqrt(sum(error**2 for error in errors)))
    return Estimate(value=value, low=value / wide, high=value * wide)


def _above(estimate: Estimate, limit: float) -> bool | None:
    """Returns whether the value is above a limit; None if the interval contains the limit and the value is within an
    eighth of it."""
    if estimate.low <= limit <= estimate.high and abs(log(estimate.value / limit)) < log(1.125):
        return None
    return estimate.value > limit


# ---- prefetching -----------------------------------------------------------------------------------------------------

# Computes the gain of a constant stride over random order, for each direction.
#
# Walks over the same addresses are compared, through more memory than any cache, at strides of a few lines. At strides
# below a line the order matters without a prefetcher, since one line serves several loads. At a stride of one line it
# matters if lines are fetched in pairs, which has no direction. A walk in page-local order replaces random order if it
# is faster, so that the cost of translation in random order is not attributed to prefetching.

STRIDES_IN_LINES = (2, 8)
"""Strides, in lines, that every prefetcher of strides follows."""


def prefetching(
    rows: Sequence[Row], probes: Mapping[str, Probe], line_bytes: int = USUAL_LINE_BYTES
) -> Iterator[Inference]:
    """Yields whether strides are prefetched, forward and backward, and the time in random order over the time at the
    best stride that any prefetcher follows. rows: of one ABI and target; those of the meaning `latency-of-stride` are
    used."""
    least, most = (lines * line_bytes for lines in STRIDES_IN_LINES)
    for direction in ("forward", "backward"):
        walks = [
            row
            for row in rows_meaning(rows, probes, "latency-of-stride", order=direction)
            if least <= number(row, "stride") <= most
        ]
        pairs = [(row, other) for row in walks if (other := _unhelped(rows, probes, row)) is not None]
        parameters: dict[str, Value] = {"direction": direction}
        name = f"walks {direction} are prefetched"
        if not pairs:
            why = f"no walk {direction} by a few lines was timed beside one in random order"
            yield of_verdict(name, "prefetched", YesOrNo(why=why), parameters=parameters)
            continue
        largest = max(number(row, "size") for row, _ in pairs)
        gains = [(ratio(other, row), number(row, "stride")) for row, other in pairs if number(row, "size") == largest]
        best, stride = max(gains, key=lambda gain: gain[0].value)
        verdict = YesOrNo(holds=best.value > 1 + FAR_APART)
        if best.low <= (1 + FAR_APART) <= best.high:
            times = f"{best.low:.2f} to {best.high:.2f} times"
            verdict = YesOrNo(why=f"random order takes {times} as long: open memory pages might gain that")
        yield of_verdict(name, "prefetched", verdict, parameters=parameters)
        parameters_of_stride = parameters | {"stride": stride}
        yield of_number(
            f"a prefetcher's help, {direction}", "prefetch_gain", best, "ratio", parameters=parameters_of_stride
        )


def _unhelped(rows: Sequence[Row], probes: Mapping[str, Probe], walk: Row) -> Row | None:
    """Returns the fastest walk over as many bytes in an order that no prefetcher can predict; None if there is none."""
    size, stride = number(walk, "size"), number(walk, "stride")
    others = rows_meaning(rows, probes, "latency-of-stride", order="random", size=size, stride=stride)
    local = [row for row in rows_meaning(rows, probes, "latency-of-size", pages="local") if number(row, "size") <= size]
    nearest = max(local, key=lambda row: number(row, "size"), default=None)
    if others and nearest is not None and number(nearest, "size") >= (1 - CLEARLY) * size:
        others.append(nearest)
    return min(others, key=middle, default=None)


# ---- yardsticks ------------------------------------------------------------------------------------------------------

# Reference rates for reading from each level, derived from other measurements. They are not upper bounds.
#
# * The first cache: clock x two loads a cycle x width of a load. Cores since 2011 start two of their widest loads a
#   cycle; a core that starts three narrow ones exceeds it.
# * Each further level: the rate of its load misses alone, parallelism x line / latency (Little 1961), since each line
#   in flight takes the latency of the level. A prefetcher has further lines in flight, and exceeds it.


def yardsticks(
    levels: Sequence[Level], clock_hz: float | None, load_bytes: int | None, line_bytes: int
) -> Iterator[Inference]:
    """Yields for each level its yardstick, and the share of it that reading reached, if both are known. load_bytes:
    width of the widest load that was timed; None if unknown."""
    for level in levels:
        rate = 0.0
        if level.level == "L1d" and clock_hz is not None and load_bytes is not None:
            basis, parameters = f"{LOADS_PER_CYCLE} loads of {load_bytes} bytes a cycle", {"load_bytes": load_bytes}
            rate = clock_hz * LOADS_PER_CYCLE * load_bytes
        elif level.level != "L1d" and level.parallelism and level.latency_ns:
            basis, parameters = "its load misses alone (parallelism x line / latency)", {"line_bytes": line_bytes}
            rate = level.parallelism * line_bytes / (level.latency_ns * 1e-9)
        if rate and level.read_bytes_per_second:
            name, share = f"reading {level.level} by {basis}", level.read_bytes_per_second / rate
            fields = {"level": level.level, "parameters": parameters}
            yield of_number(name, "yardstick", InferredNumber(value=rate), "B/s", **fields)
            yield of_number(f"{name}, reached", "reading_share", InferredNumber(value=share), "ratio", **fields)


def widest_load_bytes(rows: Sequence[Row], probes: Mapping[str, Probe]) -> int | None:
    """Returns the width in bytes of the widest load among the read kernels that were timed; None if unknown."""
    names = {kernel_of(row).partition("_")[0] for row in rows_meaning(rows, probes, "read-bandwidth-of-size")}
    return max((LOAD_BYTES[name] for name in names if name in LOAD_BYTES), default=None)
