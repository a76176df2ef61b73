# SPDX-License-Identifier: Apache-2.0
"""A clock that is read through the kernel, where most machines read it in the program."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import of_row, own_rows
from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.percent import in_percent

SLOW_SHARE = 0.6
"""Of a system call. A read in the program costs a fifth of one, also where system calls are cheap."""

SLOW_SOURCES = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")


def find(book: Book) -> Iterable[Finding]:
    """Where reading the clock costs more than 60 % of a system call, or the clock source is known to be slow."""
    reads, entries = own_rows(book, "clock-read"), own_rows(book, "entry")
    source = book.index.machine.facts.get("clocksource", "")
    slow_source = source in SLOW_SOURCES
    for read, entry in zip(reads[:1], entries[:1], strict=False):
        share = (read.median or 0.0) / (entry.median or 1.0)
        if share > SLOW_SHARE:
            yield _finding(
                f"reading the clock costs {in_percent(share)} of a system call", (of_row(read), of_row(entry)), source
            )
            return
    if slow_source:
        words = f"the clock source is {source}, which is read from a device"
        yield _finding(words, (Evidence(what="clocksource", value=source),), source)


def _finding(claim: str, evidence: tuple[Evidence, ...], source: str) -> Finding:
    return Finding(
        name="kernel.clock_is_slow",
        severity="warning",
        claim=claim,
        evidence=evidence,
        remedy=(
            "write tsc (or kvm-clock, arch_sys_counter) to "
            "/sys/devices/system/clocksource/clocksource0/current_clocksource"
            + (f" in place of {source}" if source else "")
            + ", and link against a C library that uses the vDSO"
        ),
    )
