# SPDX-License-Identifier: Apache-2.0
"""Boundaries of memory levels: the system's values as dashed rules, the measured ones as bands."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from tollmeter.model import Level, Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.report.charts.chart import Bench, Datum
from tollmeter.report.charts.marks import values
from tollmeter.report.numbers import size

STAGGER = 14  # pixels between labels that would meet on a narrow screen
LATE = 8  # a label to the right of its rule needs about three octaves of the axis
TIPS = (("level", "knee of"), ("value", "measured"), ("interval", "95 % interval"))


def reported_sizes(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    """The size of each cache that the system reports: a dashed rule with its label at the top."""
    caches = bench.book.index.machine.caches
    sizes = sorted({(c.level, c.size_bytes) for c in caches if c.kind != "instruction" and c.size_bytes})
    return rules(
        [(size_bytes, f"OS: L{level} {size(size_bytes)}") for level, size_bytes in sizes], _reach(rows, "size")
    )


def reported_lines(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    lines = sorted({c.line_bytes for c in bench.book.index.machine.caches if c.line_bytes})
    return rules([(line, f"OS: line of {size(line)}") for line in lines], _reach(rows, "distance"))


def knee_marks(bench: Bench) -> list[alt.Chart]:
    """Each knee with its 95 % interval: a band as wide as the interval, labelled at the bottom."""
    levels = [level for level in bench.book.index.hierarchy if level.size_bytes and level.size_low and level.size_high]
    if not levels:
        return []
    base = alt.Chart(values([_knee(level, turn) for turn, level in enumerate(levels)]))
    tips = [alt.Tooltip(field=name, type="nominal", title=title) for name, title in TIPS]
    band = base.mark_rect(style="knee", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), tooltip=tips)
    middle = base.mark_rule(style="knee-line", clip=True).encode(alt.X("x:Q"), tooltip=tips)
    label = base.mark_text(style="knee-label", dx=4, dy=alt.expr("datum.up"))
    return [band, middle, label.encode(alt.X("x:Q"), y=alt.value("height"), text="text:N")]


def _knee(level: Level, turn: int) -> Datum:
    return {
        "x": level.size_bytes,
        "lo": level.size_low,
        "hi": level.size_high,
        "up": -4 - STAGGER * (turn % 2),
        "text": f"{level.level} ends",
        "level": level.level,
        "value": str(size(level.size_bytes, level.size_low, level.size_high)),
        "interval": f"{size(level.size_low)} to {size(level.size_high)}",
    }


def _reach(rows: Sequence[Row], axis: str) -> int:
    """The largest value on the axis."""
    return max((whole_number(row, axis) for row in rows), default=0)


def rules(labelled: Sequence[tuple[int, str]], end: int) -> list[alt.Chart]:
    """Dashed rules with their labels at the top, as far as they lie on the axis, which ends at `end`."""
    data = [
        {"x": place, "text": text, "late": place * LATE > end, "down": 2 + STAGGER * (turn % 3)}
        for turn, (place, text) in enumerate(labelled)
        if place <= end
    ]
    if not data:
        return []
    base = alt.Chart(values(data)).encode(alt.X("x:Q"))
    down = alt.expr("datum.down")
    early = base.transform_filter("!datum.late").mark_text(style="told-label", dx=4, dy=down)
    late = base.transform_filter("datum.late").mark_text(style="told-label", dx=-4, dy=down, align="right")
    return [base.mark_rule(style="told"), *(label.encode(text="text:N", y=alt.value(0)) for label in (early, late))]
