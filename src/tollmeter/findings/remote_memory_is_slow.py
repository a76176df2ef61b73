# SPDX-License-Identifier: Apache-2.0
"""Memory of another node that takes clearly longer than that of the CPU's own."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import number, of_row, own_rows
from tollmeter.inference.nodes import Remote, slowest_remote
from tollmeter.model import Book, Finding

LEAST_RATIO = 1.5


def find(book: Book) -> Iterable[Finding]:
    """The slowest pair of nodes, where the lower end of remote over local is beyond 1.5."""
    slowest = slowest_remote(own_rows(book, "latency-of-node"))
    if slowest and slowest.ratio.low > LEAST_RATIO:
        yield _finding(slowest)


def _finding(slowest: Remote) -> Finding:
    node, home = number(slowest.far, "node"), number(slowest.far, "home")
    times = slowest.ratio.value
    return Finding(
        name="memory.remote_memory_is_slow",
        severity="note",
        claim=f"memory of node {home} takes a CPU of node {node} {times:.1f} times as long as its own",
        evidence=(of_row(slowest.far), of_row(slowest.near)),
        remedy="bind threads and memory to one node (numactl --cpunodebind --membind), touch memory where it is used",
    )
