# SPDX-License-Identifier: Apache-2.0
"""Charts of memory: latency, bandwidth, parallelism and load, with boundaries of levels as dashed rules and bands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Level, Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.curves_chart import Curves, Lines, charted, named_by, panel_by
from tollmeter.report.charts.marks import LABEL_LETTERS, datum, label_of, tips, values, wrapped
from tollmeter.report.numbers import quantity, size

STAGGER = 14  # pixels between labels that would meet on a narrow screen
LATE = 8  # a label to the right of its rule needs about three octaves of the axis
TIPS = tips(("level", "knee of"), ("value", "measured"), ("interval", "95 % interval"))


def reported_sizes(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    """The size of each cache that the system reports: a dashed rule with its label at the top."""
    caches = bench.results.index.machine.caches
    sizes = sorted({(c.level, c.size_bytes) for c in caches if c.kind != "instruction" and c.size_bytes})
    return rules(
        [(size_bytes, f"OS: L{level} {size(size_bytes)}") for level, size_bytes in sizes], _reach(rows, "size")
    )


def reported_lines(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    lines = sorted({c.line_bytes for c in bench.results.index.machine.caches if c.line_bytes})
    return rules([(line, f"OS: line of {size(line)}") for line in lines], _reach(rows, "distance"))


def knee_marks(bench: Bench) -> list[alt.Chart]:
    """Each knee with its 95 % interval: a band as wide as the interval, labelled at the bottom."""
    levels = [
        level for level in bench.results.index.hierarchy if level.size_bytes and level.size_low and level.size_high
    ]
    if not levels:
        return []
    base = alt.Chart(values([_knee(level, turn) for turn, level in enumerate(levels)]))
    band = base.mark_rect(style="knee", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), tooltip=TIPS)
    middle = base.mark_rule(style="knee-line", clip=True).encode(alt.X("x:Q"), tooltip=TIPS)
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


def _room(text: str) -> int:
    """By how much the axis has to go on to the right of a rule for its label."""
    return LATE if len(text) <= LABEL_LETTERS else LATE * LATE


def rules(labelled: Sequence[tuple[int, str]], end: int) -> list[alt.Chart]:
    """Dashed rules with their labels at the top, as far as they lie on the axis, which ends at `end`."""
    data = [
        {"x": place, "text": text, "late": place * _room(text) >= end, "down": 2 + STAGGER * (turn % 3)}
        for turn, (place, text) in enumerate(labelled)
        if place <= end
    ]
    if not data:
        return []
    base = alt.Chart(values(data)).encode(alt.X("x:Q")).transform_calculate(lines=wrapped("datum.text"))
    down = alt.expr("datum.down")
    early = base.transform_filter("!datum.late").mark_text(style="reported-label", dx=4, dy=down)
    late = base.transform_filter("datum.late").mark_text(style="reported-label", dx=-4, dy=down, align="right")
    return [
        base.mark_rule(style="reported"),
        *(label.encode(text="lines:N", y=alt.value(0)) for label in (early, late)),
    ]


# ---- memory ---------------------------------------------------------------------------------------------------------

PAGES = {"small": "small pages", "huge": "huge pages", "local": "small pages, page-local order"}
OPERATIONS = ("read", "write", "copy", "update")
BANDWIDTHS = tuple(f"{operation}-bandwidth-of-size" for operation in OPERATIONS)

LATENCY = Subject(
    "latency",
    "Memory latency over size",
    "How long does one load take, by the size of the buffer that it reads?",
    ("latency-of-size",),
)
LATENCY_BY_ABI = Subject(
    "latency-by-abi",
    "Memory latency by ABI",
    "Does the width of a pointer move a cache's edge?",
    ("latency-of-size",),
)
STRIDE = Subject(
    "stride",
    "Latency over stride",
    "How much does the prefetcher take off, and in which direction?",
    ("latency-of-stride",),
)
BANDWIDTH = Subject("bandwidth", "Bandwidth over size", "How many bytes can one core move in a second?", BANDWIDTHS)
BANDWIDTH_BY_KERNEL = Subject(
    "bandwidth-by-kernel",
    "Bandwidth by kernel",
    "What does the way the loop is written leave on the table?",
    BANDWIDTHS,
)
BANDWIDTH_BY_ABI = Subject(
    "bandwidth-by-abi", "Read bandwidth by ABI", "Does an ABI read memory more slowly?", BANDWIDTHS[:1]
)
PARALLELISM = Subject(
    "parallelism",
    "Memory parallelism",
    "How many loads can be under way before more of them gain nothing? Dotted: a k-th of one chain.",
    ("load-of-chains",),
)
LINE = Subject("line", "Cache line", "How many bytes travel together?", ("line-pair-of-distance",))


def latency(bench: Bench) -> Iterator[Chart]:
    """Log-log, one line a kind of page, the system's sizes as dashed rules, the knees found as bands."""
    rows = bench.own(bench.meaning(*LATENCY.means))
    curves = Curves(
        axis="size",
        series=_pages,
        y_title=_y_title(rows, "one dependent load"),
        x_title="bytes of the buffer, read in random order",
        boundaries=[*knee_marks(bench), *reported_sizes(bench, rows)] if bench.is_the_machine else (),
        height=380,
    )
    yield from charted(bench, rows, LATENCY, curves)


