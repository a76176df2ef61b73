# SPDX-License-Identifier: Apache-2.0
"""Compares results. `toll compare` compares runs with the first of them, or the rows of one run by one of their
properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.catalog import unknown
from tollmeter.exit_codes import NOTHING_RAN
from tollmeter.experiment.precision import Scatter
from tollmeter.judgement.compare import compare as compared_indexes
from tollmeter.judgement.compare import explained, of_rows
from tollmeter.library import places
from tollmeter.library.derive import learned, open_run, open_several
from tollmeter.library.row_words import probes_named, selected_rows
from tollmeter.model import LEAST_CHANGE, Failure, Metric, Outcome, Point, Results, Row, Value
from tollmeter.numbers.known import Known, machine_known
from tollmeter.numbers.readings import RATES, as_unit
from tollmeter.numbers.row_of import PointReadings, as_instructions, metric_estimates
from tollmeter.numbers.rows import Key, in_parts, row_key, usable_visits
from tollmeter.report.ci_formats import Benchmark, go_name
from tollmeter.report.compared_rows import Compared, key_without, run_name
from tollmeter.store.request import read_request

_OWN = ("abi", "target")


def compared(
    names: Sequence[str], by: str | None, words: Sequence[str] = (), *, machines: bool, least: float = LEAST_CHANGE
) -> Compared:
    """Returns a comparison with a reference: the first of several runs, or the rows of one run with the first value of
    `by`. names: runs. by: row property whose values are compared within one run; None to compare runs. words: select
    the printed rows, whose verdicts are adjusted over all rows. least: relative change that matters. Raises Failure: 2
    for names that give no comparison, 5 for a damaged run, 6 if no row has a number in both."""
    folders = [places.find_run(name, "ended", probes_named(words)) for name in names]
    comparisons = _by(folders, by, least) if by is not None else _runs(folders, least, machines)
    if words:
        comparisons = _part(comparisons, words)
    if not any(comparison.changes for comparison in comparisons.comparisons):
        reasons = [refusal.reason for comparison in comparisons.comparisons for refusal in comparison.refused]
        raise Failure(f"no row has a number in both: {max(reasons, key=reasons.count, default='no row')}", NOTHING_RAN)
    return comparisons


def _part(whole: Compared, words: Sequence[str]) -> Compared:
    runs = tuple(selected_rows(results, words) for results in whole.runs)
    kept = {row_key(row) for results in runs for row in results.index.rows}
    comparisons = tuple(
        msgspec.structs.replace(
            comparison, changes=tuple(change for change in comparison.changes if row_key(change.old) in kept),
            refused=tuple(refusal for refusal in comparison.refused if refusal.key in kept),
        ) for comparison in whole.comparisons
    )  # fmt: skip
    return dataclasses.replace(whole, runs=runs, comparisons=comparisons)


def _runs(folders: Sequence[Path], least: float, machines: bool) -> Compared:
    if len(folders) < 2:
        raise Failure("expected two runs, or --by abi, --by target or --by PARAMETER to compare the rows of one run")
    runs = open_several(folders)
    of_two = ("A", "B") if machines else ("old", "new")
    names = [run_name(results) for results in runs]
    # Runs in different folders may have one name.
    numbered = (name if names.count(name) == 1 else f"{name} ({place})" for place, name in enumerate(names, 1))
    labels = of_two if len(runs) == len(of_two) else tuple(numbered)
    comparisons = tuple(
        explained(compared_indexes(runs[0].index, results.index, least, machines=machines)) for results in runs[1:]
    )
    return Compared(runs, labels, comparisons, machines=machines)


def _by(folders: Sequence[Path], by: str, least: float) -> Compared:
    if len(folders) != 1:
        raise Failure(f"--by {by} compares the rows of one run, but {len(folders)} runs are given")
    results = open_run(folders[0])
    values = _values(results, by)
    if len(values) < 2:
        raise Failure(f"--by {by}: all rows of {folders[0]} have the same value, {values[0]}")
    first, *others = (
        {key_without(row, by): row for row in results.index.rows if _of(row, by) == value} for value in values
    )
    comparisons = []
    for other in others:
        old, new = ({key: rows[key] for key in rows if key in first and key in other} for rows in (first, other))
        comparisons.append(explained(of_rows(old, new, None, least)))
    return Compared((results,) * len(values), tuple(map(str, values)), tuple(comparisons), by=by)


def _values(results: Results, by: str) -> list[Value]:
    """Returns all values of a property of the rows, the reference first: the machine's own ABI, the machine itself, a
    probe's first choice, or the lowest number. Raises Failure (2) if no row has the property."""
    rows = results.index.rows
    values = dict.fromkeys(value for row in rows if (value := _of(row, by)) is not None)
    if not values:
        parameters = {name for row in rows for name in row.parameters}
        raise unknown("row property", by, sorted({*_OWN, *parameters}))
    usual_value = {"abi": results.index.machine.architecture, "target": "local"}.get(by)
    choices = [choice for probe in results.probes.values() for parameter in probe.parameters if parameter.name == by
               for choice in parameter.choices]  # fmt: skip

    def place(value: Value) -> tuple[object, ...]:
        chosen = choices.index(str(value)) if value in choices else len(choices)
        return value != usual_value, chosen, isinstance(value, str), value

    return sorted(values, key=place)


