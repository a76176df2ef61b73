# SPDX-License-Identifier: Apache-2.0
"""Stores that miss and leave their lines where they were, so that the next load of them misses once more."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences, value_of
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where a chase through lines just stored to takes as long as one through others, if that is resolved."""
    ratio = value_of(inferences(book, "reload_after_store"))
    if ratio is None or not any(inference.value is False for inference in inferences(book, "write_allocate")):
        return
    what = "chase through lines just stored to, over one through others"
    yield Finding(
        name="memory.stores_do_not_allocate",
        severity="note",
        claim="a store that misses does not fetch its line: loads of data just written miss as well",
        evidence=(Evidence(what=what, value=ratio, unit="ratio"),),
        remedy="touch what is soon read again before writing it; turn write-allocation on where it is a setting",
    )
