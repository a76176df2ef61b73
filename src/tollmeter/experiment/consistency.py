# SPDX-License-Identifier: Apache-2.0
"""What one journal says twice, and whether it says the same: each rule is a sentence that holds of every honest run,
since one machine, one clock and one host wrote all of it (docs/measuring.md lists them).

A visit that breaks a rule has no numbers; where the records of the machine, of its clock or of the whole run break one,
no visit on this machine has. Rules about time hold for a clock of Linux, and those about CPUs where it reports them."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from math import inf
from statistics import median
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.alike import OF_ALIKE, VisitEvidence, evidence_of, unlike
from tollmeter.experiment.described import (
    LINUX_CLOCK,
    OF_RUN_DESCRIBED,
    OF_VISITS_DESCRIBED,
    Places,
    Recorded,
    is_here,
    is_timed,
)
from tollmeter.experiment.evidence import TICK_NS
from tollmeter.experiment.machine_record import X86
from tollmeter.experiment.run_record import OF_VISITS_ASKED, of_run
from tollmeter.experiment.sampled import (
    AS_BEFORE,
    AS_COUNTED,
    AS_LONG,
    AS_MANY,
    AS_WIDE,
    LEAST_STEPS,
    VisitLengths,
    as_before,
    as_counted,
    as_long,
    as_many,
    irregular,
    lengths_of,
    spaced,
)
from tollmeter.experiment.taken import Counts, Floats, Mask, Taken, parts, ranked
from tollmeter.experiment.uniform import uniform
from tollmeter.model import REAL_CLOCKS, ClockReading, Machine, Outcome, Point

STATUS, DISTURBED = "infrastructure", "unstable"
"""Of a visit that is withheld: it counts only where its point has no other. The second: what a neighbour may do."""
LEAST_READING_CYCLES, MOST_READINGS = 10, 64
"""Of a clock; and how many of them in a row may lie in one of its steps, and so take no time."""
MOST_STEPS = 10
"""Times the least by which two times of a run differ, or the cost of a reading, that the clock's steps are long."""
SLOWEST_CORE_HZ, FASTEST_CORE_HZ = 1e6, 1e10
MOST_BOOST = 1.5
"""Of CPUs of one kind, times the fastest rate of a whole run that the rate before it may be."""
LEAST_BURSTS = 8
"""Visits whose rates are known, before the rate before the run is held against theirs."""
MOST_READING = 30.0
"""Times a reading of the clock before the run that one in it takes, and the other way: before it the core is at its
lowest frequency, and another ABI may have no vDSO."""
MOST_OVER_REPORTED = 6.0
"""Times the frequency that the system reports the core's rate is, or a part of it: some report what was asked of it."""
LEAST_EQUAL = 4
"""Samples that are equal beyond chance."""
LEAST_LONGER, LEAST_SHORT, MOST_SHORT = 0.6, 2, 5
"""Times a batch of n takes one of 2n: half, where they are exchanged; such samples of a visit, and of how many one."""
ROUNDED_NS = 2
"""By so much two times of one number of steps differ."""
MOST_PER_CYCLE = 16
"""Instructions: twice as many as any core completes in a cycle."""
MARGIN = 1.15
NO_GAP = np.iinfo(np.int64).max
"""Of a visit's last sample."""
LONGEST_NS = 2.0**62
MOST_APART, STEADY = 1.5, 1.1
"""Times the fastest of one control loop's rates that the fastest of the other's may be, where others confirm it
within the second."""
MOST_APART_USUALLY = 1.2
"""The same, in the median of a run."""
MOST_REST = 10.0
"""Times the batches of a sample that the time beside them is, in the median of a run: thirty times what any showed,
since a board of 100 MHz needs long to read its evidence."""
LEAST_WIDTH = 0.5
"""Additions that do not wait for each other, in the time of one that does, where the sibling takes half."""
LEAST_EVENT_CYCLES = 100
"""Of a page fault or a context switch."""
LEAST_BURSTS_NS, LEAST_THREE_NS = 15_000, 28_000
"""Between two samples: two loops of 10 us run there, or three."""
WARMED = 1 / 8
"""Of the shorter batch, which runs untimed before it (probes/runtime/sample.c)."""
LEAST_CALM = 3
"""Such times of a visit, of which the least is what is left when nothing disturbs."""
LONGEST_READING_NS = 300.0
"""Of the clock, for which loops of 10 us beside samples show the core's rate: a reading of an HPET is a large part of
them."""
MOST_FASTER = 64
"""Times a visit is as fast as the fastest other of its point: a line that no other CPU takes meanwhile is 30 times as
near."""
LEAST_BROKEN = 2
"""Visits of a point."""
MOST_BESIDE, MOST_BESIDE_USUAL = 0.25, 2.5
"""Between two samples beside their batches: of their time, and times what is usual in the run."""
PREEMPTED, DELAYED = (
    "a worker that another takes the CPU from waits to run", "a worker that waits to run has left its CPU",
)  # fmt: skip
LOOPS_AGREE = "the control loop around a visit is as fast as beside its samples"
READINGS_JOIN = "a reading ends one sample and begins the next"
TIME_IS_ACCOUNTED = "the time of a sample is that of its batches and of reading its evidence"
COSTS_ITS_CYCLES = "an iteration takes the cycles that its instructions and system calls need"
TAKES_LONGER = "twice the work takes longer"
OF_RATES = (LOOPS_AGREE, READINGS_JOIN, TIME_IS_ACCOUNTED, COSTS_ITS_CYCLES, TAKES_LONGER, AS_BEFORE, AS_LONG, AS_MANY,
            AS_WIDE, DELAYED, PREEMPTED, AS_COUNTED)  # fmt: skip
