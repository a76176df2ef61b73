# SPDX-License-Identifier: Apache-2.0
"""Which layouts may be set up beside which visit, so that set-ups take no time of their own.

A process on the host's CPU shares the last-level cache and the memory with the measured CPU. So set-ups run beside
visits that use neither: visits of one worker, without switches and page faults, whose data fit into half of the private
caches of the measured core. Decision 20 states the effect on the measured numbers, decision 45 the gain."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Point, Probe
from tollmeter.plan.effort import stated_bytes
from tollmeter.plan.points import HERE

SYSTEM = Path("/sys/devices/system/cpu")
_OF_PRIVATE = 0.5
_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class SetupCpu(NamedTuple):
    """cpu: the CPU for set-ups; private_bytes: size of the largest private cache of the measured CPU."""

    cpu: int
    private_bytes: int
    probes: Mapping[str, Probe]

    def may_begin(self, point: Point) -> bool:
        """False for probes that start companions during the set-up, since these stay on the CPU of the set-up.
        Companions that work in the background start with the visit. Cores of another kind may share a cache with the
        CPU for set-ups."""
        probe = self.probes[point.probe]
        if point.target != HERE:
            return False
        steps = any(role.pace != "background" for role in probe.roles)
        return not (steps or probe.switches or probe.spreads)

    def is_calm(self, point: Point, own_bytes: int) -> bool:
        """own_bytes: memory that the process does not share; where the point's sizes state its data, these count."""
        probe = self.probes[point.probe]
        data = stated_bytes(point, probe) or own_bytes
        is_single = not (probe.roles or probe.switches or probe.spreads or probe.faults)
        return point.target == HERE and is_single and data <= _OF_PRIVATE * self.private_bytes


def beside(measured: int, host: int | None, probes: Mapping[str, Probe]) -> SetupCpu | None:
    """None where the host has no CPU of its own, or one that shares more or less than the last-level cache."""
    caches = _caches(measured)
    if host is None or not caches:
        return None
    private = [bytes_ for bytes_, sharers in caches if sharers == {measured}]
    common = [bytes_ for bytes_, sharers in caches if host in sharers]
    if not private or len(common) != 1 or common[0] < max(private):
        return None
    return SetupCpu(host, max(private), probes)


def _caches(cpu: int) -> list[tuple[int, set[int]]]:
    """The size of each cache, and the CPUs that share it (Documentation/ABI/testing/sysfs-devices-system-cpu)."""
    caches = []
    for cache in sorted((SYSTEM / f"cpu{cpu}/cache").glob("index*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            size = (cache / "size").read_text(encoding="ascii").strip()
            caches.append((int(size[:-1]) * _UNITS[size[-1]], _listed((cache / "shared_cpu_list").read_text())))
    return caches


def _listed(text: str) -> set[int]:
    """Of "0-1,4"."""
    ends = [part.split("-") for part in text.strip().split(",")]
    return {cpu for first, *last in ends for cpu in range(int(first), int(last[0] if last else first) + 1)}
