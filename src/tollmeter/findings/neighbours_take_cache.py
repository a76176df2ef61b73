# SPDX-License-Identifier: Apache-2.0
"""A cache shared with CPUs that are not this machine's, of which clearly less than the whole serves here."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from tollmeter.inference.hierarchy import os_sizes
from tollmeter.model import Book, Evidence, Finding, Level
from tollmeter.numbers.percent import in_percent

LEAST_LEFT = 0.75


def find(book: Book) -> Iterable[Finding]:
    """Of the last-level cache, where latency and reading both end under three quarters of the system's size, and other
    workloads can use it: on a host with guests, or on CPUs that this run may not use. One lap of a walk takes so long
    that other workloads evict lines that a read loop still finds, so latency alone proves nothing."""
    machine = book.index.machine
    for level in [level for level in book.index.hierarchy if level.size_bytes][-1:]:
        reported = level.os_size_bytes
        if (
            reported
            and (level.os_size_bytes == os_sizes(machine)[-1].size_bytes)
            and (machine.hypervisor is not None or len(machine.allowed_cpus) < machine.cpus)
            and max(level.size_high or inf, level.reading_high or inf) < LEAST_LEFT * reported
        ):
            yield _finding(level, reported)


def _finding(level: Level, reported: int) -> Finding:
    size, low, high = level.size_bytes or 0.0, level.reading_low or 0.0, level.reading_high or 0.0
    return Finding(
        name="memory.neighbours_take_cache",
        severity="warning",
        claim=f"this machine gets {in_percent(size / reported)} of {level.level} by latency, "
        f"{in_percent(low / reported)} to {in_percent(high / reported)} by read bandwidth: "
        "other workloads use the rest",
        evidence=(
            Evidence(what=f"{level.level} size by latency", value=size, unit="B"),
            Evidence(what=f"{level.level} is read at its own rate up to", value=low, unit="B"),
            Evidence(what=f"{level.level} is read more slowly from", value=high, unit="B"),
            Evidence(what=f"{level.level} size by the system", value=reported, unit="B"),
        ),
        remedy="ask the host for a share of its own (cache allocation, resctrl), or plan for what is left",
    )
