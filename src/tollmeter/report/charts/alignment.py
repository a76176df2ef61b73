# SPDX-License-Identifier: Apache-2.0
"""Charts of addresses that are not aligned: single accesses over their offset, copies over both of theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, names, varying
from tollmeter.report.charts.curves import Curves, draw, named_by
from tollmeter.report.charts.heat import Heat, heat
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import quantity

SHOWN_LENGTH_BYTES = 1500


def access(bench: Bench) -> Iterator[Chart]:
    rows = bench.own(bench.meaning("access-of-offset"))
    others = [name for name in varying(rows) if name != "offset"]
    series = [name for name in others if name == "width"] or others[:1]
    panels = [name for name in others if name not in series]
    curves = Curves(axis="offset", series=named_by(bench, rows, series), y_title="one access", log=_spans(rows),
                    panel=named_by(bench, rows, panels) if panels else (lambda row: ""),
                    x_title="bytes past the access's natural alignment")  # fmt: skip
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("access", "One access off its alignment", "What does an address that is not aligned cost?",
                    spec, ("access-of-offset",), names(rows))  # fmt: skip


def copy(bench: Bench) -> Iterator[Chart]:
    """A square of both offsets for each routine, at the one length that is nearest to a network packet's."""
    rows = bench.own(bench.meaning("copy-of-offset"))
    rows = [row for row in rows if isinstance(row.parameters.get("source"), int) and isinstance(row.parameters.get("target"), int)]
    if not rows:
        return
    lengths = {int(row.parameters.get("bytes", 0)) for row in rows}
    length = min(lengths, key=lambda seen: abs(seen - SHOWN_LENGTH_BYTES))
    rows = [row for row in rows if int(row.parameters.get("bytes", 0)) == length]
    panels = [name for name in varying(rows) if name not in ("source", "target")]
    panel = named_by(bench, rows, panels)
    data = [datum(row, a=row.parameters["source"], b=row.parameters["target"], panel=panel(row) if panels else "",
                  said=quantity(row.median, row.unit).number) for row in rows]  # fmt: skip
    want = Heat(rows="a", columns="b", titles=("bytes that the source is off", "bytes that the target is off"), unit=rows[0].unit, step=26,
                tips=(("panel", "routine"), ("a", "source is off by"), ("b", "target is off by")),
                said=False, panel=bool(panels))  # fmt: skip
    of_length = f" of {length:,} bytes" if length else ""
    yield Chart("copy", f"Copies{of_length} off their alignment", "Which routine falls to bytes when its ends are not aligned?",
                heat(data, want), ("copy-of-offset",), names(rows))  # fmt: skip


def _spans(rows: Sequence[Row]) -> bool:
    seen = [row.median for row in rows if row.median]
    return bool(seen) and min(seen) > 0 and max(seen) / min(seen) > 8
