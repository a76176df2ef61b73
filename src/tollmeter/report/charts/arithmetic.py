# SPDX-License-Identifier: Apache-2.0
"""Charts of floating point over vector length, of the gain of one ABI over another, and of ratios of ABIs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isfinite

import msgspec

from tollmeter.inference.rate_falls import AXIS, RATE, cost_ns
from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Row
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Datum, Name, Spec, Subject, short_probe_name, varying
from tollmeter.report.charts.curves_chart import charted
from tollmeter.report.charts.marks import layer, nominal, quantitative
from tollmeter.report.numbers import quantity

FLOPS = Subject("flops", "Floating point over length",
                "How fast is arithmetic, and where does it fall as vectors grow?", (RATE,))  # fmt: skip
_SPEED_UP = Subject("speed-up", "Speed-up over length",
                   "What does one way, or one ABI, gain with the same source? All is over the line at 1, which may be "
                   "chosen below.", (RATE,))  # fmt: skip
PANELLED = ("precision",)
"""Parameters that make panels; all others make lines."""
CHOSEN = "over"


def flops(bench: Bench) -> Iterator[Chart]:
    """Yields one panel for each kernel and precision, with a line for each implementation of each ABI."""
    rows = _rows(bench)
    yield from charted(
        bench, rows, FLOPS, axis=AXIS, series=bench.series_of_abis(rows, AXIS, *PANELLED), panel=_panel(bench, rows),
        y_title=bench.axis_title(rows, "operations a second"), x_title="elements",
    )  # fmt: skip


def speed_up(bench: Bench) -> Iterator[Chart]:
    """Yields the chart of each line's speed relative to a line that the reader chooses. A single length is only in the
    tables."""
    counted = bench.clock == "instructions"
    rows = [row for row in _rows(bench) if not counted or row.parameters.get("way") != "trapped"]
    series, panel = bench.series_of_abis(rows, AXIS, *PANELLED), _panel(bench, rows)
    data = [_speed(row, series(row), panel(row)) for row in rows]
    if len(marks.ordered(data, "series")) > 1 and len({d["x"] for d in data}) > 1:
        yield _SPEED_UP.chart(_over(data, "times as few instructions" if counted else "times as fast"), rows)


def _rows(bench: Bench) -> list[Row]:
    """Returns the rows by kernel, then by precision, the one with most lengths first, then the machine's own ABI
    first."""
    rows = [row for row in bench.by_abi(bench.meaning(RATE)) if isinstance(row.parameters.get(AXIS), int)]
    panel = _panel(bench, rows)
    amount = Counter(map(panel, rows))
    return sorted(rows, key=lambda row: (-amount[panel(row)], panel(row)))


def _panel(bench: Bench, rows: Sequence[Row]) -> Name:
    several = [name for name in PANELLED if name in bench.varying(rows)]
    return lambda row: ", ".join([short_probe_name(row), *(str(row.parameters[name]) for name in several)])


def _speed(row: Row, series: str, panel: str) -> Datum:
    """Returns a point of speed. speed: operations per nanosecond, or per instruction if these are counted; least and
    most: its interval."""
    n = row.parameters[AXIS]
    ends = [row.median if end is None else end for end in (row.low, row.median, row.high)]
    least, speed, most = sorted(
        float(f"{1 / cost_ns(msgspec.structs.replace(row, median=end)):.6g}") for end in ends if end is not None
    )
    return {"x": n, "at": f"{n:,}", "series": series, "panel": panel, "least": least, "speed": speed, "most": most,
            **marks.sure(row)}  # fmt: skip


def _over(data: Sequence[Datum], y_title: str) -> Spec:
    """Returns the specification of relative speed. The reader's choice is a parameter of the specification, so all
    pairs are in the data and one is drawn. The default reference is the slowest line of the first panel with at
    least half of the most lengths."""
    order, panels = marks.ordered(data, "series"), marks.ordered(data, "panel")
    first = [d for d in data if d["panel"] == data[0]["panel"]]
    lengths = Counter(d["series"] for d in first)
    long = [d for d in first if 2 * lengths[d["series"]] >= max(lengths.values())]
    usual = min(long, key=lambda d: float(d["speed"]))["series"]
    chosen = {"name": CHOSEN, "value": usual, "bind": {"input": "select", "options": list(order), "name": CHOSEN}}
    layers = _layers(data, order, y_title)
    if len(panels) == 1:
        spec = {**marks.layered(data, layers), "transform": RATIOS}
    else:
        spec = marks.panelled(data, layers, panels, transform=RATIOS)
    return {**spec, "params": [chosen]}


def _layers(data: Sequence[Datum], order: Sequence[str], y_title: str) -> list[Spec]:
    speeds: dict[tuple[object, object], list[float]] = {}
    for d in data:
        speeds.setdefault((d["panel"], d["x"]), []).append(float(d["speed"]))
    reach = max(1.5, *(max(of_length) / min(of_length) for of_length in speeds.values()))
    by = marks.series_colour("series", order)
    axis = {"labelExpr": marks.COUNT_LABEL, "values": marks.log_ticks([1 / reach, reach])}
    x = marks.number_x([d["x"] for d in data], "elements", in_bytes=False)
    y = quantitative("ratio", title=y_title, scale={"type": "log", "nice": False}, axis=axis)
    ends = {"y": quantitative("lo", title=y_title), "y2": {"field": "hi", "title": y_title}}
    named = marks.tips(("panel", "of"), ("series", "series"), ("at", AXIS), ("times", y_title),
                       ("interval", "at most from, to"), ("value", "value"))  # fmt: skip
    return [
        layer("line", {"x": x, "y": y, "color": by["color"], "strokeDash": by["strokeDash"]}, style="curve", clip=True),
        layer("rule", {"x": x, **ends, "color": by["color"]}, style="whisker", clip=True),
        layer("point", {"x": x, "y": y, "color": by["color"], "shape": by["shape"]}, style="dot"),
        layer("point", {"x": x, "y": y, "tooltip": named}, style="target"),
    ]


BASES = {"base": "speed", "base_least": "least", "base_most": "most"}
RATIOS: list[Spec] = [
    *({"calculate": f"datum.series === {CHOSEN} ? datum.{field} : null", "as": name} for name, field in BASES.items()),
    {"joinaggregate": [{"op": "max", "field": name, "as": name} for name in BASES], "groupby": ["panel", "x"]},
    {"filter": "isValid(datum.base)"},
    {"calculate": "datum.speed / datum.base", "as": "ratio"},
    {"calculate": f"datum.series === {CHOSEN} ? 1 : datum.least / datum.base_most", "as": "lo"},
    {"calculate": f"datum.series === {CHOSEN} ? 1 : datum.most / datum.base_least", "as": "hi"},
    {"calculate": "format(datum.ratio, '.3~r')", "as": "times"},
    {"calculate": "format(datum.lo, '.3~r') + ', ' + format(datum.hi, '.3~r')", "as": "interval"},
]
"""Transformations that divide each line by the chosen one at the same length; no value if that was not measured. lo and
hi: both ends of both intervals at once, so wider than 95 %."""


# ---- ratios of ABIs -------------------------------------------------------------------------------------------------

_STEP = 28
_MOST_LINES = 30
ABI_RATIOS = Subject("abi-ratios", "Other ABIs against the machine's own",
                     "What does the same source cost when its pointers, registers or calls are another ABI's? 1 is the "
                     "machine's own.")  # fmt: skip


def abi_ratios(bench: Bench) -> Iterator[Chart]:
    """Yields ratios of times and sizes only, for which less is better."""
    data = [datum for rows in _by_abi(bench) for datum in _ratio_data(bench, rows)][: _MOST_LINES * 3]
    if len(data) < 2:
        return
    by = marks.series_colour("series", marks.ordered(data, "series"))
    scale = {"type": "log", "nice": False, "padding": 8}
    x = quantitative("y", title="times what the machine's own ABI takes", scale=scale, axis=marks.BESIDE_WORDS)
    y = nominal("label", title=None, sort=None, axis=marks.words_axis())
    reach = {"x": quantitative("lo"), "x2": {"field": "hi"}, "y": y, "color": by["color"],
             "strokeDash": by["strokeDash"]}  # fmt: skip
    dot = {"x": x, "y": y, "color": by["color"], "shape": by["shape"],
           "tooltip": marks.tips(("label", "of"), ("series", "ABI"), ("value", "ratio"))}  # fmt: skip
    layers = [
        layer("rule", {"x": quantitative("one")}, data=marks.inline_values([{"one": 1}]), style="reported"),
        layer("rule", reach, style="whisker"),
        layer("point", dot, style="rung"),
    ]
    height = len({d["label"] for d in data}) * _STEP + 20
    probes = {d["probe"] for d in data}
    rows = [row for row in bench.rows if row.probe in probes]
    yield ABI_RATIOS.chart(marks.layered(data, layers, height), rows)


def _by_abi(bench: Bench) -> list[list[Row]]:
    """Returns the rows that another ABI also has, own ABI first. A sweep is represented by its middle point."""
    places: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in bench.by_abi([row for row in bench.rows if row.better == "less" and (row.median or 0) > 0]):
        places.setdefault((row.probe, row.metric), {}).setdefault(str(row.parameters), []).append(row)
    middle = []
    for by_parameters in places.values():
        several = [rows for rows in by_parameters.values() if len(rows) > 1 and rows[0].abi == bench.abis[0]]
        middle += several[len(several) // 2 : len(several) // 2 + 1]
    return middle[:_MOST_LINES]


def _ratio_data(bench: Bench, rows: Sequence[Row]) -> Iterator[Datum]:
    own = rows[0]
    swept = varying([row for row in bench.rows if (row.probe, row.metric) == (own.probe, own.metric)])
    by = bench.named_by([own], [name for name in own.parameters if name in swept])
    label = f"{short_probe_name(own)}: {own.metric}" + (f", {by(own)}" if swept else "")
    for row in rows[1:]:
        ratio = ratio_of(own, row)
        if isfinite(ratio.high):
            yield {
                "y": float(f"{ratio.value:.4g}"), "lo": ratio.low, "hi": ratio.high, "label": label, "series": row.abi,
                "value": str(quantity(ratio.value, "ratio", ratio.low, ratio.high)), "probe": row.probe,
            }  # fmt: skip
