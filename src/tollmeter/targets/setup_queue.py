# SPDX-License-Identifier: Apache-2.0
"""Layouts that a process on the host's own CPU sets up before the visit that needs them.

A set-up may take longer than a visit: a process touches the layout's memory and links a pointer cycle through it. It
runs while visits that it cannot disturb are measured, and is stopped during every other visit (decision 20)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from tollmeter.model import Point, Value, Visit
from tollmeter.targets.child import Child

LayoutKey = tuple[str, tuple[tuple[str, Value], ...], tuple[int, ...]]
"""Executable, parameters and CPUs: visits with the same key and seed use the same layout."""


class IdleWorker(NamedTuple):
    """A resident process that waits. bytes: memory held. setup_s: CPU time of its set-up; 0 if unknown."""

    bytes: int = 0
    setup_s: float = 0.0


class PendingSetup(NamedTuple):
    """A set-up that has not begun, with the visit that needs it. bytes: memory that the layout will hold, as far as the
    point's parameters state it. is_quick: the set-up is known to be short."""

    executable: str
    visit: Visit
    bytes: int
    is_quick: bool = False

    @property
    def key(self) -> LayoutKey:
        return self.executable, self.visit.point.parameters, self.visit.cpus

    @property
    def seeded_key(self) -> tuple[LayoutKey, int]:
        return self.key, self.visit.seed


class SetupSchedule(NamedTuple):
    """The set-ups that the next visits need, in order, and the CPU for them. may_begin: whether a point's layout may be
    set up on a CPU other than the one of its visit. is_calm: whether a set-up on the host's CPU leaves a visit of this
    point undisturbed, if its process holds this many bytes of its own. meanwhile: short work of the host beside such a
    visit."""

    cpu: int = 0
    pending: Sequence[PendingSetup] = ()
    may_begin: Callable[[Point], bool] = lambda _: False
    is_calm: Callable[[Point, int], bool] = lambda _, __: False
    meanwhile: Callable[[], None] = lambda: None


_MOST_QUICK = 8
"""Quick set-ups that may be ready and unvisited: as many as are visited during one slow set-up."""


class _Setup(NamedTuple):
    child: Child
    pending: PendingSetup


class SetupQueue:
    """Sets up one layout at a time. Of the set-ups that are ready, and so hold memory, at most one is slow and a few
    are quick. start: starts the process of a set-up; None where it cannot. patience_s: the longest time that a set-up
    may take. interruptible: is entered while a visit waits for a set-up. Implements child.Meanwhile."""

    def __init__(
        self,
        start: Callable[[PendingSetup], Child | None],
        patience_s: Callable[[Visit], float],
        interruptible: Callable[[Child], AbstractContextManager[None]],
    ) -> None:
        self._start = start
        self._patience_s = patience_s
        self._interruptible = interruptible
        self._slow, self._quick = deque[PendingSetup](), deque[PendingSetup]()
        self._running: _Setup | None = None
        self._ready: dict[LayoutKey, _Setup] = {}
        self._given_up: set[tuple[LayoutKey, int]] = set()
        self._is_halted = False

    def expect(self, pending: Sequence[PendingSetup]) -> None:
        """Replaces the queue. A set-up that runs or is ready is kept if it is still wanted; else its process ends."""
        wanted = {setup.seeded_key for setup in pending}
        self._given_up &= wanted
        if self._running and self._running.pending.seeded_key not in wanted:
            self._end_running()
        for setup in [setup for setup in self._ready.values() if setup.pending.seeded_key not in wanted]:
            self._ready.pop(setup.pending.key).child.end()
        present = {
            setup.pending.seeded_key for setup in (*self._ready.values(), *([self._running] if self._running else []))
        }
        present |= self._given_up
        self._slow = deque(setup for setup in pending if setup.seeded_key not in present and not setup.is_quick)
        self._quick = deque(setup for setup in pending if setup.seeded_key not in present and setup.is_quick)
        self.advance()

    def is_ready(self, key: LayoutKey) -> bool:
        """Whether the layout is set up, or failed to be: the visit then reports the reason."""
        return key in self._ready or any(key == given_up for given_up, _ in self._given_up)

    def is_begun(self, key: LayoutKey) -> bool:
        """Whether the layout's set-up runs or is complete."""
        return key in self._ready or (self._running is not None and self._running.pending.key == key)

    def take(self, key: LayoutKey, visit: Visit) -> Child | None:
        """The process that has set up this layout, once it is ready. None if the visit has to set it up itself."""
        self._forget(key)
        if self._running and self._running.pending.key == key:
            if self._running.pending.visit.seed == visit.seed:
                self._wait_for(self._running)
            else:
                self._end_running()
        setup = self._ready.pop(key, None)
        if setup and setup.pending.visit.seed != visit.seed:
            setup.child.end()
            return None
        return setup.child if setup else None

    def stdout_fds(self) -> list[int]:
        return [self._running.child.stdout_fd] if self._running else []

    def advance(self) -> None:
        """Collects a set-up that is complete, and begins the next one if there is room for it."""
        self._check_running()
        while self._running is None and (pending := self._next()):
            child = self._start(pending)
            self._running = _Setup(child, pending) if child else None

    def _check_running(self) -> None:
        if self._running and self._running.child.has_answered():
            self._settle(self._running)

    def halt(self) -> None:
        """Stops the running set-up until `resume`."""
        if not self._is_halted and self._running:
            self._running.child.halt()
            self._is_halted = True

    def resume(self) -> None:
        """Resumes the stopped set-up. The next one begins beside the next calm visit, not between two visits."""
        if self._is_halted and self._running:
            self._running.child.resume()
        self._is_halted = False
        self._check_running()

    def close(self) -> None:
        self.expect(())

    def _forget(self, key: LayoutKey) -> None:
        self._slow = deque(pending for pending in self._slow if pending.key != key)
        self._quick = deque(pending for pending in self._quick if pending.key != key)

    def _next(self) -> PendingSetup | None:
        """Slow set-ups first; quick ones run beside visits, and for later visits while a slow one is ready."""
        quick = sum(setup.pending.is_quick for setup in self._ready.values())
        if self._slow and quick == len(self._ready):
            return self._slow.popleft()
        return self._quick.popleft() if self._quick and quick < _MOST_QUICK else None

    def _end_running(self) -> None:
        if self._running:
            self._running.child.end()
        self._running, self._is_halted = None, False

    def _wait_for(self, setup: _Setup) -> None:
        if not setup.child.has_answered():
            with self._interruptible(setup.child):
                setup.child.read_stream(self._patience_s(setup.pending.visit))
        self._settle(setup)

    def _settle(self, setup: _Setup) -> None:
        """Files a set-up as ready. A failed one has ended: another process makes its visit, and reports why."""
        self._running = None
        if setup.child.is_alive:
            self._ready[setup.pending.key] = setup
        else:
            self._given_up.add(setup.pending.seeded_key)
