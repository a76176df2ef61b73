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
from tollmeter.targets.asking import Asking
from tollmeter.targets.child import Child, Ended, ends_stream
from tollmeter.targets.exit_reasons import later, not_started, patience_s, trouble_of_visit
from tollmeter.targets.worker_pool import LayoutKey, PendingSetup, SetupSchedule, Worker, WorkerPool, worker_of

_GRACE_S = 2.0
"""The probe keeps its own deadline, and reports why it ended. The host's deadline is for a probe that cannot."""


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


def _setup_request(visit: Visit, cpu: int) -> str:
    """The line that asks a process to set up the layout of a visit, and not to make the visit."""
    return " ".join((*words(visit), f"--ahead={cpu}"))


class Local(Asking):
    """Implements targets.Target. One resident process serves all visits of a layout."""

    name: str = "local"
    keeps_residents = True

    def __init__(self) -> None:
        self._child: Child | None = None
        self._is_asked_to_stop = False
        self._schedule = SetupSchedule()
        self._pool = WorkerPool(self._started_setup, self._wait)
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
        key = (executable, visit.point.parameters, visit.cpus)
        worker = self._pool.get(key, visit) or self._set_up(executable, later(visit, began))
        visit = later(visit, began)
        limit_s = patience_s(visit, _usual_s(visit))
        ended = self._asked(worker, visit, limit_s) if worker else None
        if worker is None or ended is None:
            worker = Worker(self._started(executable), visit.seed, 0, 0)
            ended = self._asked(worker, visit, limit_s)
        self._keep(key, worker)
        return ended or worker.child.finish(limit_s), visit

    def _forked(self, executable: str, visit: Visit) -> Ended:
        """The visit by a child of the process that makes all such visits of this executable."""
        limit_s, ended = patience_s(visit, _usual_s(visit)), None
        while ended is None:
            child = self._forking.get(executable)
            if child is None or not child.is_alive:
                command = self._command(executable, ("--visits",))
                child = self._forking[executable] = Child(command, listens=True, answers_with=ends_stream)
            with self._interruptible(child):
                ended = child.answer(" ".join(words(visit)), limit_s)
        return ended

    def _set_up(self, executable: str, visit: Visit) -> Worker | None:
        """A process that has set up the layout on the visit's CPU. What the system accounts to a visit then does not
        depend on whether its layout was set up before: a visit with its own set-up had up to 10 % more page faults.
        None where the visit has to set it up."""
        if not self._schedule.may_begin(visit.point):
            return None
        child = self._started(executable)
        with self._interruptible(child):
            child.answer(_setup_request(visit, visit.cpus[0]), patience_s(visit, _usual_s(visit)), self._pool)
        return worker_of(child, visit.seed, child.cpu_s(), is_fresh=True) if child.is_alive else None

    def _asked(self, worker: Worker, visit: Visit, limit_s: float) -> Ended | None:
        """The visit by a process of the pool. The running set-up continues beside a calm visit, without disturbing it;
        not beside one that sets itself up."""
        is_calm = worker.bytes > 0 and self._schedule.is_calm(visit.point, worker.own_bytes)
        if not is_calm:
            self._pool.halt()
        try:
            with self._interruptible(worker.child):
                return worker.child.answer(" ".join(words(visit)), limit_s, self._pool if is_calm else None)
        finally:
            self._pool.resume()

    def _keep(self, key: LayoutKey, worker: Worker) -> None:
        """Keeps the process of a visit. How much memory it holds is read after its first one."""
        if worker.child.is_alive:
            is_known = worker.bytes and not worker.is_fresh
            self._pool.put(key, worker if is_known else worker_of(worker.child, worker.seed, worker.setup_s))

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

    def expect(self, schedule: SetupSchedule) -> None:
        """Implements targets.PrestagesLayouts. Where each visit has a process of its own, nothing is set up for it."""
        if self.keeps_residents:
            self._schedule = schedule
            self._pool.prefetch(schedule.pending)

    def is_ready(self, key: LayoutKey) -> bool:
        return self._pool.is_ready(key)

    def is_begun(self, key: LayoutKey) -> bool:
        return self._pool.is_begun(key)

    def setup_s(self, key: LayoutKey) -> float | None:
        """Where each visit has a process of its own, a layout is never over for lack of a resident one."""
        return self._pool.setup_s(key) if self.keeps_residents else 0.0

    def _started(self, executable: str) -> Child:
        """Raises OSError where it cannot be started."""
        return Child(self._command(executable, ("--stay",)), listens=True)

    def _started_setup(self, pending: PendingSetup) -> Child | None:
        try:
            child = self._started(pending.executable)
        except OSError:
            return None
        return child if child.send(_setup_request(pending.visit, self._schedule.cpu)) else None

    def _wait(self, child: Child, visit: Visit) -> None:
        with self._interruptible(child):
            child.read_stream(patience_s(visit, _usual_s(visit)))

    def close(self) -> None:
        """Ends resident processes and set-ups."""
        self._pool.close()
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
