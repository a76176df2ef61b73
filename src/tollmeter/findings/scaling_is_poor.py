# SPDX-License-Identifier: Apache-2.0
"""CPUs that take from each other even where each works in its own cache, or that together get less than one alone."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.scaling import Share, efficiency
from tollmeter.model import Book, Evidence, Finding

LEAST_ALONE = 0.8
WELL_INSIDE = 0.7


def find(book: Book) -> Iterable[Finding]:
    """Inside the first cache: an efficiency under 80 %. Anywhere else: less together than one has alone. The upper
    end of the interval counts. Only the worst of each kind is told."""
    shares = efficiency(native_rows(book), book.probes)
    first = next((level.size_bytes for level in book.index.hierarchy if level.size_bytes), None) or 0.0
    private = [share for share in shares if 0 < _size(share) <= WELL_INSIDE * first]
    shared = [share for share in shares if _size(share) > WELL_INSIDE * first > 0]
    yield from _private([share for share in private if share.of_one.high < LEAST_ALONE])
    yield from _shared([share for share in shared if share.of_one.high * share.instances < 1])


def _size(share: Share) -> int:
    size = dict(share.parameters).get("size", 0)
    return size if isinstance(size, int) else 0


def _private(shares: list[Share]) -> Iterable[Finding]:
    for share in sorted(shares, key=lambda one: one.of_one.value)[:1]:
        yield Finding(
            name="memory.cpus_share_a_core",
            severity="warning",
            claim=f"{share.instances} CPUs, each in its own cache, reach {share.of_one.value:.0%} of as many times one",
            evidence=(_evidence(share),),
            remedy="they are threads of one core, or limited in clock or time: count cores (lscpu -e), look at quotas",
        )


def _shared(shares: list[Share]) -> Iterable[Finding]:
    for share in sorted(shares, key=lambda one: one.of_one.value * one.instances)[:1]:
        together = share.of_one.value * share.instances
        yield Finding(
            name="memory.more_cpus_get_less",
            severity="warning",
            claim=f"{share.instances} CPUs over {_size(share) >> 10} KiB each get {together:.0%} of what one gets",
            evidence=(_evidence(share),),
            remedy="run fewer at once, or look for what they take from each other: cache, memory channels, quota",
        )


def _evidence(share: Share) -> Evidence:
    where = " ".join(f"{name}={value}" for name, value in share.parameters)
    return Evidence(what=f"efficiency of {share.instances} instances, {where}", value=share.of_one.value, unit="ratio")
