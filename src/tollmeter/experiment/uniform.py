# SPDX-License-Identifier: Apache-2.0
"""Compares visits of one point in properties that all of them share, since one executable makes them on one machine. A
visit whose value differs from that of most visits is suspect. Points of one probe may differ: pairs of many CPUs have
short batches, and a matrix has points of one CPU and of two."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import numpy as np

from tollmeter.experiment.described import Places, Recorded
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.taken import Counts
from tollmeter.experiment.visit_table import companions
from tollmeter.model import Outcome

ALIKE: Mapping[str, Callable[[Outcome], Hashable]] = {
    "pinning and number of CPUs": lambda visit: (visit.pinned, len(visit.cpus)),
    "priority": lambda visit: visit.priority,
    "requested length of batches": lambda visit: visit.asked_ns,
    "number of workers": lambda visit: (len(visit.workers), companions(visit)),
    "chosen parameters": lambda visit: tuple(sorted(visit.chosen)),
    "reported values": lambda visit: tuple(sorted(visit.gauges)),
}


def uniform(recorded: Recorded, sessions: Counts) -> Places:
    """Yields visits that differ from most visits of their point in their session. sessions: session of each visit;
    permissions of a process can change between sessions. A run with reused visits is not examined, since these may have
    had longer batches."""
    if recorded.asked.reused:
        return
    table = recorded.table
    groups = defaultdict[Hashable, list[tuple[Outcome, int, int, int]]](list)
    is_ok = table.of_kinds((visit.status == "ok" for visit in table.firsts), np.bool_)
    usable = np.flatnonzero(is_ok & (table.samples > 0))
    kinds_of_sessions, firsts, counts = np.unique(
        np.stack([sessions[usable], table.kinds[usable]]), axis=1, return_index=True, return_counts=True
    )
    for column in np.argsort(firsts).tolist():
        session, kind = kinds_of_sessions[:, column].tolist()
        visit = table.firsts[kind]
        groups[session, visit.point].append((visit, session, kind, int(counts[column])))
    for group in groups.values():
        for session, kind, rule in _odd(group) if sum(count for *_, count in group) >= LEAST_VISITS else ():
            places = np.flatnonzero((table.kinds == kind) & (sessions == session))
            yield from ((place, rule) for place in places.tolist())


def _odd(group: Sequence[tuple[Outcome, int, int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yields the session and kind of visits that differ from most visits of their point, with the rule. group: one
    visit of each kind, its session, the number of its kind, and the number of such visits."""
    for name, property_of in ALIKE.items():
        values = Counter[Hashable]()
        for visit, _, _, count in group:
            values[property_of(visit)] += count
        most_frequent, count = values.most_common(1)[0]
        if 2 * count > values.total():
            rule = f"all visits of a point have the same {name}"
            yield from (
                (session, kind, rule) for visit, session, kind, _ in group if property_of(visit) != most_frequent
            )
