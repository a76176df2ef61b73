# SPDX-License-Identifier: Apache-2.0
"""Makes rows from outcomes: one row for each metric at each point.

* If any visit of a point gave a wrong answer, no row of the point has a number: each visit may have measured wrongly.
* If some visits failed and others completed, the number is made from the completed ones, and the reason of the row
  names the failure.
* If no visit completed, the row has the status and the reason of the gravest failure.
* A number that breaks a rule of physics is refused: the row has the status `unstable`, the rule as its reason, and no
  value."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec
import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.core import ClockEvidence, follows_clock, own_ratio
from tollmeter.experiment.evidence import missing_evidence, sleeping
from tollmeter.experiment.limits import HARDLY, LEAST_VISITS
from tollmeter.experiment.precision import common_scatter
from tollmeter.experiment.taken import MANY_VISITS, chunks
from tollmeter.model import (
    PRECISION,
    REAL_CLOCKS,
    Failure,
    Metric,
    Outcome,
    PlaceRelation,
    Point,
    Probe,
    Row,
    StateName,
    Status,
    Topology,
    Value,
)
from tollmeter.model.topology import RELATIONS, farthest
from tollmeter.numbers.counted import contradicted, remarks
from tollmeter.numbers.events import event_rates, without_silent
from tollmeter.numbers.known import Known, Learned, machine_known, nothing_made
from tollmeter.numbers.meanings import CPU_TIME
from tollmeter.numbers.plausible import without_implausible
from tollmeter.numbers.readings import Reading
from tollmeter.numbers.row_of import PointReadings, bare, gauge_row, row_of
from tollmeter.numbers.series import Series
from tollmeter.numbers.units import in_percent

GRAVEST_FIRST: tuple[Status, ...] = (
    "wrong_answer", "failed", "timeout", "infrastructure", "interrupted", "unsupported", "unstable",
)  # fmt: skip

_SERVED = (
    f"more than {in_percent(HARDLY)} of its time may be the loader's, which serves system calls of {{}}: "
    "its own time needs a kernel that knows this ABI"
)
_NOT_COUNTED = (
    "the probe times this value itself, and the time of {} system calls, which a loader serves on this kernel, cannot "
    "be separated from it"
)
_SCATTER_VISITS = MANY_VISITS
"""Number of visits from which the scatter of a probe is estimated if it has more."""

Logs = tuple[Array, Sequence[int]]
Key = tuple[str, str, str, str, tuple[tuple[str, Value], ...]]


def rows(outcomes: Sequence[Outcome], probes: Mapping[str, Probe], known: Known | None = None) -> tuple[Row, ...]:
    """Returns all rows, ordered by probe, parameters (numbers as numbers), target, ABI, and the order of the metrics in
    the probe.

    known: knowledge from all outcomes together; computed here by default. Raises Failure (5) for a visit of a probe
    that has no description."""
    groups = by_point(outcomes)
    for group in groups:
        if group[0].point.probe not in probes:
            raise Failure(f"there are visits of {group[0].point.probe} but there is no description of it", 5)
    ground = known or known_of(outcomes, probes)
    of_points = [row for group in groups for row in rows_of_point(group, probes[group[0].point.probe], ground)]
    return rows_of_points(of_points, outcomes, probes, ground)


def rows_of_points(
    made: Sequence[Row], outcomes: Sequence[Outcome], probes: Mapping[str, Probe], known: Known
) -> tuple[Row, ...]:
    """Returns the rows of all points, without numbers that contradict each other or physics. made: rows as computed
    point by point."""
    return without_implausible(
        without_silent(made), probes, known.clocks_hz, max((len(outcome.cpus) for outcome in outcomes), default=1) or 1
    )


def with_choices(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> tuple[Row, ...]:
    """Returns the rows, each with the parameter values that its probe chose in at least a quarter of the visits."""
    chosen: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for outcome in outcomes:
        for name, choice in outcome.chosen.items() if outcome.status == "ok" else ():
            chosen[_named(outcome.point)][name][choice] += 1
    chosen_words = {
        point: {
            name: " or ".join(sorted(choice for choice, count in choices.items() if 4 * count >= choices.total()))
            for name, choices in names.items()
        }
        for point, names in chosen.items()
    }
    return tuple(
        msgspec.structs.replace(row, chosen=chosen_words[_named(row)]) if _named(row) in chosen_words else row
        for row in rows
    )


def with_relations(rows: Sequence[Row], outcomes: Sequence[Outcome], topology: Topology | None) -> tuple[Row, ...]:
    """Returns the rows; each row of several workers has the relation of their CPUs. If a point was visited on pairs of
    several relations, it has the farthest one."""
    if topology is None:
        return tuple(rows)
    relations: dict[str, list[PlaceRelation]] = defaultdict(list)
    placed = {(outcome.point, outcome.workers) for outcome in outcomes if outcome.status == "ok" and outcome.workers}
    for point, workers in placed:
        if far := farthest(topology, workers):
            relations[_named(point)].append(far)
    return tuple(
        msgspec.structs.replace(row, relation=max(relations_of_row, key=RELATIONS.index)) if relations_of_row else row
        for row, relations_of_row in ((row, relations.get(_named(row), ())) for row in rows)
    )


def _named(point: Row | Point) -> str:
    """Returns the identity of a point as text."""
    return f"{point.probe} {point.abi} {point.target} {sorted(dict(point.parameters).items())}"


def in_parts(
    outcomes: Sequence[Outcome], probes: Mapping[str, Probe], known: Known
) -> Iterator[tuple[list[list[Outcome]], Known]]:
    """Yields the points of all probes, in chunks of one probe, with the knowledge of the scatter of this probe. Unlike
    `known_of`, which keeps the columns of all visits in memory, it keeps them only until the next chunk."""
    cache = nothing_made()
    known = known._replace(made=cache)
    for _, groups in groupby(by_point(outcomes), key=lambda group: group[0].point.probe):
        chunks_of_probe = [*_together(groups)]
        groups_for_scatter = chunks_of_probe[0]
        if len(chunks_of_probe) > 1:
            # The first visits of each point suffice to estimate the common scatter.
            visits_each = max(LEAST_VISITS, _SCATTER_VISITS // sum(map(len, chunks_of_probe)))
            groups_for_scatter = [group[:visits_each] for points in chunks_of_probe for group in points]
        _read(known, groups_for_scatter, probes)
        with_scatter = _with_scatter(known, groups_for_scatter, probes)
        for points in chunks_of_probe:
            if points is not groups_for_scatter:
                cache.clear()
                _read(known, points, probes)
            yield points, with_scatter
        cache.clear()


def _together(groups: Iterable[list[Outcome]]) -> Iterator[list[list[Outcome]]]:
    """Yields the groups in chunks of at most MANY_VISITS visits."""
    chunk: list[list[Outcome]] = []
    for group in groups:
        if chunk and sum(map(len, chunk)) + len(group) > MANY_VISITS:
            yield chunk
            chunk = []
        chunk.append(group)
    yield chunk


def known_of(
    outcomes: Sequence[Outcome],
    probes: Mapping[str, Probe],
    learned: Learned = Learned(),
    precision: float = PRECISION,
    before: Known = Known(),
) -> Known:
    """Returns the knowledge of scatter and clocks from all outcomes of a run. The scatter of a probe is taken over all
    its timed points. before: the result for fewer outcomes, whose readings are reused if the clocks and widths of the
    machine are unchanged. precision: requested half-width, as a share."""
    known = machine_known(outcomes, learned, precision)
    known = before if before.is_of_like_machine(known) else known
    groups = by_point(outcomes)
    _read(known, groups, probes)
    return _with_scatter(known, groups, probes)


def _read(known: Known, groups: Sequence[Sequence[Outcome]], probes: Mapping[str, Probe]) -> None:
    """Reads visits in the order of the journal, which is also their order in memory."""
    in_order = sorted(
        (outcome for group in groups for outcome in group if outcome.status == "ok"), key=attrgetter("visit")
    )
    for part in chunks(known.unread(in_order)):
        known.read(part, [probes[outcome.point.probe] for outcome in part])


def _with_scatter(known: Known, groups: Iterable[Sequence[Outcome]], probes: Mapping[str, Probe]) -> Known:
    """Returns the knowledge with two additions: which costs follow the core clock, and the scatter of each metric of a
    probe over its timed points, by state."""
    # For each point its cost, its evidence, and its values at the clock and as read.
    timed: dict[tuple[str, str, str], list[tuple[float, float, tuple[Series, Series]]]] = defaultdict(list)
    for group in groups:
        point, probe = group[0].point, probes[group[0].point.probe]
        readings = _readings(group, probe, known)
        paid = known.overheads(readings)
        for metric in probe.metrics:
            series = known.series(readings, metric, paid) if metric.source != "gauge" else None
            if series and min(series.all.costs.min(), series.headline()[1].costs.min()) > 0:
                views = series, series.as_read()
                timed[point.probe, metric.name, point.target].append((series.cost(), series.evidence, views))
    logs: dict[tuple[str, str, StateName | None], list[Logs]] = defaultdict(list)
    evidence = dict[tuple[str, str, str], ClockEvidence]()
    for name, points in timed.items():
        evidence[name] = of_metric = ClockEvidence(
            [cost for cost, _, _ in points], [evidence_of_point for _, evidence_of_point, _ in points]
        )
        for cost, _, views in points:
            for state, part in views[0 if follows_clock(cost, of_metric) else 1].by_state().items():
                if part.costs.min() > 0:
                    logs[*name[:2], state].append((np.log(part.costs), part.layouts))
    scatter = {name: common_scatter(series) for name, series in logs.items()}
    return known._replace(scatter=scatter, evidence=evidence)


def row_key(row: Row) -> Key:
    """Returns the identity of a row across runs: probe, ABI, target, metric, and parameters in the order of their
    names."""
    return row.probe, row.abi, row.target, row.metric, tuple(sorted(row.parameters.items()))


def by_point(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Returns the outcomes grouped by point, with points and visits in a fixed order."""
    groups: dict[Point, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point, []).append(outcome)
    ordered = sorted(groups.items(), key=lambda item: _place(item[0]))
    return [sorted(group, key=lambda outcome: outcome.visit) for _, group in ordered]


