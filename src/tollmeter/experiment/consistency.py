# SPDX-License-Identifier: Apache-2.0
"""Finds contradictions between the records of one journal. Each rule is a sentence that is true of every honest run,
since one machine, one clock and one host wrote the whole journal (docs/measuring.md lists the rules).

A visit that breaks a rule has no numbers. If the record of the machine, of its clock or of the whole run breaks a rule,
no visit on this machine has numbers. Rules about time apply to Linux's clock, and rules about CPUs if Linux reports
them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import inf
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.alike import OF_ALIKE, evidence_of, unlike
from tollmeter.experiment.described import HAS_CONTROL, OF_RUN_DESCRIBED, OF_VISITS_DESCRIBED, Places, Recorded
from tollmeter.experiment.evidence import TICK_NS
from tollmeter.experiment.limits import (
    ALIKE,
    CLEARLY,
    FAR_APART,
    INEXPLICABLE,
    LEAST_SAMPLES,
    LEAST_VALUES,
    LEAST_VISITS,
    MORE_THAN_TWICE,
)
from tollmeter.experiment.machine_record import MOST_OVER_NAMED, X86
from tollmeter.experiment.run_record import (
    FASTEST_CORE_HZ,
    LEAST_CALL_CYCLES,
    LEAST_EVENT_CYCLES,
    LEAST_WIDTH,
    MARGIN,
    MOST_PER_CYCLE,
    OF_VISITS_ASKED,
    SLACK_S,
    SLOWEST_CORE_HZ,
    run_contradictions,
)
from tollmeter.experiment.sampled import (
    AS_BEFORE,
    AS_COUNTED,
    AS_LONG,
    AS_MANY,
    AS_WIDE,
    LEAST_STEPS,
    as_before,
    as_counted,
    as_long,
    as_many,
    irregular,
    lengths_of,
    spaced,
)
from tollmeter.experiment.taken import MANY_VISITS, Counts, Floats, Mask, Taken
from tollmeter.experiment.timed_visits import (
    NO_GAP,
    NOT_DESCRIBED,
    Broken,
    Numbers,
    SampleRule,
    TimedSamples,
    TimedVisits,
    numbers_without_samples,
    timed_visits,
)
from tollmeter.experiment.uniform import uniform
from tollmeter.experiment.visit_table import LINUX_CLOCK, LONGEST_NS, VisitTable, grouped, is_of_this_machine
from tollmeter.model import REAL_CLOCKS, ClockReading, Machine, Outcome, Point

STATUS, DISTURBED = "infrastructure", "unstable"
"""STATUS: status of a withheld visit. It becomes the status of the row only if the point has no other visit. DISTURBED:
status where another workload may have caused the contradiction."""
TIMER_STEPS_NS = {"acpi_pm": 279.0, "jiffies": 999_000.0}
"""Steps of timers of a fixed rate: 3.579545 MHz, and at most 1,000 ticks a second."""
ROUNDED_NS = 2
"""Largest difference, in ns, of two times of the same number of clock steps: each is rounded to whole ns."""
LEAST_LOOP_NS = 5_000
"""Shortest time of a loop of 10 us, of which two or three run between two samples. A process that sized its loops on a
contended core runs them in half the time on an uncontended one."""
WARMED = 1 / 8
"""Share of the shorter batch that runs untimed before it (probes/runtime/sample.c)."""
LONGEST_READING_NS = 300.0
"""Slowest clock with which loops of 10 us beside samples show the core's rate: reading an HPET takes a large part of
such a loop."""
MOST_FASTER = 2 * INEXPLICABLE
"""Highest ratio of a visit's speed to that of the next fastest visit of its point. A cache line that no other CPU
accesses is accessed 30 times as fast as a contended one."""
LEAST_BROKEN, MOST_SOUND = 2, 3
"""No visit of a point has numbers if LEAST_BROKEN of its visits, and at least one in MOST_SOUND, break a rule. The same
numbers apply to the samples of a visit."""
HAS_STEPS = "a clock has a resolution"
SAMPLES_DIFFER = "the times of a visit's samples differ"
SAMPLES_ALIKE = "all samples of a visit have equally many companions, and all or none have a control"
OUTRUNS = f"no visit's core is {1 + FAR_APART:g} times as fast as in all others"
TAKES_CYCLES = f"a reading of the clock takes {LEAST_CALL_CYCLES} cycles or more"
PREEMPTED, DELAYED = (
    "a worker that is preempted waits to run", "a worker that waits to run was switched out",
)  # fmt: skip
LOOPS_AGREE = "the control loop around a visit is as fast as beside its samples"
COMPLETE = "a visit has a layout, start times for itself and its samples, and a control loop before and after them"
JOINED = ("control_before_hz", "control_hz"), ("width_before_hz", "width_hz"), ("cpu_before", "cpu_after")
READINGS_JOIN = "the reading that ends one sample begins the next"
SAME_LOOP = "a loop is as fast around visits, between samples and in the middle of them"
TIME_IS_ACCOUNTED = "a sample takes as long as its batches and the reading of its evidence"
BATCHES_LIE_WITHIN = "a sample's batches lie between its beginning and the next one's"
COSTS_ITS_CYCLES = "an iteration takes the cycles that its instructions and system calls need"
TAKES_LONGER = "twice the work takes longer"
OF_RATES = (LOOPS_AGREE, SAME_LOOP, TIME_IS_ACCOUNTED, COSTS_ITS_CYCLES, TAKES_LONGER, AS_BEFORE,
            AS_LONG, AS_MANY, AS_WIDE, DELAYED, OUTRUNS, PREEMPTED, AS_COUNTED)  # fmt: skip
"""Rules that another workload can make false: on a guest at load 10, of one to four visits in 500."""
MOST_DISTURBED, DISTURBED_SHARE = LEAST_VALUES, 0.05
"""Number and share of the visits of a run that may break a rule because of other workloads; the larger of both is the
limit. The share is ten times the measured one, and the number is for runs of a few seconds."""


class Checked(NamedTuple):
    """The checked visits of a run. outcomes: all visits; a visit that contradicts other records is without its numbers.
    contradictions: the broken rules, as sentences. A rule about rates is listed only if more visits break it than a
    busy machine disturbs."""

    outcomes: tuple[Outcome, ...]
    contradictions: tuple[str, ...]


def checked(recorded: Recorded) -> Checked:
    """Returns the visits of a run, with the numbers of contradictory visits removed, and the broken rules as
    sentences."""
    recorded = recorded._replace(table=VisitTable(recorded.outcomes))
    timed = _timed_visits(recorded)
    broken: dict[int, str] = {}
    counts: Counter[str] = Counter()
    of_visits = (one for rule in OF_VISITS for one in rule(recorded))
    of_samples = ((place, why) for why, places in timed.broken.items() for place in places)
    of_timed = (one for rule in (OF_TIMED if len(timed.places) else ()) for one in rule(recorded, timed))
    for place, why in dict.fromkeys(chain(of_visits, of_samples, of_timed)):
        broken.setdefault(place, why)
        counts[why] += 1
    broken |= _of_whole_points(recorded, broken)
    of_all = [
        *(why for rule in OF_RUN for why in rule(recorded)),
        *(_paced(recorded, timed) if len(timed.places) else ()),
    ]
    here = {place for place, visit in enumerate(recorded.outcomes) if of_all and is_of_this_machine(visit)}
    withheld = {**dict.fromkeys(here, of_all[0] if of_all else ""), **broken}
    outcomes = tuple(
        _withheld(visit, withheld[place]) if place in withheld and visit.status == "ok" else visit
        for place, visit in enumerate(recorded.outcomes)
    )
    few = max(MOST_DISTURBED, DISTURBED_SHARE * len(recorded.outcomes))
    named = ((why, count) for why, count in counts.items() if why not in OF_RATES or count > few)
    of_some = (f"{why} ({count} visit{'s' * (count > 1)})" for why, count in named)
    return Checked(outcomes, tuple(dict.fromkeys(chain(of_all, of_some))))


def _of_whole_points(recorded: Recorded, broken: Mapping[int, str]) -> dict[int, str]:
    """Returns the index and broken rule of each further visit to withhold: if several visits of a point break a rule,
    none of its other visits is known to be sound. Other workloads disturb one visit in 500, not a third of the visits
    of one point. broken: rule by index of the visits that break one."""
    points, point_count = recorded.table.points, len(recorded.table.of_points)
    sampled = np.bincount(points[recorded.table.samples > 0], minlength=point_count)
    violating = np.bincount(points[[*broken]], minlength=point_count) if broken else np.zeros(point_count, np.int64)
    withheld = (violating >= LEAST_BROKEN) & (MOST_SOUND * violating >= sampled)
    rule_of_point = {int(points[place]): sentence for place, sentence in broken.items()}
    places = np.flatnonzero(withheld[points]).tolist() if withheld.any() else ()
    return {place: rule_of_point[int(points[place])] for place in places if place not in broken}


def _withheld(visit: Outcome, why: str) -> Outcome:
    """Returns the visit without its numbers. why: the rule that it breaks."""
    can_be_disturbed = why in OF_RATES
    status = DISTURBED if can_be_disturbed else STATUS
    reason = f"disturbed: this did not hold: {why}" if can_be_disturbed else f"the journal contradicts itself: {why}"
    return msgspec.structs.replace(visit, status=status, reason=reason, samples=(), gauges={}, marks=None)


# ---- the machine, its clock, the whole run ---------------------------------------------------------------------------


def _clock(recorded: Recorded) -> Iterator[str]:
    """Yields the rules that the clock's record before the run breaks, alone or together with the clocks of the
    visits."""
    clock, rate, table = recorded.clock, recorded.machine.core_clock_hz, recorded.table
    if clock and clock.kind == "hardware" and clock.source == LINUX_CLOCK:
        if why := _of_clock(clock, rate):
            yield why
        if 0 < clock.resolution_ns < TIMER_STEPS_NS.get(recorded.machine.facts.get("clocksource", ""), 0.0):
            yield "a clock's resolution is no finer than the steps of the timer that the system reads"
    if rate is None and len(table.timed) >= LEAST_SAMPLES and (table.rates[table.timed] > 0).all():
        yield "the core's rate is measured before the run if it is measured in the visits"
    rates = table.rates[table.is_timed]
    if clock and clock.kind == "hardware" and len(rates) >= LEAST_SAMPLES:
        usual_ns = float(np.median(np.maximum(table.cost_ns, table.resolution_ns)[table.is_timed]))
        if not usual_ns <= INEXPLICABLE * max(clock.cost_ns, clock.resolution_ns) <= INEXPLICABLE**2 * usual_ns:
            yield "a reading of the clock takes as long before the run as in it"
    if (
        rate
        and np.count_nonzero(rates) >= LEAST_SAMPLES
        and rate > (1 + FAR_APART) * rates.max()
        and not _is_translated(recorded.machine)
        and _is_of_one_kind(recorded.machine)
    ):
        yield "a core reaches, in some visit, about the rate that it had before the run"


def _of_clock(clock: ClockReading, rate: float | None) -> str | None:
    """Returns the rule that a clock's cost and resolution break; None if they break none. rate: core clock in Hz, None
    if unknown."""
    if clock.resolution_ns <= 0:
        return HAS_STEPS
    if (clock.cost_ns + clock.resolution_ns / INEXPLICABLE) * (rate or FASTEST_CORE_HZ) < LEAST_CALL_CYCLES * 1e9:
        return TAKES_CYCLES
    return None


def _is_of_one_kind(machine: Machine) -> bool:
    """Returns whether all cores of the machine are of one kind."""
    return len(machine.kinds) < 2 and not (machine.topology and len(machine.topology.kinds) > 1)


def _is_translated(machine: Machine) -> bool:
    """Returns whether an emulator executes the visits, so that their rate depends on how much of a program it has
    translated. An emulator of single programs shows the files of the host kernel, in which only x86 has families."""
    return "TCG" in (machine.hypervisor or "") or (
        "cpu_family" in machine.facts and not machine.architecture.startswith(X86)
    )


def _paced(recorded: Recorded, timed: TimedVisits) -> Iterator[str]:
    """Yields the rules about loop rates, sample lengths and CPU quota that the whole run breaks. Loop rates are
    compared by their medians over the run, since single visits may be disturbed."""
    numbers = timed.numbers
    is_known = (numbers["rate"] > 0) & (numbers["clock_ns"] <= LONGEST_READING_NS)
    for name, reference, visits, least, most, why in LOOPS if not _is_translated(recorded.machine) else ():
        known = is_known & (numbers[name] > 0) & (numbers[reference] > 0)
        if np.count_nonzero(known) >= visits and not (
            least <= np.median(numbers[name][known] / numbers[reference][known]) <= most
        ):
            yield why
    plain = numbers["is_plain"] > 0
    pace = numbers["pace"][plain & np.isfinite(numbers["pace"])]
    if len(pace) >= LEAST_SAMPLES and not 1 / (1 + CLEARLY) <= np.median(pace) <= 1 + CLEARLY:
        yield "a full sample lasts longer than a half one by as much as its batches do"
    if _is_over_quota(recorded, timed):
        yield "a run uses no more CPU time than its quota"


LOOPS = (
    ("control_hz", "rate", LEAST_SAMPLES, 1 / (1 + CLEARLY), (1 + CLEARLY), SAME_LOOP),
    ("between_hz", "width_hz", LEAST_SAMPLES, 1 / (1 + CLEARLY), (1 + CLEARLY), SAME_LOOP),
    ("width_hz", "rate", LEAST_SAMPLES, LEAST_WIDTH, MOST_PER_CYCLE,
     f"a core makes {LEAST_WIDTH:g} to {MOST_PER_CYCLE} independent additions per cycle"),
    ("named_hz", "rate", 1, 1 / MOST_OVER_NAMED, MOST_OVER_NAMED,
     "a core is about as fast as the frequency that the system reports"),
)  # fmt: skip
"""Pairs of loops: names of both rates, least number of visits in which both are known, lowest and highest median ratio
of the first rate to the second over these visits, and the rule."""
OF_RUN: Sequence[Callable[[Recorded], Iterable[str]]] = (*OF_RUN_DESCRIBED, run_contradictions, _clock)

# ---- visits ----------------------------------------------------------------------------------------------------------


def _clocked(recorded: Recorded) -> Places:
    """Yields visits without a usable clock or core rate, and visits by another clock than that of the run."""
    table, clock = recorded.table, recorded.clock
    is_ok = table.of_kinds((visit.status == "ok" for visit in table.firsts), np.bool_)
    clocks = dict[tuple[str, str], int]()
    numbers = table.column(
        lambda visit: clocks.setdefault((visit.clock.kind, visit.clock.source), len(clocks)), np.int64
    )
    is_untimed, is_other = (
        np.array([of(*key) for key in clocks], np.bool_)[numbers] for of in (_is_untimed, partial(_is_other, clock))
    )
    rates = np.where(table.rates > 0, table.rates, recorded.machine.core_clock_hz or 0.0)
    at_most = np.where(rates > 0, rates, FASTEST_CORE_HZ)
    has_steps = table.resolution_ns > 0
    is_quick = (table.cost_ns + table.resolution_ns / INEXPLICABLE) * at_most < LEAST_CALL_CYCLES * 1e9
    for violates, why in (
        (is_untimed, "samples are timed by a clock, and Linux's clock is a hardware clock"),
        ((rates > 0) & ~((rates >= SLOWEST_CORE_HZ) & (rates <= FASTEST_CORE_HZ)),
         "the rate of a control loop is one that a core can have"),
        (table.is_timed & ~has_steps, HAS_STEPS),
        (table.is_timed & is_quick, TAKES_CYCLES),
        (is_other, "one clock times all visits"),
    ):  # fmt: skip
        is_judged = is_ok & table.is_here & (table.samples > 0)
        yield from ((place, why) for place in np.flatnonzero(violates & is_judged).tolist())
        is_ok &= ~violates


def _is_untimed(kind: str, source: str) -> bool:
    """Returns whether a visit has no clock, or names Linux's clock and another kind than hardware."""
    return kind == "none" or (source == LINUX_CLOCK and kind != "hardware")


