# SPDX-License-Identifier: Apache-2.0
"""Resident processes: how many wait for another visit of their layout, and how much memory they may hold."""

from __future__ import annotations

import os
import resource
from functools import cache
from math import inf
from typing import NamedTuple

from tollmeter.targets import control_groups
from tollmeter.targets.child import Child
from tollmeter.targets.setup_queue import IdleWorker, LayoutKey

_MOST_HELD, _MOST_RESIDENTS = 1 / 4, 512
"""Share of the machine's memory, and number of processes. A resident process takes no CPU time, but keeps its memory
from every other program."""
_LARGE_BYTES, _MOST_LARGE_BYTES, _LARGE_TOGETHER = 24 << 20, 768 << 20, 3
"""A process that holds more than the first is large. All large ones together hold at most the second, or three times
what the largest of the run holds: two that are visited alternately and one that is set up meanwhile. A guest returns
free pages to its host within some seconds (free page reporting). To get 1 GiB of them back takes 4 s, and to clear 1
GiB that another process has just freed takes 0.2 s. So a large process ends only when the next one begins."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128


class Resident(NamedTuple):
    """A process and its layout. bytes: memory that it holds; own_bytes: of these, memory that it does not share.
    setup_s: CPU time of its set-up; 0 where its first visit did the set-up."""

    child: Child
    seed: int
    bytes: int
    own_bytes: int
    setup_s: float = 0.0


class Residents:
    """The resident processes by layout. The one that has waited longest is ended first."""

    def __init__(self) -> None:
        self._waiting: dict[LayoutKey, Resident] = {}
        self._large: dict[LayoutKey, Resident] = {}
        self._terminated: list[Child] = []
        self._held = self._largest = 0

    def take(self, key: LayoutKey, seed: int) -> Resident | None:
        """The resident process of this layout, which leaves the collection. A process with another seed of the same key
        is ended, since its layout is over; a small one ends while the next visit runs."""
        resident = self._remove(key)
        if resident is None or resident.seed == seed:
            return resident
        if resident.bytes > _LARGE_BYTES:
            resident.child.end()
        else:
            resident.child.terminate()
            self._terminated.append(resident.child)
        return None

    def keep(self, key: LayoutKey, resident: Resident) -> None:
        """Keeps a process as long as all residents leave the machine its memory; else ends it, and it is started again
        for its next visit. A large process above the limit of large ones ends when the next layout begins."""
        self._end_large(resident.bytes, inf)
        if self._held + resident.bytes > _MOST_HELD * _memory_bytes() or len(self._waiting) >= _most_residents():
            resident.child.end()
            return
        self._waiting[key] = resident
        self._held += resident.bytes
        if resident.bytes > _LARGE_BYTES:
            self._large[key] = resident

    def idle_worker(self, key: LayoutKey) -> IdleWorker | None:
        """The process that waits for another visit of this layout; None where there is none."""
        resident = self._waiting.get(key)
        return IdleWorker(resident.bytes, resident.setup_s) if resident else None

    def make_room(self, wanted: int) -> None:
        """Ends large processes before a layout of `wanted` bytes begins, so that it gets their pages."""
        self._largest = max(self._largest, wanted)
        self._end_large(wanted, max(_MOST_LARGE_BYTES, _LARGE_TOGETHER * self._largest))

    def _end_large(self, wanted: int, most: float) -> None:
        """Ends large processes, longest waiting first, until `wanted` bytes more fit `most` and the machine's share."""
        held = sum(resident.bytes for resident in self._large.values())
        most = min(most, _MOST_HELD * _memory_bytes() - (self._held - held))
        for key, resident in list(self._large.items()):
            if wanted <= _LARGE_BYTES or held + wanted <= most:
                return
            self._remove(key)
            resident.child.end()
            held -= resident.bytes

    def close(self) -> None:
        self.reap_terminated()
        for resident in self._waiting.values():
            resident.child.end()
        self._waiting.clear()
        self._large.clear()
        self._held = 0

    def reap_terminated(self) -> None:
        """Reaps the processes that were terminated: quick, since they end while a visit runs."""
        for child in self._terminated:
            child.end()
        self._terminated.clear()

    def _remove(self, key: LayoutKey) -> Resident | None:
        resident = self._waiting.pop(key, None)
        self._large.pop(key, None)
        self._held -= resident.bytes if resident else 0
        return resident


def _most_residents() -> int:
    """As many as this process may hold pipes of; 1 where the system does not report the limit."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    return max(1, min(_MOST_RESIDENTS, (files - _FILES_OF_THE_HOST) // _FILES_EACH))


@cache
def _memory_bytes() -> float:
    """Of the machine, or of a control group that may use less."""
    return min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE"), control_groups.memory_bytes())
