# SPDX-License-Identifier: Apache-2.0
"""Applies rules of physics. A row that breaks one becomes `unstable`, and the rule is its reason.

A rule refuses impossible numbers, not rare ones. Each has a margin, since the core clock may change between the control
loop and the sample, and compares ends of intervals rather than medians."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite

import msgspec

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.run_record import FASTEST_CORE_HZ, LEAST_CALL_CYCLES, MARGIN, MOST_PER_CYCLE
from tollmeter.model import REAL_CLOCKS, Probe, Row
from tollmeter.model.described import BANDWIDTHS
from tollmeter.numbers.meanings import meaning, metric_of, with_meaning
from tollmeter.numbers.units import short

Probes = Mapping[str, Probe]
Clocks = Mapping[str, float]
Broken = dict[int, str]
Ends = tuple[float, float]

LOADS_PER_CYCLE = 2
LOAD_BYTES = {"portable": 8, **dict.fromkeys(("sse2", "neon", "vsx"), 16), "avx2": 32, "avx512": 64}
"""Width of a load in bytes, for instruction sets in which it is the same on every CPU."""
WIDEST_LOAD_BYTES = max(LOAD_BYTES.values())
FLOPS_PER_CYCLE = WIDEST_LOAD_BYTES
"""Floating-point operations of two fused multiply-add instructions on the widest vector, for floats of four bytes: four
operations for each float."""
NO_TIME = "twice the work took less time: batches were interrupted for longer than the work takes"
NO_NUMBER = "it is not a finite number: the work that the probe declares cannot be what it did"
MOST_IN_A_CYCLE = {
    "B/s": (2 * LOADS_PER_CYCLE * WIDEST_LOAD_BYTES, "no core loads and stores more than four vectors of 64 bytes"),
    "flop/s": (FLOPS_PER_CYCLE, f"no core does more than {FLOPS_PER_CYCLE} floating-point operations"),
    "op/s": (MOST_PER_CYCLE, f"no core starts more than {MOST_PER_CYCLE} operations"),
    **dict.fromkeys(("ns", "cycle"), (FLOPS_PER_CYCLE, f"no core does more than {FLOPS_PER_CYCLE} operations")),
}
"""Limit of the rate of one core per cycle, by the unit of a row, above that of every existing core. It applies also to
rows without a meaning that sets a lower limit."""
SLOWER_THAN_MORE = "a load waits no longer beside few others than it does beside more"
LEAST_CYCLES = {
    "latency-of-size": (1, "a load that waits for the load before it takes at least a cycle"),
    "latency-of-stride": (0.25, "no core starts more than four loads a cycle"),
    "control-loop": (0.5, "no core takes more than two branches a cycle"),
    **{
        means: (LEAST_CALL_CYCLES, f"{what} within {LEAST_CALL_CYCLES} cycles")
        for means, what in {
            "entry": "no kernel is entered and left", "price-of-fault": "no fault is served",
            "trap": "no trap is served", "switch": "no process is switched",
            "core-to-core": "no line travels to another core and back",
        }.items()
    },
}  # fmt: skip


def without_implausible(rows: Sequence[Row], probes: Probes, core_clocks_hz: Clocks, cpus: int = 1) -> tuple[Row, ...]:
    """Returns the rows in their order; a row that breaks a rule has no number. core_clocks_hz: core clock by target.
    cpus: largest number of CPUs of a visit."""
    broken: Broken = {}
    for row in rows:
        if row.status == "ok" and (why := _broken(row, probes, core_clocks_hz.get(row.target, 0.0), cpus)):
            broken[id(row)] = why
    real = [row for row in rows if row.clock in REAL_CLOCKS and row.visits >= LEAST_VISITS]
    broken = {**_latency_falls(real, probes), **_chains_wait_shorter(real, probes), **broken}
    empty = {"median": None, "low": None, "high": None, "minimum": None, "quartiles": (), "modes": ()}
    return tuple(
        msgspec.structs.replace(row, status="unstable", reason=broken[id(row)], **empty) if id(row) in broken else row
        for row in rows
    )


# ---- one row ---------------------------------------------------------------------------------------------------------


def _broken(row: Row, probes: Probes, clock_hz: float, cpus: int) -> str | None:
    """Returns the rule that a row breaks by itself; None if it breaks none. A difference of two times and a gauge may
    be negative; a time may not. clock_hz: clock of its core, 0 if unknown. cpus: largest number of CPUs of a visit."""
    metric = metric_of(row, probes)
    source = metric.source if metric else None
    is_real, is_one_core = row.clock in REAL_CLOCKS, source in ("body", "difference", "control")
    bound = MOST_IN_A_CYCLE.get(row.unit)
    amount = _in_a_cycle(row, source, clock_hz or FASTEST_CORE_HZ)
    if is_real and bound and amount is not None and amount > bound[0] * (1 if is_one_core else cpus) * MARGIN:
        # This holds for every meaning: a core does at most the work of its widest units in a cycle.
        return f"{bound[1]} a cycle"
    statistics = (row.median, row.low, row.high, row.minimum, *row.quartiles, *row.modes)
    numbers = [end for end in statistics if end is not None]
    if source not in (None, "difference", "gauge") and any(end < 0 for end in numbers):
        return NO_TIME
    if not all(isfinite(end) for end in numbers):
        return NO_NUMBER
    means = meaning(row, probes)
    if not is_real or row.median is None or means is None:
        return None
    return _breaks_meaning(row, means, clock_hz, is_one_core=is_one_core)


def _in_a_cycle(row: Row, source: str | None, clock_hz: float) -> float | None:
    """Returns the lowest rate per cycle that a row claims; for a time, the operations per cycle. None for other values,
    and for a difference, which may be zero."""
    if row.low is None or row.high is None:
        return None
    if row.unit not in ("ns", "cycle"):
        return _ends(row)[0] / clock_hz
    if source not in ("body", "control"):
        return None
    cycles = _ends(row)[1] * (1.0 if row.unit == "cycle" else clock_hz / 1e9)
    return 1 / cycles if cycles > 0 else inf


def _breaks_meaning(row: Row, means: str, clock_hz: float, *, is_one_core: bool) -> str | None:
    """Returns the rule of its meaning that a row breaks; None if it breaks none. A boundary takes cycles, so an
    interval that reaches zero is no cost but the difference of two disturbed times; rows with fewer visits than an
    interval needs are exempt. A chain of dependent additions makes at most one per cycle. One core loads at most two
    vectors of 64 bytes per cycle and stores at most two; a byte that is copied or updated is loaded and stored, and
    counts once."""
    low, high = _ends(row)
    if means in LEAST_CYCLES:
        least, sentence = LEAST_CYCLES[means]
        most_cycles = high * {"ns": clock_hz / 1e9, "cycle": 1.0}.get(row.unit, inf)
        if row.unit == "op/s":
            most_cycles = clock_hz / low if low > 0 else inf
        if clock_hz and most_cycles * MARGIN < least:
            return sentence
        is_sure = row.visits >= LEAST_VISITS or (row.median or 0.0) <= 0
        if row.low is not None and row.low <= 0 and is_sure and row.unit in ("ns", "cycle"):
            return f"not resolved from zero: at most {short(high, row.unit)}"
    if (
        means == "core-clock"
        and clock_hz
        and ((row.unit == "op/s" and low > clock_hz * MARGIN) or (row.unit == "cycle" and high * MARGIN < 1))
    ):
        return "additions that wait for each other take at least a cycle each"
    bound = clock_hz * LOADS_PER_CYCLE * WIDEST_LOAD_BYTES
    if means in BANDWIDTHS and row.unit == "B/s" and is_one_core and clock_hz and low > bound * MARGIN:
        return f"one core moves at most {bound / 1e9:.0f} GB/s at this clock"
    return None


def _ends(row: Row) -> Ends:
    """Returns the lowest and the highest end of the intervals of the row and of all its states."""
    assert row.low is not None
    assert row.high is not None
    return min([row.low, *(state.low for state in row.states)]), max([row.high, *(state.high for state in row.states)])


# ---- rows that contradict each other ---------------------------------------------------------------------------------

# Samples of one visit are disturbed together: rows of too few visits for an interval contradict none.


def _series(rows: Iterable[Row], axis: str) -> list[list[Row]]:
    """Returns the rows in series that differ only in one parameter, each ordered by it. axis: name of this
    parameter."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if isinstance(row.parameters.get(axis), int):
            others = tuple(sorted((name, value) for name, value in row.parameters.items() if name != axis))
            groups[row.probe, row.metric, row.abi, row.target, others].append(row)
    return [sorted(group, key=lambda row: int(row.parameters[axis])) for group in groups.values()]


