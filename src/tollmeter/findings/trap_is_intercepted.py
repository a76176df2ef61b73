# SPDX-License-Identifier: Apache-2.0
"""A trap that costs far more than its siblings under a hypervisor: it is seen there before the kernel sees it."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import is_separate, of_row, own_rows
from tollmeter.model import Book, Finding, Row

DEARER = 2.0


def find(book: Book) -> Iterable[Finding]:
    """Each kind of trap that costs more than twice the median trap, on a machine that names its hypervisor."""
    traps = sorted(own_rows(book, "trap"), key=lambda row: row.median or 0.0)
    hypervisor = book.index.machine.hypervisor
    if not hypervisor or len(traps) < 3:
        return
    usual = traps[(len(traps) - 1) // 2]
    for trap in traps:
        if (trap.median or 0.0) > DEARER * (usual.median or 0.0) and is_separate(usual, trap):
            yield _finding(trap, usual, hypervisor)


def _finding(trap: Row, usual: Row, hypervisor: str) -> Finding:
    kind, other = (str(row.parameters.get("trap", row.probe)).replace("_", " ") for row in (trap, usual))
    more_us = ((trap.median or 0.0) - (usual.median or 0.0)) / 1000
    return Finding(
        name="kernel.trap_is_intercepted",
        severity="note",
        claim=f"{kind} costs {more_us:.1f} µs more than {other}: the hypervisor ({hypervisor}) sees it first",
        evidence=(of_row(trap), of_row(usual)),
        remedy="keep such traps out of hot paths in this guest; without a hypervisor they cost what their siblings do",
    )
