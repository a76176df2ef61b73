# SPDX-License-Identifier: Apache-2.0
"""Rules that all visits of a point obey, as a table of columns. One executable makes these visits on one machine, so a
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
    """Returns visits that differ from the other visits of their point. sessions: session of each visit, since
    permissions of a process can change between sessions. Reused visits are of another run, which may have had longer
    batches."""
    if recorded.asked.reused:
        return
    table = recorded.table
    groups = defaultdict[Hashable, list[tuple[Outcome, int, int, int]]](list)
    is_ok = table.of_kinds((visit.status == "ok" for visit in table.firsts), np.bool_)
    usable = np.flatnonzero(is_ok & (table.samples > 0))
    several, firsts, counts = np.unique(
        np.stack([sessions[usable], table.kinds[usable]]), axis=1, return_index=True, return_counts=True
    )
    for one in np.argsort(firsts).tolist():
        session, kind = several[:, one].tolist()
        visit = table.firsts[kind]
        groups[session, visit.point].append((visit, session, kind, int(counts[one])))
    for group in groups.values():
        for session, kind, says in _odd(group) if sum(count for *_, count in group) >= LEAST_VISITS else ():
            odd = np.flatnonzero((table.kinds == kind) & (sessions == session))
            yield from ((place, says) for place in odd.tolist())


def _odd(group: Sequence[tuple[Outcome, int, int, int]]) -> Iterator[tuple[int, int, str]]:
    """Yields kinds of visits that differ from most visits of their point: each kind's visit, session, number, and
    count."""
    for name, of in ALIKE.items():
        values = Counter[Hashable]()
        for visit, _, _, count in group:
            values[of(visit)] += count
        usual, count = values.most_common(1)[0]
        if 2 * count > values.total():
            says = f"all visits of a point have the same {name}"
            yield from ((session, kind, says) for visit, session, kind, _ in group if of(visit) != usual)
