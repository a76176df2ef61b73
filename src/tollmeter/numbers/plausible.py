# SPDX-License-Identifier: Apache-2.0
"""Rules of physics. A row that breaks one becomes `unstable`, and the rule's sentence is its reason.

A rule refuses what no machine can do, not what is rare: each leaves a margin for a core clock that moved between the
control loop and the sample, and compares ends of intervals rather than medians.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isfinite

import msgspec

from tollmeter.model import REAL_CLOCKS, Probe, Row
from tollmeter.numbers.meanings import meaning, metric_of, with_meaning
from tollmeter.numbers.units import short

Probes = Mapping[str, Probe]
Clocks = Mapping[str, float]
Broken = dict[int, str]
Ends = tuple[float, float]

MARGIN = 1.15
LOADS_PER_CYCLE = 2
WIDEST_LOAD_BYTES = 64
FLOPS_PER_CYCLE = 64
BANDWIDTHS = ("read-bandwidth-of-size", "write-bandwidth-of-size", "copy-bandwidth-of-size", "update-bandwidth-of-size")
FASTEST_CLOCK_HZ = 1e10
"""Where a core's own is not known."""
NO_TIME = "twice the work took less time: batches were interrupted for longer than the work takes"
NO_NUMBER = "it is not a finite number: the work that the probe declares cannot be what it did"
MOST_IN_A_CYCLE = {
    "B/s": (4 * WIDEST_LOAD_BYTES, "no core loads and stores more than four vectors of 64 bytes"),
    "flop/s": (FLOPS_PER_CYCLE, f"no core does more than {FLOPS_PER_CYCLE} floating-point operations"),
    "op/s": (16, "no core starts more than sixteen operations"),
    **dict.fromkeys(("ns", "cycle"), (FLOPS_PER_CYCLE, f"no core does more than {FLOPS_PER_CYCLE} operations")),
}
"""By a row's unit: what one core does at most, which is more than any that is built does. It bounds work that was
declared wrongly where no meaning says more."""
SLOWER_THAN_MORE = "a load waits no longer beside few others than it does beside more"
LEAST_CYCLES = {
    "latency-of-size": (1, "a load that waits for the load before it takes at least a cycle"),
    "latency-of-stride": (0.25, "no core starts more than four loads a cycle"),
    "control-loop": (0.5, "no core takes more than two branches a cycle"),
    "entry": (10, "no kernel is entered and left within ten cycles"),
    "price-of-fault": (10, "no fault is served within ten cycles"),
    "trap": (10, "no trap is served within ten cycles"),
    "switch": (10, "no process is switched within ten cycles"),
    "core-to-core": (10, "no line travels to another core and back within ten cycles"),
}


def judged(rows: Sequence[Row], probes: Probes, core_clocks_hz: Clocks, cpus: int = 1) -> tuple[Row, ...]:
    """The same rows, in order; those that break a rule without their number. core_clocks_hz: by target. cpus: that a
    visit had at most."""
    real = [row for row in rows if row.clock in REAL_CLOCKS]
    broken: Broken = {
        **_without_end(rows),
        **_below_nothing(rows, probes),
        **_more_than_all_cores(real, probes, core_clocks_hz, cpus),
    }
    for rule in RULES:
        for row_id, sentence in rule(real, probes, core_clocks_hz).items():
            broken.setdefault(row_id, sentence)
    return tuple(_refuse(row, broken[id(row)]) if id(row) in broken else row for row in rows)


def _refuse(row: Row, sentence: str) -> Row:
    empty = {"median": None, "low": None, "high": None, "minimum": None, "quartiles": (), "modes": ()}
    return msgspec.structs.replace(row, status="unstable", reason=sentence, **empty)


def _series(rows: Iterable[Row], axis: str) -> list[list[Row]]:
    """Rows that differ in one parameter only, each series ordered by it."""
    groups: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if isinstance(row.parameters.get(axis), int):
            others = tuple(sorted((name, value) for name, value in row.parameters.items() if name != axis))
            groups[row.probe, row.metric, row.abi, row.target, others].append(row)
    return [sorted(group, key=lambda row: int(row.parameters[axis])) for group in groups.values()]


