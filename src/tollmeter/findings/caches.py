# SPDX-License-Identifier: Apache-2.0
"""Rules about caches, their policies, and prefetchers."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.experiment.limits import FAR_APART, MIB, MORE_THAN_TWICE
from tollmeter.findings import (
    FindingText,
    count_evidence,
    inferences,
    is_refuted,
    own_rows,
    ratio_evidence,
    row_evidence,
    rule,
    value_of,
)
from tollmeter.inference.answers import number
from tollmeter.inference.curves import latency_rows
from tollmeter.inference.hierarchy import disagrees, os_sizes
from tollmeter.model import Evidence, Inference, Results, Row
from tollmeter.numbers.events import missing_between
from tollmeter.numbers.plausible import LOAD_BYTES, LOADS_PER_CYCLE
from tollmeter.numbers.units import in_percent, short

MOST_CYCLES = {"L1d": 8.0, "L2": 40.0, "L3": 160.0}
"""Highest latency of known products in cycles. First caches answer within 3 to 5 cycles, or up to 7 for wide loads;
second caches within 8 to 30; third caches within 25 on a small ring, and up to about 120 across the mesh of a large
server."""
MOST_MEMORY_NS = 250.0
"""Highest latency of local memory in ns: 60 ns in a desktop to about 180 ns in a server under a hypervisor. A higher
latency is that of memory of another socket, or behind a link."""
LEAST_WALK_BYTES = 4 * MIB
"""Smallest number of bytes of a walk that a prefetcher shortens: more than a first cache and most second caches."""
LEAST_READING = 0.4
"""Smallest share of the yardstick of a level that reading should reach."""
FEATURE_BYTES = LOAD_BYTES["sse2"]
"""Load width in bytes that every 64-bit core has, twice a cycle. Wider loads are not required: without a timed kernel
of this width there is no finding about the first cache."""


@rule("memory.cache_disagrees", rank="costs")
def caches_disagree(results: Results) -> Iterator[FindingText]:
    """The measured size of a cache differs clearly from the size that the system reports.

    The level's 95 % interval, or its range by latency and reading, does not come within a tolerance of the system's
    size. If CPUs outside this machine may use the rest of the cache, a smaller size is no disagreement."""
    for level in results.index.hierarchy:
        if not level.size_bytes or not level.os_size_bytes or not disagrees(level, results.index.machine):
            continue
        is_smaller = level.size_bytes < level.os_size_bytes
        relation = "of" if is_smaller else "more than"
        serves = f"{short(level.size_bytes, 'B')} {relation} the {short(level.os_size_bytes, 'B')}"
        evidence = [
            Evidence(what=f"{level.level} size measured", value=level.size_bytes, unit="B"),
            Evidence(what=f"{level.level} size by the system", value=level.os_size_bytes, unit="B"),
        ]
        why = "other CPUs use the rest, or it is partitioned (resctrl)"
        why = why if is_smaller else "the firmware or hypervisor reports a wrong size"
        remedy = f"{why}: plan for the size that was measured"
        yield FindingText(f"{level.level} serves {serves} that the system reports", evidence, remedy)


@rule(
    "memory.boundary_not_in_misses",
    remedy="plan for the size at which loads miss, and measure again without other workloads",
    rank="information",
    proof="counted",
)
def boundary_is_not_in_misses(results: Results) -> Iterator[FindingText]:
    """The size of a cache by latency lies outside the sizes between which loads begin to miss it, as the CPU counts.

    These sizes are from the largest with up to one miss in ten loads to the smallest with nine in ten."""
    levels = [level for level in results.index.hierarchy if level.size_low and level.size_high]
    ends = [("L1-dcache-load-misses", level) for level in levels[:1]]
    ends += [("LLC-load-misses", level) for level in levels[1:][-1:]]
    for event, level in ends:
        curves = latency_rows(own_rows(results, "latency-of-size"), results.probes).values()
        for low, high in filter(None, (missing_between(rows, event) for rows in curves)):
            if level.size_low and level.size_high and not (level.size_low <= high and low <= level.size_high):
                evidence = [
                    Evidence(what=f"{level.level} size by latency", value=level.size_bytes or level.size_low, unit="B"),
                    Evidence(what=f"largest size with few {event}", value=low, unit="B"),
                    Evidence(what=f"smallest size with nine {event} in ten loads", value=high, unit="B"),
                ]
                yield FindingText(
                    f"{level.level} ends between {short(low, 'B')} and {short(high, 'B')} by counted misses, "
                    f"and not at {short(level.size_bytes or level.size_low, 'B')} as by latency", evidence,
                )  # fmt: skip
                break


@rule(
    "memory.cache_sizes_unknown",
    "note",
    "the measured sizes cannot be checked: add cache-size to the board's device tree, or take them from its manual",
    proof="read",
)
def cache_sizes_are_unknown(results: Results) -> Iterator[FindingText]:
    """The system lists caches without their sizes, so sizes of buffers were chosen without them.

    No source states a size: sysfs, CPUID, the device tree, /proc/cpuinfo."""
    unsized = [cache for cache in results.index.machine.caches if cache.size_bytes is None]
    if unsized:
        levels = ", ".join(dict.fromkeys(f"L{cache.level}" for cache in unsized))
        evidence = [count_evidence("caches without a size", len(unsized))]
        yield FindingText(f"the system reports caches without sizes: {levels}", evidence)


@rule(
    "memory.line_disagrees",
    remedy="the firmware or hypervisor describes a different cache: pad and block for the measured values",
)
def geometry_disagrees(results: Results) -> Iterator[FindingText]:
    """The measured line size or associativity of a cache differs from the value that the system reports.

    The 95 % interval excludes the system's value."""
    reported = {f"L{cache.level}": cache for cache in os_sizes(results.index.machine)}
    for line in inferences(results, "line") if reported else ():
        first = min(reported.values(), key=lambda cache: cache.level)
        yield from _disagreement("memory.line_disagrees", "the line", line, first.line_bytes)
    for ways in inferences(results, "ways"):
        cache = reported.get((ways.level or "").removesuffix("d"))
        if cache is not None:
            yield from _disagreement("memory.ways_disagree", f"the {ways.name}", ways, cache.ways)


