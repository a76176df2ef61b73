# SPDX-License-Identifier: Apache-2.0
"""What the visits of one point, of one ABI and of one run have alike: each rule is a sentence that holds of every
honest run (docs/measuring.md lists them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise, product
from statistics import median
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.described import Places, Recorded, is_here, is_timed
from tollmeter.experiment.taken import Taken
from tollmeter.model import ClockReading, Counted, Outcome, Samples

LEAST_ALIKE, MOST_ALIKE = 3, 8
"""Visits of a point, and of an ABI, that are compared with each other; and samples of one that is."""
MOST_ODD = 0.1
"""Share of visits that are unlike the others: of more it is not known which are odd."""
MOST_LIKE, MOST_BELOW = 30.0, 30.0
"""Times the median of a run that a clock's resolution is, and a reading's cost, and the other way: each is the least of
several. A core that wakes at 400 MHz of 4.7 GHz reads it in 11 times the time, and steps of 41 ns hide a reading."""
_OF_CLOCK: Sequence[tuple[float, Callable[[ClockReading], float]]] = (
    (MOST_LIKE, lambda clock: clock.resolution_ns),
    (MOST_LIKE, lambda clock: max(clock.cost_ns, clock.resolution_ns / MOST_LIKE)),
)
LEAST_TURN_CYCLES = 0.25
"""Of a loop that counts down: a core completes one addition a cycle of a chain, and some drop an addition of one."""
EVIDENCE = ("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks", "delay_ns", "cpu_before",
            "control_hz", "width_hz", "width_between_hz", "frequency_khz", "at_ns")  # fmt: skip
MET: Sequence[tuple[tuple[str, ...], bool, bool]] = (
    (("voluntary", "involuntary"), True, False), (("minor_faults",), True, True), (("voluntary",), False, True),
    (("major_faults",), False, True),
)  # fmt: skip
"""What lies beside a sample; whether one visit must not lack it, and whether it must not have more: a neighbour takes
the CPU from a worker as often as it likes."""
FAULTS = 1
MOST_MET = 2.0
"""Times what any sample of another visit meets."""
WAITS = "a worker waits, or faults, in all samples of a visit only where it does in some of its point's other visits"
LIKE_OTHERS = "what each sample of all other visits of a point meets, some sample of a visit meets"
REPORTED = "what the system reports beside one visit of an ABI, it reports beside all"


class VisitEvidence(NamedTuple):
    """Of a visit. least, most: of MET beside one of its samples. reported: of EVIDENCE, what each sample has.
    control_ns: the least of a turn of the control, 0 without one."""

    place: int
    samples: int
    least: tuple[float, ...]
    most: tuple[float, ...]
    reported: tuple[bool, ...]
    control_ns: float


def evidence_of(places: Sequence[int], taken: Taken) -> Iterator[VisitEvidence]:
    first = taken.starts[:-1]
    met = [sum(np.maximum(taken.column(name), 0.0) for name in names) for names, _, _ in MET]
    least, most = (zip(*(of.reduceat(column, first).tolist() for column in met), strict=True)
                   for of in (np.minimum, np.maximum))  # fmt: skip
    reported = [np.maximum.reduceat(taken.column(name), first) >= (name.endswith(("hz", "at_ns"))) for name in EVIDENCE]
    turns = np.where(taken.column("control_iterations") > 0, taken.column("control_iterations"),
                     taken.column("iterations"))  # fmt: skip
    control = np.minimum.reduceat(taken.column("control_2n") / (2 * turns), first)
    return map(
        VisitEvidence, places, taken.counts.tolist(), least, most,
        zip(*(known.tolist() for known in reported), strict=True), np.maximum(control, 0.0).tolist(),
    )  # fmt: skip


def unlike(recorded: Recorded, visits: Sequence[VisitEvidence]) -> Places:
    of_points, of_abis = (
        defaultdict[Hashable, list[VisitEvidence]](list),
        defaultdict[Hashable, list[VisitEvidence]](list),
    )
    for visit in visits:
        outcome = recorded.outcomes[visit.place]
        of_points[outcome.point].append(visit)
        of_abis[outcome.point.abi].append(visit)
    for several in of_points.values():
        yield from _of_point([visit for visit in several if visit.samples >= MOST_ALIKE])
    for several in of_abis.values():
        yield from _of_abi(several, recorded)
    for visit in visits:
        rate = max(recorded.outcomes[visit.place].controls, default=0.0)
        if 0 < visit.control_ns * rate < LEAST_TURN_CYCLES * 1e9:
            yield visit.place, f"a turn of the control takes {LEAST_TURN_CYCLES:g} cycles"


def _of_point(several: Sequence[VisitEvidence]) -> Places:
    """One visit, each sample of which meets less than each of all others, or more. Few short visits that wait for a
    companion differ so by chance."""
    if len(several) <= LEAST_ALIKE:
        return
    for what, (_, has_all, has_no_more) in enumerate(MET):
        least = min(several, key=lambda visit: visit.most[what])
        most = max(several, key=lambda visit: visit.least[what])
        others = [visit for visit in several if visit is not least]
        if has_all and least.most[what] == 0 < min(visit.least[what] for visit in others):
            yield least.place, LIKE_OTHERS
        others = [visit for visit in several if visit is not most]
        if has_no_more and most.least[what] > MOST_MET * max(visit.most[what] for visit in others):
            yield most.place, WAITS


def _of_abi(several: Sequence[VisitEvidence], recorded: Recorded) -> Places:
    """A probe with a clock of its own may lack what that clock is too coarse for, in all of its visits."""
    for what, has_it in product(range(len(EVIDENCE)), (False, True)):
        odd = [visit for visit in several if visit.reported[what] == has_it]
        if len(several) >= MOST_ALIKE and len(odd) <= MOST_ODD * len(several):
            others = {recorded.outcomes[visit.place].point.probe for visit in several if visit.reported[what] != has_it}
            unlike_them = (visit.place for visit in odd if recorded.outcomes[visit.place].point.probe in others)
            yield from ((place, REPORTED) for place in unlike_them)


def _clocks(recorded: Recorded) -> Places:
    """A clock's steps are as long, and a reading takes as long, in one visit as in the others. A probe may bring a
    clock of its own."""
    of_abis = defaultdict[Hashable, list[int]](list)
    for place, visit in enumerate(recorded.outcomes):
        if is_here(visit) and visit.clock.resolution_ns > 0:
            of_abis[visit.point.abi].append(place)
    for places, (most, value) in product(of_abis.values(), _OF_CLOCK):
        values = [value(recorded.outcomes[place].clock) for place in places]
        usual = median(values)
        odd = [
            place for place, one in zip(places, values, strict=True) if one > most * usual or one * MOST_BELOW < usual
        ]
        others = {recorded.outcomes[place].point.probe for place in {*places} - {*odd}}
        if len(odd) <= MOST_ODD * len(places):
            yield from (
                (place, "the steps of a clock, and a reading of it, are as long in all visits")
                for place in odd
                if recorded.outcomes[place].point.probe in others
            )


def _grows(recorded: Recorded) -> Places:
    """A walk of a larger size touches no less memory."""
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
        odd = {at for at in falls if at + 1 == len(ordered) or touched[at + 1] >= touched[at - 1]}
        for at in odd or falls:
            yield from ((place, "a walk of a larger size touches no less memory") for place in sizes[ordered[at]])


def _chosen(recorded: Recorded) -> Places:
    """What a visit chose for itself is a choice of its probe's parameter."""
    for place, visit in enumerate(recorded.outcomes):
        probe = recorded.probes.get(visit.point.probe) if visit.chosen else None
        known = {parameter.name: parameter.choices for parameter in probe.parameters} if probe else {}
        if probe and any(value not in known.get(name, ()) for name, value in visit.chosen.items()):
            yield place, "what a visit chose is a choice of its probe"


