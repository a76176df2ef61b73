# SPDX-License-Identifier: Apache-2.0
"""A chart for whatever has no chart of its own: a probe that was added yesterday is drawn today."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Drawing, spread, varying
from tollmeter.report.charts.curves_chart import Curves, draw, named_by
from tollmeter.report.charts.dots_and_heat import Rungs, rung
from tollmeter.report.charts.marks import TITLES
from tollmeter.report.numbers import of_row

LEAST_SWEPT = 3
MOST_SERIES = 8
MOST_DOTS = 40
LINEAR_UP_TO = 8.0


def others(bench: Bench, drawn: Collection[str]) -> Iterator[Chart]:
    """One chart for each metric of each probe that is not among those drawn and has something to compare. What the
    kernel accounts to a process is in tables alone: it would be eight charts a program and place."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in bench.rows:
        if row.probe not in drawn:
            groups.setdefault((row.probe, row.metric), []).append(row)
    for (probe, metric), rows in groups.items():
        described_metric = bench.metric(rows[0])
        chart = None if described_metric and described_metric.means == "account" else _chart(bench, probe, metric, rows)
        if chart:
            yield chart


def _chart(bench: Bench, probe: str, metric: str, rows: Sequence[Row]) -> Chart | None:
    ranked = sorted(rows, key=lambda row: bench.abis.index(row.abi))
    axis = swept(bench.named_among(ranked))
    drawing = _curves(bench, ranked, axis) if axis else _few(bench, ranked)
    if drawing is None:
        return None
    described, meant = bench.results.probes.get(probe), bench.metric(rows[0])
    summary = meant.summary if meant else metric
    return Chart(f"{probe}-{metric}".replace(".", "-"), f"{probe}: {summary}", described.question if described else "",
                 drawing, (meant.means,) if meant and meant.means else (), (probe,), general=False)  # fmt: skip


def swept(rows: Sequence[Row]) -> str | None:
    """The parameter with the most values among those that are numbers, if it has at least three."""
    counts = {
        name: len({row.parameters[name] for row in rows if name in row.parameters})
        for name in varying(rows)
        if all(isinstance(row.parameters.get(name), int) for row in rows)
    }
    name = max(counts, key=lambda key: counts[key], default=None)
    return name if name is not None and counts[name] >= LEAST_SWEPT else None


def _curves(bench: Bench, rows: Sequence[Row], axis: str) -> Drawing | None:
    rest, several = bench.varying(rows, axis), bench.several_abis(rows)
    by = named_by(bench, rows, rest)

    def series(row: Row) -> str:
        return ", ".join(filter(None, (row.abi if several else "", by(row) if rest else "" if several else row.metric)))

    crowded = len({series(row) for row in rows}) > MOST_SERIES
    described_metric = bench.metric(rows[0])
    curves = Curves(
        axis=axis,
        series=by if crowded and several and rest else series,
        panel=(lambda row: row.abi) if crowded and several else None,
        y_title=bench.axis_title(
            rows, described_metric.summary if described_metric else TITLES.get(rows[0].unit, rows[0].unit)
        ),
        x_title=axis,
        log=spread(rows) > LINEAR_UP_TO,
        height=280,
    )
    return draw(bench, rows, curves)


def _few(bench: Bench, rows: Sequence[Row]) -> Rungs | None:
    """Choices and ABIs beside each other, where there are at least two positive numbers."""
    positive = [row for row in rows if (row.median or 0) > 0]
    if not 2 <= len(positive) <= MOST_DOTS:
        return None
    rest, several = bench.varying(positive), bench.several_abis(positive)
    by, rungs = named_by(bench, positive, rest), []
    for row in positive:
        label = " · ".join(filter(None, (by(row) if rest else "", row.abi if several or not rest else "")))
        rungs.append(rung(row, label, str(of_row(row))))
    return Rungs(tuple(rungs), rows[0].unit, TITLES.get(rows[0].unit, rows[0].unit))
