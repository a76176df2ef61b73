# SPDX-License-Identifier: Apache-2.0
"""Every sample of one boundary, visit by visit: what a median and its interval are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Row, Toll
from tollmeter.numbers.meanings import meaning, metric_of
from tollmeter.numbers.readings import costs
from tollmeter.numbers.row_of import Told
from tollmeter.numbers.rows import usable_visits
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.marks import finished, linear_y, series_colour, values
from tollmeter.report.charts.steadiness import NAMES
from tollmeter.report.doubt import of_row
from tollmeter.report.numbers import time
from tollmeter.studies.attempts import outcomes_of

MOST_POINTS = 600
LEAST_POINTS = 4
WANTED = ("entry", "price-of-fault", "trap", "switch")


def distribution(bench: Bench) -> Iterator[Chart]:
    """Of the best known boundary that was measured; drawn once, for the machine itself."""
    row = _chosen(bench) if bench.is_the_machine else None
    data = _samples(bench, row) if row else []
    if row is None or len(data) < LEAST_POINTS:
        return
    order = [name for name in NAMES.values() if any(d["series"] == name for d in data)]
    by = series_colour("series", order)
    x = alt.X("x:O", title="visit, in the order of the run", axis=alt.Axis(labelOverlap=True, labelAngle=0))
    tips = [alt.Tooltip(field=field, type="nominal", title=title) for field, title in
            (("value", "sample"), ("series", "core"), ("at", "visit"))]  # fmt: skip
    points = alt.Chart(values(data)).mark_point(style="dot", opacity=0.75).encode(
        x, linear_y(data, "ns", "one sample"), by["color"], by["shape"], tooltip=tips
    )  # fmt: skip
    name = _line(bench, row)
    subject = Subject(
        "distribution",
        f"Every sample of one number: {name}",
        "What is a median made of, and does it have more than one state?",
        (meaning(row, bench.book.probes) or "",),
    )
    yield subject.chart(finished(points, 260), [row], _sentence(name, row, data))


def _chosen(bench: Bench) -> Row | None:
    """The first typical one of the best known meanings, by the table of tolls."""
    own = bench.own(bench.rows)
    places = {(toll.probe, toll.metric, str(toll.parameters)): toll for toll in bench.book.index.tolls if toll.typical}
    for means in WANTED:
        for row in own:
            named = (row.probe, row.metric, str(row.parameters)) in places
            if named and row.unit == "ns" and meaning(row, bench.book.probes) == means:
                return row
    return None


def _line(bench: Bench, row: Row) -> str:
    """Its words in the table of tolls."""
    tolls: Sequence[Toll] = bench.book.index.tolls
    return next(t.toll for t in tolls if (t.probe, t.metric, t.parameters) == (row.probe, row.metric, row.parameters))


def _samples(bench: Bench, row: Row) -> list[Datum]:
    """Costs in ns as read off the clock, with the core's state; the batches of n and 2n of a sample are two."""
    group = outcomes_of(bench.book, row)
    metric, probe = metric_of(row, bench.book.probes), bench.probe(row)
    visited = usable_visits(group, probe, bench.known) if group and probe else None
    if not isinstance(visited, Told) or metric is None:
        return []
    costs_ = [
        {"x": place, "y": float(f"{cost:.4g}"), "lo": cost, "hi": cost, "series": NAMES[str(state)],
         "value": str(time(cost)), "at": str(read.outcome.visit)}
        for place, read in enumerate(visited.readings, start=1)
        if (seen := costs(read, metric, visited.paid)) is not None
        for of_sample, state in zip(seen, read.states, strict=True)
        for cost in of_sample.tolist()
    ]  # fmt: skip
    return costs_[:: -(-len(costs_) // MOST_POINTS) or 1]


def _sentence(name: str, row: Row, data: Sequence[Datum]) -> str:
    low, high = (time(end(float(d["y"]) for d in data)) for end in (min, max))
    shared = [state for state in row.states if state.state == "shared"]
    beside = f", {time(shared[0].median, shared[0].low, shared[0].high)} on a contended core" if shared else ""
    return f"{name[:1].upper()}{name[1:]} costs {of_row(row)}{beside}; single samples lie from {low} to {high}."
