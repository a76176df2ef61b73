# SPDX-License-Identifier: Apache-2.0
"""Charts of floating point over vector length, of what an ABI gains over another, and of ratios of ABIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import altair as alt
import msgspec

from tollmeter.inference.rate_falls import AXIS, RATE, cost_ns
from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Row
from tollmeter.numbers.stats import Estimate
from tollmeter.report.charts.chart import Bench, Chart, Datum, Spec, Subject, varying
from tollmeter.report.charts.curves_chart import Curves, Name, charted, named_by
from tollmeter.report.charts.marks import (
    BESIDE_WORDS,
    COUNT_LABEL,
    finished,
    log_ticks,
    number_x,
    panelled,
    series_colour,
    sure,
    tips,
    values,
    words_axis,
)
from tollmeter.report.numbers import quantity

FLOPS = Subject(
    "flops",
    "Floating point over length",
    "How fast is arithmetic, and where does it fall as vectors grow?",
    (RATE,),
)
SPEED_UP = Subject(
    "speed-up",
    "Speed-up over length",
    "What does one way, or one ABI, gain with the same source? All is over the line at 1, which may be chosen below.",
    (RATE,),
)
PANELLED = ("precision",)
"""A parameter that makes panels; every other makes lines."""
CHOSEN = "over"


def flops(bench: Bench) -> Iterator[Chart]:
    """One panel a kernel and precision, one line for each way of each ABI."""
    rows = _rows(bench)
    y_title = bench.axis_title(rows, "operations a second")
    curves = Curves(AXIS, _series(bench, rows), y_title, "elements", panel=_panel(bench, rows))
    yield from charted(bench, rows, FLOPS, curves)


def speed_up(bench: Bench) -> Iterator[Chart]:
    """How many times as fast each line is as one that the reader chooses. One length alone is in the tables."""
    rows = [row for row in _rows(bench) if bench.clock != "instructions" or row.parameters.get("way") != "trapped"]
    series, panel = _series(bench, rows), _panel(bench, rows)
    data = [_speed(row, series(row), panel(row)) for row in rows]
    order = tuple(dict.fromkeys(str(d["series"]) for d in data))
    if len(order) > 1 and len({d["x"] for d in data}) > 1:
        yield SPEED_UP.chart(_over(data, order, bench.clock == "instructions"), rows)


def _rows(bench: Bench) -> list[Row]:
    """By kernel, then by precision from the one with most lengths, then the machine's own ABI first."""
    rows = [row for row in bench.by_abi(bench.meaning(RATE)) if isinstance(row.parameters.get(AXIS), int)]
    panel = _panel(bench, rows)
    amount: dict[str, int] = {}
    for row in rows:
        amount[panel(row)] = amount.get(panel(row), 0) + 1
    return sorted(rows, key=lambda row: (-amount[panel(row)], panel(row)))


def _series(bench: Bench, rows: Sequence[Row]) -> Name:
    others, several = bench.varying(rows, AXIS, *PANELLED), bench.several_abis(rows)
    by = named_by(bench, rows, others)
    return lambda row: ", ".join([*([row.abi] if several else []), *([by(row)] if others or not several else [])])


def _panel(bench: Bench, rows: Sequence[Row]) -> Name:
    several = [name for name in PANELLED if name in bench.varying(rows)]
    return lambda row: ", ".join([kernel_of(row), *(str(row.parameters[name]) for name in several)])


def _speed(row: Row, series: str, panel: str) -> Datum:
    """speed: operations a nanosecond, or an instruction where these are counted; least and most: its interval."""
    n = row.parameters[AXIS]
    ends = [row.median if end is None else end for end in (row.low, row.median, row.high)]
    least, speed, most = sorted(
        float(f"{1 / cost_ns(msgspec.structs.replace(row, median=end)):.6g}") for end in ends if end is not None
    )
    return {"x": n, "at": f"{n:,}", "series": series, "panel": panel, "least": least, "speed": speed, "most": most,
            **sure(row)}  # fmt: skip


def _usual(data: Sequence[Datum]) -> str:
    """The default reference: the slowest line of the first panel with at least half of the most lengths."""
    first = [d for d in data if d["panel"] == data[0]["panel"]]
    count = Counter(str(d["series"]) for d in first)
    long = [d for d in first if 2 * count[str(d["series"])] >= max(count.values())]
    return str(min(long, key=lambda d: float(d["speed"]))["series"])


def _reach(data: Sequence[Datum]) -> float:
    """How many times as fast as the slowest the fastest is, at the length where that is most."""
    places: dict[tuple[object, object], list[float]] = {}
    for d in data:
        places.setdefault((d["panel"], d["x"]), []).append(float(d["speed"]))
    return max(max(speeds) / min(speeds) for speeds in places.values())


