# SPDX-License-Identifier: Apache-2.0
"""Layouts that are prepared before their visit is asked for, by processes on the host's own CPU.

To begin a layout may take longer than to visit it: a process touches its memory and threads a walk through it. What may
be measured beside that, it is done beside; for every other visit whoever prepares is halted (decision 40).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tollmeter.model import Point, Value, Visit
from tollmeter.targets.child import Child

Place = tuple[str, tuple[tuple[str, Value], ...], tuple[int, ...]]
"""Executable, parameters and CPUs."""


class Coming(NamedTuple):
    """The first visit of a layout that takes long to begin. bytes: of memory that it will hold, as far as its point
    says."""

    executable: str
    visit: Visit
    bytes: int

    @property
    def place(self) -> Place:
        return self.executable, self.visit.point.parameters, self.visit.cpus

    @property
    def layout(self) -> tuple[Place, int]:
        return self.place, self.visit.seed


class Forecast(NamedTuple):
    """What is asked for next, in that order, and the CPU to prepare it on. may_begin: whether a point's layout may be
    prepared elsewhere than where it is visited. is_calm: whether a visit to a point, whose process holds so many bytes
    of its own, is undisturbed by who prepares beside it."""

    cpu: int = 0
    coming: Sequence[Coming] = ()
    may_begin: Callable[[Point], bool] = lambda _: False
    is_calm: Callable[[Point, int], bool] = lambda _, __: False


class _Begun(NamedTuple):
    child: Child
    coming: Coming


class Ahead:
    """One layout at a time: it holds memory until its visit. start: a process, told to prepare what comes; None where
    it cannot be. patience_s: how long that may take. interruptible: entered while somebody waits for it. Implements
    child.Meanwhile."""

    def __init__(
        self,
        start: Callable[[Coming], Child | None],
        patience_s: Callable[[Visit], float],
        interruptible: Callable[[Child], AbstractContextManager[None]],
    ) -> None:
        self._start = start
        self._patience_s = patience_s
        self._interruptible = interruptible
        self._coming: deque[Coming] = deque()
        self._begun: _Begun | None = None
        self._is_ready = False
        self._is_halted = False

    def expect(self, coming: Sequence[Coming]) -> None:
        """In place of what was expected before. What is begun is not begun again, and ends where nobody wants it."""
        same = [one for one in coming if self._begun and one.layout == self._begun.coming.layout]
        if self._begun and not same:
            self._end()
        self._coming = deque(one for one in coming if one not in same)
        self.go_on()

    def is_ready(self, place: Place) -> bool:
        return self._is_ready and self._begun is not None and self._begun.coming.place == place

    def taken(self, place: Place, visit: Visit) -> Child | None:
        """Who has prepared this layout; waits until it is ready. None where it has to be begun by the visit itself."""
        self._coming = deque(one for one in self._coming if one.place != place)
        begun = self._begun
        if begun is None or begun.coming.place != place:
            return None
        if begun.coming.visit.seed != visit.seed:
            self._end()
            return None
        if not self._is_ready and not begun.child.has_answered():
            self._await(begun)
        self._begun, self._is_ready = None, False
        return begun.child if begun.child.stays else None

    def voices(self) -> list[int]:
        return [self._begun.child.voice] if self._begun and not self._is_ready else []

    def go_on(self) -> None:
        """Sees whether it is ready, and begins what comes next where nothing waits for its visit."""
        if self._begun and not self._is_ready and self._begun.child.has_answered():
            self._settle(self._begun)
        while self._begun is None and self._coming:
            coming = self._coming.popleft()
            child = self._start(coming)
            self._begun = _Begun(child, coming) if child else None

    def halt(self) -> None:
        """Nothing is prepared until `resume`."""
        if not self._is_halted and self._begun and not self._is_ready:
            self._begun.child.halt()
            self._is_halted = True

    def resume(self) -> None:
        if self._is_halted and self._begun:
            self._begun.child.go_on()
        self._is_halted = False
        self.go_on()

    def close(self) -> None:
        self._coming.clear()
        self._end()

    def _end(self) -> None:
        if self._begun:
            self._begun.child.end()
        self._begun, self._is_ready, self._is_halted = None, False, False

    def _await(self, begun: _Begun) -> None:
        with self._interruptible(begun.child):
            begun.child.hear(self._patience_s(begun.coming.visit))

    def _settle(self, begun: _Begun) -> None:
        """One that could not prepare has ended: its visit is made by another process, and says why."""
        if begun.child.stays:
            self._is_ready = True
        else:
            self._begun = None
