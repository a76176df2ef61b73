# SPDX-License-Identifier: Apache-2.0
"""Rules of the runtime about samples (probes/runtime/sample.c): their lengths, their number, and the number of
iterations that a visit inherits from the previous visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tollmeter.experiment.described import Places, Recorded
from tollmeter.experiment.limits import FAR_APART, FEW, LEAST_SAMPLES
from tollmeter.experiment.taken import Floats, Taken, ranked
from tollmeter.experiment.timed_visits import NO_GAP, Broken, Numbers, TimedSamples, TimedVisits
from tollmeter.model import Counted

HALVED_IN, LEAST_OF_HALF = 4, 3
"""One pair of samples in HALVED_IN has half of the iterations, or at least 1/LEAST_OF_HALF, since a body runs whole
turns."""
LEAST_READINGS = 2000
"""Shortest length of the shorter batch, in clock readings."""
MOST_LONG = 8.0
LEAST_ITERATIONS = MOST_LONG
"""Highest ratio of a batch's length to the requested length, and of the requested length to it, for batches of at least
LEAST_ITERATIONS iterations: calibration repeats below a quarter and above four times, and other workloads start and
stop meanwhile. The ratio also bounds the time of an iteration in the samples over that in the longest counted batch: 6
was measured beside other workloads."""
MOST_SAMPLES = 2
"""Highest ratio of the number of samples to the requested number."""
LEAST_STEPS = 50_000
"""Fewest clock steps of a batch whose time must differ between samples: a shorter loop may take equal times on a
quiet core. Also between samples whose distances must differ: equal distances of 14,000 steps of a clock of 24 MHz were
observed."""
SAME_LENGTHS = "a sample has as many iterations as the first, or half as many where its number says so"
AS_COUNTED = "a batch takes about as long in samples as while its work is counted"
AS_BEFORE = "a visit has as many iterations as its point's visits before and after it"
AS_LONG = "a batch is about as long as was requested"
SPACED = "the samples of a visit do not begin evenly spaced"
AS_WIDE = "no visit makes far more additions per cycle than the others"
AS_MANY = "a visit has at most twice the samples that were requested"


def lengths_of(taken: Taken) -> Numbers:
    """Returns for each visit the iterations of its first sample's body and control, whether all samples have the
    required lengths, and the highest width in additions per cycle."""
    first = taken.starts[:-1]
    number = np.arange(len(taken)) - taken.spread(first)
    is_half = number // 2 % HALVED_IN == 1
    odd = np.zeros(len(taken), dtype=bool)
    for name in ("iterations", "control_iterations"):
        length = taken.column(name)
        whole = taken.spread(length[first])
        odd |= (length != whole) & ~(is_half & (2 * length <= whole) & (LEAST_OF_HALF * length >= whole))
    return {
        "body": taken.column("iterations")[first], "control": taken.column("control_iterations")[first],
        "is_regular": taken.of_visits(odd) == 0, "widest": _widest(taken),
    }  # fmt: skip


def _widest(taken: Taken) -> Floats:
    """Returns for each visit its highest width rate over its highest control-loop rate. The two readings of one moment
    are not divided, since an interrupt may slow only one of them."""
    names = "width_hz", "width_between_hz", "width_before_hz"
    most = taken.most(np.maximum.reduce([taken.column(name) for name in names]))
    fastest = taken.most(taken.column("control_hz"))
    return np.where(fastest > 0, most / np.where(fastest > 0, fastest, 1), 0.0)


def as_long(some: TimedSamples) -> Broken:
    """Yields the sentence on the length of batches with a mask of the visits that break it, judged by the longest full
    batch. A batch is too long only if it could have been halved. A clock with long steps requires longer batches."""
    taken, asked = some.taken, some.numbers["asked_ns"]
    first, most_asked = taken.starts[:-1], np.maximum(asked, LEAST_READINGS * some.numbers["clock_ns"])
    odd = np.zeros(len(first), dtype=bool)
    for name, twice, turns in (
        ("body_n", "body_2n", "iterations"), ("control_n", "control_2n", "control_iterations"),
    ):  # fmt: skip
        length, times = taken.column(turns), taken.column(name)
        is_full = (length == taken.spread(length[first])) & (times >= 0)
        # A page fault may map what several batches touch: then one of n takes no time, and one of 2n all of it.
        most = np.fmax.reduceat(np.where(is_full, np.maximum(times, taken.column(twice) / 2), np.nan), first)
        least = np.fmin.reduceat(np.where(is_full, times, np.nan), first)
        can_halve = taken.of_visits(length < taken.spread(length[first])) > 0
        # A control may have the iterations of a body that takes far longer.
        is_short = (MOST_LONG * most < asked) & (name == "body_n")
        odd |= (length[first] >= LEAST_ITERATIONS) & (is_short | (can_halve & (least > MOST_LONG * most_asked)))
    yield AS_LONG, odd & (asked > 0)


def as_many(_: Recorded, timed: TimedVisits) -> Places:
    """Returns visits with too many samples, or too wide a core. A visit takes fewer samples beside a busy sibling or at
    the end of its time. The width of the uncontended core is the 90th percentile over the visits."""
    asked, widest = MOST_SAMPLES * timed.numbers["asked"], timed.numbers["widest"]
    yield from timed.where((asked > 0) & (asked < timed.numbers["samples"]), AS_MANY)
    known = np.sort(widest[widest > 0])
    full = known[int((1 - FEW) * (len(known) - 1))] if len(known) else np.inf
    yield from timed.where(widest > (1 + FAR_APART) * full, AS_WIDE)


def as_before(recorded: Recorded, timed: TimedVisits) -> Places:
    """Returns visits whose iterations differ from the visit before and the visit after, which agree: a new calibration
    would not restore the number. A bundle asks for two visits of a layout at once, with one number, and only the first
    may find it too short. A first visit's count of work uses batches as long as its samples, or twice as long."""
    order = np.argsort(timed.points, kind="stable")
    odd = np.zeros(len(order), dtype=bool)
    seeds = np.array([recorded.outcomes[place].seed for place in timed.places[order].tolist()], np.uint64)
    is_one = timed.points[order][2:] == timed.points[order][:-2]
    is_one &= (seeds[1:-1] != seeds[2:]) | (seeds[1:-1] == seeds[:-2])
    for name in ("body", "control"):
        turns = timed.numbers[name][order]
        odd[order[1:-1]] |= is_one & (turns[:-2] == turns[2:]) & (turns[2:] != turns[1:-1])
    yield from timed.where(odd, AS_BEFORE)
    for place, counts, number in _with_ladder(recorded, timed):
        if counts.ladder[0][0] not in (number["body"], 2 * number["body"]):
            yield place, "the longest batch that was timed while work was counted is as long as the samples"


