# SPDX-License-Identifier: Apache-2.0
"""What another ABI costs the same source: a ratio to the machine's own ABI for each toll that both paid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

import altair as alt

from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Row
from tollmeter.numbers.stats import Estimate
from tollmeter.report.charts.arithmetic import kernel_of
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject, varying
from tollmeter.report.charts.curves_chart import named_by
from tollmeter.report.charts.marks import BESIDE_WORDS, finished, series_colour, values, words_axis
from tollmeter.report.numbers import quantity

STEP = 28
MOST_LINES = 30

ABI_RATIOS = Subject(
    "abi-ratios",
    "Other ABIs against the machine's own",
    "What does the same source cost when its pointers, registers or calls are another ABI's? 1 is the machine's own.",
    (),
)


def abi_ratios(bench: Bench) -> Iterator[Chart]:
    """Times and sizes alone: less is better in all of them. A sweep counts once, at its middle point."""
    data = [datum for key in _comparable(bench) for datum in _ratios(bench, key)][: MOST_LINES * 3]
    if len(data) < 2:
        return
    order = tuple(dict.fromkeys(str(d["series"]) for d in data))
    by = series_colour("series", order)
    base = alt.Chart(values(data))
    scale, axis = alt.Scale(type="log", nice=False, padding=8), alt.Axis(**BESIDE_WORDS)
    x = alt.X("y:Q", title="times what the machine's own ABI takes", scale=scale, axis=axis)
    y = alt.Y("label:N", title=None, sort=None, axis=words_axis())
    tips = [alt.Tooltip(field=f, type="nominal", title=t) for f, t in
            (("label", "of"), ("series", "ABI"), ("value", "ratio"))]  # fmt: skip
    rule = alt.Chart(values([{"one": 1}])).mark_rule(style="told").encode(alt.X("one:Q"))
    reach = base.mark_rule(style="whisker").encode(alt.X("lo:Q"), alt.X2("hi:Q"), y, by["color"], strokeDash=by["dash"])
    dot = base.mark_point(style="rung").encode(x, y, by["color"], by["shape"], tooltip=tips)
    lines = len({d["label"] for d in data})
    rows = [row for row in bench.rows if row.probe in {d["probe"] for d in data}]
    yield ABI_RATIOS.chart(finished(alt.layer(rule, reach, dot), lines * STEP + 20), rows)


def _comparable(bench: Bench) -> list[list[Row]]:
    """Rows that another ABI has too, own ABI first; of each probe and metric the middle one."""
    places: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in bench.by_abi([row for row in bench.rows if row.better == "less" and (row.median or 0) > 0]):
        places.setdefault((row.probe, row.metric), {}).setdefault(str(row.parameters), []).append(row)
    comparable = []
    for by_parameters in places.values():
        several = [rows for rows in by_parameters.values() if len(rows) > 1 and rows[0].abi == bench.abis[0]]
        comparable += several[len(several) // 2 : len(several) // 2 + 1]
    return comparable[:MOST_LINES]


def _ratios(bench: Bench, rows: Sequence[Row]) -> Iterator[Datum]:
    own = rows[0]
    by = named_by(bench, [own], [name for name in own.parameters if name in _named_parameters(bench, own)])
    label = f"{kernel_of(own)}: {own.metric}" + (f", {by(own)}" if _named_parameters(bench, own) else "")
    for row in rows[1:]:
        ratio: Estimate = ratio_of(own, row)
        if not isfinite(ratio.high):
            continue
        yield {
            "y": float(f"{ratio.value:.4g}"), "lo": ratio.low, "hi": ratio.high, "label": label, "series": row.abi,
            "value": str(quantity(ratio.value, "ratio", ratio.low, ratio.high)), "probe": row.probe,
        }  # fmt: skip


def _named_parameters(bench: Bench, own: Row) -> list[str]:
    return varying([row for row in bench.rows if (row.probe, row.metric) == (own.probe, own.metric)])