def _is_other(clock: ClockReading | None, kind: str, source: str) -> bool:
    """Returns whether a visit was timed by another clock than the one measured before the run. Emulators that count
    have several."""
    if clock is None or (clock.kind not in REAL_CLOCKS and kind not in REAL_CLOCKS):
        return False
    return (source, kind) != (clock.source, clock.kind)


def _uniform(recorded: Recorded) -> Places:
    """Yields visits that differ from most visits of their point and session."""
    return uniform(recorded, _sessions(recorded, np.arange(len(recorded.outcomes))))


def _sessions(recorded: Recorded, places: Counts) -> Counts:
    """Returns the number of the session of each visit: how often the run had been resumed before it. places: indices of
    the visits."""
    return np.searchsorted(recorded.begins, places, side="right")


OF_VISITS: Sequence[Callable[[Recorded], Places]] = (
    *OF_VISITS_DESCRIBED,
    *OF_VISITS_ASKED,
    *OF_ALIKE,
    _clocked,
    _uniform,
)

# ---- samples ---------------------------------------------------------------------------------------------------------


def _timed_visits(recorded: Recorded) -> TimedVisits:
    """Returns the timed visits with the values computed from their samples. The samples are read in chunks."""
    table, repeated = recorded.table, _RepeatedTimes(recorded.table.samples[recorded.table.timed])
    places = table.timed
    stated = dict(numbers_without_samples(table, recorded.probes, _least_cycles(recorded)))
    stated["step_ns"] = _steps_ns(recorded, places)
    coarse = table.resolution_ns[places] > INEXPLICABLE * np.maximum(stated["step_ns"], table.cost_ns[places])
    is_translated = _is_translated(recorded.machine)
    rules_of_samples = (rule for rule in OF_SAMPLES if rule is not _rates or not is_translated)
    rules: Sequence[SampleRule] = (partial(_placed, {*recorded.machine.allowed_cpus}), *rules_of_samples, repeated.add)
    timed = timed_visits(table, stated, _numbers_of, rules)
    steps = {"two readings of a clock differ by a multiple of its resolution": places[coarse].tolist()}
    return timed._replace(broken={**steps, **timed.broken}, again=places[repeated.again()])


