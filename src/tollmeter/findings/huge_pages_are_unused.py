# SPDX-License-Identifier: Apache-2.0
"""Translations that cost a fair part of a memory access, on a system whose huge pages are switched off."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences
from tollmeter.model import Book, Evidence, Finding

WORTH = 0.10


def find(book: Book) -> Iterable[Finding]:
    """Where the kernel's setting is `never` and a miss in the last translation buffer costs 10 % of a memory access."""
    setting = book.index.machine.facts.get("transparent_hugepage", "")
    memory = next((level.latency_ns for level in book.index.hierarchy if level.level == "memory"), None)
    if "[never]" not in setting or not memory:
        return
    held, missed = inferences(book, "translations", pages="small"), inferences(book, "translation_miss", pages="small")
    if not missed or (missed[-1].low or 0.0) < WORTH * memory:
        return
    cost, pages = float(missed[-1].value or 0), float(held[-1].value or 0)
    yield Finding(
        name="memory.huge_pages_are_unused",
        severity="warning",
        claim=f"huge pages are switched off, and beyond {pages:.0f} pages a load pays {cost:.1f} ns for translation",
        evidence=(
            Evidence(what="cost of a translation that no buffer holds", value=cost, unit="ns"),
            Evidence(what="transparent huge pages", value=setting),
        ),
        remedy="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, and ask for them where much is touched",
    )
