# SPDX-License-Identifier: Apache-2.0
"""This machine, natively."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tollmeter.model import Visit
from tollmeter.protocol import closed, refused, words
from tollmeter.targets import native_loader
from tollmeter.targets.asking import Asking, later, not_started, patience_s, trouble_of_visit
from tollmeter.targets.child import Child, Ended, ends_stream
from tollmeter.targets.worker_pool import WorkerPool, key_of

_GRACE_S = 2.0
"""The probe keeps its own deadline, and reports why it ended. The host's deadline is for a probe that cannot."""


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


class Local(Asking):
    """Implements targets.Target. One resident process serves all visits of a layout. pool: those that wait."""

    name: str = "local"
    keeps_residents = True

    def __init__(self) -> None:
        self._child: Child | None = None
        self._is_asked_to_stop = False
        self.pool = WorkerPool()
        self._forking: dict[str, Child] = {}

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            ended, asked = self._visited(executable, visit)
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        finally:
            # Not before the visit: an interrupt that came since the last one is meant for this one.
            self._is_asked_to_stop = False
        return closed(ended.output, visit, revision, trouble_of_visit(ended, asked, _usual_s(asked)))

    def _visited(self, executable: str, visit: Visit) -> tuple[Ended, Visit]:
        """The visit, by the resident process of its layout if there is one; a target that counts has a process for each
        visit. Returns the visit as it was requested too: the time of the set-up is no longer left of its budget."""
        began = time.monotonic()
        if visit.forks and self.keeps_residents:
            return self._forked(executable, visit), visit
        if not self.keeps_residents:
            return self._finish(self._command(executable, words(visit)), patience_s(visit, _usual_s(visit))), visit
        key = key_of(executable, visit)
        child = self.pool.get(key, visit.seed)
        if child is None and visit.sets_up_first:
            # A process sets up the layout on the visit's CPU. What the system accounts to a visit then does not depend
            # on whether it is the layout's first: a visit with its own set-up had up to 10 % more page faults.
            child = self._started(executable)
            request = (*words(visit), f"--ahead={visit.cpus[0]}")
            self._answer(child, request, patience_s(visit, _usual_s(visit)))
        visit = later(visit, began)
        limit_s = patience_s(visit, _usual_s(visit))
        ended = self._answer(child, words(visit), limit_s) if child and child.is_alive else None
        if child is None or ended is None:
            child = self._started(executable)
            ended = self._answer(child, words(visit), limit_s)
        if child.is_alive:
            self.pool.put(key, visit.seed, child)
        return ended or child.finish(limit_s), visit

    def _forked(self, executable: str, visit: Visit) -> Ended:
        """The visit by a child of the process that makes all such visits of this executable."""
        limit_s, ended = patience_s(visit, _usual_s(visit)), None
        while ended is None:
            child = self._forking.get(executable)
            if child is None or not child.is_alive:
                command = self._command(executable, ("--visits",))
                child = self._forking[executable] = Child(command, listens=True, answers_with=ends_stream)
            ended = self._answer(child, words(visit), limit_s)
        return ended

    def _answer(self, child: Child, request: Sequence[str], limit_s: float) -> Ended | None:
        with self._interruptible(child):
            return child.answer(" ".join(request), limit_s)

    @contextmanager
    def _interruptible(self, child: Child) -> Iterator[None]:
        """A probe that is interrupted during its set-up takes no sample. If it ends of the signal before its handler is
        installed, a process replaces it and is interrupted as well."""
        self._child = child
        if self._is_asked_to_stop:
            child.signal(signal.SIGINT)
        try:
            yield
        finally:
            self._child = None

    def _started(self, executable: str) -> Child:
        """Raises OSError where it cannot be started."""
        return Child(self._command(executable, ("--stay",)), listens=True)

    def close(self) -> None:
        """Ends resident processes."""
        self.pool.close()
        for child in self._forking.values():
            child.end()

    def interrupt(self) -> None:
        self._is_asked_to_stop = True
        if self._child:
            self._child.signal(signal.SIGINT)

    def _answered(self, executable: str, option: str) -> Ended:
        return self._finish(self._command(executable, (option,)), self.asking_s)

    def _command(self, executable: str, arguments: Sequence[str]) -> list[str]:
        return [*native_loader.command(executable), *arguments]

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        child = Child(command)
        with self._interruptible(child):
            return child.finish(limit_s)