def _numbers_of(chunk: TimedSamples) -> Numbers:
    """Returns the values that are computed from the samples of each visit, by name, with the unit in the name."""
    taken = chunk.taken
    fastest, widest, between, named = (
        taken.most(taken.column(name)) for name in ("control_hz", "width_hz", "width_between_hz", "frequency_khz")
    )
    return {
        "begin_ns": chunk.at_ns[taken.starts[:-1]], "end_ns": (chunk.at_ns + _timed(chunk))[taken.starts[1:] - 1],
        "each_ns": taken.least(taken.column("body_2n") / taken.column("iterations")),
        "control_hz": fastest, "width_hz": widest, "between_hz": between, "named_hz": 1e3 * named,
        **_beside(chunk), **evidence_of(taken), **lengths_of(taken),
    }  # fmt: skip


def _alike(_: Recorded, timed: TimedVisits) -> Places:
    """Yields the visits that are more than MOST_FASTER times as fast as every other visit of their point. Only workers
    that wait for nothing are examined: a CPU in a deep sleep state takes a hundred times as long to wake as one in a
    light state."""
    each_ns, is_faster = timed.numbers["each_ns"], np.zeros(len(timed.places), dtype=bool)
    for group in grouped(np.flatnonzero(timed.numbers["is_alone"]), timed.points):
        fastest, second = np.argsort(each_ns[group], kind="stable")[:2] if len(group) > 2 else (0, 0)
        is_faster[group[fastest]] = each_ns[group[fastest]] * MOST_FASTER < each_ns[group[second]] and fastest != second
    yield from timed.where(is_faster, f"a visit is at most {MOST_FASTER:g} times as fast as each other of its point")


