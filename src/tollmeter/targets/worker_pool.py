# SPDX-License-Identifier: Apache-2.0
"""Processes that have set up a layout and wait for its next visit, and set-ups that run before their visits.

A set-up may take longer than a visit: a process touches the layout's memory and links a pointer cycle through it. It
runs on the host's own CPU beside visits that it cannot disturb, and is stopped during every other visit (decision 20).
"""

from __future__ import annotations

import os
import resource
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from tollmeter.model import Point, Value, Visit
from tollmeter.targets import control_groups
from tollmeter.targets.child import Child

_MOST_HELD, _MOST_WORKERS = 1 / 4, 512
"""Share of the machine's memory, and number of processes. A waiting process takes no CPU time, but keeps its memory
from every other program."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128

LayoutKey = tuple[str, tuple[tuple[str, Value], ...], tuple[int, ...]]
"""Executable, parameters and CPUs: visits with the same key and seed use the same layout."""


class PendingSetup(NamedTuple):
    """A set-up that has not begun, with the visit that needs it."""

    executable: str
    visit: Visit

    @property
    def key(self) -> LayoutKey:
        return self.executable, self.visit.point.parameters, self.visit.cpus

    @property
    def seeded_key(self) -> tuple[LayoutKey, int]:
        return self.key, self.visit.seed


class SetupSchedule(NamedTuple):
    """The set-ups that the next visits need, in order, and the CPU for them. may_begin: whether a point's layout may be
    set up before its visit, on any CPU. is_calm: whether a set-up on the host's
    CPU leaves a visit of this point undisturbed, if its process holds this many bytes of its own."""

    cpu: int = 0
    pending: Sequence[PendingSetup] = ()
    may_begin: Callable[[Point], bool] = lambda _: False
    is_calm: Callable[[Point, int], bool] = lambda _, __: False


class Worker(NamedTuple):
    """A process and its layout. bytes: memory that it holds; own_bytes: of these, memory that it does not share.
    setup_s: CPU time of its set-up; 0 where its first visit did the set-up. is_fresh: it has served no visit."""

    child: Child
    seed: int
    bytes: int
    own_bytes: int
    setup_s: float = 0.0
    is_fresh: bool = False


def worker_of(child: Child, seed: int, setup_s: float = 0.0, *, is_fresh: bool = False) -> Worker:
    return Worker(child, seed, child.resident_bytes(), child.own_bytes(), setup_s, is_fresh)


class WorkerPool:
    """Waiting processes by layout, and one set-up at a time: of those that are ready one waits for its first visit.
    start: starts the process of a set-up; None where it cannot. wait: waits until a set-up is complete. Implements
    child.Meanwhile."""

    def __init__(self, start: Callable[[PendingSetup], Child | None], wait: Callable[[Child, Visit], None]) -> None:
        self._start = start
        self._wait = wait
        self._waiting: dict[LayoutKey, Worker] = {}
        self._ready: dict[LayoutKey, Worker] = {}
        self._pending = deque[PendingSetup]()
        self._running: tuple[PendingSetup, Child] | None = None
        self._given_up: set[tuple[LayoutKey, int]] = set()
        self._is_halted = False

    def get(self, key: LayoutKey, visit: Visit) -> Worker | None:
        """The process of this layout, which leaves the pool; waits for one that is set up now. None where the visit
        itself has to set the layout up. Processes with another seed of the same key end: their layout is over."""
        self._pending = deque(setup for setup in self._pending if setup.key != key)
        if self._running and self._running[0].key == key:
            self._finish_running(visit.seed)
        found = None
        for workers in (self._waiting, self._ready):
            worker = workers.pop(key, None)
            if worker and worker.seed == visit.seed:
                found = worker
            elif worker:
                worker.child.end()
        return found

    def put(self, key: LayoutKey, worker: Worker) -> None:
        """Keeps a process for the next visit of its layout. Those that have waited longest end where all together hold
        too much."""
        most = _MOST_HELD * _memory_bytes() - worker.bytes
        held = sum(other.bytes for other in (*self._waiting.values(), *self._ready.values()))
        while self._waiting and (held > most or len(self._waiting) >= _most_workers()):
            oldest = self._waiting.pop(next(iter(self._waiting)))
            oldest.child.end()
            held -= oldest.bytes
        if most < 0:
            worker.child.end()
        else:
            self._waiting[key] = worker

    def prefetch(self, pending: Sequence[PendingSetup]) -> None:
        """Replaces the queue of set-ups. One that runs or is ready is kept if it is still wanted; else its process
        ends."""
        wanted = {setup.seeded_key for setup in pending}
        self._given_up &= wanted
        if self._running and self._running[0].seeded_key not in wanted:
            self._end_running()
        for key, worker in [*self._ready.items()]:
            if (key, worker.seed) not in wanted:
                self._ready.pop(key).child.end()
        present = {(key, worker.seed) for key, worker in self._ready.items()} | self._given_up
        present |= {self._running[0].seeded_key} if self._running else set()
        self._pending = deque(setup for setup in pending if setup.seeded_key not in present)
        self.advance()

    def is_ready(self, key: LayoutKey) -> bool:
        """Whether the layout is set up. True also after a failed set-up: the visit then reports the reason, and nothing
        waits."""
        return key in self._ready or any(key == given_up for given_up, _ in self._given_up)

    def is_begun(self, key: LayoutKey) -> bool:
        """Whether the layout's set-up runs or is complete."""
        return key in self._ready or (self._running is not None and self._running[0].key == key)

    def setup_s(self, key: LayoutKey) -> float | None:
        """CPU time of the set-up of the process that waits for another visit of this layout, 0 where it is unknown;
        None where there is no process."""
        worker = self._waiting.get(key)
        return worker.setup_s if worker else None

    def stdout_fds(self) -> list[int]:
        return [self._running[1].stdout_fd] if self._running else []

    def advance(self) -> None:
        """Collects a set-up that is complete, and begins the next one if none waits for its first visit."""
        self._collect()
        while self._running is None and self._pending and not self._ready:
            setup = self._pending.popleft()
            child = self._start(setup)
            self._running = (setup, child) if child else None

    def halt(self) -> None:
        """Stops the running set-up until `resume`."""
        if not self._is_halted and self._running:
            self._running[1].halt()
            self._is_halted = True

    def resume(self) -> None:
        """Resumes the stopped set-up. The next one begins beside the next calm visit, not between two visits."""
        if self._is_halted and self._running:
            self._running[1].resume()
        self._is_halted = False
        self._collect()

    def close(self) -> None:
        self.prefetch(())
        for worker in self._waiting.values():
            worker.child.end()
        self._waiting.clear()

    def _finish_running(self, seed: int) -> None:
        assert self._running
        setup, child = self._running
        if setup.visit.seed != seed:
            self._end_running()
            return
        if not child.has_answered():
            self._wait(child, setup.visit)
        self._settle()

    def _end_running(self) -> None:
        if self._running:
            self._running[1].end()
        self._running, self._is_halted = None, False

    def _collect(self) -> None:
        if self._running and self._running[1].has_answered():
            self._settle()

    def _settle(self) -> None:
        """Files a set-up as ready. A process that could not set up has ended: another process makes its visit, and
        reports why."""
        assert self._running
        (setup, child), self._running = self._running, None
        if child.is_alive:
            self._ready[setup.key] = worker_of(child, setup.visit.seed, child.cpu_s(), is_fresh=True)
        else:
            self._given_up.add(setup.seeded_key)


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
