# SPDX-License-Identifier: Apache-2.0
"""Another workload on the sibling hyperthread of the core while it was measured."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from tollmeter.findings._evidence import native_rows, of_row
from tollmeter.model import Book, Evidence, Finding, Row
from tollmeter.numbers.percent import in_percent

LEAST_SHARE = 0.05
LEAST_ROWS = 3


def find(book: Book) -> Iterable[Finding]:
    """Where the core was contended for 5 % of the time. The cost is of the rows that were seen in both states."""
    share = book.index.run.shared_share
    if share is None or share < LEAST_SHARE:
        return
    both = [(row, cost) for row in native_rows(book) if (cost := _cost(row)) is not None]
    dearest = max(both, key=lambda pair: pair[1], default=None)
    usual = (
        f": rows measured in both states cost {in_percent(median(cost for _, cost in both), sign='+')} when contended"
        if len(both) >= LEAST_ROWS
        else ""
    )
    yield Finding(
        name="machine.core_is_shared",
        severity="warning",
        claim=f"the sibling hyperthread is busy for {in_percent(share)} of the time{usual}",
        evidence=(
            Evidence(what="share of the time in timed batches on a contended core", value=share, unit="ratio"),
            Evidence(what="rows seen on an uncontended and on a contended core", value=float(len(both)), unit="count"),
            *([of_row(dearest[0]), Evidence(what="the same on a contended core", value=1 + dearest[1], unit="ratio")]
              if dearest else []),
        ),
        remedy="numbers are of the uncontended core; reserve whole cores, or keep the sibling hyperthread idle",
    )  # fmt: skip


def _cost(row: Row) -> float | None:
    """The extra cost of a row on the contended core, as a share; None where it was not seen both ways."""
    seen = {state.state: state.median for state in row.states}
    if row.status != "ok" or row.better == "neither" or "whole" not in seen or "shared" not in seen:
        return None
    ratio = seen["shared"] / seen["whole"]
    return ratio - 1 if row.better == "less" else 1 / ratio - 1