def _outruns(recorded: Recorded, timed: TimedVisits) -> Places:
    """Yields the visit whose control loop is far faster than those of all other visits, if there is one: other
    workloads only slow loops down."""
    known = np.flatnonzero(timed.numbers["clock_ns"] <= LONGEST_READING_NS)
    fastest = np.maximum(timed.numbers["rate"], timed.numbers["control_hz"])[known]
    if len(known) >= LEAST_SAMPLES and _is_of_one_kind(recorded.machine) and not _is_translated(recorded.machine):
        others, most = np.sort(fastest)[-2:]
        if most > (1 + FAR_APART) * others > 0:
            yield int(timed.places[known[np.argmax(fastest)]]), OUTRUNS


def _in_order(recorded: Recorded, timed: TimedVisits) -> Places:
    """Yields visits that overlap in time. A visit lasts from the beginning of its first sample to the end of its last
    one. A run with reused visits is not examined."""
    if recorded.asked.reused:
        return
    known = timed.numbers["begin_ns"] > 0
    names = "begin_ns", "end_ns", "waited_ns", "counted_ns", "began_ns"
    places, begin, end, waited, counted, began = (timed.places[known], *(timed.numbers[name][known] for name in names))
    sessions = _sessions(recorded, places)
    is_early = np.zeros(len(places), dtype=bool)
    is_early[_out_of_order(begin, end, sessions)] = True
    yield from ((place, "one visit is timed after the other") for place in places[is_early].tolist())
    # The work of a visit is counted after its samples, and it waits for an uncontended core before them.
    outlasts = (counted[:-1] > begin[1:] - end[:-1]) | (waited[:-1] > begin[1:] - began[:-1] - counted[:-1])
    is_late_end = (np.diff(sessions) == 0) & ~(is_early[1:] | is_early[:-1]) & outlasts
    yield from ((place, "the waiting and the counting of a visit end before the next visit's samples")
                for place in places[:-1][is_late_end].tolist())  # fmt: skip


def _placed(allowed: set[int], chunk: TimedSamples) -> Broken:
    """Yields the visits on CPUs that the run may not use, and the visits whose pinned worker left its CPUs. allowed:
    CPUs of the run; empty if unknown."""
    before, after = (column.astype(np.int64) for column in chunk.taken.whole(("cpu_before", "cpu_after")).values())
    least, most = chunk.taken.least(np.minimum(before, after)), chunk.taken.most(np.maximum(before, after))
    may_not, left = np.zeros(len(chunk.visits), dtype=bool), np.zeros(len(chunk.visits), dtype=bool)
    # In most visits the worker stays on one CPU, so that the single samples need not be read.
    for at, (visit, first, last) in enumerate(zip(chunk.visits, least.tolist(), most.tolist(), strict=True)):
        own_cpus = {*visit.cpus, *visit.workers}
        may_not[at] = bool(allowed) and not own_cpus <= allowed
        if not (first == last and first in own_cpus):
            inside = slice(chunk.taken.starts[at], chunk.taken.starts[at + 1])
            ran = {*before[inside].tolist(), *after[inside].tolist()}
            left[at] = not {cpu for cpu in ran if cpu >= 0} <= ((visit.pinned and own_cpus) or allowed or ran)
    yield "a visit is on CPUs that the run may use", may_not
    yield "a worker runs on the CPU to which it is pinned", left & ~may_not


