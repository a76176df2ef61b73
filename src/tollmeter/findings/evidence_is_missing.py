# SPDX-License-Identifier: Apache-2.0
"""Samples without evidence: their disturbances are unknown."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.experiment.evidence import unseen
from tollmeter.judgement.verdict import is_call_unseen
from tollmeter.model import Book, Evidence, Finding, Surroundings
from tollmeter.numbers.percent import in_percent


def find(book: Book) -> Iterable[Finding]:
    """Where the system refused what stands beside a sample, or what stands before a system call."""
    seen = book.index.run.surroundings
    if seen is not None and is_call_unseen(seen, book.index.rows):
        yield _of_calls(seen)
    lacks = {what for told in book.outcomes for what in unseen(told, book.probes[told.point.probe])}
    if not lacks:
        return
    share = book.index.run.unseen_share
    yield Finding(
        name="machine.evidence_is_missing",
        severity="warning",
        claim=f"{in_percent(share)} of the samples have no evidence of {' or '.join(sorted(lacks))}: their "
        "disturbances are unknown, and their intervals are wider",
        evidence=(Evidence(what="samples that lack evidence", value=share, unit="ratio"),),
        remedy="let the probes call getrusage and sched_getaffinity, and read /proc (a sandbox may deny it)",
    )


def _of_calls(seen: Surroundings) -> Finding:
    files = ", ".join(seen.unreadable)
    return Finding(
        name="machine.evidence_is_missing",
        severity="warning",
        claim=f"{files} could not be read: whether a seccomp filter or a tracer slows system calls is unknown",
        evidence=(Evidence(what="not readable", value=files),),
        remedy=f"let the run read {files}",
    )
