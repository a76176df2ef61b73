# SPDX-License-Identifier: Apache-2.0
"""Reads counts of the kernel since boot: time that tasks waited, pages moved, and interrupts of CPUs."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping
from pathlib import Path

_PAGING = ("pswpin", "pswpout", "pgmajfault", "numa_hint_faults", "numa_pages_migrated", "zone_reclaim_failed",
           "zone_reclaim_success")  # fmt: skip
"""Names of the used counts in /proc/vmstat. A further one, `allocstall`, is the sum over zones of allocations that
first had to reclaim pages."""
_STALL = "allocstall"
_FEWEST = 1.0
"""Lowest rate of a source that is recorded, in interrupts a second."""


def waited_us(proc: Path, resource: str) -> int | None:
    """Returns the us for which some task waited for `cpu` or `memory` (Documentation/accounting/psi.rst); None if
    unreported. proc: path of /proc."""
    with contextlib.suppress(OSError, ValueError):
        line = (proc / "pressure" / resource).read_text(encoding="ascii").partition("\n")[0]
        return int(line.rpartition("total=")[2])
    return None


def paging(proc: Path) -> dict[str, int]:
    """Returns the kernel's paging counts by name; empty if the system does not report them."""
    counts: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in (proc / "vmstat").read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(" ")
            if name in _PAGING:
                counts[name] = int(number)
            elif name.startswith(_STALL):
                counts[_STALL] = counts.get(_STALL, 0) + int(number)
    return counts


def interrupts(proc: Path, cpus: Collection[int]) -> dict[str, int]:
    """Returns the interrupts of these CPUs together, by source: `LOC`, or the number and the device of a line. Empty if
    unreported."""
    counts: dict[str, int] = {}
    with contextlib.suppress(OSError, ValueError):
        head, *lines = (proc / "interrupts").read_text(encoding="utf-8", errors="replace").splitlines()
        columns = [int(word.removeprefix("CPU")) for word in head.split()]
        ours = [place for place, cpu in enumerate(columns) if cpu in cpus]
        for line in lines:
            source, _, rest = line.strip().partition(":")
            words = rest.split()
            if len(words) < len(columns):  # ERR and MIS have one count of the whole machine
                continue
            device = f" {words[-1]}" if source.isdigit() and len(words) > len(columns) else ""
            counts[source + device] = sum(int(words[place]) for place in ours)
    return counts


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """Returns the increase between two readings of each count that grew."""
    return {name: count - before[name] for name, count in now.items() if count > before.get(name, count)}


def frequent(counts: Mapping[str, int], seconds: float) -> dict[str, float]:
    """Returns the rate per second of each frequent source, the most frequent first. seconds: time of the counts."""
    rates = {name: round(count / seconds, 1) for name, count in counts.items()} if seconds > 0 else {}
    return {name: rates[name] for name in sorted(rates, key=lambda name: -rates[name]) if rates[name] >= _FEWEST}
