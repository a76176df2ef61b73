# SPDX-License-Identifier: Apache-2.0
"""A timed command whose output is not the same in each run."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding

GAUGE = "output"


def find(book: Book) -> Iterable[Finding]:
    """Where a run printed something else than the first run of its command: they may have done different work."""
    outputs: dict[str, list[float]] = {}
    for outcome in book.outcomes if book.suite and not book.suite.select else ():
        if GAUGE in outcome.gauges:
            name = " ".join(str(value) for _, value in outcome.point.parameters)
            outputs.setdefault(name, []).append(outcome.gauges[GAUGE])
    for name, hashes in outputs.items():
        different = sum(one != hashes[0] for one in hashes)
        if different:
            yield Finding(
                name="command.output_changes",
                severity="warning",
                claim=f"{name} printed something else than in its first run, in {different} of {len(hashes)} runs",
                evidence=(Evidence(what="runs with other output", value=float(different), unit="count"),),
                remedy="make each run do the same work (--prepare, a fixed seed), or check its output with --verify",
            )