def _over(data: Sequence[Datum], order: Sequence[str], counted: bool) -> Spec:
    """The reader's choice is a parameter of the specification, so each pair is there and one is drawn."""
    panels = tuple(dict.fromkeys(str(d["panel"]) for d in data))
    chosen = alt.param(name=CHOSEN, value=_usual(data), bind=alt.binding_select(options=list(order), name=CHOSEN))
    layers = _layers(data, order, "times as few instructions" if counted else "times as fast")
    if len(panels) == 1:
        return finished(_ratios(alt.layer(*layers)).add_params(chosen))
    bare = [layer.properties(data=alt.Undefined) for layer in layers]
    small = alt.layer(*bare, data=layers[0].data).properties(height=220, width=300)
    return panelled(_ratios(small).add_params(chosen), panels)


def _layers(data: Sequence[Datum], order: Sequence[str], y_title: str) -> list[alt.Chart]:
    base, by = alt.Chart(values(data)), series_colour("series", order)
    reach = max(_reach(data), 1.5)
    axis = alt.Axis(labelExpr=COUNT_LABEL, values=log_ticks([1 / reach, reach]))
    x = number_x([d["x"] for d in data], "elements", in_bytes=False)
    y = alt.Y("ratio:Q", title=y_title, scale=alt.Scale(type="log", nice=False), axis=axis)
    ends = alt.Y("lo:Q", title=y_title), alt.Y2("hi:Q", title=y_title)
    named = tips(("panel", "of"), ("series", "series"), ("at", AXIS), ("times", y_title),
                 ("interval", "at most from, to"), ("value", "value"))  # fmt: skip
    return [
        base.mark_line(style="curve", clip=True).encode(x, y, color=by["color"], strokeDash=by["dash"]),
        base.mark_rule(style="whisker", clip=True).encode(x, *ends, color=by["color"]),
        base.mark_point(style="dot").encode(x, y, color=by["color"], shape=by["shape"]),
        base.mark_point(style="target").encode(x, y, tooltip=named),
    ]


RATIOS = {
    "ratio": "datum.speed / datum.base",
    "lo": f"datum.series === {CHOSEN} ? 1 : datum.least / datum.base_most",
    "hi": f"datum.series === {CHOSEN} ? 1 : datum.most / datum.base_least",
    "times": "format(datum.ratio, '.3~r')",
    "interval": "format(datum.lo, '.3~r') + ', ' + format(datum.hi, '.3~r')",
}
"""Both ends of both intervals at once, so wider than 95 %."""


def _ratios(chart: Any) -> Any:
    """Each line over the chosen one at the same length; where that was not measured there is none."""
    bases = {"base": "speed", "base_least": "least", "base_most": "most"}
    for name, field in bases.items():
        chart = chart.transform_calculate(**{name: f"datum.series === {CHOSEN} ? datum.{field} : null"})
    chart = chart.transform_joinaggregate(**{name: f"max({name})" for name in bases}, groupby=["panel", "x"])
    chart = chart.transform_filter("isValid(datum.base)")
    for name, formula in RATIOS.items():
        chart = chart.transform_calculate(**{name: formula})
    return chart


def kernel_of(row: Row) -> str:
    """A probe's name without its family."""
    return row.probe.split(".")[-1].replace("_", " ")


# ---- abis chart -----------------------------------------------------------------------------------------------------

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
    data = [datum for key in _comparable(bench) for datum in _abi_ratios(bench, key)][: MOST_LINES * 3]
    if len(data) < 2:
        return
    order = tuple(dict.fromkeys(str(d["series"]) for d in data))
    by = series_colour("series", order)
    base = alt.Chart(values(data))
    scale, axis = alt.Scale(type="log", nice=False, padding=8), alt.Axis(**BESIDE_WORDS)
    x = alt.X("y:Q", title="times what the machine's own ABI takes", scale=scale, axis=axis)
    y = alt.Y("label:N", title=None, sort=None, axis=words_axis())
    named = tips(("label", "of"), ("series", "ABI"), ("value", "ratio"))
    rule = alt.Chart(values([{"one": 1}])).mark_rule(style="reported").encode(alt.X("one:Q"))
    reach = base.mark_rule(style="whisker").encode(alt.X("lo:Q"), alt.X2("hi:Q"), y, by["color"], strokeDash=by["dash"])
    dot = base.mark_point(style="rung").encode(x, y, by["color"], by["shape"], tooltip=named)
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


def _abi_ratios(bench: Bench, rows: Sequence[Row]) -> Iterator[Datum]:
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
