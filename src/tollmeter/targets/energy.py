# SPDX-License-Identifier: Apache-2.0
"""The energy that this machine's packages took, by the counters that the kernel reads (RAPL, powercap). A counter
includes everything that runs on its package, idle cores included, in steps of 15 to 61 µJ about once a millisecond."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

POWERCAP = Path("/sys/class/powercap")
UNREADABLE = -1
LEAST_NS = 50_000_000
"""Shortest measured time: a counter is updated about once a millisecond (Intel SDM 3B, "Package RAPL Domain"), so that
up to 2 % of 50 ms may belong to the time before, or be missing at the end."""


class Package(NamedTuple):
    """A package's counter. most_uj: value at which it wraps to 0."""

    counter: Path
    most_uj: int


def packages(folder: Path = POWERCAP) -> tuple[Package, ...]:
    """Returns the packages whose counters may be read. Most systems allow this to root only, since the counters reveal
    computations of other processes. Zones of parts of a package are contained in it, and `psys` is of the whole
    platform: neither is included."""
    found = []
    for zone in sorted(folder.glob("*")):
        with contextlib.suppress(OSError, ValueError):
            if (zone / "name").read_text().startswith("package-"):
                most = int((zone / "max_energy_range_uj").read_text())
                int((zone / "energy_uj").read_text())
                found.append(Package(zone / "energy_uj", most))
    return tuple(found)


def read_counters(several: Sequence[Package]) -> tuple[int, ...]:
    """Returns each counter in µJ; UNREADABLE if it can no longer be read."""
    counts = []
    for package in several:
        try:
            counts.append(int(package.counter.read_text()))
        except (OSError, ValueError):
            counts.append(UNREADABLE)
    return tuple(counts)


def taken_uj(several: Sequence[Package], before: Sequence[int], after: Sequence[int]) -> int:
    """Returns the energy in µJ between two readings less than one wrap of the counter apart; UNREADABLE without one."""
    if not several or UNREADABLE in (*before, *after):
        return UNREADABLE
    rounds = zip(several, before, after, strict=True)
    return sum((last - first) % (package.most_uj + 1) for package, first, last in rounds)
