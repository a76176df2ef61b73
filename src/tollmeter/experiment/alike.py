# SPDX-License-Identifier: Apache-2.0
"""Compares the visits of one point, of one ABI and of one run with each other. Each rule is a sentence that is true of
every honest run (docs/measuring.md lists them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise, product

import numpy as np

from tollmeter.experiment.batches import BATCHES
from tollmeter.experiment.described import Places, Recorded
from tollmeter.experiment.evidence import TICK_NS
from tollmeter.experiment.limits import FEW, INEXPLICABLE, LEAST_SAMPLES, LEAST_VISITS
from tollmeter.experiment.taken import Counts, Taken
from tollmeter.experiment.timed_visits import Numbers, TimedVisits
from tollmeter.experiment.visit_table import VisitTable, grouped, has_hardware_time, is_of_this_machine
from tollmeter.model import Counted, Outcome, Samples

LEAST_TURN_CYCLES = 0.25
"""Smallest number of core cycles of one turn of a counting loop: a core completes one addition of a chain per cycle,
and some cores eliminate additions of 1."""
EVIDENCE = ("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks", "delay_ns", "cpu_before",
            "control_hz", "width_hz", "width_between_hz", "frequency_khz", "at_ns")  # fmt: skip
MET: Sequence[tuple[tuple[str, ...], bool, bool]] = (
    (("voluntary", "involuntary"), True, False), (("minor_faults",), True, True), (("voluntary",), False, True),
    (("major_faults",), False, True),
)  # fmt: skip
"""Groups of events that are counted during a sample. First flag: a visit must have them if all other visits of its
point do. Second flag: a visit must not have far more of them than the others. Involuntary switches have no limit, since
another workload may preempt a worker any number of times."""
MOST_MET = 2.0
"""Highest ratio of the fewest events in a sample of a visit to the most in a sample of any other visit of its point."""
WAITS = "no visit has, in all its samples, far more switches or page faults than its point's other visits"
LIKE_OTHERS = "an event that occurs in each sample of a point's other visits occurs in each of its visits"
REPORTED = "the system reports the same evidence beside all visits of an ABI"


def evidence_of(taken: Taken) -> Numbers:
    """Returns for each visit the lowest and the highest count of each MET in a sample, a bit mask of the EVIDENCE that
    was reported, and the ns of one control-loop turn, 0 if no control loop ran."""
    event_counts = [np.add.reduce([np.maximum(taken.column(name), 0.0) for name in names]) for names, _, _ in MET]
    reported = np.zeros(len(taken.counts), np.int16)
    for bit, name in enumerate(EVIDENCE):
        least = 1 if name.endswith(("hz", "at_ns")) else 0
        reported |= (taken.most(taken.column(name)) >= least).astype(np.int16) << bit
    turns = np.where(taken.column("control_iterations") > 0, taken.column("control_iterations"),
                     taken.column("iterations"))  # fmt: skip
    return {
        **{f"least {number}": taken.least(column).astype(np.float32) for number, column in enumerate(event_counts)},
        **{f"most {number}": taken.most(column).astype(np.float32) for number, column in enumerate(event_counts)},
        "reported": reported, "control_ns": np.maximum(taken.least(taken.column("control_2n") / (2 * turns)), 0.0),
    }  # fmt: skip


def unlike(recorded: Recorded, timed: TimedVisits) -> Places:
    """Yields visits whose events, evidence or control loop contradict those of the other visits of their point or
    ABI."""
    numbers, table = timed.numbers, recorded.table
    for group in grouped(np.flatnonzero(table.samples[timed.places] >= LEAST_SAMPLES), timed.points):
        yield from _of_point(group, timed)
    abis = dict[str, int]()
    of_points = np.array([abis.setdefault(point.abi, len(abis)) for point in table.of_points], np.int64)
    for group in grouped(np.arange(len(timed.places)), of_points[timed.points]):
        yield from _of_abi(group, timed, table)
    turn = numbers["control_ns"] * numbers["rate"]
    is_short = (turn > 0) & (turn < LEAST_TURN_CYCLES * 1e9)
    yield from timed.where(is_short, f"an iteration of the control takes {LEAST_TURN_CYCLES:g} cycles or more")


def _of_point(group: Counts, timed: TimedVisits) -> Places:
    """Yields a visit without an event that every sample of all other visits of its point has, or with far more of an
    event in every sample than any sample of the others. Points of few visits are not judged, since visits that wait for
    a companion differ by chance. group: indices of the visits of one point."""
    if len(group) <= LEAST_VISITS:
        return
    for number, (_, has_all, has_no_more) in enumerate(MET):
        fewest, highest = (timed.numbers[f"{end} {number}"][group] for end in ("least", "most"))
        fewest_at, most_at = int(np.argmin(highest)), int(np.argmax(fewest))
        if has_all and highest[fewest_at] == 0 < np.delete(fewest, fewest_at).min():
            yield int(timed.places[group[fewest_at]]), LIKE_OTHERS
        if has_no_more and fewest[most_at] > MOST_MET * np.delete(highest, most_at).max():
            yield int(timed.places[group[most_at]]), WAITS


def _of_abi(group: Counts, timed: TimedVisits, table: VisitTable) -> Places:
    """Yields visits whose kinds of evidence differ from those of most visits of their ABI. A probe whose visits all
    differ is exempt: its own clock may be too coarse for some evidence. group: indices of the visits of one ABI."""
    if len(group) < LEAST_SAMPLES:
        return
    probes = table.probes[timed.points[group]]
    for bit, has_evidence in product(range(len(EVIDENCE)), (False, True)):
        differs = (timed.numbers["reported"][group] >> bit & 1 == 1) == has_evidence
        if 0 < np.count_nonzero(differs) <= FEW * len(group):
            differs &= np.isin(probes, probes[~differs])
            yield from ((place, REPORTED) for place in timed.places[group[differs]].tolist())


def _clocks(recorded: Recorded) -> Places:
    """Yields visits whose clock resolution or cost of reading differs from that of most visits of their ABI. A probe
    whose visits all differ is exempt, since it may have its own clock."""
    table, abis = recorded.table, dict[str, int]()
    of_points = np.array([abis.setdefault(point.abi, len(abis)) for point in table.of_points], np.int64)[table.points]
    resolution, probes = table.resolution_ns, table.probes[table.points]
    costs = np.maximum(table.cost_ns, resolution / INEXPLICABLE)
    for places in grouped(np.flatnonzero(table.is_here & (resolution > 0)), of_points):
        for values in (resolution[places], costs[places]):
            median = np.median(values)
            differs = (values > INEXPLICABLE * median) | (values * INEXPLICABLE < median)
            if 0 < np.count_nonzero(differs) <= FEW * len(places):
                differs &= np.isin(probes[places], probes[places[~differs]])
                yield from ((place, "a clock has about the same resolution and cost in all visits")
                            for place in places[differs].tolist())  # fmt: skip


def _grows(recorded: Recorded) -> Places:
    """Yields visits of a walk that touches less memory than the walk of a smaller size."""
    of_curve = defaultdict[Hashable, dict[int, list[int]]](lambda: defaultdict(list))
    for place, visit in enumerate(recorded.outcomes):
        if not visit.work.footprint_bytes or visit.status != "ok":
            continue
        parameters = visit.point.values()
        size = parameters.pop("size", None)
        if isinstance(size, int):
            rest = visit.point.probe, visit.point.abi, visit.point.target, *sorted(map(str, parameters.items()))
            of_curve[rest][size].append(place)
    for sizes in of_curve.values():
        ordered = sorted(sizes)
        touched = [recorded.outcomes[sizes[size][0]].work.footprint_bytes for size in ordered]
        falls = [at for at in range(1, len(ordered)) if touched[at] < touched[at - 1]]
        outliers = {at for at in falls if at + 1 == len(ordered) or touched[at + 1] >= touched[at - 1]}
        for at in outliers or falls:
            yield from ((place, "a walk of a larger size touches no less memory") for place in sizes[ordered[at]])


def _chosen(recorded: Recorded) -> Places:
    """Yields visits that chose a value that is no choice of the parameter."""
    for place, visit in enumerate(recorded.outcomes):
        probe = recorded.probes.get(visit.point.probe) if visit.chosen else None
        known = {parameter.name: parameter.choices for parameter in probe.parameters} if probe else {}
        if probe and any(value not in known.get(name, ()) for name, value in visit.chosen.items()):
            yield place, "a value that a visit chose is a choice of its probe"


def _counted(recorded: Recorded) -> Places:
    """Yields visits whose counts of work contradict each other or the visit."""
    alone = _alone(recorded)
    counted = [(place, visit, visit.counted) for place, visit in enumerate(recorded.outcomes)
               if visit.counted and is_of_this_machine(visit)]  # fmt: skip
    is_one_session = not recorded.begins and not recorded.asked.reused
    executables_with_time = {_executable(visit) for _, visit, _ in counted if visit.counted_ns > 0 and is_one_session}
    for place, visit, counts in counted:
        is_alone = visit.point.probe in alone
        why = next((why for is_broken, of_others, why in OF_COUNTS
                    if (is_alone or of_others) and is_broken(counts, visit)), "")  # fmt: skip
        if why:
            yield place, why
        elif counts.ladder and not visit.counted_ns and _executable(visit) in executables_with_time:
            yield place, COUNTING_TAKES_TIME


def _alone(recorded: Recorded) -> set[str]:
    """Returns the names of the probes whose worker waits for no other process."""
    return {name for name, probe in recorded.probes.items() if not probe.roles and not probe.switches}


def _executable(visit: Outcome) -> Hashable:
    """Returns the key of the executable of a visit."""
    return visit.point.probe, visit.point.abi


def _rungs_are_odd(counts: Counted, _: Outcome) -> bool:
    """Returns whether the timed lengths of batches are out of order, or a longer batch took less time than the
    shortest."""
    rungs = [rung for rung in counts.ladder if len(rung) > 1]
    lengths, least = [rung[0] for rung in rungs], [min(rung[1:]) for rung in rungs]
    return any(one <= shorter for one, shorter in pairwise(lengths)) or bool(
        rungs and (least[0] < least[-1] or min(least) < 0 or least[0] == 0)
    )


def _is_outside(counts: Counted, _: Outcome) -> bool:
    """Returns whether the steps of a pointer chase leave its buffer, or enter more pages than they can: steps to
    neighbouring cells enter a page only after they crossed the one before."""
    page, stride = max(1, counts.page_bytes), counts.chase_stride
    neighbour_steps = FIRST_STEPS * counts.chase_in_order
    most_entered = 2 * (FIRST_STEPS - neighbour_steps) + neighbour_steps * stride / page + 2 if stride else FIRST_STEPS
    most_pages = min(FIRST_STEPS, counts.chase_bytes // page + 2, most_entered)
    return counts.chase_pages > most_pages or stride > counts.chase_bytes > 0


def _counts_fall(counts: Counted, _: Outcome) -> bool:
    """Returns whether a longer batch has fewer calls or instructions than a shorter one. Counts below one for each
    iteration are exempt, since occasional calls that allocate memory may fall into either batch."""
    pairs = counts.calls, counts.instructions, counts.control_calls, counts.control_instructions
    return any(pair is not None and pair[1] < pair[0] >= counts.iterations for pair in pairs)


def _ends_twice(counts: Counted, _: Outcome) -> bool:
    """Returns whether a count was recorded although it exceeded the counter's limit."""
    return bool((counts.calls and counts.most_calls) or (counts.instructions and counts.most_steps))