def _latency_falls(rows: Sequence[Row], probes: Probes) -> Broken:
    """Returns the rows that break the rule that a buffer has no clearly lower latency than a smaller one."""
    sentence = "the latency of a random walk does not fall as its buffer grows"
    curves = _series(with_meaning(rows, probes, "latency-of-size"), "size")
    return {id(group[place]): sentence for group in curves for place in _odd([_ends(row) for row in group])}


def _chains_wait_shorter(rows: Sequence[Row], probes: Probes) -> Broken:
    """Returns the rows that break one of two rules: k chains keep at most k loads in flight, and each load waits at
    least as long beside more chains. So k times the time of one load does not fall as k grows. Rows whose data are in a
    cache that other guests use are exempt, since the data may leave it and return between two points."""
    broken: Broken = {}
    unshared = [row for row in rows if not row.shares]
    for group in _series(with_meaning(unshared, probes, "load-of-chains"), "chains"):
        counts, waits = _waits(group)
        outliers = _odd(waits)
        for place in outliers:
            later = [waits[other] for other in range(place + 1, len(waits)) if other not in outliers]
            is_slow = any(high * MARGIN < waits[place][0] for _, high in later)
            too_many_loads = f"{counts[place]} chains keep no more than {counts[place]} loads under way"
            broken[id(group[place])] = SLOWER_THAN_MORE if is_slow else too_many_loads
    return broken


def in_one_place(group: Sequence[Row]) -> list[Row]:
    """Returns the rows of chains whose waits do not contradict each other. group: rows of one size, in ascending number
    of chains."""
    outliers = _odd(_waits(group)[1]) if group else []
    return [row for place, row in enumerate(group) if place not in outliers]


def _waits(group: Sequence[Row]) -> tuple[list[int], list[Ends]]:
    """Returns the numbers of chains of a series, and for each the interval of one load times the number of chains."""
    counts = [int(row.parameters["chains"]) for row in group]
    return counts, [(count * low, count * high) for count, (low, high) in zip(counts, map(_ends, group), strict=True)]


def _odd(series: Sequence[Ends]) -> list[int]:
    """Returns the indices that are not in the longest non-falling series, in which each interval, with the margin,
    reaches the previous one. So all other points decide which of two contradicting points is wrong."""
    length, previous = [1] * len(series), [-1] * len(series)
    for place, (_, high) in enumerate(series):
        for earlier in range(place):
            if high * MARGIN >= series[earlier][0] and length[earlier] + 1 > length[place]:
                length[place], previous[place] = length[earlier] + 1, earlier
    place = max(range(len(series)), key=length.__getitem__)
    kept = set()
    while place >= 0:
        kept.add(place)
        place = previous[place]
    return [place for place in range(len(series)) if place not in kept]