def _counted(recorded: Recorded) -> Places:
    """What was counted of a visit's work, against itself and the visit."""
    alone = {name for name, probe in recorded.probes.items() if not probe.roles and not probe.switches}
    for place, visit in enumerate(recorded.outcomes):
        counts = visit.counted
        if counts is None or not is_here(visit):
            continue
        is_alone = visit.point.probe in alone
        why = next((why for is_broken, of_others, why in OF_COUNTS
                    if (is_alone or of_others) and is_broken(counts, visit)), "")  # fmt: skip
        if why:
            yield place, why


def _rungs_rise(counts: Counted, _: Outcome) -> bool:
    rungs = [rung for rung in counts.ladder if len(rung) > 1]
    lengths, least = [rung[0] for rung in rungs], [min(rung[1:]) for rung in rungs]
    return any(one <= shorter for one, shorter in pairwise(lengths)) or bool(
        rungs and (least[0] < least[-1] or min(least) < 0)
    )


def _is_outside(counts: Counted, _: Outcome) -> bool:
    pages = counts.chase_bytes // max(1, counts.page_bytes) + 2
    return counts.chase_pages > min(FIRST_STEPS, pages)


def _counts_fall(counts: Counted, _: Outcome) -> bool:
    """Of calls that each iteration makes: one that takes new memory now and then may make them in either batch."""
    pairs = counts.calls, counts.instructions, counts.control_calls, counts.control_instructions
    return any(pair is not None and pair[1] < pair[0] >= counts.iterations for pair in pairs)


