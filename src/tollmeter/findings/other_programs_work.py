# SPDX-License-Identifier: Apache-2.0
"""Other programs at work on the CPUs that were measured."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.judgement.verdict import is_emulated
from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.percent import in_percent

LEAST_SHARE = 0.2
"""The kernel's own threads, and the ticks of its accounting, come to a tenth on an idle machine."""


def find(book: Book) -> Iterable[Finding]:
    """Where other programs took a fifth of the measured CPUs' time or more; in a run that is too short to count that,
    where tasks waited for a CPU for as long."""
    seen = book.index.run.surroundings
    if seen is None or is_emulated(book.index.rows):
        return
    if seen.others is not None and seen.others >= LEAST_SHARE:
        yield Finding(
            name="machine.other_programs_work",
            severity="warning",
            claim=f"other programs took {in_percent(seen.others)} of the measured CPUs' time",
            evidence=(Evidence(what="CPU time of others, of all there was", value=seen.others, unit="ratio"),),
            remedy="end them, or measure on CPUs that they do not use (--cpus)",
        )
    elif seen.others is None and seen.pressure is not None and seen.pressure >= LEAST_SHARE:
        yield _waiting(seen.pressure)


def _waiting(share: float) -> Finding:
    return Finding(
        name="machine.other_programs_work",
        severity="warning",
        claim=f"tasks waited for a CPU during {in_percent(share)} of the run",
        evidence=(Evidence(what="time in which some task waited for a CPU", value=share, unit="ratio"),),
        remedy="end other programs, or measure on CPUs that they do not use (--cpus)",
    )
