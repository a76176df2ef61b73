# SPDX-License-Identifier: Apache-2.0
"""What all visits of a point have alike, as a table of columns: one executable makes them on one machine, so that a
visit whose column differs from most of the others was not made as they were. Points of one probe may differ: pairs of
many CPUs have short batches, and a matrix has points of one CPU and of two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from tollmeter.experiment.described import Places, Recorded
from tollmeter.model import Outcome, Samples

LEAST_UNIFORM = 3
"""Visits of a group, of which most agree."""


class Facet(NamedTuple):
    """says: the sentence that a visit breaks which differs."""

    says: str
    of: Callable[[Outcome], Hashable]


def _counts(visit: Outcome) -> Hashable:
    return visit.events and (visit.events.by, visit.events.kernel, tuple(visit.events.body))


def _lanes(visit: Outcome) -> Hashable:
    samples = Samples.of(visit.samples)
    return len(visit.samples[0].lanes) if samples.columns.has_lanes else 0


OF_POINT: Sequence[Facet] = (
    Facet("whether workers are pinned, and to how many CPUs, is the same in all visits of a point",
           lambda visit: (visit.pinned, len(visit.cpus))),
    Facet("a point's visits have one priority", lambda visit: visit.priority),
    Facet("a visit has a layout where the point's others have", lambda visit: visit.seed > 0),
    Facet("a point's visits time batches of one length", lambda visit: visit.asked_ns),
    Facet("the control loop runs before a visit and after it", lambda visit: min(2, len(visit.controls))),
    Facet("a point's visits have as many workers", lambda visit: (len(visit.workers), _lanes(visit))),
    Facet("a point's visits choose the same parameters", lambda visit: tuple(sorted(visit.chosen))),
    Facet("a point's visits report the same values", lambda visit: tuple(sorted(visit.gauges))),
    Facet("a point's visits count the same events", _counts),
)  # fmt: skip


def uniform(recorded: Recorded, sessions: Sequence[int]) -> Places:
    """sessions: in which each visit was made: what a process may do can change between two. Visits that are used again
    are of another run, which may have had longer batches."""
    if recorded.asked.reused:
        return
    groups = defaultdict[Hashable, list[int]](list)
    for place, visit in enumerate(recorded.outcomes):
        if visit.status == "ok" and len(visit.samples):
            groups[sessions[place], visit.point].append(place)
    for places in groups.values():
        if len(places) >= LEAST_UNIFORM:
            yield from _odd(recorded.outcomes, places)


def _odd(outcomes: Sequence[Outcome], places: Sequence[int]) -> Places:
    for says, of in OF_POINT:
        values = [of(outcomes[place]) for place in places]
        if values.count(values[0]) < len(values):
            ((usual, count),) = Counter(values).most_common(1)
            odd = [place for place, value in zip(places, values, strict=True) if value != usual]
            if 2 * count > len(values):
                yield from ((place, says) for place in odd)
