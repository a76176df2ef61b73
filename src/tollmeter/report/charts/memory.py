# SPDX-License-Identifier: Apache-2.0
"""Charts of memory: latency, bandwidth, parallelism and load, with boundaries of levels as dashed rules and bands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tollmeter.inference.reach import kernel_of
from tollmeter.model import Row
from tollmeter.numbers.meanings import meaning, whole_number
from tollmeter.report.charts import marks
from tollmeter.report.charts.chart import Bench, Chart, Spec, Subject
from tollmeter.report.charts.curves_chart import Lines, charted
from tollmeter.report.charts.marks import inline_values, layer, nominal, quantitative
from tollmeter.report.numbers import quantity, share_of_writes, size, writes

STAGGER = 14  # pixels between labels that would meet on a narrow screen
LATE = 8  # a label to the right of its rule needs about three octaves of the axis
_TIPS = marks.tips(("level", "knee of"), ("value", "measured"), ("interval", "95 % interval"))


def reported_sizes(bench: Bench, rows: Sequence[Row]) -> list[Spec]:
    """Returns the size of each cache that the system reports: a dashed rule with its label at the top."""
    sizes = bench.results.index.machine.data_sizes().items()
    end = max((whole_number(row, "size") for row in rows), default=0)
    return dashed_rules([(size_bytes, f"OS: L{level} {size(size_bytes)}") for level, size_bytes in sizes], end)


def knee_marks(bench: Bench) -> list[Spec]:
    """Returns each knee with its 95 % interval: a band as wide as the interval, labelled at the bottom."""
    known = [
        level for level in bench.results.index.hierarchy if level.size_bytes and level.size_low and level.size_high
    ]
    data = [
        {"x": level.size_bytes, "lo": level.size_low, "hi": level.size_high, "up": -4 - STAGGER * (turn % 2),
         "text": f"{level.level} ends", "level": level.level,
         "value": str(size(level.size_bytes, level.size_low, level.size_high)),
         "interval": f"{size(level.size_low)} to {size(level.size_high)}"}
        for turn, level in enumerate(known)
    ]  # fmt: skip
    if not data:
        return []
    x, own = quantitative("x"), inline_values(data)
    reach = {"x": quantitative("lo"), "x2": {"field": "hi"}, "tooltip": _TIPS}
    text = {"x": x, "y": {"value": "height"}, "text": nominal("text")}
    return [
        layer("rect", reach, data=own, style="knee", clip=True),
        layer("rule", {"x": x, "tooltip": _TIPS}, data=own, style="knee-line", clip=True),
        layer("text", text, data=own, style="knee-label", dx=4, dy={"expr": "datum.up"}),
    ]


def dashed_rules(labelled: Sequence[tuple[int, str]], end: int) -> list[Spec]:
    """Returns dashed rules with labels at the top, for values up to the axis's `end`. A label is at the left of its
    rule if the space to the right is too narrow for its lines."""
    data = [
        {"x": place, "text": text, "late": place * (LATE if len(text) <= marks.LABEL_LETTERS else LATE * LATE) >= end,
         "down": 2 + STAGGER * (turn % 3)}
        for turn, (place, text) in enumerate(labelled) if place <= end
    ]  # fmt: skip
    if not data:
        return []
    x, own, lines = (
        quantitative("x"),
        inline_values(data),
        {"calculate": marks.wrapped_expression("datum.text"), "as": "lines"},
    )
    text: Spec = {"x": x, "y": {"value": 0}, "text": nominal("lines")}
    sides: dict[str, Spec] = {"!datum.late": {"dx": 4}, "datum.late": {"dx": -4, "align": "right"}}
    labels = [layer("text", text, data=own, transform=[lines, {"filter": test}], style="reported-label",
                    dy={"expr": "datum.down"}, **side) for test, side in sides.items()]  # fmt: skip
    return [layer("rule", {"x": x}, data=own, style="reported"), *labels]


# ---- memory ---------------------------------------------------------------------------------------------------------

PAGES = {"small": "small pages", "huge": "huge pages", "local": "small pages, a few at a time"}
OPERATIONS = ("read", "write", "copy", "update")
_BANDWIDTHS = tuple(f"{operation}-bandwidth-of-size" for operation in OPERATIONS)

LATENCY = Subject("latency", "Memory latency over size",
                  "How long does one load take, by the size of the buffer that it reads?",
                  ("latency-of-size",))  # fmt: skip
LATENCY_BY_ABI = Subject("latency-by-abi", "Memory latency by ABI", "Does the width of a pointer move a cache's edge?",
                         LATENCY.means)  # fmt: skip
STRIDE = Subject("stride", "Latency over stride", "How much does the prefetcher take off, and in which direction?",
                 ("latency-of-stride",))  # fmt: skip
BANDWIDTH = Subject("bandwidth", "Bandwidth over size", "How many bytes can one core move in a second?", _BANDWIDTHS)
BANDWIDTH_BY_KERNEL = Subject("bandwidth-by-kernel", "Bandwidth by kernel",
                              "How much slower are other ways to write the loop?", _BANDWIDTHS)  # fmt: skip
BANDWIDTH_BY_ABI = Subject("bandwidth-by-abi", "Read bandwidth by ABI", "Does an ABI read memory more slowly?",
                           _BANDWIDTHS[:1])  # fmt: skip
PARALLELISM = Subject("parallelism", "Memory parallelism",
                      "How many loads can be under way before more of them gain nothing? Dotted: a k-th of one chain.",
                      ("load-of-chains",))  # fmt: skip
_LINE = Subject("line", "Cache line", "How many bytes travel together?", ("line-pair-of-distance",))


def latency(bench: Bench) -> Iterator[Chart]:
    """Yields the latency chart: log-log, a line for each kind of page, the system's sizes as dashed rules, the found
    knees as bands."""
    rows = bench.own(bench.meaning(*LATENCY.means))

    def pages(row: Row) -> str:
        name = str(row.parameters.get("pages", row.abi))
        return PAGES.get(name, name)

    yield from charted(
        bench, rows, LATENCY, axis="size", series=pages, y_title=_y_title(rows, "one dependent load"),
        x_title="bytes of the buffer, read in random order",
        boundaries=[*knee_marks(bench), *reported_sizes(bench, rows)] if bench.is_the_machine else (), height=300,
    )  # fmt: skip


def stride(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*STRIDE.means))
    yield from charted(
        bench, rows, STRIDE, axis="stride", series=bench.named_by(rows, ("order",)),
        panel=bench.panels(rows, "stride", "order"), y_title=_y_title(rows, "one load"),
        x_title="bytes from one load to the next",
    )  # fmt: skip


def bandwidth(bench: Bench) -> Iterator[Chart]:
    """Yields at most two lines for each operation: the fastest kernel at each size if several were measured, and the
    kernel that was measured at most sizes, if it was measured alone at some of them."""
    rows = _bandwidths(bench)
    name_of: dict[int, str] = {}
    for operation in OPERATIONS:
        for name, line_ in _bandwidth_lines([row for row in rows if _operation(bench, row) == operation]):
            name_of |= {id(row): ", ".join(filter(None, (operation, name))) for row in line_}
    chosen = [row for row in rows if id(row) in name_of]
    yield from charted(
        bench, chosen, BANDWIDTH, axis="size", series=lambda row: name_of[id(row)],
        y_title=bench.axis_title(chosen, "bytes counted a second"), x_title="bytes of each buffer",
        boundaries=[*knee_marks(bench), *reported_sizes(bench, chosen)] if bench.is_the_machine else (), height=280,
    )  # fmt: skip


def _bandwidth_lines(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    """Yields the lines of bandwidth. rows: rows of one operation. The fastest line has the name of its kernel if that
    is one kernel; the other line omits the sizes at which its kernel is the fastest of several."""
    by_size: dict[object, list[Row]] = {}
    for row in rows:
        by_size.setdefault(row.parameters.get("size"), []).append(row)
    alone = Counter(_kernel(of_size[0]) for of_size in by_size.values() if len(of_size) == 1)
    sweep = next((kernel for kernel, _ in alone.most_common(1)), None)
    fastest = [max(of_size, key=lambda row: row.median or 0.0) for of_size in by_size.values()
               if len(of_size) > 1 or _kernel(of_size[0]) != sweep]  # fmt: skip
    kernels = {_kernel(row) for row in fastest}
    yield kernels.pop() if len(kernels) == 1 else "fastest kernel", fastest
    if sweep is not None:
        yield sweep, [row for row in rows if _kernel(row) == sweep and row not in fastest]


def bandwidth_by_kernel(bench: Bench) -> Iterator[Chart]:
    """Yields small multiples: the bandwidth of each implementation of the loop, a panel for each operation."""
    rows = _bandwidths(bench)
    if bench.varying(rows, "size"):
        yield from charted(
            bench, rows, BANDWIDTH_BY_KERNEL, axis="size", series=bench.series(rows, "size"),
            panel=lambda row: _operation(bench, row), y_title=bench.axis_title(rows, "bytes counted a second"),
            x_title="bytes of each buffer",
        )  # fmt: skip


def _bandwidths(bench: Bench) -> list[Row]:
    """Returns the rows by operation, then by size, which is the order in which a line is drawn."""
    rows = bench.own(bench.meaning(*_BANDWIDTHS))
    return sorted(rows, key=lambda row: (OPERATIONS.index(_operation(bench, row)), row.parameters.get("size", 0)))


def _operation(bench: Bench, row: Row) -> str:
    return str(meaning(row, bench.results.probes)).removesuffix("-bandwidth-of-size")


def _kernel(row: Row) -> str:
    return kernel_of(row) if "kernel" in row.parameters else ""


def parallelism(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*PARALLELISM.means))
    # A k-th of one chain: what k chains would take if each of them were free.
    alone = {row.parameters.get("size"): row.median for row in rows if row.parameters.get("chains") == 1 and row.median}
    ideal = [{"x": row.parameters["chains"], "y": alone[bytes_] / int(row.parameters["chains"]), "of": str(bytes_)}
             for row in rows if (bytes_ := row.parameters.get("size")) in alone]  # fmt: skip
    places = {"x": quantitative("x"), "y": quantitative("y"), "detail": nominal("of")}
    dotted = layer("line", places, data=inline_values(ideal), style="ideal", clip=True)
    yield from charted(
        bench, rows, PARALLELISM, axis="chains", series=bench.series(rows, "chains"),
        y_title=_y_title(rows, "one load"), x_title="independent chains under way in one thread", legend="buffer of",
        more=[dotted] if ideal else (),
    )  # fmt: skip


def line(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*_LINE.means))
    lines = sorted({c.line_bytes for c in bench.results.index.machine.caches if c.line_bytes})
    end = max((whole_number(row, "distance") for row in rows), default=0)
    reported = dashed_rules([(bytes_, f"OS: line of {size(bytes_)}") for bytes_ in lines], end)
    yield from charted(
        bench, rows, _LINE, axis="distance", series=bench.series(rows, "distance"),
        y_title=_y_title(rows, "the second touch"), x_title="bytes from the first touch to the second", height=260,
        boundaries=reported if bench.is_the_machine else (),
    )  # fmt: skip


def by_abi(bench: Bench, subject: Subject) -> Iterator[Chart]:
    """Yields a panel for each ABI on shared axes, if there are at least two."""
    rows = bench.by_abi(bench.meaning(*subject.means))
    if len({row.abi for row in rows}) >= 2:
        yield from charted(
            bench, rows, subject, axis="size", series=bench.series(rows, "size"), panel=lambda row: row.abi,
            y_title=_y_title(rows, "one access"), x_title="bytes of the buffer",
        )  # fmt: skip


def _y_title(rows: Sequence[Row], operation: str) -> str:
    counted = {"instruction": "instructions of ", "cycle": "core cycles of ", "ns": "time of "}
    return counted.get(rows[0].unit, "") + operation if rows else operation


# ---- latency under load ---------------------------------------------------------------------------------------------

LOAD = Subject("load", "Latency under load", "How much longer does a load wait while other CPUs use the memory?",
               ("latency-of-traffic", "traffic-beside"))  # fmt: skip
X_TITLE = "traffic of the other CPUs per second"


def load(bench: Bench) -> Iterator[Chart]:
    """Yields one line for each share of writes, a panel for each memory node and size. Each point has its own traffic,
    measured with the latency. In saturated memory a faster pace may move less data, so points are joined in the
    order of the pace."""
    pairs = sorted(rows_with_traffic(bench), key=lambda pair: share_of_writes(str(pair[0].parameters.get("mix"))) or 0)
    if len(pairs) < 2:
        return

    def mix(row: Row) -> str:
        return writes(str(row.parameters.get("mix", "traffic")))

    panel = bench.panels([row for row, _ in pairs], "delay", "mix")
    data = tuple(
        marks.datum(row, x=traffic.median, series=mix(row), panel=panel(row) if panel else "",
                    beside=str(quantity(traffic.median, traffic.unit, traffic.low, traffic.high)),
                    pace=row.parameters["delay"])
        for row, traffic in pairs
    )  # fmt: skip
    leading = ("series", "traffic"), ("beside", "background traffic")
    rows, traffics = zip(*pairs, strict=True)
    lines = Lines(data, rows[0].unit, _x, leading, "one dependent load", log=False, joined_by="pace")
    yield LOAD.chart(lines, [*rows, *traffics])


def rows_with_traffic(bench: Bench) -> list[tuple[Row, Row]]:
    """Returns each latency row with the row of the traffic measured with it."""

    def point(row: Row) -> tuple[object, ...]:
        return row.probe, row.abi, tuple(sorted((name, str(value)) for name, value in row.parameters.items()))

    traffic = {point(row): row for row in bench.meaning("traffic-beside")}
    rows = bench.own(bench.meaning("latency-of-traffic"))
    return [(row, traffic[point(row)]) for row in rows if point(row) in traffic]


def _x(_: Sequence[float]) -> Spec:
    axis, scale = {"labelExpr": marks.label_of("B/s"), "grid": False}, {"zero": True, "nice": True}
    return quantitative("x", title=X_TITLE, axis=axis, scale=scale)