"""Sentences that a neighbour can make false of a visit: on a guest at load 10 of one to four visits in 500."""
MOST_DISTURBED, DISTURBED_SHARE = 4, 0.05


class Checked(NamedTuple):
    """outcomes: the same, those that contradict the rest without their numbers. contradictions: in sentences. What is
    inferred from rates is one only in more visits than a busy machine disturbs."""

    outcomes: tuple[Outcome, ...]
    contradictions: tuple[str, ...]


def checked(recorded: Recorded) -> Checked:
    recorded = recorded._replace(needs=_least_cycles(recorded))
    broken: dict[int, str] = {}
    counts: Counter[str] = Counter()
    for place, why in dict.fromkeys(one for rule in (*OF_VISITS, _of_samples) for one in rule(recorded)):
        broken.setdefault(place, why)
        counts[why] += 1
    of_all = [why for rule in OF_RUN for why in rule(recorded)]
    here = {place for place, visit in enumerate(recorded.outcomes) if of_all and is_here(visit)}
    withheld = {**dict.fromkeys(here, of_all[0] if of_all else ""), **broken}
    outcomes = tuple(
        _withheld(visit, withheld[place]) if place in withheld and visit.status == "ok" else visit
        for place, visit in enumerate(recorded.outcomes)
    )
    few = max(MOST_DISTURBED, DISTURBED_SHARE * len(recorded.outcomes))
    named = ((why, count) for why, count in counts.items() if why not in OF_RATES or count > few)
    of_some = (f"{why} ({count} visit{'s' * (count > 1)})" for why, count in named)
    return Checked(outcomes, tuple(dict.fromkeys(chain(of_all, of_some))))


def _withheld(visit: Outcome, why: str) -> Outcome:
    status = DISTURBED if why in OF_RATES else STATUS
    reason = f"the journal contradicts itself: {why}"
    return msgspec.structs.replace(visit, status=status, reason=reason, samples=(), gauges={}, marks=None)


# ---- the machine, its clock, the whole run ---------------------------------------------------------------------------


def _clock(recorded: Recorded) -> Iterator[str]:
    clock, rate = recorded.clock, recorded.machine.core_clock_hz
    if rate is not None and not SLOWEST_CORE_HZ <= rate <= FASTEST_CORE_HZ:
        yield "a core makes between a million and ten thousand million additions a second that wait for each other"
    if clock and clock.kind == "hardware" and clock.source == LINUX_CLOCK and (why := _of_clock(clock, rate)):
        yield why
    timed = [visit for visit in recorded.outcomes if is_timed(visit)]
    if rate is None and len(timed) >= LEAST_BURSTS and all(visit.controls for visit in timed):
        yield "the core's rate is measured before the run where it is in it"
    if clock and clock.kind == "hardware" and len(timed) >= LEAST_BURSTS:
        usual = median(_reading_ns(visit.clock) for visit in timed)
        if not usual <= MOST_READING * _reading_ns(clock) <= MOST_READING**2 * usual:
            yield "a reading of the clock takes as long before the run as in it"
    fastest = [max(visit.controls) for visit in timed if visit.controls]
    if (
        rate
        and len(fastest) >= LEAST_BURSTS
        and rate > MOST_BOOST * max(fastest)
        and not _is_translated(recorded.machine)
        and len(recorded.machine.kinds) < 2
    ):
        yield "the core's rate before the run is one that it reaches in it"