def stride(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*STRIDE.means))
    curves = Curves(
        axis="stride",
        series=named_by(bench, rows, ("order",)),
        panel=panel_by(bench, rows, bench.varying(rows, "stride", "order")),
        y_title=_y_title(rows, "one load"),
        x_title="bytes from one load to the next",
    )
    yield from charted(bench, rows, STRIDE, curves)


def bandwidth(bench: Bench) -> Iterator[Chart]:
    """The most measured kernel of each operation, of equals the fastest, so that a line has one kernel."""
    rows = _in_order(bench, bench.own(bench.meaning(*BANDWIDTHS)))
    swept = {operation: _swept_kernel([row for row in rows if _operation(bench, row) == operation])
            for operation in dict.fromkeys(_operation(bench, row) for row in rows)}  # fmt: skip
    chosen = [row for row in rows if _kernel(row) == swept[_operation(bench, row)]]
    curves = Curves(
        axis="size",
        series=lambda row: ", ".join(filter(None, (_operation(bench, row), _kernel(row)))),
        y_title=bench.axis_title(chosen, "bytes counted a second"),
        x_title="bytes of each buffer",
        boundaries=[*knee_marks(bench), *reported_sizes(bench, chosen)] if bench.is_the_machine else (),
    )
    yield from charted(bench, chosen, BANDWIDTH, curves)


def _kernel(row: Row) -> str:
    return str(row.parameters.get("kernel", ""))


def _swept_kernel(rows: Sequence[Row]) -> str:
    counts = Counter(_kernel(row) for row in rows)
    return _kernel(max(rows, key=lambda row: (counts[_kernel(row)], row.median or 0.0)))


def bandwidth_by_kernel(bench: Bench) -> Iterator[Chart]:
    """Small multiples: what each way of writing the loop reaches, an operation a panel."""
    rows = _in_order(bench, bench.own(bench.meaning(*BANDWIDTHS)))
    others = bench.varying(rows, "size")
    if not others:
        return
    curves = Curves(
        axis="size",
        series=named_by(bench, rows, others),
        panel=lambda row: _operation(bench, row),
        y_title=bench.axis_title(rows, "bytes counted a second"),
        x_title="bytes of each buffer",
    )
    yield from charted(bench, rows, BANDWIDTH_BY_KERNEL, curves)


def parallelism(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*PARALLELISM.means))
    curves = Curves(
        axis="chains",
        series=named_by(bench, rows, bench.varying(rows, "chains")),
        y_title=_y_title(rows, "one load"),
        x_title="independent chains under way in one thread",
        legend="buffer of",
        more=_ideal(rows),
    )
    yield from charted(bench, rows, PARALLELISM, curves)


def _ideal(rows: Sequence[Row]) -> list[alt.Chart]:
    """What k chains would take if each of them were free: a k-th of one."""
    alone = {row.parameters.get("size"): row for row in rows if row.parameters.get("chains") == 1 and row.median}
    data = [
        {
            "x": row.parameters["chains"],
            "y": (alone[size].median or 0.0) / int(row.parameters["chains"]),
            "of": str(size),
        }
        for row in rows
        if (size := row.parameters.get("size")) in alone
    ]
    if not data:
        return []
    base = alt.Chart(values(data))
    return [base.mark_line(style="ideal", clip=True).encode(alt.X("x:Q"), alt.Y("y:Q"), detail="of:N")]