def rows_of_point(outcomes: Sequence[Outcome], probe: Probe, known: Known = Known()) -> list[Row]:
    """Returns the rows of one point, one for each metric. outcomes: all visits of the point, at least one."""
    visited = usable_visits(outcomes, probe, known)
    if not isinstance(visited, PointReadings):
        return [bare(outcomes[0], probe, metric, *visited) for metric in probe.metrics]
    served = max((read.outcome.served for read in visited.readings if read.outcome.served is not None), default=None)
    rows = [_row(visited, metric, known, served) for metric in probe.metrics]
    kept = [read.outcome for read in visited.readings]
    rates = [event_rates(kept, metric) for metric in probe.metrics]
    rows = [
        msgspec.structs.replace(row, counters=counters) if counters and row.status == "ok" else row
        for row, counters in zip(rows, rates, strict=True)
    ]
    ratio = own_ratio([outcome for outcome in outcomes if outcome.status == "ok"])
    rows = [msgspec.structs.replace(row, own_ratio=ratio.value) for row in rows] if ratio else rows
    missing_kinds = {
        kind for visited in outcomes if visited.status == "ok" for kind in missing_evidence(visited, probe)
    }
    return [_without_evidence(row, missing_kinds) for row in rows] if missing_kinds else rows


def _row(visited: PointReadings, metric: Metric, known: Known, served: float | None) -> Row:
    """Returns the row of one metric. served: share of the timed batches for which a loader served system calls in the
    kernel's place; None without a loader."""
    is_gauge, first = metric.source == "gauge", visited.readings[0].outcome
    if served is not None and (not is_gauge or metric.unit == "ns"):
        if served > HARDLY:
            return bare(first, visited.probe, metric, "unsupported", _SERVED.format(first.point.abi))
        if is_gauge and metric.means != CPU_TIME:
            return bare(first, visited.probe, metric, "unsupported", _NOT_COUNTED.format(first.point.abi))
    return gauge_row(visited, metric, known) if is_gauge else row_of(visited, metric, known)


