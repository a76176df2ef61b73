# SPDX-License-Identifier: Apache-2.0
"""Layouts that are prepared before their visit is asked for, by processes on the host's own CPU.

To begin a layout may take longer than to visit it: a process touches its memory and threads a walk through it. That is
done while undisturbed visits are measured, and the preparing process is halted for every other visit (decision 20).
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


class Staying(NamedTuple):
    """Who waits for another visit of its layout: bytes of memory that it holds; prepared_s: CPU time that the layout
    took, 0 where that is not known."""

    bytes: int = 0
    prepared_s: float = 0.0


class Coming(NamedTuple):
    """The first visit of a layout. bytes: of memory that it will hold, as far as its point says. is_quick: to begin,
    as far as that is known."""

    executable: str
    visit: Visit
    bytes: int
    is_quick: bool = False

    @property
    def place(self) -> Place:
        return self.executable, self.visit.point.parameters, self.visit.cpus

    @property
    def layout(self) -> tuple[Place, int]:
        return self.place, self.visit.seed


class Forecast(NamedTuple):
    """What is asked for next, in that order, and the CPU to prepare it on. may_begin: whether a point's layout may be
    prepared elsewhere than where it is visited. is_calm: whether a visit to a point, whose process holds so many bytes
    of its own, is undisturbed by who prepares beside it. meanwhile: what else is done beside it, by the host: quick."""

    cpu: int = 0
    coming: Sequence[Coming] = ()
    may_begin: Callable[[Point], bool] = lambda _: False
    is_calm: Callable[[Point, int], bool] = lambda _, __: False
    meanwhile: Callable[[], None] = lambda: None


_MOST_QUICK = 8
"""Ready, and not yet visited: as many as are visited while one that is slow is prepared."""


class _Begun(NamedTuple):
    child: Child
    coming: Coming


class Ahead:
    """One is at work at a time. Of those that are ready, and hold memory until their visit, one was slow and a few
    quick. start: a process, told to prepare what comes; None where it cannot be. patience_s: how long that may take.
    interruptible: entered while somebody waits for it. Implements child.Meanwhile."""

    def __init__(
        self,
        start: Callable[[Coming], Child | None],
        patience_s: Callable[[Visit], float],
        interruptible: Callable[[Child], AbstractContextManager[None]],
    ) -> None:
        self._start = start
        self._patience_s = patience_s
        self._interruptible = interruptible
        self._slow, self._quick = deque[Coming](), deque[Coming]()
        self._begun: _Begun | None = None
        self._ready: dict[Place, _Begun] = {}
        self._given_up: set[tuple[Place, int]] = set()
        self._is_halted = False

    def expect(self, coming: Sequence[Coming]) -> None:
        """In place of what was expected before. What is begun is not begun again, and ends where nobody wants it."""
        wanted = {one.layout for one in coming}
        self._given_up &= wanted
        if self._begun and self._begun.coming.layout not in wanted:
            self._end_begun()
        for one in [one for one in self._ready.values() if one.coming.layout not in wanted]:
            self._ready.pop(one.coming.place).child.end()
        there = {one.coming.layout for one in (*self._ready.values(), *([self._begun] if self._begun else []))}
        there |= self._given_up
        self._slow = deque(one for one in coming if one.layout not in there and not one.is_quick)
        self._quick = deque(one for one in coming if one.layout not in there and one.is_quick)
        self.go_on()

    def is_ready(self, place: Place) -> bool:
        """Or could not be prepared: then its visit is to say why, and nobody has to wait for it."""
        return place in self._ready or any(place == given_up for given_up, _ in self._given_up)

    def is_begun(self, place: Place) -> bool:
        """Or is ready."""
        return place in self._ready or (self._begun is not None and self._begun.coming.place == place)

    def taken(self, place: Place, visit: Visit) -> Child | None:
        """Who has prepared this layout; waits until it is ready. None where it has to be begun by the visit itself."""
        self._forget(place)
        if self._begun and self._begun.coming.place == place:
            if self._begun.coming.visit.seed == visit.seed:
                self._await(self._begun)
            else:
                self._end_begun()
        found = self._ready.pop(place, None)
        if found and found.coming.visit.seed != visit.seed:
            found.child.end()
            return None
        return found.child if found else None

    def voices(self) -> list[int]:
        return [self._begun.child.voice] if self._begun else []

    def go_on(self) -> None:
        """Sees whether it is ready, and begins what comes next where there is room for it."""
        self._hear()
        while self._begun is None and (coming := self._next()):
            child = self._start(coming)
            self._begun = _Begun(child, coming) if child else None

    def _hear(self) -> None:
        if self._begun and self._begun.child.has_answered():
            self._settle(self._begun)

    def halt(self) -> None:
        """Nothing is prepared until `resume`."""
        if not self._is_halted and self._begun:
            self._begun.child.halt()
            self._is_halted = True

    def resume(self) -> None:
        """What comes next is begun beside the next visit that is calm, and not between two."""
        if self._is_halted and self._begun:
            self._begun.child.go_on()
        self._is_halted = False
        self._hear()

    def close(self) -> None:
        self.expect(())

    def _forget(self, place: Place) -> None:
        self._slow = deque(one for one in self._slow if one.place != place)
        self._quick = deque(one for one in self._quick if one.place != place)

    def _next(self) -> Coming | None:
        """What is slow goes first: the quick ones that it leaves to their visits are laid out beside it. While a slow
        one waits for its visit, which is the next, they are prepared for those behind."""
        quick = sum(one.coming.is_quick for one in self._ready.values())
        if self._slow and quick == len(self._ready):
            return self._slow.popleft()
        return self._quick.popleft() if self._quick and quick < _MOST_QUICK else None

    def _end_begun(self) -> None:
        if self._begun:
            self._begun.child.end()
        self._begun, self._is_halted = None, False

    def _await(self, begun: _Begun) -> None:
        if not begun.child.has_answered():
            with self._interruptible(begun.child):
                begun.child.hear(self._patience_s(begun.coming.visit))
        self._settle(begun)

    def _settle(self, begun: _Begun) -> None:
        """One that could not prepare has ended: its visit is made by another process, and says why."""
        self._begun = None
        if begun.child.stays:
            self._ready[begun.coming.place] = begun
        else:
            self._given_up.add(begun.coming.layout)
