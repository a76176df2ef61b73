# SPDX-License-Identifier: Apache-2.0
"""Processes that wait for another visit of their layout, and how much of the machine they may hold."""

from __future__ import annotations

import os
import resource
from math import inf
from typing import NamedTuple

from tollmeter.targets.child import Child
from tollmeter.targets.setup_queue import Place, Staying

_MOST_HELD, _MOST_RESIDENTS = 1 / 4, 512
"""Of the machine's memory, and processes: what waits takes no time, but its memory is nobody else's."""
_LARGE_BYTES, _MOST_LARGE_BYTES, _LARGE_TOGETHER = 24 << 20, 768 << 20, 3
"""A process that holds more than the first is large. All large ones together hold no more than the second, or three
times what the largest of the run holds: two that are visited alternately, and one that is prepared meanwhile. A guest
returns free pages to its host within some seconds (free page reporting). To get 1 GiB of them back takes 4 s, and to
clear 1 GiB that another process has just freed takes 0.2 s. So a large process ends only when the next one begins."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128


class Resident(NamedTuple):
    """bytes: of memory that it holds; own_bytes: of these, what is its alone: its data. prepared_s: CPU time that its
    layout took; 0 where its first visit was begun with it."""

    child: Child
    seed: int
    bytes: int
    own_bytes: int
    prepared_s: float = 0.0


class Residents:
    """By what was laid out. Whoever has waited longest is the first to end."""

    def __init__(self) -> None:
        self._waiting: dict[Place, Resident] = {}
        self._large: dict[Place, Resident] = {}
        self._leaving: list[Child] = []
        self._held = self._largest = 0

    def taken(self, place: Place, seed: int) -> Resident | None:
        """Who waits for another visit of this layout. One of another layout of the place is ended: it is over, and a
        small one ends while others are visited."""
        found = self._let_go(place)
        if found is None or found.seed == seed:
            return found
        if found.bytes > _LARGE_BYTES:
            found.child.end()
        else:
            found.child.dismiss()
            self._leaving.append(found.child)
        return None

    def keep(self, place: Place, one: Resident) -> None:
        """As long as all that wait leave the machine its memory: what does not fit is started again each time. A large
        process above the limit of large ones ends when the next layout begins."""
        self._end_large(one.bytes, inf)
        if self._held + one.bytes > _MOST_HELD * _memory_bytes() or len(self._waiting) >= _most_residents():
            one.child.end()
            return
        self._waiting[place] = one
        self._held += one.bytes
        if one.bytes > _LARGE_BYTES:
            self._large[place] = one

    def staying(self, place: Place) -> Staying | None:
        """Who waits for another visit; None where nobody does."""
        found = self._waiting.get(place)
        return Staying(found.bytes, found.prepared_s) if found else None

    def make_room(self, wanted: int) -> None:
        """Before a layout of `wanted` bytes begins, which then gets the pages of those that end."""
        self._largest = max(self._largest, wanted)
        self._end_large(wanted, max(_MOST_LARGE_BYTES, _LARGE_TOGETHER * self._largest))

    def _end_large(self, wanted: int, most: float) -> None:
        """Those that have waited longest, until `wanted` bytes more are within `most` and the machine's share."""
        held = sum(one.bytes for one in self._large.values())
        most = min(most, _MOST_HELD * _memory_bytes() - (self._held - held))
        for place, one in list(self._large.items()):
            if wanted <= _LARGE_BYTES or held + wanted <= most:
                return
            self._let_go(place)
            one.child.end()
            held -= one.bytes

    def close(self) -> None:
        self.see_off()
        for one in self._waiting.values():
            one.child.end()
        self._waiting.clear()
        self._large.clear()
        self._held = 0

    def see_off(self) -> None:
        """Waits for those that were told to end: quick, once a visit is under way."""
        for child in self._leaving:
            child.end()
        self._leaving.clear()

    def _let_go(self, place: Place) -> Resident | None:
        found = self._waiting.pop(place, None)
        self._large.pop(place, None)
        self._held -= found.bytes if found else 0
        return found


def _most_residents() -> int:
    """As many as this process may hold pipes of; one where the system does not tell."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    return max(1, min(_MOST_RESIDENTS, (files - _FILES_OF_THE_HOST) // _FILES_EACH))


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
