# SPDX-License-Identifier: Apache-2.0
"""Computes a few numbers for each visit that Linux's clock timed on this machine from its samples. Rules about the
whole run use these numbers and do not read the samples again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.taken import Counts, Floats, Mask, Taken, chunks
from tollmeter.experiment.visit_table import LONGEST_NS, VisitTable
from tollmeter.model import Outcome, Point, Probe

Numbers = Mapping[str, NDArray[Any]]
NO_GAP = np.iinfo(np.int64).max
"""Value of gap_ns after the last sample of a visit."""

NOT_DESCRIBED = 2
"""Value of `has_control` of a visit whose probe the run does not describe."""


class TimedVisits(NamedTuple):
    """The timed visits. places: their indices in the run. points: number of the point of each visit. numbers: columns
    with one value for each visit. broken: for each rule the indices of the visits whose samples break it. again:
    indices of visits that repeat times of another visit."""

    places: Counts
    points: NDArray[np.int32]
    numbers: Numbers
    broken: Mapping[str, Sequence[int]]
    again: Counts = np.empty(0, np.int64)

    def where(self, mask: Mask, why: str) -> Iterator[tuple[int, str]]:
        """Yields the index of each visit that the mask selects, with the broken rule."""
        return ((place, why) for place in self.places[mask].tolist())


class TimedSamples(NamedTuple):
    """The samples of some timed visits. numbers: columns with the numbers of each visit that need no samples. at_ns:
    start of each sample. gap_ns: time until the next sample begins. timed_ns: time of the batches of each sample."""

    visits: Sequence[Outcome]
    numbers: Numbers
    taken: Taken
    at_ns: Counts
    gap_ns: Counts
    timed_ns: Floats


Broken = Iterable[tuple[str, Mask]]
SampleRule = Callable[[TimedSamples], Broken]


def timed_visits(
    table: VisitTable, stated: Numbers, numbers: Callable[[TimedSamples], Numbers], rules: Sequence[SampleRule]
) -> TimedVisits:
    """Returns the timed visits, whose samples are read in chunks. stated: numbers of each visit that need no samples.
    numbers: computes the other numbers of a chunk. rules: each yields the visits of a chunk that break it."""
    places = table.timed
    computed, broken = dict[str, NDArray[Any]](), dict[str, list[int]]()
    for indices in chunks(range(len(places))):
        part = slice(indices[0], indices[-1] + 1)
        chunk = _samples(table.outcomes, places[part].tolist(), {name: column[part] for name, column in stated.items()})
        for name, column in numbers(chunk).items():
            computed.setdefault(name, np.empty(len(places), column.dtype))[part] = column
        for why, mask in (one for rule in rules for one in rule(chunk)):
            broken.setdefault(why, []).extend(places[part][mask].tolist() if mask.any() else ())
    return TimedVisits(places, table.points[places], {**stated, **computed}, broken)


def _samples(outcomes: Sequence[Outcome], places: Sequence[int], stated: Numbers) -> TimedSamples:
    """Returns the samples of the visits at these indices. stated: their numbers that need no samples."""
    visits = [outcomes[place] for place in places]
    taken = Taken([visit.samples for visit in visits])
    at_ns = taken.whole(("at_ns",))["at_ns"].astype(np.int64)
    gap_ns = np.append(np.diff(at_ns), NO_GAP)
    gap_ns[taken.starts[1:] - 1] = NO_GAP
    return TimedSamples(visits, stated, taken, at_ns, gap_ns, taken.timed_ns())


def numbers_without_samples(table: VisitTable, probes: Mapping[str, Probe], needs: Mapping[Point, float]) -> Numbers:
    """Returns the numbers of each timed visit that need no samples. needs: fewest cycles of an iteration of each point.

    is_plain: the probe times everything and has no companion, so that the time between batches is equal in all its
    samples. is_alone: its worker waits for nothing. has_control: NOT_DESCRIBED if unknown."""
    places = table.timed
    described = [probes.get(point.probe) for point in table.of_points]
    of_points: dict[str, Iterable[int]] = {
        "is_plain": (probe is not None and probe.pauses is False and not probe.roles for probe in described),
        "is_alone": (probe is not None and not (probe.roles or probe.switches or probe.spreads) for probe in described),
        "has_control": (NOT_DESCRIBED if probe is None else probe.control for probe in described),
    }
    of_kinds: dict[str, Iterable[float]] = {
        "cpus": (max(1, len(visit.cpus)) for visit in table.firsts),
        "asked_ns": (visit.asked_ns for visit in table.firsts),
        "has_layout": (visit.seed > 0 for visit in table.firsts),
    }
    return {
        "rate": table.rates[places], "second_rate": table.column(_second_rate, np.float64)[places],
        "began_ns": table.at_ns[places], "samples": table.samples[places],
        "clock_ns": np.maximum(table.resolution_ns, table.cost_ns)[places],
        "asked": table.column(lambda visit: min(visit.asked_samples, LONGEST_NS), np.int64)[places],
        "waited_ns": table.column(lambda visit: min(visit.waited_ns, LONGEST_NS), np.int64)[places],
        "counted_ns": table.column(lambda visit: min(visit.counted_ns, LONGEST_NS // 2), np.int64)[places],
        "has_waited": table.column(lambda visit: visit.waited_ns > 0, np.bool_)[places],
        "need": np.array([needs.get(point, 0.0) for point in table.of_points], np.float64)[table.points[places]],
        **{name: np.array([*values], np.int8)[table.points[places]] for name, values in of_points.items()},
        **{name: table.of_kinds(values, np.float64)[places] for name, values in of_kinds.items()},
    }  # fmt: skip


def _second_rate(visit: Outcome) -> float:
    """Returns the second highest control-loop rate around a visit; 0 without one."""
    return sorted((0.0, 0.0, *visit.controls))[-2]