def _took_longer(counts: Counted, visit: Outcome) -> bool:
    """Returns whether the trials of the longest batch together took longer than the whole counting of work."""
    longest = sum(counts.ladder[0][1:]) if counts.ladder else 0
    return 0 < visit.counted_ns < longest


COUNTING_TAKES_TIME = "batches that are timed while work is counted take no longer than the counting"
OF_COUNTS: Sequence[tuple[Callable[[Counted, Outcome], bool], bool, str]] = (
    (_rungs_are_odd, True, "a longer batch takes longer"),
    (_is_outside, True, "the steps of a chase stay in its buffer, and enter no more pages than they can"),
    (_ends_twice, True, "work that was too much to count has no count"),
    (lambda counts, _: bool(counts.entered and counts.entered[1] > counts.entered[2]), True,
     "twice the iterations enter no fewer pages"),
    (_counts_fall, False, "twice the iterations make no fewer system calls and instructions"),
    (_took_longer, True, COUNTING_TAKES_TIME),
)  # fmt: skip
"""Rules about counted work: the test, whether it also applies to workers that wait for other processes, and the
sentence."""


def _first_counted(recorded: Recorded) -> Places:
    """Yields first visits of a point without a count of work, if nearly all first visits have one."""
    if recorded.asked.reused or recorded.lost or recorded.begins:
        return
    table = recorded.table
    is_ok = table.of_kinds((visit.status == "ok" for visit in table.firsts), np.bool_)
    usable = np.flatnonzero(is_ok & table.is_timed & (table.samples > 0))
    first = usable[np.unique(table.points[usable], return_index=True)[1]].tolist()
    lacking = [place for place in first if not recorded.outcomes[place].counted]
    if len(lacking) <= FEW * len(first):
        yield from ((place, FIRST_COUNTED) for place in lacking)


