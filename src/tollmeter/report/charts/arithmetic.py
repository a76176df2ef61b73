# SPDX-License-Identifier: Apache-2.0
"""Charts of floating point over vector length, and what one ABI gains over another."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Subject, varying
from tollmeter.report.charts.curves import Curves, charted, named_by

FLOPS = Subject(
    "flops",
    "Floating point over length",
    "How fast is arithmetic, and where does the data leave a cache?",
    ("flops-of-n",),
)


def flops(bench: Bench) -> Iterator[Chart]:
    """One panel a kernel, one line for each ABI and precision."""
    rows = bench.by_abi(bench.meaning(*FLOPS.means))
    rows.sort(key=lambda row: row.probe)
    others = varying(rows, "n")
    several = len({row.abi for row in rows}) > 1
    by = named_by(bench, rows, others)

    def series(row: Row) -> str:
        return ", ".join([*([row.abi] if several else []), *([by(row)] if others or not several else [])])

    curves = Curves(axis="n", series=series, panel=kernel_of, y_title="operations a second", x_title="elements")
    yield from charted(bench, rows, FLOPS, curves)


def speed_up(bench: Bench) -> Iterator[Chart]:
    """How many times as fast the machine's own ABI is as each other one, over vector length."""
    rows = [ratio for row in bench.meaning(*FLOPS.means) if (ratio := _ratio(bench, row)) is not None]
    others = varying(rows, "n")
    by = named_by(bench, rows, others)

    def series(row: Row) -> str:
        return f"over {row.abi}, {by(row)}" if others else f"over {row.abi}"

    subject = Subject(
        "speed-up", f"Speed-up of {bench.abis[0]}", "What does the ABI alone gain, with the same source?", FLOPS.means
    )
    curves = Curves(axis="n", series=series, panel=kernel_of, y_title="times as fast", x_title="elements", log=False)
    yield from charted(bench, rows, subject, curves)


def _ratio(bench: Bench, row: Row) -> Row | None:
    """The machine's own ABI over this row's. The interval is of both ends at once, so it is wider than 95 %."""
    twin = next((own for own in bench.rows if own.abi == bench.abis[0] and _is_twin(own, row)), None)
    if twin is None or twin is row:
        return None
    if not (row.median and row.low and row.high and twin.median and twin.low and twin.high):
        return None
    return msgspec.structs.replace(
        row,
        unit="ratio",
        median=twin.median / row.median,
        low=twin.low / row.high,
        high=twin.high / row.low,
        visits=min(row.visits, twin.visits),
        samples=min(row.samples, twin.samples),
    )


def _is_twin(own: Row, other: Row) -> bool:
    return (own.probe, own.metric, own.parameters) == (other.probe, other.metric, other.parameters)


def kernel_of(row: Row) -> str:
    """What a probe's name says beyond its family."""
    return row.probe.split(".")[-1].replace("_", " ")
