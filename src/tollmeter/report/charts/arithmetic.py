# SPDX-License-Identifier: Apache-2.0
"""Charts of floating point over vector length, and what one ABI gains over another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, names, varying
from tollmeter.report.charts.curves import Curves, draw, named_by



def flops(bench: Bench) -> Iterator[Chart]:
    """One panel a kernel, one line for each ABI and precision."""
    rows = sorted(bench.meaning("flops-of-n"), key=lambda row: (row.probe, bench.abis.index(row.abi)))
    others = [name for name in varying(rows) if name != "n"]
    several = len({row.abi for row in rows}) > 1
    by = named_by(bench, rows, others)
    curves = Curves(axis="n", series=lambda row: f"{row.abi}, {by(row)}" if several and others else row.abi if several else by(row),
                    panel=kernel_of, y_title=_y_title(rows), x_title="elements")  # fmt: skip
    spec = draw(bench, rows, curves)
    if spec:
        yield Chart("flops", "Floating point over length", "How fast is arithmetic, and where does the data leave a cache?",
                    spec, ("flops-of-n",), names(rows))  # fmt: skip


def speed_up(bench: Bench) -> Iterator[Chart]:
    """How many times as fast the machine's own ABI is as each other one, over vector length."""
    ratios = [ratio for row in bench.meaning("flops-of-n") if (ratio := _ratio(bench, row)) is not None]
    others = [name for name in varying(ratios) if name != "n"]
    by = named_by(bench, ratios, others)
    curves = Curves(axis="n", series=lambda row: f"over {row.abi}, {by(row)}" if others else f"over {row.abi}", panel=kernel_of,
                    y_title="times as fast", x_title="elements", log=False)  # fmt: skip
    spec = draw(bench, ratios, curves)
    if spec:
        yield Chart("speed-up", f"Speed-up of {bench.abis[0]}", "What does the ABI alone gain, with the same source?",
                    spec, ("flops-of-n",), names(ratios))  # fmt: skip


def _ratio(bench: Bench, row: Row) -> Row | None:
    """The machine's own ABI over this row's. The interval is of both ends at once, so it is wider than 95 %."""
    own = bench.abis[0]
    twin = next((r for r in bench.rows if r.abi == own and (r.probe, r.metric, r.parameters) == (row.probe, row.metric, row.parameters)), None)
    if row.abi == own or twin is None or not (row.median and row.low and row.high and twin.median and twin.low and twin.high):
        return None
    return msgspec.structs.replace(row, unit="ratio", median=twin.median / row.median, low=twin.low / row.high,
                                   high=twin.high / row.low, visits=min(row.visits, twin.visits),
                                   samples=min(row.samples, twin.samples))  # fmt: skip


def kernel_of(row: Row) -> str:
    return row.probe.split(".")[-1].replace("_", " ")


def _y_title(rows: Sequence[Row]) -> str:
    return "operations a second" if rows and rows[0].unit == "flop/s" else "cost"
