# SPDX-License-Identifier: Apache-2.0
"""Charts of the memory hierarchy: latency, bandwidth and parallelism over size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, names, varying
from tollmeter.report.charts.curves import Curves, draw, is_size, named_by
from tollmeter.report.charts.marks import values
from tollmeter.report.numbers import size

STAGGER = 14  # pixels between labels that would meet on a narrow screen
LATE = 8  # a label to the right of its rule needs about three octaves of the axis
PAGES = {"small": "small pages", "huge": "huge pages", "local": "small pages, page-local order"}
OPERATIONS = ("read", "write", "copy", "update")
BANDWIDTHS = tuple(f"{operation}-bandwidth-of-size" for operation in OPERATIONS)


def latency(bench: Bench) -> Iterator[Chart]:
    """Log-log, one line a kind of page, the system's sizes as dashed rules, the knees found as bands."""
    everything = bench.meaning("latency-of-size")
    rows = bench.own(everything)
    spec = draw(
        bench,
        rows,
        Curves(
            axis="size",
            series=lambda row: PAGES.get(str(row.parameters.get("pages", "")), str(row.parameters.get("pages", row.abi))),
            y_title=_y_title(rows, "one dependent load"),
            x_title="bytes wandered through in random order",
            more=[*_found(bench), *_told(bench, rows)] if bench.is_hardware else (),
            height=380,
        ),
    )
    if spec:
        yield Chart("latency", "Memory latency over size", "How long does one load wait, by how much memory it wanders through?",
                    spec, ("latency-of-size",), names(rows))  # fmt: skip


def latency_by_abi(bench: Bench) -> Iterator[Chart]:
    yield from _by_abi(bench, bench.meaning("latency-of-size"), "latency-by-abi", "Memory latency by ABI",
                       "Does the width of a pointer move a cache's edge?", ("latency-of-size",))  # fmt: skip


def stride(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning("latency-of-stride"))
    fixed = [name for name in varying(rows) if name not in ("stride", "order")]
    spec = draw(bench, rows, Curves(axis="stride", series=named_by(bench, rows, ("order",)), y_title=_y_title(rows, "one load"),
                                    x_title="bytes from one load to the next", panel=_panel(bench, rows, fixed)))  # fmt: skip
    if spec:
        yield Chart("stride", "Latency over stride", "How much does the prefetcher take off, and in which direction?",
                    spec, ("latency-of-stride",), names(rows))  # fmt: skip


def bandwidth(bench: Bench) -> Iterator[Chart]:
    """The best kernel of each operation at each size; which one it was is in the hover."""
    rows = bench.own(bench.meaning(*BANDWIDTHS))
    best: dict[tuple[str, object], Row] = {}
    for row in rows:
        key = (_operation(bench, row), row.parameters.get("size"))
        if key not in best or (row.median or 0) > (best[key].median or 0):
            best[key] = row
    fastest = sorted(best.values(), key=lambda row: (_place(_operation(bench, row)), int(row.parameters.get("size", 0))))
    curves = Curves(axis="size", series=lambda row: _operation(bench, row), y_title="bytes counted a second, best kernel",
                    x_title="bytes of each buffer", more=_told(bench, rows) if bench.is_hardware else ())  # fmt: skip
    spec = draw(bench, fastest, curves)
    if spec:
        yield Chart("bandwidth", "Bandwidth over size", "How many bytes can one core move in a second?",
                    spec, BANDWIDTHS, names(rows))  # fmt: skip


def bandwidth_by_kernel(bench: Bench) -> Iterator[Chart]:
    """Small multiples: what each way of writing the loop reaches, an operation a panel."""
    rows = bench.own(bench.meaning(*BANDWIDTHS))
    rows.sort(key=lambda row: _place(_operation(bench, row)))
    others = [name for name in varying(rows) if name != "size"]
    if not others:
        return
    curves = Curves(axis="size", series=named_by(bench, rows, others), panel=lambda row: _operation(bench, row),
                    y_title="bytes counted a second", x_title="bytes of each buffer")  # fmt: skip
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("bandwidth-by-kernel", "Bandwidth by kernel", "What does the way the loop is written leave on the table?",
                    spec, BANDWIDTHS, names(rows))  # fmt: skip


def bandwidth_by_abi(bench: Bench) -> Iterator[Chart]:
    rows = bench.meaning("read-bandwidth-of-size")
    yield from _by_abi(bench, rows, "bandwidth-by-abi", "Read bandwidth by ABI",
                       "Does an ABI read memory more slowly?", ("read-bandwidth-of-size",))  # fmt: skip


def parallelism(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning("load-of-chains"))
    others = [name for name in varying(rows) if name != "chains"]
    curves = Curves(axis="chains", series=named_by(bench, rows, others), y_title=_y_title(rows, "one load"), legend="buffer of",
                    x_title="independent chains under way in one thread")  # fmt: skip
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("parallelism", "Memory parallelism", "How many loads can be under way before more of them gain nothing?",
                    spec, ("load-of-chains",), names(rows))  # fmt: skip


