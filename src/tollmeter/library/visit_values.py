# SPDX-License-Identifier: Apache-2.0
"""The value of each visit of the rows of a run, for programs that do their own statistics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tollmeter.experiment.precision import Scatter
from tollmeter.library.derive import learned
from tollmeter.model import Book, Metric, Outcome, Point
from tollmeter.numbers.known import Known, machine_known
from tollmeter.numbers.readings import RATES, as_unit
from tollmeter.numbers.row_of import Told, counted, speech
from tollmeter.numbers.rows import Key, in_parts, row_key, usable_visits
from tollmeter.report.compared_formats import VisitLine, go_name
from tollmeter.store.request import read_request


class VisitValues(NamedTuple):
    """values: one for each visit in the state that the row is of, in the metric's unit; layouts: the layout of each.
    costs: the same as times; scatter: what the row's interval was made with, None of a value that was not timed."""

    point: Point
    metric: Metric
    values: tuple[float, ...]
    costs: tuple[float, ...]
    layouts: tuple[int, ...]
    scatter: Scatter | None

    def key(self) -> Key:
        """Of the row."""
        point = self.point
        return point.probe, point.abi, point.target, self.metric.name, tuple(sorted(point.parameters))


def visit_values(book: Book) -> Iterator[VisitValues]:
    """Of every row that has a number, in the order of its points."""
    request = read_request(Path(book.index.run.folder))
    known = machine_known(book.outcomes, learned(request), book.index.run.precision)
    numbered = {row_key(row) for row in book.index.rows if row.status == "ok"}
    for points, scattered in in_parts(book.outcomes, book.probes, known):
        for group in points:
            for found in _of_point(group, book, scattered):
                if found.key() in numbered:
                    yield found


def visit_lines(book: Book) -> Iterator[VisitLine]:
    """The same under the names that Go gives to benchmarks."""
    for one in visit_values(book):
        point = one.point
        name = go_name(point.probe, one.metric.name, point.parameters, point.abi, point.target)
        yield VisitLine(name, one.metric.unit, one.values)


def _of_point(group: list[Outcome], book: Book, known: Known) -> Iterator[VisitValues]:
    point, probe = group[0].point, book.probes[group[0].point.probe]
    told = usable_visits(group, probe, known)
    if not isinstance(told, Told):
        return
    for metric in probe.metrics:
        if metric.source == "gauge":
            seen = [read.outcome for read in told.readings if metric.name in read.outcome.gauges]
            values = tuple(outcome.gauges[metric.name] for outcome in seen)
            yield VisitValues(point, metric, values, values, tuple(outcome.seed for outcome in seen), None)
        elif said := speech(told, metric, known).said:
            costs, clock = tuple(said[0].part.medians.tolist()), told.readings[0].outcome.clock.kind
            stated = counted(metric) if clock == "instructions" else metric
            values = tuple(as_unit(cost, stated) if stated.unit in RATES and cost > 0 else cost for cost in costs)
            yield VisitValues(point, stated, values, costs, said[0].part.layouts, said[0].scatter)
