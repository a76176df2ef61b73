# SPDX-License-Identifier: Apache-2.0
"""Groups of tolls, and the few that represent all: by the probes' descriptions, never by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.model import Book, Probe, Toll
from tollmeter.numbers.meanings import meaning

COMPUTING, MEMORY, KERNEL, OTHERS = "computing", "memory", "kernel", "other processes"
GROUPS = (COMPUTING, MEMORY, KERNEL, OTHERS)
FAMILIES = {"memory": MEMORY, "kernel": KERNEL}

BEST_KNOWN = {
    "clock-read": 1,
    "entry": 1,
    "price-of-fault": 1,
    "trap": 1,
    "switch": 1,
    "transfer-of-state": 1,
    "call-of-object": 2,
}
"""Meanings that a stranger looks for, and how many lines of each are worth a place among the few."""

MOST_LONERS, MOST_LINES = 2, 9


def grouped(book: Book) -> tuple[tuple[str, tuple[Toll, ...]], ...]:
    """Each group that has a line, in the order of GROUPS; within one as the table has them."""
    members: dict[str, list[Toll]] = {name: [] for name in GROUPS}
    for toll in book.index.tolls:
        members[group_of(toll, book.probes)].append(toll)
    return tuple((name, tuple(tolls)) for name, tolls in members.items() if tolls)


def group_of(toll: Toll, probes: Mapping[str, Probe]) -> str:
    """By family; tolls of the kernel that hand the CPU to another process have a group of their own."""
    group = FAMILIES.get(toll.probe.split(".")[0], COMPUTING)
    probe = probes.get(toll.probe)
    return OTHERS if group == KERNEL and probe is not None and (probe.switches or probe.roles) else group


def best_known(book: Book) -> tuple[Toll, ...]:
    """At most nine lines that represent the table, cheapest first: of each meaning those in the middle, and of tolls
    without a meaning that analysis uses the most expensive single lines."""
    paid = [toll for toll in book.index.tolls if toll.value is not None and toll.typical]
    chosen = []
    for means, most in BEST_KNOWN.items():
        chosen += _middle([toll for toll in paid if meaning(toll, book.probes) == means], most)
    loners = [toll for toll in paid if not meaning(toll, book.probes) and _is_single(toll, paid)]
    chosen += loners[-MOST_LONERS:]
    return tuple(toll for toll in paid if toll in chosen[:MOST_LINES])


def _middle(tolls: Sequence[Toll], most: int) -> list[Toll]:
    """So many of a ranked list, evenly spaced."""
    count = min(most, len(tolls))
    return [tolls[len(tolls) * (2 * place + 1) // (2 * count)] for place in range(count)]


def _is_single(toll: Toll, tolls: Sequence[Toll]) -> bool:
    return sum(other.probe == toll.probe for other in tolls) == 1