def line(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning("line-pair-of-distance"))
    others = [name for name in varying(rows) if name != "distance"]
    curves = Curves(axis="distance", series=named_by(bench, rows, others), y_title=_y_title(rows, "the second touch"),
                    x_title="bytes from the first touch to the second", height=260,
                    more=_line_told(bench, rows))  # fmt: skip
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("line", "Cache line", "How many bytes travel together?", spec, ("line-pair-of-distance",), names(rows))


def _by_abi(bench: Bench, rows: Sequence[Row], name: str, title: str, question: str, means: tuple[str, ...]) -> Iterator[Chart]:
    """A panel for each ABI on shared axes, where there are at least two."""
    order = [abi for abi in bench.abis if any(row.abi == abi for row in rows)]
    if len(order) < 2:
        return
    ranked = sorted(rows, key=lambda row: order.index(row.abi))
    others = [key for key in varying(ranked) if key != "size"]
    curves = Curves(axis="size", series=named_by(bench, ranked, others), panel=lambda row: row.abi,
                    y_title=_y_title(ranked, "one access"), x_title="bytes of the buffer")  # fmt: skip
    spec = draw(bench, ranked, curves)
    if spec:
        yield Chart(name, title, question, spec, means, names(ranked))


def _told(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    """What the system says of each cache: a dashed rule with its label at the top."""
    caches = sorted({(c.level, c.size_bytes) for c in bench.book.index.machine.caches if c.kind != "instruction" and c.size_bytes})
    return _rules([(told, f"OS: L{level} {size(told)}") for level, told in caches], _reach(rows, "size"))


def _line_told(bench: Bench, rows: Sequence[Row]) -> list[alt.Chart]:
    lines = sorted({c.line_bytes for c in bench.book.index.machine.caches if c.line_bytes})
    return _rules([(told, f"OS: line of {size(told)}") for told in lines], _reach(rows, "distance"))


def _reach(rows: Sequence[Row], axis: str) -> int:
    return max((int(row.parameters[axis]) for row in rows if isinstance(row.parameters.get(axis), int)), default=0)


def _rules(told: Sequence[tuple[int, str]], end: int) -> list[alt.Chart]:
    """Dashed rules with their labels at the top, inside the axis that ends at `end`; none where there is nothing to tell."""
    data = [{"x": place, "text": text, "late": place * LATE > end, "down": 2 + STAGGER * (turn % 2)}
            for turn, (place, text) in enumerate(told) if place <= end]  # fmt: skip
    if not data:
        return []
    base = alt.Chart(values(data)).encode(alt.X("x:Q"))
    early = base.transform_filter("!datum.late").mark_text(style="told-label", dx=4, dy=alt.expr("datum.down"))
    late = base.transform_filter("datum.late").mark_text(style="told-label", dx=-4, dy=alt.expr("datum.down"), align="right")
    return [base.mark_rule(style="told"), *(label.encode(text="text:N", y=alt.value(0)) for label in (early, late))]


def _found(bench: Bench) -> list[alt.Chart]:
    """Each knee with its 95 % interval: a band as wide as the interval, labelled at the bottom."""
    data = [
        {"x": level.size_bytes, "lo": level.size_low, "hi": level.size_high, "level": level.level,
         "text": f"{level.level} ends", "up": -4 - STAGGER * (turn % 2), "value": str(size(level.size_bytes, level.size_low, level.size_high)),
         "interval": f"{size(level.size_low)} to {size(level.size_high)}"}
        for turn, level in enumerate(bench.book.index.hierarchy)
        if level.size_bytes and level.size_low and level.size_high
    ]  # fmt: skip
    if not data:
        return []
    base = alt.Chart(values(data))
    tips = [alt.Tooltip(field=f, type="nominal", title=t) for f, t in
            (("level", "knee of"), ("value", "measured"), ("interval", "95 % interval"))]  # fmt: skip
    band = base.mark_rect(style="knee", clip=True).encode(alt.X("lo:Q"), alt.X2("hi:Q"), tooltip=tips)
    middle = base.mark_rule(style="knee-line", clip=True).encode(alt.X("x:Q"), tooltip=tips)
    label = base.mark_text(style="knee-label", dx=4, dy=alt.expr("datum.up")).encode(alt.X("x:Q"), y=alt.value("height"), text="text:N")
    return [band, middle, label]


def _operation(bench: Bench, row: Row) -> str:
    metric = bench.metric(row)
    return (metric.means or "").removesuffix("-bandwidth-of-size") if metric else row.probe


def _place(operation: str) -> int:
    return OPERATIONS.index(operation) if operation in OPERATIONS else len(OPERATIONS)


def _panel(bench: Bench, rows: Sequence[Row], parameters: Sequence[str]) -> object:
    return named_by(bench, rows, parameters) if parameters else (lambda row: "")


def _y_title(rows: Sequence[Row], what: str) -> str:
    counted = {"instruction": "instructions of ", "cycle": "core cycles of ", "ns": "time of "}
    return counted.get(rows[0].unit, "") + what if rows else what
