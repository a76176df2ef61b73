# SPDX-License-Identifier: Apache-2.0
"""Stores that miss and leave their lines where they were, so that the next load of them misses once more."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.write_policy import write_allocate
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where a chase through lines just stored to takes as long as one through others; silent where it cannot tell."""
    verdict = write_allocate(native_rows(book), book.probes, book.index.hierarchy)
    if verdict.holds is not False or verdict.ratio is None:
        return
    what = "chase through lines just stored to, over one through others"
    yield Finding(
        name="memory.stores_do_not_allocate",
        severity="note",
        claim="a store that misses does not fetch its line: loads of data just written miss as well",
        evidence=(Evidence(what=what, value=verdict.ratio.value, unit="ratio"),),
        remedy="touch what is soon read again before writing it; turn write-allocation on where it is a setting",
    )
