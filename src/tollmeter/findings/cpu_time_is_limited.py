# SPDX-License-Identifier: Apache-2.0
"""A control group that stops its programs when they have had their share of CPU time."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where the control group has a quota below the CPUs that were measured on, or the run was stopped for it."""
    seen = book.index.run.surroundings
    if seen is None or seen.quota is None:
        return
    if seen.throttled_s <= 0 and seen.quota >= len(book.request.get("cpus") or ()) and seen.quota >= 1:
        return
    held = f", and stopped it for {seen.throttled_s:.1f} s" if seen.throttled_s > 0 else ""
    yield Finding(
        name="machine.cpu_time_is_limited",
        severity="warning",
        claim=f"a control group gave the run {seen.quota:g} CPUs at a time{held}",
        evidence=(
            Evidence(what="CPUs at a time (cpu.max)", value=seen.quota, unit="count"),
            Evidence(what="stopped for it", value=1e9 * seen.throttled_s, unit="ns"),
        ),
        remedy="measure where there is no quota: what waits for the next period is in the numbers",
    )
