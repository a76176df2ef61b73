# SPDX-License-Identifier: Apache-2.0
"""Another run of Tollmeter at the same time."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where this run was started with --beside while another measured."""
    seen = book.index.run.surroundings
    if seen is None or not seen.company:
        return
    yield Finding(
        name="machine.another_run_measures",
        severity="warning",
        claim="another run measured on this machine at the same time: each is in the other's numbers",
        evidence=(Evidence(what="the machine's lock on measuring", value="held by another run"),),
        remedy="measure again without --beside, which waits for the other's end",
    )