def _of(row: Row, by: str) -> Value | None:
    return getattr(row, by) if by in _OWN else row.parameters.get(by)


# ---- values of visits -----------------------------------------------------------------------------------------------


class VisitValues(NamedTuple):
    """The values of a row by visit. values: one for each visit in the row's state, in the metric's unit; layouts:
    layout of each. costs: the values as times; scatter: prior knowledge of the row's interval, None for a value that
    was not timed."""

    point: Point
    metric: Metric
    values: tuple[float, ...]
    costs: tuple[float, ...]
    layouts: tuple[int, ...]
    scatter: Scatter | None

    def key(self) -> Key:
        """Returns the key of the row."""
        point = self.point
        return point.probe, point.abi, point.target, self.metric.name, tuple(sorted(point.parameters))


def visit_values(results: Results) -> Iterator[VisitValues]:
    """Yields the values of every row that has a number, in the order of its points."""
    request = read_request(Path(results.index.run.folder))
    known = machine_known(results.outcomes, learned(request, results.index.machine), results.index.run.precision)
    numbered = {row_key(row) for row in results.index.rows if row.status == "ok"}
    for points, scattered in in_parts(results.outcomes, results.probes, known):
        for group in points:
            for values in _of_point(group, results, scattered):
                if values.key() in numbered:
                    yield values


def visit_lines(results: Results) -> Iterator[Benchmark]:
    """Yields each row's name in the form of Go's benchmarks, its unit and its values."""
    for visit_value in visit_values(results):
        point = visit_value.point
        name = go_name(point.probe, visit_value.metric.name, point.parameters, point.abi, point.target)
        yield name, visit_value.metric.unit, visit_value.values


def _of_point(group: list[Outcome], results: Results, known: Known) -> Iterator[VisitValues]:
    point, probe = group[0].point, results.probes[group[0].point.probe]
    visited = usable_visits(group, probe, known)
    if not isinstance(visited, PointReadings):
        return
    for metric in probe.metrics:
        if metric.source == "gauge":
            outcomes = [read.outcome for read in visited.readings if metric.name in read.outcome.gauges]
            values = tuple(outcome.gauges[metric.name] for outcome in outcomes)
            yield VisitValues(point, metric, values, values, tuple(outcome.seed for outcome in outcomes), None)
        elif computed := metric_estimates(visited, metric, known).by_mode:
            costs, clock = tuple(computed[0].part.costs.tolist()), visited.readings[0].outcome.clock.kind
            stated = as_instructions(metric) if clock == "instructions" else metric
            values = tuple(as_unit(cost, stated) if stated.unit in RATES and cost > 0 else cost for cost in costs)
            yield VisitValues(point, stated, values, costs, computed[0].part.layouts, computed[0].scatter)