def usable_visits(outcomes: Sequence[Outcome], probe: Probe, known: Known) -> PointReadings | tuple[Status, str]:
    """Returns the usable visits of one point; or, if it can have no number, the status and reason of all its rows."""
    name = "usable visits", outcomes[0].point
    return known.once(name, outcomes, lambda: _usable_visits(outcomes, probe, known))


def _usable_visits(outcomes: Sequence[Outcome], probe: Probe, known: Known) -> PointReadings | tuple[Status, str]:
    """Returns the usable visits of one point, without the cache."""
    completed = [outcome for outcome in outcomes if outcome.status == "ok"]
    if len({outcome.clock.kind for outcome in completed}) > 1:
        return "unstable", "its visits were timed by clocks of different kinds"
    missing = [outcome for outcome in outcomes if outcome.status != "ok"]
    is_wrong = any(outcome.status == "wrong_answer" for outcome in missing)
    # A count is valid even if the times of its visit are withheld, since it is not inferred from them.
    if not is_wrong and (why := contradicted(outcomes, probe)):
        return "unstable", why
    if not completed or is_wrong:
        gravest = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
        return gravest.status, gravest.reason or f"{gravest.status}, without a reason"
    readings = _readings(completed, probe, known)
    if sleep_reason := sleeping(completed, probe, np.concatenate([read.waited for read in readings])):
        return "unstable", sleep_reason
    notes = []
    if completed[0].clock.kind in REAL_CLOCKS:
        notes += remarks(outcomes, probe, counts=known.counts)
    if any(outcome.counted and outcome.counted.hugetlb_bytes for outcome in completed):
        # Explicit huge pages replace transparent ones if the system gave too few of these.
        notes.append("its huge pages are explicit ones (hugetlb)")
    if missing:
        worst = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
        notes.append(f"{len(missing)} of {len(outcomes)} visits gave nothing: {worst.reason or worst.status}")
    return PointReadings(probe, readings, known.overheads(readings), "; ".join(notes) or None)


def _without_evidence(row: Row, lacks: Iterable[str]) -> Row:
    """Returns the row with state `unknown`, and an interval that covers at least the middle half of its batches:
    without evidence, any half of the batches may have been disturbed. lacks: names of the missing evidence."""
    if row.status != "ok" or row.low is None or row.high is None:
        return row
    low, high = min(row.low, *row.quartiles, row.high), max(row.high, *row.quartiles, row.low)
    lacking = f"no evidence of {' or '.join(sorted(lacks))}"
    reason = "; ".join(text for text in (row.reason, lacking) if text)
    wide = {"low": low, "high": high, "state": "unknown", "states": (), "converged": False}
    return msgspec.structs.replace(row, reason=reason, **wide)


def _readings(outcomes: Sequence[Outcome], probe: Probe, known: Known) -> list[Reading]:
    """Returns the readings of the completed visits of one point."""
    return known.readings([outcome for outcome in outcomes if outcome.status == "ok"], probe)


def _place(point: Point) -> tuple[object, ...]:
    """Returns the sort key of a point: numbers sort before words, as numbers."""
    numbers_first = tuple((name, isinstance(value, str), value) for name, value in sorted(point.parameters))
    return point.probe, numbers_first, point.target, point.abi
