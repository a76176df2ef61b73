# SPDX-License-Identifier: Apache-2.0
"""A first cache that sends every store on, so that stores to lines that fit cost as much as others."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.write_policy import write_back
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where the tests of the write policy say so; silent where they cannot tell."""
    verdict = write_back(native_rows(book), book.probes, book.index.hierarchy)
    if verdict.holds is not False or verdict.ratio is None:
        return
    yield Finding(
        name="memory.cache_writes_through",
        severity="warning",
        claim=(
            f"a store to lines that fit the first cache takes {verdict.ratio.value:.0%} of one to lines that do not: "
            "the cache writes through"
        ),
        evidence=(Evidence(what="store that fits over store that does not", value=verdict.ratio.value, unit="ratio"),),
        remedy="look for a page attribute, boot setting or errata work-around that turns write-back off",
    )