def _within(chunk: TimedSamples) -> Broken:
    """Yields the visits whose batches, lost CPU time, faults, switches or loops do not fit between their samples, and
    those whose preemptions and waits contradict each other."""
    taken, stated, timed, gap = chunk.taken, chunk.numbers, _timed(chunk), chunk.gap_ns
    # Evidence is read before and after a sample, so CPU time may be lost outside of its batches. The time lost in all
    # samples except the last is lost before the last one begins.
    last = taken.starts[1:] - 1
    until_last_ns = np.where(stated["began_ns"] > 0, chunk.at_ns[last] - stated["began_ns"], NO_GAP).astype(float)
    is_last = np.zeros(len(taken), dtype=bool)
    is_last[last] = True
    delays, ticks = (
        taken.sum(np.where(is_last, 0.0, np.maximum(taken.column(name), 0.0))) for name in ("delay_ns", "steal_ticks")
    )
    lost_ns = np.maximum(delays, (ticks / stated["cpus"] - 2) * TICK_NS)
    events = sum(np.maximum(taken.column(name), 0.0) for name in _EVENTS) / taken.spread(stated["cpus"])
    rate_hz = taken.spread(np.where(stated["rate"] > 0, stated["rate"], FASTEST_CORE_HZ))
    has_loops = (taken.column("control_hz") > 0) & (taken.column("width_hz") > 0)
    least_loops_ns = np.where(taken.column("width_between_hz") > 0, 3 * LEAST_LOOP_NS, 2 * LEAST_LOOP_NS)
    is_known = (gap != NO_GAP) & (chunk.at_ns > 0)
    slept, waited = (taken.sum(taken.column(name)) for name in ("voluntary", "delay_ns"))
    preempted = np.array(taken.column("involuntary"))
    # The first reading of the evidence reads switches before waits. A preemption between the two has no recorded wait.
    first_preempted = preempted[taken.starts[:-1]] > 0
    preempted[taken.starts[:-1]] = 0
    preemptions = taken.sum(preempted)
    short = taken.column("body_2n") < taken.spread(stated["clock_ns"])
    yield "a batch takes longer than a reading of the clock, and than its steps", taken.of_visits(short) > 0
    for violates, why in (
        ((timed > gap) & is_known, BATCHES_LIE_WITHIN),
        (
            taken.spread(lost_ns > until_last_ns) & is_known,
            "samples lose no more CPU time than passes until the last one begins",
        ),
    ):
        yield why, taken.of_visits(violates) > 0
    yield PREEMPTED, (preemptions > 0) & (waited == 0)
    yield DELAYED, (preemptions == 0) & ~first_preempted & (slept == 0) & (waited > 0)
    for violates, why in (
        (
            (events * LEAST_EVENT_CYCLES * 1e9 > 2 * gap * rate_hz) & is_known,
            "page faults and context switches take time",
        ),
        (
            (gap - timed < least_loops_ns) & (timed <= gap) & is_known & has_loops,
            "loops of 5 us or more run between two samples",
        ),
        ((taken.column("body_n") <= 0) | (taken.column("body_2n") <= 0), "a batch takes time"),
    ):
        yield why, taken.of_visits(violates) > 0


_EVENTS = ("minor_faults", "major_faults", "voluntary", "involuntary")


def _timed(some: TimedSamples) -> Counts:
    """Returns the time of the timed batches of each sample, in ns."""
    return np.minimum(some.timed_ns, float(LONGEST_NS)).astype(np.int64)


def _companions(chunk: TimedSamples) -> Broken:
    """Yields the visits whose companions' times contradict the samples: a companion runs longer than the sample, runs
    without completing a turn, or has the same time in every sample, or the samples have different numbers of
    companions."""
    exceeds, idle, unlike_others, repeats = np.zeros((4, len(chunk.visits)), dtype=bool)
    for at, samples in enumerate(chunk.taken.visits):
        if samples.columns.has_lanes:
            gaps, lanes = chunk.gap_ns[chunk.taken.starts[at] : chunk.taken.starts[at + 1]].tolist(), samples.lanes()
            exceeds[at] = any(ns > gap for companions, gap in zip(lanes, gaps, strict=True) for _, ns in companions)
            idle[at] = any(ns > 0 and turns < 1 for companions in lanes for turns, ns in companions)
            unlike_others[at] = len({*map(len, lanes)}) > 1
            least_ns = LEAST_STEPS * chunk.numbers["step_ns"][at]
            is_long = min((ns for _, ns in lanes[0]), default=0) >= least_ns
            repeats[at] = len(lanes) >= LEAST_VALUES and is_long and len({*lanes}) == 1
    yield BATCHES_LIE_WITHIN, exceeds
    yield SAMPLES_ALIKE, unlike_others
    yield SAMPLES_DIFFER, repeats
    yield "a timed companion makes at least one turn", idle


def _controlled(chunk: TimedSamples) -> Broken:
    """Yields the visits with a control that their probe lacks, or without the one it has, and those with a control in
    some samples only."""
    controlled = chunk.taken.of_visits(chunk.taken.column("control_n") >= 0)
    stated = chunk.numbers["has_control"]
    yield HAS_CONTROL, (stated != NOT_DESCRIBED) & (stated != (controlled > 0))
    yield SAMPLES_ALIKE, (controlled > 0) & (controlled < chunk.taken.counts)


def _begun(chunk: TimedSamples) -> Broken:
    """Yields the visits whose first sample begins before the visit and its control loop."""
    first_ns, stated = chunk.at_ns[chunk.taken.starts[:-1]], chunk.numbers
    loop_ns = np.where(stated["rate"] > 0, np.maximum(2 * LEAST_LOOP_NS - stated["clock_ns"], 0), 0)
    is_late = (first_ns > 0) & (stated["began_ns"] > 0) & (first_ns - loop_ns < stated["began_ns"])
    yield "a visit begins, and its control loop runs, before its first sample", is_late


def _executes(chunk: TimedSamples) -> Broken:
    """Yields the visits in which most samples take fewer cycles than their instructions and system calls need. The time
    of the longer batch is used: the difference of both batches is too small if the shorter one was disturbed, or if the
    first iterations of a mapping cost more than all others."""
    taken, need_cycles, rate_hz = chunk.taken, chunk.numbers["need"], chunk.numbers["rate"]
    each_ns = taken.column("body_2n") / (2 * taken.column("iterations"))
    short = each_ns * taken.spread(rate_hz) * MARGIN < taken.spread(need_cycles) * 1e9
    yield COSTS_ITS_CYCLES, (rate_hz > 0) & (need_cycles > 0) & (2 * taken.of_visits(short) > taken.counts)