def _ends(row: Row) -> Ends:
    """Of the row's interval; of all of its states', where it has some."""
    assert row.low is not None
    assert row.high is not None
    return min([row.low, *(state.low for state in row.states)]), max([row.high, *(state.high for state in row.states)])


def _latency_grows(rows: Sequence[Row], probes: Probes, _: Clocks) -> Broken:
    """No buffer is clearly faster than a smaller one."""
    broken: Broken = {}
    for group in _series(with_meaning(rows, probes, "latency-of-size"), "size"):
        sentence = "the latency of a random walk does not fall as its buffer grows"
        broken |= {id(group[place]): sentence for place in _odd([_ends(row) for row in group])}
    return broken


def _chains_bound_parallelism(rows: Sequence[Row], probes: Probes, _: Clocks) -> Broken:
    """k chains keep no more than k loads under way, and each of these waits no shorter for more of them: k times what
    one load takes does not fall as chains are added."""
    broken: Broken = {}
    for group in _series(with_meaning(rows, probes, "load-of-chains"), "chains"):
        counts = [int(row.parameters["chains"]) for row in group]
        waits = [(count * low, count * high) for count, (low, high) in zip(counts, map(_ends, group), strict=True)]
        odd = _odd(waits)
        for place in odd:
            later = [waits[other] for other in range(place + 1, len(waits)) if other not in odd]
            slow = any(high * MARGIN < waits[place][0] for _, high in later)
            quick = f"{counts[place]} chains keep no more than {counts[place]} loads under way"
            broken[id(group[place])] = SLOWER_THAN_MORE if slow else quick
    return broken


def _odd(series: Sequence[Ends]) -> list[int]:
    """Places that do not fit into the longest series in which nothing falls: where two contradict each other, all the
    others say which of them is the odd one."""
    kept = set(_longest_rise(series))
    return [place for place in range(len(series)) if place not in kept]


def _longest_rise(series: Sequence[Ends]) -> list[int]:
    """Places of the longest series where each interval, with the margin, reaches that of the place before it."""
    length, before = [1] * len(series), [-1] * len(series)
    for place, (_, high) in enumerate(series):
        for earlier in range(place):
            if high * MARGIN >= series[earlier][0] and length[earlier] + 1 > length[place]:
                length[place], before[place] = length[earlier] + 1, earlier
    place = max(range(len(series)), key=length.__getitem__)
    kept = []
    while place >= 0:
        kept.append(place)
        place = before[place]
    return kept


def _bandwidth_under_ports(rows: Sequence[Row], probes: Probes, clocks: Clocks) -> Broken:
    """One core loads at most two vectors of 64 bytes a cycle, and stores no more. A byte that is copied or updated is
    loaded and stored, and counts once."""
    broken: Broken = {}
    for row in with_meaning(rows, probes, *BANDWIDTHS):
        bound = clocks.get(row.target, 0.0) * LOADS_PER_CYCLE * WIDEST_LOAD_BYTES
        if bound and row.unit == "B/s" and _one_core(row, probes) and _ends(row)[0] > bound * MARGIN:
            broken[id(row)] = f"one core moves at most {bound / 1e9:.0f} GB/s at this clock"
    return broken


def _one_core(row: Row, probes: Probes) -> bool:
    metric = metric_of(row, probes)
    return metric is not None and metric.source in ("body", "difference", "control")


def _additions_wait(rows: Sequence[Row], probes: Probes, clocks: Clocks) -> Broken:
    """A chain of dependent additions does no more than one a cycle, here or in the control loop."""
    broken: Broken = {}
    for row in with_meaning(rows, probes, "core-clock"):
        clock = clocks.get(row.target, 0.0)
        too_fast = row.unit == "op/s" and _ends(row)[0] > clock * MARGIN
        too_short = row.unit == "cycle" and _ends(row)[1] * MARGIN < 1
        if clock and (too_fast or too_short):
            broken[id(row)] = "additions that wait for each other take at least a cycle each"
    return broken