def _reading_ns(clock: ClockReading) -> float:
    """A reading may be hidden in a step."""
    return max(clock.cost_ns, clock.resolution_ns)


def _of_clock(clock: ClockReading, rate: float | None) -> str | None:
    if clock.resolution_ns <= 0:
        return "a clock has a resolution"
    if (clock.cost_ns + clock.resolution_ns / MOST_READINGS) * (rate or FASTEST_CORE_HZ) < LEAST_READING_CYCLES * 1e9:
        return f"a reading of the clock takes {LEAST_READING_CYCLES} cycles or more"
    return None


def _is_translated(machine: Machine) -> bool:
    """Whether an emulator executes the visits: its rate depends on what of a program it has translated by then. One
    that translates programs alone shows them the files of the kernel below, where only x86 has families."""
    return "TCG" in (machine.hypervisor or "") or (
        "cpu_family" in machine.facts and not machine.architecture.startswith(X86)
    )


def _paced(recorded: Recorded) -> Iterator[str]:
    """Both loops ran on one core, in the median of the run: one visit may be disturbed."""
    if _is_translated(recorded.machine):
        return
    apart, widths, reported = list[float](), list[float](), list[float]()
    paced = (visit for visit in recorded.outcomes if is_timed(visit) and visit.samples and visit.controls)
    for some in parts([visit for visit in paced if _reading_ns(visit.clock) <= LONGEST_READING_NS]):
        taken = Taken([visit.samples for visit in some])
        fastest, widest = (
            np.maximum.reduceat(taken.column(name), taken.starts[:-1]) for name in ("control_hz", "width_hz")
        )
        around = np.array([max(visit.controls) for visit in some])
        known = (fastest > 0) & (around > 0)
        apart += (fastest[known] / around[known]).tolist()
        widths += (widest / around)[known & (widest > 0)].tolist()
        named = 1e3 * np.maximum.reduceat(taken.column("frequency_khz"), taken.starts[:-1])
        reported += (around[named > 0] / named[named > 0]).tolist()
    if len(apart) >= LEAST_BURSTS and not 1 / MOST_APART_USUALLY <= median(apart) <= MOST_APART_USUALLY:
        yield "the control loop around the visits is as fast as beside their samples"
    if reported and not 1 / MOST_OVER_REPORTED <= median(reported) <= MOST_OVER_REPORTED:
        yield "a core is about as fast as the frequency that the system reports"
    if len(widths) >= LEAST_BURSTS and not LEAST_WIDTH <= median(widths) <= MOST_PER_CYCLE:
        yield f"a core makes {LEAST_WIDTH:g} to {MOST_PER_CYCLE} additions a cycle that do not wait for each other"


OF_RUN: Sequence[Callable[[Recorded], Iterable[str]]] = (*OF_RUN_DESCRIBED, of_run, _clock, _paced)

# ---- visits ----------------------------------------------------------------------------------------------------------


def _clocked(recorded: Recorded) -> Places:
    is_real = recorded.clock is not None and recorded.clock.kind in REAL_CLOCKS
    for place, visit in enumerate(recorded.outcomes):
        if not is_here(visit) or visit.status != "ok" or not visit.samples:
            continue
        rate = max(visit.controls, default=recorded.machine.core_clock_hz or 0.0)
        if visit.clock.kind == "none" or (visit.clock.source == LINUX_CLOCK and visit.clock.kind not in REAL_CLOCKS):
            yield place, "samples are timed by a clock, and Linux's is one of hardware"
        elif rate and not SLOWEST_CORE_HZ <= rate <= FASTEST_CORE_HZ:
            yield place, "a control loop runs at the rate of a core"
        elif is_timed(visit) and (why := _of_clock(visit.clock, rate)):
            yield place, why
        elif (
            recorded.clock
            and (is_real or visit.clock.kind in REAL_CLOCKS)
            and (visit.clock.source, visit.clock.kind) != (recorded.clock.source, recorded.clock.kind)
        ):
            yield place, "one clock times all visits"


def _uniform(recorded: Recorded) -> Places:
    return uniform(recorded, [bisect(recorded.begins, place) for place in range(len(recorded.outcomes))])


OF_VISITS: Sequence[Callable[[Recorded], Places]] = (
    *OF_VISITS_DESCRIBED,
    *OF_VISITS_ASKED,
    *OF_ALIKE,
    _clocked,
    _uniform,
)

# ---- samples ---------------------------------------------------------------------------------------------------------