def _least_cycles(recorded: Recorded) -> Mapping[Point, float]:
    """Returns the fewest cycles that one iteration of each point takes, by its counted instructions and system calls.
    Points whose worker waits for another one are left out, since a waiting loop runs more often while work is
    counted."""
    cycles = {}
    alone = {name for name, probe in recorded.probes.items() if not probe.roles and not probe.switches}
    for visit in recorded.table.firsts:
        if (counts := visit.counted) and is_of_this_machine(visit) and visit.point.probe in alone:
            instructions, calls = (
                (pair[1] - pair[0]) / counts.iterations if pair else 0.0 for pair in (counts.instructions, counts.calls)
            )
            cycles[visit.point] = max(instructions / MOST_PER_CYCLE, calls * LEAST_CALL_CYCLES)
    return cycles


def _steps_ns(recorded: Recorded, places: Counts) -> Floats:
    """Returns the step of each visit's clock in ns: the smallest difference of two times of visits whose reported
    resolution is of the same kind, coarse or fine. The reported resolution is at least the cost of a reading. places:
    indices of the visits."""
    table, steps = recorded.table, np.full(len(places), inf)
    coarse = (table.resolution_ns > INEXPLICABLE * table.cost_ns)[places]
    for group in (coarse, ~coarse):
        first_visits = places[group][:MANY_VISITS].tolist()
        taken = Taken([recorded.outcomes[place].samples for place in first_visits])
        differences = np.diff(np.unique(np.concatenate([taken.column("body_n"), taken.column("body_2n")])))
        steps[group] = np.min(differences, initial=inf, where=differences > ROUNDED_NS)
    return steps


def _stepped(chunk: TimedSamples) -> Broken:
    """Yields the visits whose times have a common divisor far above the clock's reported step. Only visits whose first
    two times have such a divisor are examined."""
    taken = chunk.taken
    short, long = (column.astype(np.int64) for column in taken.whole(("body_n", "body_2n")).values())
    most_ns, firsts = INEXPLICABLE * chunk.numbers["clock_ns"], taken.starts[:-1]
    divisors = np.gcd(short[firsts], long[firsts])
    has_divisor = np.zeros(len(firsts), dtype=bool)
    for at in np.flatnonzero((divisors > most_ns) | (divisors == 0)).tolist():
        samples = slice(taken.starts[at], taken.starts[at + 1])
        divides = np.gcd(np.gcd.reduce(short[samples]), np.gcd.reduce(long[samples]))
        has_divisor[at] = divides > most_ns[at] and len(np.unique(long[samples])) >= LEAST_VALUES
    yield "the times of a visit have no common divisor far above the clock's step", has_divisor


def _differ(chunk: TimedSamples) -> Broken:
    """Yields the visits in which all samples of full length take equal times, although each lasts many clock steps.
    LEAST_VALUES such samples are needed, since on a quiet core most times are equal."""
    taken = chunk.taken
    turns = taken.column("iterations")
    is_full = turns == taken.spread(turns[taken.starts[:-1]])
    is_fine = taken.of_visits(is_full & ~_is_fine(chunk)) == 0
    times = taken.column("body_n") * 2**20 + taken.column("body_2n")
    least, most = taken.least(np.where(is_full, times, np.inf)), taken.most(np.where(is_full, times, -np.inf))
    yield SAMPLES_DIFFER, (least == most) & is_fine & (taken.of_visits(is_full) >= LEAST_VALUES)


def _is_fine(chunk: TimedSamples, name: str = "body") -> Mask:
    """Returns for each sample whether its longer batch lasts so many clock steps that equal times are improbable. name:
    body or control."""
    return chunk.taken.column(f"{name}_2n") >= LEAST_STEPS * chunk.taken.spread(chunk.numbers["step_ns"])


def _doubled(chunk: TimedSamples) -> Broken:
    """Yields the visits in which every batch of 2n iterations takes exactly twice the time of the batch of n: each
    batch also pays once for its call and for reading the clock."""
    taken = chunk.taken
    twice = (taken.column("body_2n") == 2 * taken.column("body_n")) & _is_fine(chunk)
    yield (
        "batches of 2n do not take exactly twice the time of those of n in all samples",
        ((taken.counts >= LEAST_VALUES) & (taken.of_visits(twice) == taken.counts)),
    )


def _longer(chunk: TimedSamples) -> Broken:
    """Yields the visits in which batches of 2n iterations take hardly longer than batches of n, in undisturbed samples
    whose worker did not wait: a CPU that is woken may have been idle. A third of all samples must show this, since the
    sibling hyperthread may lengthen one batch and not the next, and a page fault may map all pages that a batch
    touches."""
    taken = chunk.taken
    short = 2 * taken.column("body_2n") < MARGIN * taken.column("body_n")
    calm_short = np.array(short)
    for name in ("delay_ns", *_EVENTS, "steal_ticks") if short.any() else ():
        calm_short &= taken.column(name) <= 0
    yield (
        TAKES_LONGER,
        (taken.of_visits(calm_short) >= LEAST_BROKEN) & (taken.of_visits(short) * MOST_SOUND > taken.counts),
    )


def _rates(chunk: TimedSamples) -> Broken:
    """Yields the visits whose control loop around the visit has another rate than beside its samples. An interrupt only
    slows a loop down, so a second reading must confirm each of the two rates."""
    taken, stated, beside = chunk.taken, chunk.numbers, chunk.taken.column("control_hz")
    fastest, around, second_around = taken.most(beside), stated["rate"], stated["second_rate"]
    is_fastest = beside == taken.spread(fastest)
    second_beside = np.where(taken.of_visits(is_fastest) > 1, fastest, taken.most(np.where(is_fastest, 0.0, beside)))
    apart = np.maximum(fastest, around) > (1 + FAR_APART) * np.minimum(fastest, around)
    is_confirmed = (
        (second_beside > 0)
        & (fastest <= (1 + ALIKE) * second_beside)
        & (around <= (1 + ALIKE) * second_around)
        & (second_around > 0)
    )
    yield LOOPS_AGREE, apart & is_confirmed & (stated["clock_ns"] <= LONGEST_READING_NS)


