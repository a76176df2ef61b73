# SPDX-License-Identifier: Apache-2.0
"""The page of a sweep: its table, and each number over the setting's values, drawn as if the setting were a
parameter."""

from __future__ import annotations

from msgspec.structs import replace

from tollmeter.model import Results, Row, Value
from tollmeter.report import tables
from tollmeter.report.charts.chart import benches
from tollmeter.report.charts.generic import others
from tollmeter.report.page import rendered
from tollmeter.report.swept import SweptValues, blocks

_LONGEST = 18
"""Digits of a number on a chart's axis."""


def render(swept: SweptValues) -> str:
    """Returns the page's text."""
    together = _as_one_run(swept)
    drawn = [chart for bench in benches(together) for chart in others(bench, ())] if together else []
    words = {
        "sweep": swept.sweep, "sweep_blocks": list(blocks(swept)), "charts": drawn,
        "facts": tables.facts_of(together.index.machine) if together else (),
    }  # fmt: skip
    return rendered("sweep.html", drawn, words)


def _as_one_run(swept: SweptValues) -> Results | None:
    """Returns the first run of each value as one run, whose rows have the setting as a further parameter; None without
    a run."""
    runs: dict[str, Results] = {}
    for step, results in swept.steps:
        if results is not None:
            runs.setdefault(step.value, results)
    if not runs:
        return None
    first = next(iter(runs.values()))
    rows = tuple(
        _with(row, swept.sweep.variable, _value(value))
        for value in swept.sweep.values if value in runs for row in runs[value].index.rows
    )  # fmt: skip
    return replace(first, index=replace(first.index, rows=rows))


def _with(row: Row, name: str, value: Value) -> Row:
    parameter_name = f"{name} (knob)" if name in row.parameters else name
    return replace(row, parameters={**row.parameters, parameter_name: value})


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() and len(text) <= _LONGEST else text
