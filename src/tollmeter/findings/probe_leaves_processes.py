# SPDX-License-Identifier: Apache-2.0
"""Processes that a probe started and left behind."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where processes of a probe still existed at the end of the run: it is unknown which visits they disturbed."""
    seen = book.index.run.surroundings
    if seen is None or not seen.left_behind:
        return
    many = f"{seen.left_behind} processes" if seen.left_behind > 1 else "a process"
    yield Finding(
        name="machine.probe_leaves_processes",
        severity="error",
        claim=f"a probe left {many} behind, outside its own session, which went on beside whatever was measured next",
        evidence=(Evidence(what="processes ended with the run", value=float(seen.left_behind), unit="count"),),
        remedy="find the probe that calls setsid or daemon: run the probes one by one",
    )
