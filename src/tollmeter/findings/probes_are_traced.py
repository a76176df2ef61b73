# SPDX-License-Identifier: Apache-2.0
"""A tracer that stops the probes at each system call."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.judgement.verdict import is_intercepted
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where a tracer was attached (TracerPid). It is a problem where system calls were timed."""
    seen = book.index.run.surroundings
    if seen is None or not seen.traced:
        return
    yield Finding(
        name="machine.probes_are_traced",
        severity="warning" if is_intercepted(seen, book.index.rows) else "note",
        claim="a tracer was attached to the probes: each system call and signal waits for it",
        evidence=(Evidence(what="tracer (TracerPid)", value="attached"),),
        remedy="run it without strace, gdb or another tracer",
    )
