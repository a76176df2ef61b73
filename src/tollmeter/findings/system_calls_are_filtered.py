# SPDX-License-Identifier: Apache-2.0
"""Seccomp filters, as containers install them, that each system call of a probe passes."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.judgement.verdict import is_intercepted
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where the run had a filter. It is a problem where system calls were timed."""
    seen = book.index.run.surroundings
    if seen is None or not seen.seccomp_filters:
        return
    several = "a seccomp filter" if seen.seccomp_filters == 1 else f"{seen.seccomp_filters} seccomp filters"
    yield Finding(
        name="machine.system_calls_are_filtered",
        severity="warning" if is_intercepted(seen, book.index.rows) else "note",
        claim=f"each system call passed {several}: its time holds the filter's",
        evidence=(Evidence(what="filters (Seccomp_filters)", value=float(seen.seccomp_filters), unit="count"),),
        remedy="run it outside the container, or with `--security-opt seccomp=unconfined`, for the kernel's own price",
    )
