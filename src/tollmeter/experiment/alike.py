# SPDX-License-Identifier: Apache-2.0
"""What the visits of one point, of one ABI and of one run have alike: each rule is a sentence that holds of every
honest run (docs/measuring.md lists them)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.described import Places, Recorded, is_here
from tollmeter.experiment.taken import Taken

LEAST_ALIKE, MOST_ALIKE = 3, 8
"""Visits of a point, and of an ABI, that are compared with each other."""
MOST_ODD = 0.1
"""Share of visits that are unlike the others: of more it is not known which are odd."""
MOST_LIKE = 16.0
"""Times the median of a run that a clock's resolution is: it is the least of several, which no interrupt lengthens."""
LEAST_TURN_CYCLES = 0.25
"""Of a loop that counts down: a core completes one addition a cycle of a chain, and some drop an addition of one."""
EVIDENCE = ("voluntary", "minor_faults", "steal_ticks", "delay_ns", "cpu_before", "control_hz")
WAITS = "a worker waits in all samples of a visit only where it waits in some of the point's other visits"
LIKE_OTHERS = "what each sample of all other visits of a point meets, some sample of a visit meets"
REPORTED = "what the system reports beside one visit of an ABI, it reports beside all"


class VisitEvidence(NamedTuple):
    """Of a visit. meets: whether each sample has context switches, page faults, and waits of the worker; lacks: whether
    none has. reported: of EVIDENCE, what each sample has. control_ns: the least of a turn of the control, or 0."""

    place: int
    samples: int
    meets: tuple[bool, bool, bool]
    lacks: tuple[bool, bool, bool]
    reported: tuple[bool, ...]
    control_ns: float


def evidence_of(places: Sequence[int], taken: Taken) -> Iterator[VisitEvidence]:
    least, most = {}, {}
    switches = taken.column("voluntary") + taken.column("involuntary")
    for name, column in (
        ("switches", switches),
        ("faults", taken.column("minor_faults")),
        ("waits", taken.column("voluntary")),
    ):
        least[name], most[name] = (of.reduceat(column, taken.starts[:-1]) for of in (np.minimum, np.maximum))
    reported = [
        np.maximum.reduceat(taken.column(name), taken.starts[:-1]) >= (name == "control_hz") for name in EVIDENCE
    ]
    turns = np.where(taken.column("control_iterations") > 0, taken.column("control_iterations"),
                     taken.column("iterations"))  # fmt: skip
    control = np.minimum.reduceat(taken.column("control_2n") / (2 * turns), taken.starts[:-1])
    return map(
        VisitEvidence, places, taken.counts.tolist(),
        zip(*((least[name] > 0).tolist() for name in least), strict=True),
        zip(*((most[name] == 0).tolist() for name in most), strict=True),
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
        yield from _of_point(several)
    for several in of_abis.values():
        yield from _of_abi(several, recorded)
    for visit in visits:
        rate = max(recorded.outcomes[visit.place].controls, default=0.0)
        if 0 < visit.control_ns * rate < LEAST_TURN_CYCLES * 1e9:
            yield visit.place, f"a turn of the control takes {LEAST_TURN_CYCLES:g} cycles"


def _of_point(several: Sequence[VisitEvidence]) -> Places:
    if len(several) < LEAST_ALIKE:
        return
    for what in (0, 1):
        odd = [visit for visit in several if visit.lacks[what]]
        if len(odd) == 1 and sum(visit.meets[what] for visit in several) == len(several) - 1:
            yield odd[0].place, LIKE_OTHERS
    odd = [visit for visit in several if visit.meets[2] and visit.samples > LEAST_ALIKE]
    if len(odd) == 1 and sum(visit.lacks[2] for visit in several) == len(several) - 1:
        yield odd[0].place, WAITS


def _of_abi(several: Sequence[VisitEvidence], recorded: Recorded) -> Places:
    """A probe with a clock of its own may lack what that clock is too coarse for, in all of its visits."""
    for what in range(len(EVIDENCE)):
        odd = [visit for visit in several if not visit.reported[what]]
        if len(several) >= MOST_ALIKE and len(odd) <= MOST_ODD * len(several):
            others = {recorded.outcomes[visit.place].point.probe for visit in several if visit.reported[what]}
            lacking = (visit.place for visit in odd if recorded.outcomes[visit.place].point.probe in others)
            yield from ((place, REPORTED) for place in lacking)


def _clocks(recorded: Recorded) -> Places:
    """A clock's steps are as long in one visit as in the others. A probe may bring a clock of its own."""
    here = [place for place, visit in enumerate(recorded.outcomes) if is_here(visit) and visit.clock.resolution_ns > 0]
    of_abis = defaultdict[Hashable, list[int]](list)
    for place in here:
        of_abis[recorded.outcomes[place].point.abi].append(place)
    for places in of_abis.values():
        steps = [recorded.outcomes[place].clock.resolution_ns for place in places]
        most = MOST_LIKE * median(steps)
        odd = [place for place, step in zip(places, steps, strict=True) if step > most]
        others = {recorded.outcomes[place].point.probe for place in {*places} - {*odd}}
        if len(odd) <= MOST_ODD * len(places):
            yield from (
                (place, "the steps of a clock are as long in all visits")
                for place in odd
                if recorded.outcomes[place].point.probe in others
            )


def _surrounded(recorded: Recorded) -> Places:
    """The control loop runs before the samples and after them."""
    timed = [place for place, visit in enumerate(recorded.outcomes) if is_here(visit) and len(visit.samples)]
    odd = [place for place in timed if len(recorded.outcomes[place].controls) < 2]
    if len(timed) >= MOST_ALIKE and len(odd) <= MOST_ODD * len(timed):
        yield from ((place, "the control loop runs before a visit and after it") for place in odd)


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
    """A longer batch takes longer, and a chase lies in its buffer."""
    for place, visit in enumerate(recorded.outcomes):
        counts = visit.counted
        if counts is None or not is_here(visit):
            continue
        rungs = [rung for rung in counts.ladder if len(rung) > 1]
        lengths, least = [rung[0] for rung in rungs], [min(rung[1:]) for rung in rungs]
        if any(one <= shorter for one, shorter in pairwise(lengths)) or (rungs and least[0] < least[-1]):
            yield place, "a longer batch takes longer"
        elif rungs and len({*rungs[0][1:]}) == 1 < len(rungs[0]) - 1:
            yield place, "the times of one batch differ between trials"
        elif counts.chase_bytes > counts.buffer_bytes or counts.chase_stride > counts.buffer_bytes:
            yield place, "a chase lies in its buffer"
        elif counts.entered and counts.entered[1] > counts.entered[2]:
            yield place, "twice the iterations enter no fewer pages"


OF_ALIKE: Sequence[Callable[[Recorded], Places]] = (_clocks, _surrounded, _grows, _chosen, _counted)