def _of_samples(recorded: Recorded) -> Places:
    """Of visits that were timed by Linux's clock on this machine, some at a time."""
    places = [place for place, visit in enumerate(recorded.outcomes) if is_timed(visit) and len(visit.samples)]
    steps_ns = _steps_ns(recorded, places)
    for place in places:
        clock = recorded.outcomes[place].clock
        if clock.resolution_ns > MOST_STEPS * max(steps_ns[place], clock.cost_ns):
            yield place, "times of a clock differ by whole steps of it"
    spans, beside, chains = list[_Span](), list[_Beside](), list[tuple[Sequence[int], Counts]]()
    costs, likes, lengths = list[tuple[int, float]](), list[VisitEvidence](), list[VisitLengths]()
    series = defaultdict[str, list[tuple[Counts, NDArray[np.uint64]]]](list)
    for some in parts(places):
        taken = Taken([recorded.outcomes[place].samples for place in some])
        for rule in OF_SAMPLES:
            yield from rule(recorded, some, taken)
        step_ns = np.repeat([steps_ns[place] for place in some], taken.counts)
        is_fine = taken.column("body_2n") >= LEAST_STEPS * step_ns
        yield from _differ(some, taken, taken.of_visits(~is_fine) == 0)
        spans += _spans(some, taken)
        each = np.minimum.reduceat(taken.column("body_2n") / taken.column("iterations"), taken.starts[:-1])
        costs += zip(some, each.tolist(), strict=True)
        beside += _beside(recorded, some, taken)
        likes += evidence_of(some, taken)
        lengths += lengths_of(some, taken)
        yield from spaced(some, taken, step_ns)
        chains.append((some, _unchained(taken)))
        for name, keys in _series(some, taken, is_fine):
            series[name].append(keys)
    yield from _unaccounted(recorded.outcomes, beside)
    yield from _in_order(recorded, spans)
    yield from _alike(recorded, costs)
    yield from unlike(recorded, likes)
    yield from irregular(lengths)
    yield from as_before(recorded, lengths)
    yield from as_counted(recorded, costs)
    yield from as_many(recorded, lengths)
    broken = [one for some, odd in chains for one in _where(some, odd, "a reading ends one sample and begins the next")]
    if 2 * len(broken) < len(places):  # else the runtime of that run took readings of their own
        yield from broken
    for read in series.values():
        yield from _repeated(*(np.concatenate([pair[which] for pair in read]) for which in (0, 1)))


def _aside_ns(visit: Outcome) -> int:
    return visit.waited_ns + visit.counted_ns


class _Span(NamedTuple):
    """From a visit's first sample to the end of its last, in ns."""

    place: int
    begin: int
    end: int


def _alike(recorded: Recorded, costs: Sequence[tuple[int, float]]) -> Places:
    """Of workers that wait for nothing: a CPU that sleeps deeply wakes a hundred times as late as one that does not."""
    of_point = defaultdict[Point, list[tuple[float, int]]](list)
    for place, each in costs:
        probe = recorded.probes.get(recorded.outcomes[place].point.probe)
        if probe and not (probe.roles or probe.switches or probe.spreads):
            of_point[recorded.outcomes[place].point].append((each, place))
    for several in of_point.values():
        (least, place), *others = sorted(several)[:2]
        if others and least * MOST_FASTER < others[0][0] and len(several) > 2:
            yield place, f"a visit is at most {MOST_FASTER} times as fast as each other of its point"


def _in_order(recorded: Recorded, spans: Sequence[_Span]) -> Places:
    """Of visits that this run made."""
    if recorded.asked.reused:
        return
    sessions = [bisect(recorded.begins, span.place) for span in spans]
    odd = _out_of_order(spans, sessions)
    yield from ((place, "one visit is timed after the other") for place in odd)
    for (one, session), (later, other) in pairwise(zip(spans, sessions, strict=True)):
        visit = recorded.outcomes[one.place]
        if session == other and not {one.place, later.place} & odd and _aside_ns(visit) > later.begin - visit.at_ns:
            yield one.place, "what a visit waited for, and its counting, lie before the next"
    is_one = len(spans) > 1 and sessions[-1] == sessions[-2]
    if is_one and recorded.seconds and spans[-1].begin - spans[-2].end > 1e9 * recorded.seconds:
        yield spans[-1].place, "a visit lies within the time of the run"


