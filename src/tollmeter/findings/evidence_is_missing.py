# SPDX-License-Identifier: Apache-2.0
"""Samples without evidence: their disturbances are unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tollmeter.experiment.evidence import unseen
from tollmeter.judgement.verdict import STATUS, unread
from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.percent import in_percent


def find(book: Book) -> Iterable[Finding]:
    """Where the system refused evidence about samples, or evidence about what intercepts system calls."""
    seen = book.index.run.surroundings
    if files := unread(seen, book.index.rows) if seen is not None else ():
        yield _of_sources(files)
    share = book.index.run.unseen_share
    if not share:
        return
    lacks = {what for outcome in book.outcomes for what in unseen(outcome, book.probes[outcome.point.probe])}
    yield Finding(
        name="machine.evidence_is_missing",
        severity="warning",
        claim=f"{in_percent(share)} of the samples have no evidence of {' or '.join(sorted(lacks))}: their "
        "disturbances are unknown, and their intervals are wider",
        evidence=(Evidence(what="samples that lack evidence", value=share, unit="ratio"),),
        remedy="let the probes call getrusage and sched_setaffinity, and read /proc (a sandbox may deny these)",
    )


def _of_sources(names: Sequence[str]) -> Finding:
    unknown = {
        STATUS: "whether a seccomp filter or a tracer slows system calls",
        "/proc/stat": "how much time other programs and the hypervisor took",
        "/proc/self/cgroup": "whether a control group limits CPU time",
        "getrusage": "how much of the CPUs' time was this run's own",
        "getpriority": "at which niceness it ran",
        "sched_getscheduler": "by which scheduling policy it ran",
        "sched_getaffinity": "on which CPUs it may run",
    }
    listed = ", ".join(names)
    return Finding(
        name="machine.evidence_is_missing",
        severity="warning",
        claim=f"{listed} could not be read: {' and '.join(unknown.get(name, name) for name in names)} is unknown",
        evidence=(Evidence(what="not readable", value=listed),),
        remedy=f"let the run read {listed}",
    )
