# SPDX-License-Identifier: Apache-2.0
"""What may be prepared beside which visit, so that preparing takes no time of its own.

A process on the host's CPU has the last cache and the memory in common with the one that measures. So it is at work
beside visits that use neither: of one worker, that makes the kernel neither switch nor find pages, and whose data fit
into half of the caches that its core has to itself. What that is worth and what it does to a number: decision 20.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Point, Probe
from tollmeter.plan.effort import told_bytes

SYSTEM = Path("/sys/devices/system/cpu")
_OF_PRIVATE = 0.5
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Beside(NamedTuple):
    """cpu: where layouts are prepared; private_bytes: of the largest cache that the measured CPU has to itself."""

    cpu: int
    private_bytes: int
    probes: Mapping[str, Probe]

    def may_begin(self, point: Point) -> bool:
        """Not what starts others when it is prepared, which stay where that was. Companions in the background begin
        with the visit."""
        probe = self.probes[point.probe]
        steps = any(role.pace != "background" for role in probe.roles)
        return not (steps or probe.switches or probe.spreads)

    def is_calm(self, point: Point, own_bytes: int) -> bool:
        """own_bytes: that the process holds; where the point's sizes say what it works on, these are meant."""
        probe = self.probes[point.probe]
        data = told_bytes(point, probe) or own_bytes
        alone = not (probe.roles or probe.switches or probe.spreads or probe.faults)
        return alone and data <= _OF_PRIVATE * self.private_bytes


def beside(measured: int, host: int | None, probes: Mapping[str, Probe]) -> Beside | None:
    """None where the host has no CPU to itself, or that is not known to share the last cache of the measured one and no
    other: one thread of two of a core is no place to work beside the other."""
    caches = _caches(measured)
    if host is None or not caches:
        return None
    private = [bytes_ for bytes_, sharers in caches if sharers == {measured}]
    common = [bytes_ for bytes_, sharers in caches if host in sharers]
    if not private or len(common) != 1 or common[0] < max(private):
        return None
    return Beside(host, max(private), probes)


def _caches(cpu: int) -> list[tuple[int, set[int]]]:
    """Bytes of each, and the CPUs that share it (Documentation/ABI/testing/sysfs-devices-system-cpu)."""
    found = []
    for cache in sorted((SYSTEM / f"cpu{cpu}/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            size = (cache / "size").read_text(encoding="ascii").strip()
            found.append((int(size[:-1]) * _UNITS[size[-1]], _listed((cache / "shared_cpu_list").read_text())))
    return found


def _listed(text: str) -> set[int]:
    """Of "0-1,4"."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return {cpu for first, *last in ends for cpu in range(int(first), int(last[0] if last else first) + 1)}