def _placed(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """A visit is on CPUs that the run may use, and its pinned worker stays among them."""
    allowed = set(recorded.machine.allowed_cpus)
    before, after = (column.tolist() for column in taken.whole(("cpu_before", "cpu_after")).values())
    for place, start, end in zip(places, taken.starts.tolist(), taken.starts[1:].tolist(), strict=False):
        visit = recorded.outcomes[place]
        own = {*visit.cpus, *visit.workers}
        ran = {*before[start:end], *after[start:end]}
        if allowed and not own <= allowed:
            yield place, "a visit is on CPUs that the run may use"
        elif not {cpu for cpu in ran if cpu >= 0} <= ((visit.pinned and own) or allowed or ran):
            yield place, "a worker runs on the CPU to which it is pinned"


def _within(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    at, timed = taken.whole(("at_ns",))["at_ns"].astype(np.int64), _timed(taken)
    gap = _gaps(at, taken)
    # Evidence is read before a sample and after it: what is lost between may lie outside of its batches. All that
    # samples lost but the last is lost before that begins.
    last, cpus = taken.starts[1:] - 1, np.array([max(1, len(recorded.outcomes[place].cpus)) for place in places])
    began = np.array([recorded.outcomes[place].at_ns for place in places])
    whole = taken.spread(np.where(began > 0, at[last] - began, NO_GAP).astype(float))
    is_last = np.zeros(len(taken), dtype=bool)
    is_last[last] = True
    delays, ticks = (
        np.add.reduceat(np.where(is_last, 0.0, np.maximum(taken.column(name), 0.0)), taken.starts[:-1])
        for name in ("delay_ns", "steal_ticks")
    )
    lost = np.maximum(delays, (ticks / cpus - 2) * TICK_NS)
    events = sum(np.maximum(taken.column(name), 0.0) for name in _EVENTS) / taken.spread(cpus.astype(float))
    rate = taken.spread(np.array([max(recorded.outcomes[place].controls, default=FASTEST_CORE_HZ) for place in places]))
    has_loops = (taken.column("control_hz") > 0) & (taken.column("width_hz") > 0)
    least = np.where(taken.column("width_between_hz") > 0, LEAST_THREE_NS, LEAST_BURSTS_NS)
    known = (gap != NO_GAP) & (at > 0)
    slept, waited = (np.add.reduceat(taken.column(name), taken.starts[:-1]) for name in ("voluntary", "delay_ns"))
    preempted = np.array(taken.column("involuntary"))
    # The first look at the evidence reads switches before waits: one between the two is in no sample's wait.
    first_moved = preempted[taken.starts[:-1]] > 0
    preempted[taken.starts[:-1]] = 0
    moved = np.add.reduceat(preempted, taken.starts[:-1])
    clocks = [recorded.outcomes[place].clock for place in places]
    steps = taken.spread(np.array([max(clock.resolution_ns, clock.cost_ns) for clock in clocks]))
    for odd, why in (
        (taken.column("body_2n") < steps, "a batch takes longer than a reading of the clock, and than its steps"),
        ((timed > gap) & known, "a sample's batches lie between its beginning and the next one's"),
        ((taken.spread(lost) > whole) & known, "samples lost no more time than went by"),
        (taken.spread((moved > 0) & (waited == 0)), PREEMPTED),
        (taken.spread((moved == 0) & ~first_moved & (slept == 0) & (waited > 0)), DELAYED),
        ((events * LEAST_EVENT_CYCLES * 1e9 > 2 * gap * rate) & known, "page faults and context switches take time"),
        ((gap - timed < least) & (timed <= gap) & known & has_loops, "loops of 10 us run between two samples"),
        ((taken.column("body_n") <= 0) | (taken.column("body_2n") <= 0), "a batch takes time"),
    ):
        yield from _where(places, taken.of_visits(odd), why)


_EVENTS = ("minor_faults", "major_faults", "voluntary", "involuntary")


def _timed(taken: Taken) -> Counts:
    """What lay in the timed batches of each sample; what no integer holds is still longer than any run."""
    return np.minimum(taken.timed_ns(), LONGEST_NS).astype(np.int64)


def _gaps(at: Counts, taken: Taken) -> Counts:
    """From the beginning of each sample to that of the next."""
    gap = np.append(np.diff(at), NO_GAP)
    gap[taken.starts[1:] - 1] = NO_GAP
    return gap


def _controlled(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    timed = taken.of_visits(taken.column("control_n") >= 0) > 0
    probes = [recorded.probes.get(recorded.outcomes[place].point.probe) for place in places]
    odd = [probe is not None and probe.control != has for probe, has in zip(probes, timed.tolist(), strict=True)]
    yield from _where(places, np.array(odd), "a visit has a control where its probe has")


def _begun(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    firsts = taken.whole(("at_ns",))["at_ns"][taken.starts[:-1]].tolist()
    for place, first in zip(places, firsts, strict=True):
        if 0 < first < recorded.outcomes[place].at_ns:
            yield place, "a visit begins before its first sample"


def _executes(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """Most samples of a visit leave the time."""
    need = np.array([recorded.needs.get(recorded.outcomes[place].point, 0.0) for place in places])
    rate = np.array([max(recorded.outcomes[place].controls, default=0.0) for place in places])
    each_ns = (taken.column("body_2n") - taken.column("body_n")) / taken.column("iterations")
    short = each_ns * taken.spread(rate) * MARGIN < taken.spread(need) * 1e9
    odd = np.where((rate > 0) & (need > 0), 2 * taken.of_visits(short) > taken.counts, False)
    yield from _where(places, odd, COSTS_ITS_CYCLES)


def _least_cycles(recorded: Recorded) -> Mapping[Point, float]:
    """Of one iteration of each point, by what was counted of it. A worker that waits for another turns more often while
    it is counted."""
    least = {}
    alone = {name for name, probe in recorded.probes.items() if not probe.roles and not probe.switches}
    for visit in recorded.outcomes:
        if (counts := visit.counted) and is_here(visit) and visit.point.probe in alone:
            steps, calls = (
                (pair[1] - pair[0]) / counts.iterations if pair else 0.0 for pair in (counts.instructions, counts.calls)
            )
            least[visit.point] = max(steps / MOST_PER_CYCLE, calls * LEAST_READING_CYCLES)
    return least


def _steps_ns(recorded: Recorded, places: Sequence[int]) -> Mapping[int, float]:
    """Of each visit's clock: the least by which two times differ, of the visits whose clock is as fine as theirs, by
    what these say. What the runtime reports is no less than what a reading takes."""
    coarse = {place for place in places if (clock := recorded.outcomes[place].clock).resolution_ns
              > MOST_STEPS * clock.cost_ns}  # fmt: skip
    groups = [[place for place in places if (place in coarse) == is_coarse] for is_coarse in (False, True)]
    return {place: step for group in groups for step in [_step_ns(recorded, group)] for place in group}


def _stepped(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """What divides all times of a visit is no more than the steps that its clock says it has."""
    short, long = (column.astype(np.int64) for column in taken.whole(("body_n", "body_2n")).values())
    common = np.gcd.reduceat(np.gcd(short, long), taken.starts[:-1])
    clocks = [recorded.outcomes[place].clock for place in places]
    steps = np.array([max(clock.resolution_ns, clock.cost_ns) for clock in clocks])
    odd = (common > MOST_STEPS * steps) & (_distinct(taken.column("body_2n"), taken) >= LEAST_EQUAL)
    yield from _where(places, odd, "times of a clock differ by the steps that it has")


def _step_ns(recorded: Recorded, places: Sequence[int]) -> float:
    some = next(iter(parts(places)), ())
    taken = Taken([recorded.outcomes[place].samples for place in some])
    apart = np.diff(np.unique(np.concatenate([taken.column("body_n"), taken.column("body_2n")])))
    return float(np.min(apart, initial=inf, where=apart > ROUNDED_NS))


def _differ(places: Sequence[int], taken: Taken, is_fine: Mask) -> Places:
    """Times of many steps of the clock are not equal in all of a visit's samples. On a quiet core few differ."""
    odd = _distinct(taken.column("body_n") * 2**20 + taken.column("body_2n"), taken) == 1
    yield from _where(places, odd & is_fine & (taken.counts >= LEAST_EQUAL), "the times of a visit's samples differ")


def _longer(_: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """Of samples that nothing disturbed, and that did not wait: a CPU that is woken may have gone idle or not. A
    neighbour on the core may lengthen one batch, and not the next."""
    calm = np.ones(len(taken), dtype=bool)
    for name in ("delay_ns", "voluntary", "involuntary", "steal_ticks"):
        calm &= taken.column(name) <= 0
    short = taken.column("body_2n") < LEAST_LONGER * taken.column("body_n")
    odd = (taken.of_visits(short & calm) >= LEAST_SHORT) & (taken.of_visits(short) * MOST_SHORT > taken.counts)
    yield from _where(places, odd, TAKES_LONGER)


def _distinct(values: Floats, taken: Taken) -> Counts:
    """How many different values each visit has."""
    owner = np.repeat(np.arange(len(taken.counts)), taken.counts)
    order = np.lexsort((values, owner))
    ordered, owned = values[order], owner[order]
    is_new = np.ones(len(values), dtype=bool)
    is_new[1:] = (np.diff(ordered) != 0) | (np.diff(owned) != 0)
    return np.bincount(owned[is_new], minlength=len(taken.counts))


def _rates(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """The control loop before and after a visit is the one beside its samples. An interrupt makes a reading too slow:
    two agree on each side."""
    if _is_translated(recorded.machine):
        return
    owner = np.repeat(np.arange(len(places)), taken.counts)
    beside, starts = ranked(taken.column("control_hz"), owner, len(places))
    several = np.diff(starts) > 1
    ends = np.where(several, starts[1:], 2) - 1
    fastest, second = (beside[ends - back] if len(beside) > 1 else np.zeros(len(places)) for back in (0, 1))
    around = np.array([sorted((0.0, 0.0, *recorded.outcomes[place].controls))[-2:] for place in places])
    least, most = around.T
    apart = np.maximum(fastest, most) > MOST_APART * np.minimum(fastest, most)
    steady = several & (fastest <= STEADY * second) & (most <= STEADY * least) & (least > 0)
    quick = np.array([_reading_ns(recorded.outcomes[place].clock) <= LONGEST_READING_NS for place in places])
    yield from _where(places, apart & steady & quick, LOOPS_AGREE)


OF_SAMPLES: Sequence[Callable[[Recorded, Sequence[int], Taken], Places]] = (
    _placed, _within, _controlled, _begun, _executes, _rates, _longer, _stepped, as_long,
)  # fmt: skip


class _Beside(NamedTuple):
    """Of an undisturbed visit: the least time between two samples beside their batches and what ran untimed before
    these, and the time of the batches, in ns. is_plain: whether its probe leaves out no time and waits for no
    companion, as on CPUs that wake slowly: what else a sample is, is as long on one machine."""

    place: int
    rest: float
    batches: float
    is_plain: bool


def _beside(recorded: Recorded, places: Sequence[int], taken: Taken) -> Iterator[_Beside]:
    at, timed = taken.whole(("at_ns",))["at_ns"].astype(np.int64), taken.timed_ns()
    gap = _gaps(at, taken)
    probes = [recorded.probes.get(recorded.outcomes[place].point.probe) for place in places]
    plain = np.array([probe is not None and probe.pauses is False and not probe.roles for probe in probes])
    calm = (taken.column("involuntary") <= 0) & (taken.column("steal_ticks") <= 0)
    calm &= (taken.column("delay_ns") <= 0) | ~taken.spread(plain)
    known = (gap != NO_GAP) & (at > 0) & calm
    grown = sum(np.maximum(taken.column(f"{name}_2n") - taken.column(f"{name}_n"), 0) for name in ("body", "control"))
    least, usual = (np.minimum.reduceat(np.where(known, values, np.inf), taken.starts[:-1])
                    for values in (gap - timed - WARMED * grown, timed))  # fmt: skip
    enough = taken.of_visits(known) >= LEAST_CALM
    several = zip(places, least.tolist(), usual.tolist(), plain.tolist(), strict=True)
    return (_Beside(*one) for one, is_enough in zip(several, enough, strict=True) if is_enough)


def _unaccounted(outcomes: Sequence[Outcome], visits: Sequence[_Beside]) -> Places:
    """A point of which most visits that can be judged are odd has no other that is known to be sound. Visits that are
    not plain are compared with others of their point."""
    plain = [one for one in visits if one.is_plain]
    odd = set[int]()
    if len(plain) >= LEAST_BURSTS:
        usual, share = median(one.rest for one in plain), median(one.rest / one.batches for one in plain)
        odd = {one.place for one in plain if share > MOST_REST or _has_more(one, usual)}
    of_point = defaultdict[Point, list[_Beside]](list)
    for one in visits:
        of_point[outcomes[one.place].point].append(one)
    for several in of_point.values():
        rests = sorted(one.rest for one in several)
        if not several[0].is_plain and len(several) > LEAST_CALM:
            odd |= {one.place for one in several if _has_more(one, max(0.0, rests[len(rests) // 2]))}
    judged = Counter(outcomes[one.place].point for one in visits)
    broken = Counter(outcomes[place].point for place in odd)
    for place, visit in enumerate(outcomes):
        if place in odd or (broken[visit.point] >= LEAST_BROKEN and 2 * broken[visit.point] > judged[visit.point]):
            yield place, TIME_IS_ACCOUNTED


def _has_more(one: _Beside, usual: float) -> bool:
    return one.rest > MOST_BESIDE * one.batches + MOST_BESIDE_USUAL * usual


def _spans(places: Sequence[int], taken: Taken) -> Iterator[_Span]:
    at, timed = taken.whole(("at_ns",))["at_ns"].astype(np.int64), _timed(taken)
    begins, ends = at[taken.starts[:-1]], (at + timed)[taken.starts[1:] - 1]
    return (_Span(*one) for one in zip(places, begins.tolist(), ends.tolist(), strict=True) if one[1] > 0)


def _out_of_order(spans: Sequence[_Span], sessions: Sequence[int]) -> set[int]:
    """Places of visits that begin before an earlier one of their session ends. Where several in a row do, it is the
    one before them that is odd."""
    odd, latest = set[int](), 0
    for at, span in enumerate(spans):
        if at and sessions[at] != sessions[at - 1]:
            latest = span.end
        elif span.begin < latest:
            before = spans[at - 1]
            later = sum(one.begin < before.end for one in spans[at : at + LEAST_EQUAL])
            odd.add(before.place if later > 1 and before.place not in odd else span.place)
            latest = span.end if later > 1 else latest
        else:
            latest = span.end
    return odd


def _unchained(taken: Taken) -> Counts:
    """Samples that do not begin with the reading that ended the one before, although no time went by for another: a
    visit that waits for an uncontended core reads it anew."""
    at, odd = taken.whole(("at_ns",))["at_ns"].astype(np.int64), np.zeros(len(taken), dtype=bool)
    gaps = _gaps(at, taken)
    rest = np.where(gaps == NO_GAP, np.inf, gaps - taken.timed_ns())
    usual = taken.spread(np.minimum.reduceat(rest, taken.starts[:-1]))
    for before, after, least in (
        ("control_before_hz", "control_hz", 1),
        ("width_before_hz", "width_hz", 1),
        ("cpu_before", "cpu_after", 0),
    ):
        ended, begun = taken.column(after)[:-1], taken.column(before)[1:]
        odd[1:] |= (ended != begun) & (begun >= least)
    odd[1:] &= rest[:-1] <= (MOST_BESIDE_USUAL * usual)[:-1]
    odd[taken.starts[:-1]] = False
    return taken.of_visits(odd)


def _series(places: Sequence[int], taken: Taken, is_fine: Mask) -> Iterator[tuple[str, tuple[Counts, Keys]]]:
    """A number for each few successive times, and for the first rates of a visit, which are equal where all of these
    are; and the places of their visits. None of those of which several are equal."""
    follow = np.arange(LEAST_EQUAL)
    within = np.repeat(taken.starts[1:], taken.counts) - np.arange(len(taken)) >= LEAST_EQUAL
    is_first = np.zeros(len(taken), dtype=bool)
    is_first[taken.starts[:-1]] = True
    are_fine = np.all([np.roll(is_fine, -step) for step in follow], axis=0)
    for name, columns, begins in (
        ("times", ("body_n", "body_2n"), within & are_fine),
        ("rates", ("control_hz", "width_hz", "width_between_hz"), within & is_first),
    ):
        windows = np.flatnonzero(begins)[:, None] + follow
        read = np.stack([taken.column(column)[windows] for column in columns])
        differ = np.sum(np.diff(np.sort(read)) == 0, axis=(0, 2)) < len(columns)
        bits = read[:, differ].view(np.uint64)
        # A whole number as a float has its bits on the left, and a product keeps those on the right.
        keys = ((bits ^ bits >> np.uint64(32)) * _MIX[: len(columns), None]).sum(axis=(0, 2), dtype=np.uint64)
        yield name, (taken.spread(np.asarray(places))[windows[differ, 0]], keys)


Keys = NDArray[np.uint64]
_MIX = np.random.default_rng(1).integers(1, 2**63, (3, LEAST_EQUAL), dtype=np.uint64) | np.uint64(1)


def _repeated(places: Counts, keys: Keys) -> Places:
    order = np.argsort(keys)
    equal = np.flatnonzero(np.diff(keys[order]) == 0)
    again = np.unique(places[order][[*equal, *(equal + 1)]] if len(equal) else [])
    return ((place, "no two visits took the same times") for place in again.tolist())


def _where(places: Sequence[int], odd: Counts | Mask, why: str) -> Places:
    return ((place, why) for place, count in zip(places, odd.tolist(), strict=True) if count)
