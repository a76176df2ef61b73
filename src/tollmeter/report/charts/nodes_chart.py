# SPDX-License-Identifier: Apache-2.0
"""Memory nodes: a matrix of the nodes that ask and the nodes that hold the memory."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.inference.nodes import is_loaded
from tollmeter.model import Row
from tollmeter.report.charts.chart import Bench, Chart, Datum, Subject
from tollmeter.report.charts.heat import Cells, Heat
from tollmeter.report.charts.marks import datum
from tollmeter.report.numbers import quantity

SUBJECTS = (
    Subject("node-latency", "Latency between memory nodes", "How long does a load from each memory node take?",
            ("latency-of-node",)),
    Subject("node-bandwidth", "Bandwidth between memory nodes", "How fast is the memory of each node read?",
            ("bandwidth-of-node", "traffic-of-node")),
    Subject("page-move", "Pages moved between memory nodes", "What does it cost to move a page to another node?",
            ("move-of-page",)),
)  # fmt: skip
LEAST_CELLS = 2


def between_nodes(bench: Bench) -> Iterator[Chart]:
    """A panel for one CPU that uses the memory, and one for all CPUs of its node."""
    for subject in SUBJECTS:
        chased = bench.meaning("traffic-of-node")  # by one CPU: what a walk reads, and not what could be read
        rows = [row for row in bench.own(bench.meaning(*subject.means)) if is_loaded(row) or row not in chased]
        if len(rows) < LEAST_CELLS:
            continue
        want = Heat(
            rows="a",
            columns="b",
            titles=("CPU of node", "memory of node"),
            unit=rows[0].unit,
            tips=(("a", "CPU of node"), ("b", "memory of node"), ("panel", "by")),
            panel=len({is_loaded(row) for row in rows}) > 1,
        )
        yield subject.chart(Cells(tuple(map(_cell, rows)), want), rows)


def _cell(row: Row) -> Datum:
    by = "all CPUs of the node" if is_loaded(row) else "one CPU"
    place = {"a": row.parameters["node"], "b": row.parameters["home"]}
    return datum(row, **place, panel=by, said=str(quantity(row.median, row.unit)))