def _disagreement(name: str, what: str, measured: Inference, reported: int | None) -> Iterator[FindingText]:
    """Yields a finding if a reported value lies outside the measured interval. what: the quantity in words."""
    if not isinstance(measured.value, float) or measured.low is None or measured.high is None or not reported:
        return
    if not measured.low <= reported <= measured.high:
        evidence = [
            Evidence(what=f"{what}, measured", value=measured.value, unit=measured.unit or ""),
            Evidence(what=f"{what}, by the system", value=reported, unit=measured.unit or ""),
        ]
        words = f"{what}: measured {measured.value:.0f}, reported by the system {reported}"
        yield FindingText(words, evidence, name=name)


@rule(
    "memory.cache_writes_through",
    remedy="look for a page attribute, boot setting or errata work-around that turns write-back off",
    rank="costs",
)
def cache_writes_through(results: Results) -> Iterator[FindingText]:
    """The first-level cache writes through: a store that hits costs as much as a store that misses.

    The tests of the write policy resolve it."""
    share = value_of(inferences(results, "store_that_fits"))
    if share is not None and is_refuted(results, "write_back"):
        lines = f"a store that hits the first-level cache takes {in_percent(share)} of the time of one that misses"
        yield FindingText(
            f"{lines}: the cache writes through",
            [ratio_evidence("time of a store that hits over that of a store that misses", share)],
        )


@rule(
    "memory.stores_do_not_allocate",
    "note",
    "read data that is soon needed again before writing it; enable write-allocation if it is a setting",
)
def stores_do_not_allocate(results: Results) -> Iterator[FindingText]:
    """A store that misses does not allocate its line, so the next load of that line misses too.

    A chase through lines just stored to takes as long as one through other lines, if the difference is resolved."""
    times = value_of(inferences(results, "reload_after_store"))
    if times is not None and is_refuted(results, "write_allocate"):
        words = "a store that misses does not fetch its line: loads of data just written miss as well"
        evidence = ratio_evidence("chase through lines just stored to, over a chase through other lines", times)
        yield FindingText(words, [evidence])


@rule("memory.latency_is_out_of_line", rank="costs")
def latency_is_out_of_line(results: Results) -> Iterator[FindingText]:
    """The latency of a memory level is higher than that of any known product.

    The lower end of its interval is compared."""
    clock_hz = results.index.machine.core_clock_hz
    for level in results.index.hierarchy:
        cycles = MOST_CYCLES.get(level.level)
        most = cycles / clock_hz * 1e9 if cycles and clock_hz else None
        if level.level == "memory":
            most = MOST_MEMORY_NS
        least = level.latency_low if level.latency_low is not None else level.latency_ns
        if most is None or least is None or least <= most:
            continue
        latency = level.latency_ns or least
        words = f"{level.level} has a latency of {short(latency, 'ns')}, more than any known product"
        evidence = [
            Evidence(what=f"latency of {level.level}", value=latency, unit="ns"),
            Evidence(what=f"slowest known {level.level}", value=most, unit="ns"),
        ]
        remedy = "look for a lowered cache or ring clock, and for other workloads on the same core"
        if level.level == "memory":
            remedy = "check the memory's node (numactl --hardware) and the clock of its modules (dmidecode -t memory)"
        yield FindingText(f"{words} ({short(most, 'ns')})", evidence, remedy)