def _complete(chunk: TimedSamples) -> Broken:
    """Yields the visits that lack a start time, a layout, or a control loop before or after them, although their
    runtime records these. Such a runtime also takes a reading in the middle of each sample."""
    taken, stated = chunk.taken, chunk.numbers
    lacks = (stated["began_ns"] <= 0) | (stated["second_rate"] <= 0) | (stated["has_layout"] <= 0)
    lacks |= taken.least(chunk.at_ns) <= 0
    yield COMPLETE, lacks & (taken.most(taken.column("width_between_hz")) > 0)


def _chained(chunk: TimedSamples) -> Broken:
    """Yields the visits in which the reading that ends a sample is not the one that begins the next. Exempt are visits
    that waited for an uncontended core, which take a new reading before even samples from the fifth on, and visits of
    runtimes without a reading in the middle of a sample, which take several readings between two samples."""
    taken, first = chunk.taken, chunk.taken.starts[:-1]
    number = np.arange(len(taken)) - taken.spread(first)
    is_anew = taken.spread(chunk.numbers["has_waited"]) & (number % 2 == 0) & (number >= LEAST_VALUES)
    differs = np.zeros(len(taken), dtype=bool)
    for before, after in JOINED:
        differs[1:] |= taken.column(after)[:-1] != taken.column(before)[1:]
    differs &= (number > 0) & ~is_anew & (taken.column("width_between_hz") > 0)
    yield READINGS_JOIN, taken.of_visits(differs) > 0


OF_SAMPLES: Sequence[SampleRule] = (
    _complete, _chained, _within, _companions, _controlled, _begun, _executes, _rates, _longer, _doubled, _stepped,
    as_long, _differ, spaced,
)  # fmt: skip


def _beside(chunk: TimedSamples) -> Numbers:
    """Returns for each visit: rest_ns, the shortest time between two samples outside of the batches and of the untimed
    iterations before them; batches_ns, the shortest time of the batches; is_calm, whether enough samples were
    undisturbed; own_ns, the time of batches in samples whose worker did not sleep; pace, the ratio of the extra time of
    a full sample to the extra time of its batches."""
    taken, plain = chunk.taken, chunk.numbers["is_plain"] > 0
    is_undisturbed = (taken.column("involuntary") <= 0) & (taken.column("steal_ticks") <= 0)
    is_undisturbed &= (taken.column("delay_ns") <= 0) | ~taken.spread(plain)
    known = (chunk.gap_ns != NO_GAP) & (chunk.at_ns > 0) & is_undisturbed
    timed = chunk.timed_ns
    grown = sum(np.maximum(taken.column(f"{name}_2n") - taken.column(f"{name}_n"), 0) for name in ("body", "control"))
    rest_ns = chunk.gap_ns - timed - WARMED * grown
    rest_of_visits = taken.least(np.where(known, rest_ns, np.inf))
    turns = taken.column("iterations")
    is_full = turns == taken.spread(turns[taken.starts[:-1]])
    return {
        "rest_ns": rest_of_visits,
        "batches_ns": taken.least(np.where(known, timed, np.inf)),
        "is_calm": taken.of_visits(known) >= LEAST_VISITS,
        "own_ns": taken.sum(np.where(known & (taken.column("voluntary") <= 0), timed, 0.0)),
        "pace": _pace(taken, known, is_full, chunk.gap_ns, timed),
    }


def _pace(taken: Taken, known: Mask, is_full: Mask, *times: Counts | Floats) -> Floats:
    """Returns for each visit the extra time of full samples over half ones by the first of two times, as a ratio to the
    extra time by the second; NaN without both lengths. times: ns between samples, and ns of the batches."""
    least = [
        [taken.least(np.where(known & of_length, time, np.inf)) for of_length in (is_full, ~is_full)] for time in times
    ]
    has_both: Mask = np.all(np.isfinite(least), axis=(0, 1))
    gap, timed = (full[has_both] - half[has_both] for full, half in least)
    pace = np.full(len(taken.counts), np.nan)
    pace[has_both] = np.where(timed > 0, gap / np.where(timed > 0, timed, 1), np.nan)
    return pace


def _is_over_quota(recorded: Recorded, timed: TimedVisits) -> bool:
    """Returns whether the worker's CPU time in undisturbed batches exceeds the CPU quota of the run."""
    quotas = [activity.quota for _, _, activity in recorded.notes if activity and activity.quota is not None]
    quota = inf if recorded.begins else max(quotas, default=inf)
    most_s = (1 + ALIKE) * quota * (recorded.seconds or inf) + SLACK_S
    return not recorded.asked.reused and float(timed.numbers["own_ns"].sum()) > 1e9 * most_s