def as_counted(recorded: Recorded, timed: TimedVisits) -> Places:
    for place, counts, number in _with_ladder(recorded, timed):
        if min(counts.ladder[0]) > 0 and len(counts.ladder[0]) > 1 and number["each_ns"] > 0:
            ladder = 2 * min(counts.ladder[0][1:]) / counts.ladder[0][0]
            if not number["each_ns"] <= MOST_LONG * ladder <= MOST_LONG**2 * number["each_ns"]:
                yield place, AS_COUNTED


def _with_ladder(recorded: Recorded, timed: TimedVisits) -> Iterator[tuple[int, Counted, Mapping[str, float]]]:
    """Yields visits whose batches were timed while work was counted, with the iterations of the first sample and the
    lower of two times in ns."""
    table = recorded.table
    counted = table.of_kinds((visit.counted is not None for visit in table.firsts), np.bool_)[timed.places]
    for at in np.flatnonzero(counted).tolist():
        place = int(timed.places[at])
        counts = recorded.outcomes[place].counted
        if counts and counts.ladder and counts.ladder[0]:
            yield place, counts, {name: float(timed.numbers[name][at]) for name in ("body", "each_ns")}


def irregular(_: Recorded, timed: TimedVisits) -> Places:
    """Returns visits with an irregular pattern of samples. If most visits have it, another runtime made the journal."""
    odd = ~timed.numbers["is_regular"]
    return timed.where(odd & (2 * np.count_nonzero(odd) < len(odd)), SAME_LENGTHS)


def spaced(some: TimedSamples) -> Broken:
    """Yields the sentence on the start times of samples with a mask of the visits that break it: visits whose distances
    between samples take many clock steps and yet repeat exactly. Batches alone may take equal times on a quiet core."""
    taken, inner = some.taken, some.gap_ns != NO_GAP
    owner = np.repeat(np.arange(len(taken.counts)), taken.counts)
    least = LEAST_STEPS * taken.spread(some.numbers["step_ns"])
    is_fine = (taken.counts >= LEAST_SAMPLES) & (taken.of_visits(inner & (some.gap_ns < least)) == 0)
    among = inner & taken.spread(is_fine)
    gaps, starts = ranked(some.gap_ns[among].astype(np.float64), owner[among], len(taken.counts))
    whose = np.repeat(np.arange(len(taken.counts)), np.diff(starts))
    again = np.bincount(whose[1:][(np.diff(gaps) == 0) & (np.diff(whose) == 0)], minlength=len(taken.counts))
    yield SPACED, is_fine & (2 * again >= taken.counts - 1)