def line(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*LINE.means))
    curves = Curves(
        axis="distance",
        series=named_by(bench, rows, bench.varying(rows, "distance")),
        y_title=_y_title(rows, "the second touch"),
        x_title="bytes from the first touch to the second",
        height=260,
        boundaries=reported_lines(bench, rows) if bench.is_the_machine else (),
    )
    yield from charted(bench, rows, LINE, curves)


def by_abi(bench: Bench, subject: Subject) -> Iterator[Chart]:
    """A panel for each ABI on shared axes, where there are at least two."""
    rows = bench.by_abi(bench.meaning(*subject.means))
    if len({row.abi for row in rows}) < 2:
        return
    curves = Curves(
        axis="size",
        series=named_by(bench, rows, bench.varying(rows, "size")),
        panel=lambda row: row.abi,
        y_title=_y_title(rows, "one access"),
        x_title="bytes of the buffer",
    )
    yield from charted(bench, rows, subject, curves)


def _pages(row: Row) -> str:
    pages = str(row.parameters.get("pages", row.abi))
    return PAGES.get(pages, pages)


def _operation(bench: Bench, row: Row) -> str:
    metric = bench.metric(row)
    return (metric.means or "").removesuffix("-bandwidth-of-size") if metric else row.probe


def _in_order(bench: Bench, rows: Sequence[Row]) -> list[Row]:
    """By operation, then by size, which is the order in which a line is drawn."""
    place = {operation: number for number, operation in enumerate(OPERATIONS)}
    return sorted(rows, key=lambda row: (place.get(_operation(bench, row), len(place)), row.parameters.get("size", 0)))


def _y_title(rows: Sequence[Row], what: str) -> str:
    counted = {"instruction": "instructions of ", "cycle": "core cycles of ", "ns": "time of "}
    return counted.get(rows[0].unit, "") + what if rows else what


# ---- latency under load ---------------------------------------------------------------------------------------------

LOAD = Subject(
    "load",
    "Latency under load",
    "How much longer does a load wait while other CPUs use the memory?",
    ("latency-of-traffic", "traffic-beside"),
)
X_TITLE = "traffic of the other CPUs per second"


def load(bench: Bench) -> Iterator[Chart]:
    """One line a mix of reads and writes. Each point has its own traffic, measured beside the latency."""
    pairs = beside(bench)
    data = tuple(_datum(row, traffic) for row, traffic in pairs)
    if len(data) < 2:
        return
    rows, traffics = zip(*pairs, strict=True)
    curves = Curves("delay", _mix, "one dependent load", X_TITLE, log=False, banded=False)
    leading = ("series", "traffic"), ("beside", "background traffic")
    yield LOAD.chart(Lines(data, rows[0].unit, curves, _x, leading), [*rows, *traffics])


def beside(bench: Bench) -> list[tuple[Row, Row]]:
    """Each latency with the traffic beside it."""
    traffic = {_point(row): row for row in bench.meaning("traffic-beside")}
    rows = bench.own(bench.meaning("latency-of-traffic"))
    return [(row, traffic[_point(row)]) for row in rows if _point(row) in traffic]


def _x(_: Sequence[float]) -> alt.X:
    axis, scale = alt.Axis(labelExpr=label_of("B/s"), grid=False), alt.Scale(zero=True, nice=True)
    return alt.X("x:Q", title=X_TITLE, axis=axis, scale=scale)


def _mix(row: Row) -> str:
    return str(row.parameters.get("mix", "traffic"))


def _point(row: Row) -> tuple[object, ...]:
    return row.probe, row.abi, tuple(sorted((name, str(value)) for name, value in row.parameters.items()))


def _datum(row: Row, beside: Row) -> Datum:
    moved = quantity(beside.median, beside.unit, beside.low, beside.high)
    return datum(row, x=beside.median, beside=str(moved), series=_mix(row))
