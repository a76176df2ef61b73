# SPDX-License-Identifier: Apache-2.0
"""Memory of another node that takes clearly longer than that of the CPU's own."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import number, of_row, own_rows
from tollmeter.inference.answers import ratio
from tollmeter.model import Book, Finding, Row

LEAST_RATIO = 1.5


def find(book: Book) -> Iterable[Finding]:
    """The slowest pair of nodes, where the lower end of remote over local is beyond 1.5."""
    rows = own_rows(book, "latency-of-node")
    local = {number(row, "node"): row for row in rows if number(row, "home") == number(row, "node")}
    pairs = [(row, local[number(row, "node")]) for row in rows if number(row, "node") in local]
    far = [(remote, near) for remote, near in pairs if ratio(remote, near).low > LEAST_RATIO]
    if far:
        yield _finding(*max(far, key=lambda pair: ratio(*pair).value))


def _finding(remote: Row, near: Row) -> Finding:
    times = ratio(remote, near).value
    node, home = number(remote, "node"), number(remote, "home")
    return Finding(
        name="memory.remote_memory_is_slow",
        severity="note",
        claim=f"memory of node {home} takes a CPU of node {node} {times:.1f} times as long as its own",
        evidence=(of_row(remote), of_row(near)),
        remedy="bind threads and memory to one node (numactl --cpunodebind --membind), touch memory where it is used",
    )
