# SPDX-License-Identifier: Apache-2.0
"""Processes that have set up a layout and wait for its next visit."""

from __future__ import annotations

import os
import resource
from functools import cache
from typing import NamedTuple

from tollmeter.model import Value, Visit
from tollmeter.targets import control_groups
from tollmeter.targets.child import Child

_MOST_HELD, _MOST_WORKERS = 1 / 4, 512
"""Share of the machine's memory, and number of processes. A waiting process takes no CPU time, but keeps its memory
from every other program."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128

LayoutKey = tuple[str, tuple[tuple[str, Value], ...], tuple[int, ...]]
"""Executable, parameters and CPUs: visits with the same key and seed use the same layout."""


def key_of(executable: str, visit: Visit) -> LayoutKey:
    return executable, visit.point.parameters, visit.cpus


class _Worker(NamedTuple):
    """A process with the seed of its layout and the memory that it holds."""

    child: Child
    seed: int
    bytes: int


class WorkerPool:
    """Waiting processes by layout, those that have waited longest first."""

    def __init__(self) -> None:
        self._waiting: dict[LayoutKey, _Worker] = {}

    def __contains__(self, key: LayoutKey) -> bool:
        return key in self._waiting

    def get(self, key: LayoutKey, seed: int) -> Child | None:
        """The process of this layout, which leaves the pool. A process with another seed ends: its layout is over."""
        worker = self._waiting.pop(key, None)
        if worker and worker.seed != seed:
            worker.child.end()
            return None
        return worker.child if worker else None

    def put(self, key: LayoutKey, seed: int, child: Child) -> None:
        """Keeps a process for the next visit of its layout. Those that have waited longest end where all together hold
        too much."""
        own = child.resident_bytes()
        most = _MOST_HELD * _memory_bytes() - own
        held = sum(other.bytes for other in self._waiting.values())
        while self._waiting and (held > most or len(self._waiting) >= _most_workers()):
            oldest = self._waiting.pop(next(iter(self._waiting)))
            oldest.child.end()
            held -= oldest.bytes
        if most < 0:
            child.end()
        else:
            self._waiting[key] = _Worker(child, seed, own)

    def close(self) -> None:
        for worker in self._waiting.values():
            worker.child.end()
        self._waiting.clear()


def _most_workers() -> int:
    """As many as this process may hold pipes of; 1 where the system does not report the limit."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    return max(1, min(_MOST_WORKERS, (files - _FILES_OF_THE_HOST) // _FILES_EACH))


@cache
def _memory_bytes() -> float:
    """Of the machine, or of a control group that may use less."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), control_groups.memory_bytes())
