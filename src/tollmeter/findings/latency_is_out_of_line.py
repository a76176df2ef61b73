# SPDX-License-Identifier: Apache-2.0
"""A level that answers later than any of its kind that is sold."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding, Level
from tollmeter.numbers.units import short

MOST_CYCLES = {"L1d": 8.0, "L2": 40.0, "L3": 160.0}
"""First caches answer within 3 to 5 cycles, up to 7 with wide loads; second ones within 8 to 30; third ones within 25
on a small ring to some 120 across the mesh of a large server."""
MOST_MEMORY_NS = 250.0
"""From 60 ns on a desktop to some 180 ns on a server under a hypervisor; more is another socket's, or a link's."""


def find(book: Book) -> Iterable[Finding]:
    """Doubt speaks for the level: the lower end of its interval counts."""
    clock = book.index.machine.core_clock_hz
    for level in book.index.hierarchy:
        most = _most_ns(level, clock)
        least = level.latency_low if level.latency_low is not None else level.latency_ns
        if most is not None and least is not None and least > most:
            yield _finding(level, level.latency_ns or least, most)


def _most_ns(level: Level, clock_hz: float | None) -> float | None:
    if level.level == "memory":
        return MOST_MEMORY_NS
    cycles = MOST_CYCLES.get(level.level)
    return cycles / clock_hz * 1e9 if cycles and clock_hz else None


def _finding(level: Level, latency_ns: float, most_ns: float) -> Finding:
    far = level.level == "memory"
    return Finding(
        name="memory.latency_is_out_of_line",
        severity="warning",
        claim=f"{level.level} answers after {short(latency_ns, 'ns')}, later than any of its kind does "
        f"({short(most_ns, 'ns')})",
        evidence=(
            Evidence(what=f"latency of {level.level}", value=latency_ns, unit="ns"),
            Evidence(what=f"slowest {level.level} that is sold", value=most_ns, unit="ns"),
        ),
        remedy=(
            "see where the memory lies (numactl --hardware) and how fast its modules run (dmidecode -t memory)"
            if far
            else "look for a cache or ring clock that was lowered, and for neighbours on the same core"
        ),
    )
