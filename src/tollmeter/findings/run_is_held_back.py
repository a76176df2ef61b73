# SPDX-License-Identifier: Apache-2.0
"""A niceness or scheduling policy other than the usual one."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding

ORDINARY = "other"


def find(book: Book) -> Iterable[Finding]:
    """Where the run was started by `nice` or `chrt`. It affects probes without real-time priority: those that wait for
    other processes."""
    seen = book.index.run.surroundings
    if seen is None or (seen.nice == 0 and seen.policy == ORDINARY):
        return
    what = f"at niceness {seen.nice}" if seen.policy == ORDINARY else f"by the scheduling policy {seen.policy}"
    yield Finding(
        name="machine.run_is_held_back" if seen.nice >= 0 else "machine.run_is_preferred",
        severity="warning",
        claim=f"the run was scheduled {what}: a probe that waits for a CPU waits as that decides",
        evidence=(
            Evidence(what="niceness", value=float(seen.nice), unit="count"),
            Evidence(what="scheduling policy", value=seen.policy),
        ),
        remedy="start it without nice and chrt",
    )