def _took_longer(counts: Counted, visit: Outcome) -> bool:
    """Each trial of each batch ran as often as the longest batch has its length."""
    longest = sum(counts.ladder[0][1:]) if counts.ladder else 0
    return 0 < visit.counted_ns < longest


OF_COUNTS: Sequence[tuple[Callable[[Counted, Outcome], bool], bool, str]] = (
    (_rungs_rise, True, "a longer batch takes longer"),
    (_is_outside, True, "the first steps of a chase enter as many pages at most"),
    (lambda counts, _: bool(counts.entered and counts.entered[1] > counts.entered[2]), True,
     "twice the iterations enter no fewer pages"),
    (_counts_fall, False, "twice the iterations make no fewer system calls and instructions"),
    (_took_longer, True, "batches that are timed while work is counted take no longer than to count it"),
)  # fmt: skip
"""Of workers that wait for no others, and whether also of others."""


def _first_counted(recorded: Recorded) -> Places:
    """On systems where it can be: most first visits have a count. A bundle also counts in later ones."""
    if recorded.asked.reused or recorded.lost or recorded.begins:
        return
    first = dict[Hashable, int]()
    for place, visit in enumerate(recorded.outcomes):
        if visit.status == "ok" and is_timed(visit) and len(visit.samples):
            first.setdefault(visit.point, place)
    lacking = [place for place in first.values() if not recorded.outcomes[place].counted]
    if len(lacking) <= MOST_ODD * len(first):
        yield from ((place, FIRST_COUNTED) for place in lacking)


def _accounted(recorded: Recorded) -> Places:
    """Events that the kernel accounts to a worker in its batches are some of those beside the samples."""
    for place, visit in enumerate(recorded.outcomes):
        events = visit.events
        if events is None or events.by != "account" or not len(visit.samples):
            continue
        columns = Samples.of(visit.samples)
        for name, seen in OF_EVENTS.items():
            least = events.body.get(name, 0.0) * int(columns.column("iterations").min())
            if least > 0 and least > sum(int(columns.column(column).max()) for column in seen):
                yield place, "events in the batches of a sample are some of those beside it"
                break


OF_EVENTS = {"page-faults": ("minor_faults", "major_faults"), "context-switches": ("voluntary", "involuntary")}
FIRST_COUNTED = "work is counted in a point's first visit"
FIRST_STEPS = 256
"""Of a chase, whose pages are counted."""
OF_ALIKE: Sequence[Callable[[Recorded], Places]] = (
    _clocks, _grows, _chosen, _counted, _first_counted, _accounted,
)  # fmt: skip