def _unaccounted(_: Recorded, timed: TimedVisits) -> Places:
    """Yields visits with too much time between samples outside of the batches. Visits of plain probes are compared with
    the median of the run, and all others with visits of their point."""
    calm, plain = timed.numbers["is_calm"], timed.numbers["is_calm"] & (timed.numbers["is_plain"] > 0)
    rest, batches = timed.numbers["rest_ns"], timed.numbers["batches_ns"]
    exceeds = np.zeros(len(calm), dtype=bool)
    if np.count_nonzero(plain) >= LEAST_SAMPLES:
        most = CLEARLY * batches + MORE_THAN_TWICE * max(0.0, float(np.median(rest[plain])))
        exceeds = plain & (rest > most)
    for group in grouped(np.flatnonzero(calm & ~plain), timed.points):
        if len(group) > LEAST_VISITS:
            median_rest = max(0.0, np.sort(rest[group])[len(group) // 2])
            exceeds[group] = rest[group] > CLEARLY * batches[group] + MORE_THAN_TWICE * median_rest
    yield from timed.where(exceeds, TIME_IS_ACCOUNTED)


def _out_of_order(begin: Counts, end: Counts, sessions: Counts) -> list[int]:
    """Returns the indices of the visits that begin before an earlier visit of their session ends. If several successors
    of a visit begin before its end, the visit itself is returned once, in their place. begin, end: times in ns, in the
    order of the journal. sessions: session of each visit."""
    early, latest = list[int](), 0
    if not (begin[1:] < np.maximum.accumulate(end)[:-1]).any():
        return early
    for at in range(len(begin)):
        is_first = at > 0 and sessions[at] != sessions[at - 1]
        if is_first or begin[at] >= latest:
            latest = end[at]
            continue
        blamed = at
        if np.count_nonzero(begin[at : at + LEAST_VALUES] < end[at - 1]) > 1:
            latest = end[at]
            blamed = at if at - 1 in early[-2:] else at - 1
        early.append(blamed)
    return early


def _apart(_: Recorded, timed: TimedVisits) -> Places:
    """Yields visits whose control loops beside the samples and in the middle of them have different rates: another
    workload does not slow only the loops in the middle. Visits with few samples are not examined."""
    between, beside = timed.numbers["between_hz"], timed.numbers["width_hz"]
    known = (between > 0) & (beside > 0) & (timed.numbers["samples"] >= LEAST_VALUES)
    least, most = np.minimum(between, beside), np.maximum(between, beside)
    yield from timed.where(known & (most > MORE_THAN_TWICE * least), SAME_LOOP)


def _again(_: Recorded, timed: TimedVisits) -> Places:
    """Yields visits that share successive times with another visit."""
    return ((place, "no two visits took the same times") for place in timed.again.tolist())


OF_TIMED: Sequence[Callable[[Recorded, TimedVisits], Places]] = (
    _unaccounted, _in_order, _alike, _outruns, unlike, irregular, as_before, as_counted, as_many, _apart, _again,
)  # fmt: skip


class _RepeatedTimes:
    """Finds visits with the same successive values. Keeps a hash of 8 bytes of every LEAST_VALUES successive times of
    the body or the control, and of the first loop rates of a visit. Equal hashes mean equal values. Successive values
    that are equal among themselves are left out, since they recur by chance."""

    def __init__(self, samples: NDArray[np.int32]) -> None:
        """Reserves the hashes. samples: number of samples of each visit that will be added."""
        self._keys = {"times": np.empty(2 * samples.sum(), np.uint64), "rates": np.empty(len(samples), np.uint64)}
        self._counts = {name: np.zeros(len(samples), np.int64) for name in self._keys}
        self._visits = 0

    def add(self, chunk: TimedSamples) -> Broken:
        """Adds the next visits, and yields no contradiction yet."""
        taken, first = chunk.taken, chunk.taken.starts[:-1]
        visit_of_sample = np.repeat(np.arange(len(first)), taken.counts)
        begins, *_, ends = _successive(visit_of_sample)
        blocks = [name for name in ("body", "control") if (taken.column(f"{name}_n") >= 0).any()]
        are_fine = [np.logical_and.reduce([begins == ends, *_successive(_is_fine(chunk, name))]) for name in blocks]
        times = [_joined([_successive(taken.column(f"{name}_{length}")) for name in blocks]) for length in ("n", "2n")]
        self._add("times", times, np.tile(begins, len(blocks)), np.concatenate(are_fine))
        long_enough = first[taken.counts >= LEAST_VALUES]
        rates = [[taken.column(name)[long_enough + at] for at in range(LEAST_VALUES)] for name in _RATES]
        self._add("rates", rates, visit_of_sample[long_enough], np.ones(len(long_enough), dtype=bool))
        self._visits += len(first)
        return ()

    def _add(self, name: str, columns: Sequence[Sequence[Floats]], visits: Counts, is_wanted: Mask) -> None:
        """Adds hashes. name: times or rates. columns: for each quantity one array for each of the successive positions.
        visits: visit of each hash. is_wanted: whether to add the hash."""
        keys, repeated_values = np.zeros(len(visits), np.uint64), np.zeros(len(visits), np.int8)
        for values, mixes in zip(columns, _MIX, strict=False):
            for at, (value, mix) in enumerate(zip(values, mixes, strict=True)):
                # A whole number as a float has its bits on the left, and a product keeps those on the right.
                bits = value.view(np.uint64)
                keys += (bits ^ bits >> np.uint64(32)) * mix
                repeated_values += np.any([value == before for before in values[:at]], axis=0) if at else np.int8(0)
        kept, begin = is_wanted & (repeated_values < len(columns)), self._counts[name].sum()
        self._keys[name][begin : begin + np.count_nonzero(kept)] = keys[kept][np.argsort(visits[kept], kind="stable")]
        self._counts[name] += np.bincount(visits[kept] + self._visits, minlength=len(self._counts[name]))

    def again(self) -> Counts:
        """Returns the indices of the added visits with a hash that occurs more than once."""
        found = list[Counts]()
        for name, counts in self._counts.items():
            keys = self._keys[name][: counts.sum()]
            equal = _equal(keys)
            found.append(
                np.repeat(np.arange(len(counts)), counts)[np.isin(keys, equal)]
                if len(equal)
                else equal.astype(np.int64)
            )
        return np.unique(np.concatenate(found))


def _equal(keys: Keys) -> Keys:
    """Returns the hashes that occur more than once."""
    ordered = np.sort(keys)
    return np.asarray(ordered[1:][ordered[1:] == ordered[:-1]])


def _successive(values: NDArray[T]) -> list[NDArray[T]]:
    """Returns LEAST_VALUES arrays: array i holds the value i places after each start, so that the same index of all
    arrays gives successive values."""
    return [values[at : at + max(0, len(values) - LEAST_VALUES + 1)] for at in range(LEAST_VALUES)]


def _joined(several: Sequence[Sequence[Floats]]) -> list[Floats]:
    """Returns the arrays of each position concatenated over several blocks."""
    return [np.concatenate(columns) for columns in zip(*several, strict=True)]


Keys = NDArray[np.uint64]
T = TypeVar("T", bound=np.generic)
_RATES = ("control_hz", "width_hz", "width_between_hz")
_MIX = np.random.default_rng(1).integers(1, LONGEST_NS, (len(_RATES), LEAST_VALUES), dtype=np.uint64) | np.uint64(1)
