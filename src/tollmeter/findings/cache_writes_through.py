# SPDX-License-Identifier: Apache-2.0
"""A first cache that sends every store on, so that stores to lines that fit cost as much as others."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences, value_of
from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.percent import in_percent


def find(book: Book) -> Iterable[Finding]:
    """Where the tests of the write policy show it; nothing where they do not resolve it."""
    ratio = value_of(inferences(book, "store_that_fits"))
    if ratio is None or not any(inference.value is False for inference in inferences(book, "write_back")):
        return
    yield Finding(
        name="memory.cache_writes_through",
        severity="warning",
        claim=(
            f"a store to lines that fit the first cache takes {in_percent(ratio)} of one to lines that do not: "
            "the cache writes through"
        ),
        evidence=(Evidence(what="store that fits over store that does not", value=ratio, unit="ratio"),),
        remedy="look for a page attribute, boot setting or errata work-around that turns write-back off",
    )
