# SPDX-License-Identifier: Apache-2.0
"""Outcomes into rows: one row for each metric at each point.

* A wrong answer in any visit of a point takes the number from all of its rows: what computes wrongly once may have
  measured wrongly each time.
* Where some visits of a point came back and others did not, the number is made of those that did, and the row's
  reason names what is missing.
* Where none came back, the row has the status of the gravest visit and its reason.
* A number that breaks physics is refused: status `unstable`, the broken rule as reason, no value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tollmeter.analysis.gauges import gauge_row
from tollmeter.analysis.known import Known, Learned, machine_known
from tollmeter.analysis.plausible import judged
from tollmeter.analysis.readings import Reading, overheads, reading
from tollmeter.analysis.row_of import Told, bare, row_of
from tollmeter.analysis.series import series_of
from tollmeter.experiment.batches import Array
from tollmeter.experiment.precision import PRECISION, USUAL_RUNS_SD, common_scatter
from tollmeter.model import Failure, Outcome, Point, Probe, Row, Status, Value

GRAVEST_FIRST: tuple[Status, ...] = (
    "wrong_answer", "failed", "timeout", "infrastructure", "interrupted", "unsupported", "unstable",
)  # fmt: skip

Key = tuple[str, str, str, str, tuple[tuple[str, Value], ...]]


def rows(
    outcomes: Sequence[Outcome], probes: Mapping[str, Probe], learned: Learned = Learned(), precision: float = PRECISION
) -> tuple[Row, ...]:
    """All rows, ordered by probe, parameters (numbers as numbers), target, ABI, and the probe's order of metrics.

    Raises Failure (5) for a visit of a probe that has no description.
    """
    groups = by_point(outcomes)
    for group in groups:
        if group[0].point.probe not in probes:
            raise Failure(f"there are visits of {group[0].point.probe} but no description of it", 5)
    known = known_of(outcomes, probes, learned, precision)
    made = [row for group in groups for row in rows_of_point(group, probes[group[0].point.probe], known)]
    return judged(made, probes, known.clocks_hz)


def known_of(
    outcomes: Sequence[Outcome], probes: Mapping[str, Probe], learned: Learned = Learned(), precision: float = PRECISION
) -> Known:
    """From all outcomes of a run. How the points of a probe scatter is taken over all that is timed of it."""
    known = machine_known(outcomes, learned, precision)
    found: dict[str, list[tuple[Array, Sequence[int]]]] = defaultdict(list)
    for group in by_point(outcomes):
        probe = probes[group[0].point.probe]
        found[probe.probe] += _logs_of_visits(_readings(group, probe, known), probe, known)
    runs_sd = {name: learned.runs_sd.get(name, USUAL_RUNS_SD) for name in found}
    return known._replace(scatter={name: common_scatter(series, runs_sd[name]) for name, series in found.items()})


def _logs_of_visits(readings: Sequence[Reading], probe: Probe, known: Known) -> list[tuple[Array, Sequence[int]]]:
    paid = overheads(readings)
    told: list[tuple[Array, Sequence[int]]] = []
    for metric in probe.metrics:
        timed = metric.source in ("body", "companions", "together")
        series = series_of(readings, metric, paid, known.clocks_hz) if timed else None
        part = series.headline()[1] if series else None
        if part and min(part.medians) > 0:
            told.append((np.log(part.medians), part.layouts))
    return told


def row_key(row: Row) -> Key:
    """What a row stands for, whichever run it is from: probe, ABI, target, metric, parameters by name."""
    return row.probe, row.abi, row.target, row.metric, tuple(sorted(row.parameters.items()))


def by_point(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Outcomes of one point together, points and the visits of each in a fixed order."""
    groups: dict[Point, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point, []).append(outcome)
    ordered = sorted(groups.items(), key=lambda item: _place(item[0]))
    return [sorted(group, key=lambda outcome: outcome.visit) for _, group in ordered]


def rows_of_point(outcomes: Sequence[Outcome], probe: Probe, known: Known = Known()) -> list[Row]:
    """The rows of one point, one for each metric; outcomes are all of that point and at least one."""
    good = [outcome for outcome in outcomes if outcome.status == "ok"]
    if len({outcome.clock.kind for outcome in good}) > 1:
        return _refused(outcomes, probe, "unstable", "its visits were timed by clocks of different kinds")
    missing = [outcome for outcome in outcomes if outcome.status != "ok"]
    if not good or any(outcome.status == "wrong_answer" for outcome in missing):
        gravest = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
        return _refused(outcomes, probe, gravest.status, gravest.reason or f"{gravest.status}, without a reason")
    readings = _readings(good, probe, known)
    told = Told(probe, readings, overheads(readings), _missing_note(outcomes, missing))
    return [
        gauge_row(told, metric, known) if metric.source == "gauge" else row_of(told, metric, known)
        for metric in probe.metrics
    ]


def _readings(outcomes: Sequence[Outcome], probe: Probe, known: Known) -> list[Reading]:
    good = [outcome for outcome in outcomes if outcome.status == "ok"]
    return [reading(told, probe, known.widths.get((told.point.target, told.point.abi))) for told in good]


def _place(point: Point) -> tuple[object, ...]:
    numbers_first = tuple((name, isinstance(value, str), value) for name, value in sorted(point.parameters))
    return point.probe, numbers_first, point.target, point.abi


def _missing_note(outcomes: Sequence[Outcome], missing: Sequence[Outcome]) -> str | None:
    if not missing:
        return None
    worst = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
    return f"{len(missing)} of {len(outcomes)} visits gave nothing: {worst.reason or worst.status}"


def _refused(outcomes: Sequence[Outcome], probe: Probe, status: Status, reason: str) -> list[Row]:
    return [bare(outcomes[0], probe, metric, status, reason) for metric in probe.metrics]