def _accounted(recorded: Recorded) -> Places:
    """Yields visits in which the kernel accounted more events to the batches than were counted around the samples, or
    events of unknown kinds."""
    for place, visit in enumerate(recorded.outcomes):
        events = visit.events
        if events is None or events.by != "account" or not len(visit.samples):
            continue
        columns, body = Samples.of(visit.samples), events.body
        if body.keys() - OF_EVENTS or any(
            abs(rate) * int(columns.column("iterations").min())
            > sum(max(0, int(columns.column(column).max())) for column in OF_EVENTS[name])
            for name, rate in body.items()
            if rate
        ):
            yield place, "the batches of a sample have no more events than the sample"


def _spent(recorded: Recorded) -> Places:
    """Yields visits whose worker waits for nothing, but used more CPU time than its batches took. The clock of CPU time
    may advance in ticks, which is tolerated."""
    alone = _alone(recorded)
    for place, visit in enumerate(recorded.outcomes):
        cpu_ns = visit.gauges.get("cpu_time", 0.0) if visit.point.probe in alone and has_hardware_time(visit) else 0.0
        if cpu_ns and len(visit.samples):
            columns = Samples.of(visit.samples)
            batches_ns = sum(float(columns.column(name).sum()) for name in ("body_n", "body_2n"))
            operations = visit.work.operations * BATCHES * float(columns.column("iterations").sum())
            if cpu_ns * operations > MOST_SPENT * (batches_ns + 2 * len(visit.samples) * TICK_NS):
                yield place, "an operation uses no more CPU time than it takes"


OF_EVENTS = {"page-faults": ("minor_faults", "major_faults"), "context-switches": ("voluntary", "involuntary")}
FIRST_COUNTED = "work is counted in a point's first visit"
MOST_SPENT = 2.0
"""Highest ratio of a worker's CPU time to the time of its recorded samples: some samples are not recorded."""
FIRST_STEPS = 256
"""Steps of a pointer chase for which the entered pages are counted."""
OF_ALIKE: Sequence[Callable[[Recorded], Places]] = (
    _clocks, _grows, _chosen, _counted, _first_counted, _accounted, _spent,
)  # fmt: skip
