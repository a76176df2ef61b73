# SPDX-License-Identifier: Apache-2.0
"""How the runtime takes samples (probes/runtime/sample.c), and whether those of a journal are so: their lengths, how
many there are, and which number of iterations a visit has from the one before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.described import Places, Recorded
from tollmeter.experiment.taken import Floats, Taken
from tollmeter.model import Outcome, Point

HALVED_IN, LEAST_OF_HALF = 4, 3
"""One pair of samples in so many has half of the iterations, or a third at least, since a body has whole turns."""
LEAST_READINGS = 2000
"""Of the clock, which the shorter batch is as long as at least."""
LEAST_LONG, MOST_LONG, LEAST_ITERATIONS = 1 / 8, 8.0, 8
"""Times the requested length of a batch, of so many iterations: a batch is calibrated anew under a quarter and over
four times, and a neighbour comes and goes meanwhile."""
MOST_SAMPLES = 2
"""Times those requested."""
LEAST_STEPS, LEAST_SPACED_STEPS = 50_000, 20_000
"""Of the clock, in a batch whose times differ between samples: of fewer a loop on a quiet core may take as many each
time. And where one follows the other by the same step, or none, in most of a visit: 14,000 of a clock of 24 MHz may."""
LEAST_SPACED = 6
"""Samples of a visit whose times are looked at one after the other."""
USUALLY_WHOLE = 0.9
"""Share of a run's visits whose core adds no more than an uncontended one."""
SAME_LENGTHS = "a sample has the iterations of the first, or half as its number says"
MOST_COUNTED = 8.0
"""Times the longest batch beside the count that one in a sample takes, or a part of it: six were seen beside
neighbours."""
AS_COUNTED = "a batch takes as long in samples as beside the count of its work"
AS_BEFORE = "a visit has the iterations of its point's visit before"
AS_LONG = "a batch is about as long as was requested"
SPACED = "the samples of a visit do not begin evenly spaced"
MOST_WIDER = 1.4
"""Times the usual: 1.2 were seen of a core whose clock steps."""
AS_WIDE = "a core adds as much in a cycle in one visit as in the others"
AS_MANY = "a visit has at most twice the samples that were requested"


class VisitLengths(NamedTuple):
    """Of one visit: iterations of its first sample, of body and control; whether all have the lengths that they should;
    the most that its core added, in a cycle."""

    place: int
    body: int
    control: int
    is_regular: bool
    widest: float


def lengths_of(places: Sequence[int], taken: Taken) -> Iterable[VisitLengths]:
    first = taken.starts[:-1]
    number = np.arange(len(taken)) - taken.spread(first)
    is_half = number // 2 % HALVED_IN == 1
    odd = np.zeros(len(taken), dtype=bool)
    for name in ("iterations", "control_iterations"):
        length = taken.column(name)
        whole = taken.spread(length[first])
        odd |= (length != whole) & ~(is_half & (2 * length <= whole) & (LEAST_OF_HALF * length >= whole))
    return map(
        VisitLengths, places, taken.column("iterations")[first].astype(np.int64).tolist(),
        taken.column("control_iterations")[first].astype(np.int64).tolist(), (taken.of_visits(odd) == 0).tolist(),
        _widest(taken),
    )  # fmt: skip


def _widest(taken: Taken) -> list[float]:
    """Of the greatest readings: an interrupt can lengthen one of a pair."""
    names = "width_hz", "width_between_hz", "width_before_hz"
    most, fastest = (
        np.maximum.reduceat(np.maximum.reduce([taken.column(name) for name in several]), taken.starts[:-1])
        for several in (names, ("control_hz",))
    )
    widest: list[float] = np.where(fastest > 0, most / np.where(fastest > 0, fastest, 1), 0.0).tolist()
    return widest


def as_long(recorded: Recorded, places: Sequence[int], taken: Taken) -> Places:
    """Judged by the longest of the full batches, and that they are too long only where they could have been halved."""
    first = taken.starts[:-1]
    visits = [recorded.outcomes[place] for place in places]
    asked = np.array([visit.asked_ns for visit in visits], np.float64)
    most_asked = np.array([_longest_ns(visit) for visit in visits], np.float64)
    odd = np.zeros(len(first), dtype=bool)
    for name, turns in (("body_n", "iterations"), ("control_n", "control_iterations")):
        length, times = taken.column(turns), taken.column(name)
        took = np.where((length == taken.spread(length[first])) & (times >= 0), times, np.nan)
        most, least = (of(took, first) for of in (np.fmax.reduceat, np.fmin.reduceat))
        can_halve = taken.of_visits(length < taken.spread(length[first])) > 0
        # A control may have the iterations of a body that takes far longer.
        is_short = (most < LEAST_LONG * asked) & (name == "body_n")
        odd |= (length[first] >= LEAST_ITERATIONS) & (is_short | (can_halve & (least > MOST_LONG * most_asked)))
    odd &= asked > 0
    yield from ((place, AS_LONG) for place, is_odd in zip(places, odd.tolist(), strict=True) if is_odd)


