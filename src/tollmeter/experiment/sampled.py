# SPDX-License-Identifier: Apache-2.0
"""Compares samples with the rules of the runtime (probes/runtime/sample.c): their lengths, their number, and the number
of iterations that a visit takes over from the previous visit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tollmeter.experiment.described import Places, Recorded
from tollmeter.experiment.limits import FAR_APART, FEW, LEAST_SAMPLES
from tollmeter.experiment.taken import Floats, Taken, ranked
from tollmeter.experiment.timed_visits import NO_GAP, Broken, Numbers, TimedSamples, TimedVisits
from tollmeter.model import Counted

HALVED_IN, LEAST_OF_HALF = 4, 3
"""One pair of samples in HALVED_IN has half of the iterations of the first sample. It has at least 1/LEAST_OF_HALF of
them, since a body runs whole turns."""
LEAST_READINGS = 2000
"""Shortest time of the shorter batch, in costs of a clock reading."""
MOST_LONG = 8.0
LEAST_ITERATIONS = MOST_LONG
"""Highest ratio of the time of a batch to the requested time, and of the requested time to the batch's, for batches of
at least LEAST_ITERATIONS iterations. Calibration repeats below a quarter and above four times, and other workloads
start and stop meanwhile. The same ratio limits the time of an iteration in samples over that in the longest counted
batch: 6 was measured beside other workloads."""
MOST_SAMPLES = 2
"""Highest ratio of the number of samples to the requested number."""
LEAST_STEPS = 50_000
"""Smallest number of clock steps of a batch whose time must differ between samples: a shorter loop may take equal times
on a quiet core. Also the smallest distance of samples, in clock steps, that must differ: equal distances of 14,000
steps of a clock of 24 MHz were observed."""
SAME_LENGTHS = "a sample has as many iterations as the first, or half as many where its number says so"
AS_COUNTED = "a batch takes about as long in samples as while its work is counted"
AS_BEFORE = "a visit has as many iterations as its point's visits before and after it"
AS_LONG = "a batch is about as long as was requested"
SPACED = "the samples of a visit do not begin evenly spaced"
AS_WIDE = "no visit makes far more additions per cycle than the others"
AS_MANY = "a visit has at most twice the samples that were requested"


def lengths_of(taken: Taken) -> Numbers:
    """Returns for each visit the iterations of the body and control in its first sample, whether all samples have the
    required lengths, and the highest width in additions per cycle."""
    first = taken.starts[:-1]
    number = np.arange(len(taken)) - taken.spread(first)
    is_half = number // 2 % HALVED_IN == 1
    has_other_length = np.zeros(len(taken), dtype=bool)
    for name in ("iterations", "control_iterations"):
        length = taken.column(name)
        full_length = taken.spread(length[first])
        has_other_length |= (length != full_length) & ~(
            is_half & (2 * length <= full_length) & (LEAST_OF_HALF * length >= full_length)
        )
    return {
        "body": taken.column("iterations")[first], "control": taken.column("control_iterations")[first],
        "is_regular": taken.of_visits(has_other_length) == 0, "widest": _widest(taken),
    }  # fmt: skip


def _widest(taken: Taken) -> Floats:
    """Returns for each visit its highest width rate over its highest control-loop rate, in additions per cycle. The
    maxima are divided and not the two rates of one moment, since an interrupt may slow only one of them."""
    names = "width_hz", "width_between_hz", "width_before_hz"
    widest_hz = taken.most(np.maximum.reduce([taken.column(name) for name in names]))
    fastest_hz = taken.most(taken.column("control_hz"))
    return np.where(fastest_hz > 0, widest_hz / np.where(fastest_hz > 0, fastest_hz, 1), 0.0)


def as_long(chunk: TimedSamples) -> Broken:
    """Yields the rule on the time of batches, with a mask of the visits that break it, judged by the longest full
    batch. A batch is too long only if the visit halves its batches, so that the runtime could have halved this one. A
    clock with long steps requires longer batches."""
    taken, asked_ns = chunk.taken, chunk.numbers["asked_ns"]
    first, most_asked_ns = taken.starts[:-1], np.maximum(asked_ns, LEAST_READINGS * chunk.numbers["clock_ns"])
    breaks = np.zeros(len(first), dtype=bool)
    for time_of_n, time_of_2n, turns in (
        ("body_n", "body_2n", "iterations"), ("control_n", "control_2n", "control_iterations"),
    ):  # fmt: skip
        length, times = taken.column(turns), taken.column(time_of_n)
        is_full = (length == taken.spread(length[first])) & (times >= 0)
        # A page fault in one batch may map the pages of the others, so the longer of both times is used.
        longest_ns = np.fmax.reduceat(np.where(is_full, np.maximum(times, taken.column(time_of_2n) / 2), np.nan), first)
        shortest_ns = np.fmin.reduceat(np.where(is_full, times, np.nan), first)
        can_halve = taken.of_visits(length < taken.spread(length[first])) > 0
        # The control is not judged: it may have the iterations of a body that takes far longer.
        is_short = (MOST_LONG * longest_ns < asked_ns) & (time_of_n == "body_n")
        breaks |= (length[first] >= LEAST_ITERATIONS) & (
            is_short | (can_halve & (shortest_ns > MOST_LONG * most_asked_ns))
        )
    yield AS_LONG, breaks & (asked_ns > 0)


def as_many(_: Recorded, timed: TimedVisits) -> Places:
    """Yields visits with more than twice the requested samples, or with far more additions per cycle than others. Fewer
    samples are permitted, beside a busy sibling or at the end of the time of a visit. The width of the uncontended core
    is the 90th percentile over the visits."""
    most_samples, widest = MOST_SAMPLES * timed.numbers["asked"], timed.numbers["widest"]
    yield from timed.where((most_samples > 0) & (most_samples < timed.numbers["samples"]), AS_MANY)
    known = np.sort(widest[widest > 0])
    full_width = known[int((1 - FEW) * (len(known) - 1))] if len(known) else np.inf
    yield from timed.where(widest > (1 + FAR_APART) * full_width, AS_WIDE)


def as_before(recorded: Recorded, timed: TimedVisits) -> Places:
    """Yields visits whose iterations differ from those of the visits before and after, although these two agree: a new
    calibration would not return to the same number. Also yields first visits whose counted batches are neither as long
    as their samples nor twice as long. Two visits of one layout that a bundle requests at once are exempt, since both
    get the same iterations."""
    order = np.argsort(timed.points, kind="stable")
    differs = np.zeros(len(order), dtype=bool)
    seeds = np.array([recorded.outcomes[place].seed for place in timed.places[order].tolist()], np.uint64)
    is_comparable = timed.points[order][2:] == timed.points[order][:-2]
    is_comparable &= (seeds[1:-1] != seeds[2:]) | (seeds[1:-1] == seeds[:-2])
    for name in ("body", "control"):
        turns = timed.numbers[name][order]
        differs[order[1:-1]] |= is_comparable & (turns[:-2] == turns[2:]) & (turns[2:] != turns[1:-1])
    yield from timed.where(differs, AS_BEFORE)
    for place, counts, values in _with_ladder(recorded, timed):
        if counts.ladder[0][0] not in (values["body"], 2 * values["body"]):
            yield place, "the longest batch that was timed while work was counted is as long as the samples"


def as_counted(recorded: Recorded, timed: TimedVisits) -> Places:
    """Yields visits whose iterations take far longer or shorter in samples than in the batches whose work was
    counted."""
    for place, counts, values in _with_ladder(recorded, timed):
        if min(counts.ladder[0]) > 0 and len(counts.ladder[0]) > 1 and values["each_ns"] > 0:
            counted_ns = 2 * min(counts.ladder[0][1:]) / counts.ladder[0][0]
            if not values["each_ns"] <= MOST_LONG * counted_ns <= MOST_LONG**2 * values["each_ns"]:
                yield place, AS_COUNTED


def _with_ladder(recorded: Recorded, timed: TimedVisits) -> Iterator[tuple[int, Counted, Mapping[str, float]]]:
    """Yields the index of each visit whose batches were timed while work was counted, with its counts, and with the
    iterations and shortest time of its samples by name."""
    table = recorded.table
    counted = table.of_kinds((visit.counted is not None for visit in table.firsts), np.bool_)[timed.places]
    for at in np.flatnonzero(counted).tolist():
        place = int(timed.places[at])
        counts = recorded.outcomes[place].counted
        if counts and counts.ladder and counts.ladder[0]:
            yield place, counts, {name: float(timed.numbers[name][at]) for name in ("body", "each_ns")}


def irregular(_: Recorded, timed: TimedVisits) -> Places:
    """Yields visits with an irregular pattern of sample lengths. If most visits have one, another runtime wrote the
    journal, and none is judged."""
    is_irregular = ~timed.numbers["is_regular"]
    return timed.where(is_irregular & (2 * np.count_nonzero(is_irregular) < len(is_irregular)), SAME_LENGTHS)


def spaced(chunk: TimedSamples) -> Broken:
    """Yields the rule on the start times of samples, with a mask of the visits that break it: half of the distances
    between their samples repeat exactly, although each distance is many clock steps. Batches alone may take equal times
    on a quiet core."""
    taken, has_next = chunk.taken, chunk.gap_ns != NO_GAP
    owner = np.repeat(np.arange(len(taken.counts)), taken.counts)
    least_gap_ns = LEAST_STEPS * taken.spread(chunk.numbers["step_ns"])
    is_fine = (taken.counts >= LEAST_SAMPLES) & (taken.of_visits(has_next & (chunk.gap_ns < least_gap_ns)) == 0)
    is_judged = has_next & taken.spread(is_fine)
    gaps, starts = ranked(chunk.gap_ns[is_judged].astype(np.float64), owner[is_judged], len(taken.counts))
    visit_of_gap = np.repeat(np.arange(len(taken.counts)), np.diff(starts))
    repeats = np.bincount(
        visit_of_gap[1:][(np.diff(gaps) == 0) & (np.diff(visit_of_gap) == 0)], minlength=len(taken.counts)
    )
    yield SPACED, is_fine & (2 * repeats >= taken.counts - 1)
