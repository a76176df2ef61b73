# SPDX-License-Identifier: Apache-2.0
"""Charts of probes without a chart of their own, such as a newly added probe."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Drawing, is_wide, varying
from tollmeter.report.charts.curves_chart import draw
from tollmeter.report.charts.dots_and_heat import dots

LEAST_SWEPT = 3
MOST_SERIES = 8
MOST_DOTS = 40
_TITLES = {"ns": "time", "B/s": "bytes per second", "bit/s": "bits per second",
          "flop/s": "floating-point operations per second", "op/s": "operations per second",
          "B": "bytes", "cycle": "core cycles", "instruction": "instructions",
          "fault": "faults", "ratio": "ratio", "count": "count"}  # fmt: skip


def others(bench: Bench, drawn: Collection[str]) -> Iterator[Chart]:
    """Yields one chart for each metric of each probe that is not yet drawn and has something to compare. The kernel's
    accounts of a process are in tables only: they would be eight charts for each program and target."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in bench.rows:
        if row.probe not in drawn:
            groups.setdefault((row.probe, row.metric), []).append(row)
    for (name, metric_name), unordered in groups.items():
        rows = bench.by_abi(unordered)
        probe, metric = bench.probe(rows[0]), bench.metric(rows[0])
        is_account = metric is not None and metric.means == "account"
        axis = _swept(bench.named_among(rows))
        drawing = None if is_account else _curves(bench, rows, axis) if axis else _dots(bench, rows)
        if drawing is not None:
            title = f"{name}: {metric.summary if metric else metric_name}"
            yield Chart(f"{name}-{metric_name}".replace(".", "-"), title, probe.question if probe else "", drawing,
                        (name,), general=False)  # fmt: skip


def _swept(rows: Sequence[Row]) -> str | None:
    """Returns the numeric parameter with the most values, if it has at least three; else None."""
    counts = {
        name: len({row.parameters[name] for row in rows if name in row.parameters})
        for name in varying(rows)
        if all(isinstance(row.parameters.get(name), int) for row in rows)
    }
    name = max(counts, key=lambda key: counts[key], default=None)
    return name if name is not None and counts[name] >= LEAST_SWEPT else None


def _curves(bench: Bench, rows: Sequence[Row], axis: str) -> Drawing | None:
    rest, series, metric = bench.varying(rows, axis), bench.series_of_abis(rows, axis), bench.metric(rows[0])
    in_panels = bench.several_abis(rows) and len({series(row) for row in rows}) > MOST_SERIES
    title = metric.summary if metric else _TITLES.get(rows[0].unit, rows[0].unit)
    return draw(
        bench, rows, axis=axis, series=bench.named_by(rows, rest) if in_panels and rest else series,
        panel=(lambda row: row.abi) if in_panels else None, y_title=bench.axis_title(rows, title), x_title=axis,
        log=is_wide(rows), height=280,
    )  # fmt: skip


def _dots(bench: Bench, rows: Sequence[Row]) -> Drawing | None:
    """Returns dots for choices and ABIs side by side; None if there is nothing to compare."""
    positive = [row for row in rows if (row.median or 0) > 0]
    if len(positive) > MOST_DOTS:
        return None
    rest, several = bench.varying(positive), bench.several_abis(positive)
    by = bench.named_by(positive, rest)

    def label(row: Row) -> str:
        return " · ".join(filter(None, (by(row) if rest else "", row.abi if several or not rest else "")))

    return dots(positive, label, _TITLES.get(rows[0].unit, rows[0].unit))