@rule(
    "memory.prefetcher_is_absent",
    remedy="turn the hardware prefetchers on in the firmware (or MSR 0x1A4 on Intel); else prefetch in the program",
    rank="costs",
)
def prefetcher_is_absent(results: Results) -> Iterator[FindingText]:
    """Sequential memory access is not clearly faster than random access: no prefetcher is active.

    At the largest size beyond 4 MiB, a walk line by line forward is not 1.5 times as fast as one at random. The ends of
    the intervals that favour the prefetcher are compared."""
    line = max((cache.line_bytes or 0 for cache in results.index.machine.caches), default=0) or 64
    walks: dict[int, dict[str, Row]] = {}
    for row in own_rows(results, "latency-of-stride"):
        if number(row, "stride") == line and number(row, "size") >= LEAST_WALK_BYTES:
            walks.setdefault(number(row, "size"), {})[str(row.parameters.get("order"))] = row
    both = [size for size, rows in walks.items() if {"forward", "random"} <= set(rows)]
    if not both:
        return
    forward, random = (walks[max(both)][order] for order in ("forward", "random"))
    best = (random.high or 0.0) / (forward.low or 1.0)
    if best < 1 + FAR_APART:
        words = f"sequential access is at most {best:.2f} times as fast as random access: no prefetcher is active"
        yield FindingText(words, [row_evidence(forward), row_evidence(random)])


@rule("memory.prefetcher_is_one_sided", "note")
def prefetcher_is_one_sided(results: Results) -> Iterator[FindingText]:
    """The prefetcher follows a stride in one direction and not in the other.

    One direction is faster than random order and the other is not, both beyond their intervals."""
    known = inferences(results, "prefetched")
    works, fails = ([i.parameters["direction"] for i in known if i.value is gains] for gains in (True, False))
    if len(works) == 1 and len(fails) == 1:
        gains_of = [inferences(results, "prefetch_gain", direction=way)[0] for way in (*works, *fails)]
        evidence = [
            ratio_evidence(f"random order over {way}, stride {gain.parameters['stride']}", value_of([gain]) or 1.0)
            for way, gain in zip((*works, *fails), gains_of, strict=True)
        ]
        words = f"walks {works[0]} are prefetched, walks {fails[0]} are not"
        yield FindingText(words, evidence, f"make loops over large memory run {works[0]}")


@rule(
    "memory.reading_is_slow",
    remedy="look for a bandwidth limit of the guest, empty memory channels, or other programs' traffic",
    rank="costs",
)
def reading_is_slow(results: Results) -> Iterator[FindingText]:
    """Read bandwidth is far below what the load ports or the misses in flight allow.

    It is under 40 % of the level's yardstick: the load ports for L1d, and the misses in flight for other levels. A
    level that was not resolved from the next is not judged: its latency and its rate may be of different caches."""
    unresolved = {level.level for level in results.index.hierarchy if level.not_apart_from}
    for limit, reached in zip(inferences(results, "yardstick"), inferences(results, "reading_share"), strict=True):
        wider = int(limit.parameters.get("load_bytes", FEATURE_BYTES)) / FEATURE_BYTES
        rate, share = float(limit.value or 0) / wider, float(reached.value or 0) * wider
        if wider < 1 or share >= LEAST_READING or limit.level in unresolved:
            continue
        loads = f"{LOADS_PER_CYCLE} loads of {FEATURE_BYTES} bytes a cycle"
        by = loads if "load_bytes" in limit.parameters else limit.name.partition(" by ")[2]
        evidence = [
            Evidence(what=f"best read bandwidth, {limit.level}", value=share * rate, unit="B/s"),
            Evidence(what=by, value=rate, unit="B/s"),
        ]
        of_rate = f"{in_percent(share)} of the {rate / 1e9:.0f} GB/s that {by} allow"
        yield FindingText(f"reading from {limit.level} reaches {of_rate}", evidence)


@rule(
    "memory.walk_is_not_random",
    "error",
    "use neither number until it is known which of the two walks is random",
    rank="prevents",
)
def walk_is_not_random(results: Results) -> Iterator[FindingText]:
    """A random walk is faster than other rows permit, so its order is not random.

    A load of the random walk takes less than 40 % of the time of a load of a single chain, or of a walk with a stride
    in random order, in at most as much memory. Loads from a larger buffer are not faster, so one of the two rows is
    wrong; and a prefetcher can only make a walk faster."""
    chains = [row for row in own_rows(results, "load-of-chains") if number(row, "chains") == 1]
    strides = [row for row in own_rows(results, "latency-of-stride") if row.parameters.get("order") == "random"]
    for row in own_rows(results, "latency-of-size"):
        slower = [other for other in (*chains, *strides) if _contradicts(row, other)]
        if slower:
            other = max(slower, key=lambda other: number(other, "size"))
            here, there = (short(walk.median or 0.0, walk.unit) for walk in (row, other))
            yield FindingText(
                f"two probes disagree about one load from {number(other, 'size') >> 10} KiB: {here} and {there}. "
                "One walk probably follows its addresses, and is prefetched",
                [row_evidence(row), row_evidence(other)],
            )
            return


def _contradicts(row: Row, other: Row) -> bool:
    """Returns whether a row is so much faster than another one of at most equal size that one of them is wrong."""
    if row.high is None or other.low is None or row.unit != other.unit:
        return False
    return number(other, "size") <= number(row, "size") and row.high * MORE_THAN_TWICE < other.low
