# SPDX-License-Identifier: Apache-2.0
"""Charts of addresses that are not aligned: single accesses over their offset, copies over both of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.model import Row
from tollmeter.numbers.meanings import whole_number
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject, spread
from tollmeter.report.charts.curves_chart import Curves, Name, charted, named_by, panel_by
from tollmeter.report.charts.dots_and_heat import Cells, Heat
from tollmeter.report.charts.kernel import dotted
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import quantity

SHOWN_LENGTH_BYTES = 1500
LINEAR_UP_TO = 8.0
LEAST_FOR_SQUARE = 3

ACCESS = Subject(
    "access",
    "One access off its alignment",
    "What does an address that is not aligned cost?",
    ("access-of-offset",),
)
COPY_MEANS = "copy-of-offset"


def access(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning(*ACCESS.means))
    others = bench.varying(rows, "offset")
    series = [name for name in others if name == "width"] or others[:1]
    curves = Curves(
        axis="offset",
        series=named_by(bench, rows, series),
        panel=panel_by(bench, rows, [name for name in others if name not in series]),
        y_title="one access",
        x_title="bytes off its alignment",
        log=spread(rows) > LINEAR_UP_TO,
    )
    yield from charted(bench, rows, ACCESS, curves)


def copy(bench: Bench) -> Iterator[Chart]:
    """A square of both offsets for each routine, at the one length that is nearest to a network packet's."""
    rows = [row for row in bench.own(bench.meaning(COPY_MEANS)) if _has_both_ends(row)]
    if not rows:
        return
    length = min((whole_number(row, "bytes") for row in rows), key=lambda seen: abs(seen - SHOWN_LENGTH_BYTES))
    rows = [row for row in rows if whole_number(row, "bytes") == length]
    if min(_values(rows, "source"), _values(rows, "target")) < LEAST_FOR_SQUARE:
        yield from dotted(bench, rows, _copy(length), bench.axis_title(rows, "bytes copied in a second"))
        return
    panel = panel_by(bench, rows, bench.varying(rows, "source", "target"))
    want = Heat(
        titles=("bytes that the source is off", "bytes that the target is off"),
        unit=rows[0].unit,
        tips=(("panel", "routine"), ("a", "source is off by"), ("b", "target is off by")),
        step=26,
        labelled=False,
        panel=panel is not None,
    )
    yield _copy(length).chart(Cells(tuple(_cell(row, panel) for row in rows), want), rows)


def _copy(length: int) -> Subject:
    return Subject(
        "copy",
        f"Copies{f' of {length:,} bytes' if length else ''} off their alignment",
        "Which routine falls to bytes when its ends are not aligned?",
        (COPY_MEANS,),
    )


def _values(rows: Sequence[Row], end: str) -> int:
    return len({row.parameters[end] for row in rows})


def _cell(row: Row, panel: Name | None) -> Datum:
    ends = {"a": row.parameters["source"], "b": row.parameters["target"]}
    return datum(row, **ends, panel=panel(row) if panel else "", said=quantity(row.median, row.unit).number)


def _has_both_ends(row: Row) -> bool:
    return all(isinstance(row.parameters.get(end), int) for end in ("source", "target"))
