# SPDX-License-Identifier: Apache-2.0
"""CPUs that take from each other even where each works in its own cache, or that together get less than one alone."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences
from tollmeter.model import Book, Evidence, Finding, Inference
from tollmeter.numbers.percent import in_percent

LEAST_ALONE = 0.8
WELL_INSIDE = 0.7


def find(book: Book) -> Iterable[Finding]:
    """Inside the first cache: an efficiency under 80 %. Anywhere else: less together than one CPU alone. The upper end
    of the interval counts. Only the worst of each kind is reported."""
    shares = inferences(book, "efficiency")
    first = next((level.size_bytes for level in book.index.hierarchy if level.size_bytes), None) or 0.0
    private = [share for share in shares if 0 < _size(share) <= WELL_INSIDE * first]
    shared = [share for share in shares if _size(share) > WELL_INSIDE * first > 0]
    yield from _private([share for share in private if (share.high or 0.0) < LEAST_ALONE])
    yield from _shared([share for share in shared if (share.high or 0.0) * _instances(share) < 1])


def _size(share: Inference) -> int:
    size = share.parameters.get("size", 0)
    return size if isinstance(size, int) else 0


def _instances(share: Inference) -> int:
    return int(share.parameters["instances"])


def _of_one(share: Inference) -> float:
    return float(share.value or 0)


def _private(shares: list[Inference]) -> Iterable[Finding]:
    for share in sorted(shares, key=_of_one)[:1]:
        yield Finding(
            name="memory.cpus_share_a_core",
            severity="warning",
            claim=f"{_instances(share)} CPUs, each in its own cache, reach {in_percent(_of_one(share))} of as many "
            "times one",
            evidence=(_evidence(share),),
            remedy="they are threads of one core, or limited in clock or time: count cores (lscpu -e), look at quotas",
        )


def _shared(shares: list[Inference]) -> Iterable[Finding]:
    for share in sorted(shares, key=lambda candidate: _of_one(candidate) * _instances(candidate))[:1]:
        together = _of_one(share) * _instances(share)
        yield Finding(
            name="memory.more_cpus_get_less",
            severity="warning",
            claim=f"{_instances(share)} CPUs over {_size(share) >> 10} KiB each get {in_percent(together)} of what "
            "one gets",
            evidence=(_evidence(share),),
            remedy="run fewer at once, or look for what they take from each other: cache, memory channels, quota",
        )


def _evidence(share: Inference) -> Evidence:
    where = " ".join(f"{name}={value}" for name, value in share.parameters.items() if name != "instances")
    return Evidence(what=f"efficiency of {_instances(share)} instances, {where}", value=_of_one(share), unit="ratio")