def _flops_under_units(rows: Sequence[Row], probes: Probes, clocks: Clocks) -> Broken:
    broken: Broken = {}
    for row in with_meaning(rows, probes, "flops-of-n"):
        bound = clocks.get(row.target, 0.0) * FLOPS_PER_CYCLE
        if bound and row.unit == "flop/s" and _one_core(row, probes) and _ends(row)[0] > bound * MARGIN:
            broken[id(row)] = f"one core does at most {FLOPS_PER_CYCLE} floating-point operations a cycle"
    return broken


def _without_end(rows: Sequence[Row]) -> Broken:
    """A rate of work that was declared as 1e300 bytes, or a cost that is none."""
    measured = (row for row in rows if row.status == "ok")
    return {id(row): NO_NUMBER for row in measured if not all(isfinite(end) for end in _numbers(row))}


def _below_nothing(rows: Sequence[Row], probes: Probes) -> Broken:
    """A difference of two times may be negative, and what a probe counted may be; a time may not."""
    timed = (row for row in rows if row.status == "ok" and _is_timed(row, probes))
    return {id(row): NO_TIME for row in timed if any(end < 0 for end in _numbers(row))}


def _is_timed(row: Row, probes: Probes) -> bool:
    metric = metric_of(row, probes)
    return metric is not None and metric.source not in ("difference", "gauge")


def _numbers(row: Row) -> list[float]:
    ends = [row.median, row.low, row.high, row.minimum, *row.quartiles, *row.modes]
    return [end for end in ends if end is not None]


def _more_than_all_cores(rows: Sequence[Row], probes: Probes, clocks: Clocks, cpus: int) -> Broken:
    """Whatever a metric means: work is done by cores, and none does more in a cycle than its widest units."""
    broken: Broken = {}
    for row in rows:
        clock = clocks.get(row.target, 0.0) or FASTEST_CLOCK_HZ
        bound, amount = MOST_IN_A_CYCLE.get(row.unit), _in_a_cycle(row, probes, clock)
        cores = 1 if _one_core(row, probes) else cpus
        if bound and amount is not None and amount > bound[0] * cores * MARGIN:
            broken[id(row)] = f"{bound[1]} a cycle"
    return broken


def _in_a_cycle(row: Row, probes: Probes, clock_hz: float) -> float | None:
    """What a row claims at least; of a time the operations. What is left of a difference may be nothing."""
    if row.status != "ok" or row.low is None or row.high is None:
        return None
    if row.unit not in ("ns", "cycle"):
        return _ends(row)[0] / clock_hz
    metric = metric_of(row, probes)
    if metric is None or metric.source not in ("body", "control"):
        return None
    cycles = _ends(row)[1] * (1.0 if row.unit == "cycle" else clock_hz / 1e9)
    return 1 / cycles if cycles > 0 else inf


def _takes_cycles(rows: Sequence[Row], probes: Probes, clocks: Clocks) -> Broken:
    """A boundary takes cycles, so an interval that reaches zero states no cost: a difference of two disturbed times."""
    broken: Broken = {}
    for row in with_meaning(rows, probes, *LEAST_CYCLES):
        least, sentence = LEAST_CYCLES[meaning(row, probes) or ""]
        clock = clocks.get(row.target, 0.0)
        low, high = _ends(row)
        if clock and _most_cycles(row, clock) * MARGIN < least:
            broken[id(row)] = sentence
        elif low <= 0 and row.unit in ("ns", "cycle"):
            broken[id(row)] = f"not resolved from zero: at most {short(high, row.unit)}"
    return broken


def _most_cycles(row: Row, clock_hz: float) -> float:
    """Of one operation, by the end of the row's interval that is the slower; infinite for other units."""
    low, high = _ends(row)
    if row.unit == "op/s":
        return clock_hz / low if low > 0 else inf
    return high * {"ns": clock_hz / 1e9, "cycle": 1.0}.get(row.unit, inf)


RULES: tuple[Callable[[Sequence[Row], Probes, Clocks], Broken], ...] = (
    _takes_cycles,
    _additions_wait,
    _bandwidth_under_ports,
    _flops_under_units,
    _chains_bound_parallelism,
    _latency_grows,
)