def _longest_ns(visit: Outcome) -> float:
    """A clock with long steps times longer batches."""
    return max(visit.asked_ns, LEAST_READINGS * max(visit.clock.cost_ns, visit.clock.resolution_ns))


def as_many(recorded: Recorded, visits: Sequence[VisitLengths]) -> Places:
    """Fewer are taken beside a neighbour, or when the time of a visit is over."""
    full = _usual_width(visits)
    for one in visits:
        visit = recorded.outcomes[one.place]
        if 0 < MOST_SAMPLES * visit.asked_samples < len(visit.samples):
            yield one.place, AS_MANY
        if one.widest > MOST_WIDER * full:
            yield one.place, AS_WIDE


def _usual_width(visits: Sequence[VisitLengths]) -> float:
    """What an uncontended core adds in a cycle."""
    widest = sorted(one.widest for one in visits if one.widest > 0)
    return widest[int(USUALLY_WHOLE * (len(widest) - 1))] if widest else np.inf


def as_before(recorded: Recorded, visits: Sequence[VisitLengths]) -> Places:
    """One with other iterations between two that have the same: calibrated anew they would not be. And the count of a
    point's first visit is of as long a batch as its samples, or twice as long."""
    of_point = defaultdict[Point, list[VisitLengths]](list)
    for one in visits:
        of_point[recorded.outcomes[one.place].point].append(one)
    for several in of_point.values():
        for before, one, after in zip(several, several[1:], several[2:], strict=False):
            if (before.body == after.body != one.body) or (before.control == after.control != one.control):
                yield one.place, AS_BEFORE
    for one in visits:
        counts = recorded.outcomes[one.place].counted
        if counts and counts.ladder and counts.ladder[0] and counts.ladder[0][0] not in (one.body, 2 * one.body):
            yield one.place, "the longest batch that was timed while work was counted is as long as the samples"


def as_counted(recorded: Recorded, costs: Iterable[tuple[int, float]]) -> Places:
    """costs: of each visit the least ns of two iterations, in its samples."""
    for place, each in costs:
        counts = recorded.outcomes[place].counted
        if counts and counts.ladder and len(counts.ladder[0]) > 1 and each > 0:
            ladder = 2 * min(counts.ladder[0][1:]) / counts.ladder[0][0]
            if not each <= MOST_COUNTED * ladder <= MOST_COUNTED**2 * each:
                yield place, AS_COUNTED


def irregular(visits: Sequence[VisitLengths]) -> Places:
    """Where most are so, another runtime made the journal."""
    odd = [one.place for one in visits if not one.is_regular]
    if 2 * len(odd) < len(visits):
        yield from ((place, SAME_LENGTHS) for place in odd)


def spaced(places: Sequence[int], taken: Taken, steps_ns: Floats) -> Places:
    """Of the times at which samples begin, in many steps of the clock. On a quiet core their batches may take the same
    time. steps_ns: of each sample's clock."""
    follows = np.ones(len(taken), dtype=bool)
    follows[taken.starts[:-1]] = False
    owner = np.repeat(np.arange(len(taken.counts)), taken.counts)[follows]
    apart = np.diff(taken.whole(("at_ns",))["at_ns"].astype(np.float64), prepend=0.0)[follows]
    order = np.lexsort((apart, owner))
    again = (np.diff(apart[order]) == 0) & (np.diff(owner[order]) == 0)
    equal = np.bincount(owner[order][1:][again], minlength=len(taken.counts))
    coarse = np.bincount(owner[apart < LEAST_SPACED_STEPS * steps_ns[follows]], minlength=len(taken.counts))
    odd = (taken.counts >= LEAST_SPACED) & (2 * equal >= taken.counts - 1) & (coarse == 0)
    yield from ((place, SPACED) for place, is_odd in zip(places, odd.tolist(), strict=True) if is_odd)
