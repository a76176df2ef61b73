# SPDX-License-Identifier: Apache-2.0
"""What interrupts a loop that never waits, by the interval between interruptions."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import of_row, own_rows
from tollmeter.model import Book, Finding
from tollmeter.numbers.percent import in_percent

MATTERS = 0.001
REGULAR = 0.25
"""Share of the distances: with fewer there is no period."""
TICKS_HZ = (100, 250, 300, 1000)
WITHIN = 0.03
REMEDIES = {
    True: "isolcpus= and nohz_full= keep the tick and the kernel's threads from a CPU",
    False: "ask who else runs here: other programs (top), interrupts (/proc/interrupts), or neighbours on the host",
}


def find(book: Book) -> Iterable[Finding]:
    """Where detours take more than a thousandth of the time."""
    share, period, regular = (
        next(iter(own_rows(book, means)), None) for means in ("noise-share", "noise-period", "noise-regular")
    )
    if share is None or (share.median or 0.0) <= MATTERS:
        return
    kept = regular is not None and (regular.median or 0.0) >= REGULAR and period is not None
    source, is_tick = _source(period.median or 0.0) if kept and period else ("no timer: they keep no distance", False)
    yield Finding(
        name="machine.noise_has_a_source",
        severity="note",
        claim=f"detours take {in_percent(share.median or 0.0, 2)} of a busy loop's time; likely source: {source}",
        evidence=tuple(of_row(row) for row in (share, period, regular) if row is not None),
        remedy=REMEDIES[is_tick],
    )


def _source(period_ns: float) -> tuple[str, bool]:
    """In words, and whether it is the system's tick."""
    for hz in TICKS_HZ:
        if abs(period_ns * hz / 1e9 - 1) <= WITHIN:
            return f"the timer's tick, {hz} a second", True
    return f"something that comes every {period_ns / 1e6:.3g} ms", False
