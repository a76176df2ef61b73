# SPDX-License-Identifier: Apache-2.0
"""The energy that this machine's packages took, by the counters that the kernel reads (RAPL, powercap). A counter
includes everything that runs on its package, idle cores included, in steps of 15 to 61 µJ about once a millisecond."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
UNREADABLE = -1
LEAST_NS = 50_000_000
"""Shortest measured time: a counter is updated about once a millisecond (Intel SDM 3B, "Package RAPL Domain"), so that
up to 2 % of 50 ms may belong to the time before, or be missing at the end."""


def packages(folder: Path = POWERCAP) -> dict[Path, int]:
    """Returns the counter of each package that may be read, with its highest value in µJ, after which it is 0 again.
    Most systems allow only root to read, since the counters reveal computations of other processes. Counters of parts
    of a package, and of the whole platform (`psys`), are not included."""
    found = {}
    for zone in sorted(folder.glob("*")):
        with contextlib.suppress(OSError, ValueError):
            if (zone / "name").read_text().startswith("package-"):
                most = int((zone / "max_energy_range_uj").read_text())
                int((zone / "energy_uj").read_text())
                found[zone / "energy_uj"] = most
    return found


def read_counters(counters: Mapping[Path, int]) -> tuple[int, ...]:
    """Returns each counter in µJ; UNREADABLE if it can no longer be read."""
    counts = []
    for counter in counters:
        try:
            counts.append(int(counter.read_text()))
        except (OSError, ValueError):
            counts.append(UNREADABLE)
    return tuple(counts)


def taken_uj(counters: Mapping[Path, int], before: Sequence[int], after: Sequence[int]) -> int:
    """Returns the energy in µJ of all counters between two readings; UNREADABLE if a counter could not be read. Between
    the readings, a counter may return to 0 once."""
    if not counters or UNREADABLE in (*before, *after):
        return UNREADABLE
    rounds = zip(counters.values(), before, after, strict=True)
    return sum((last - first) % (most + 1) for most, first, last in rounds)
