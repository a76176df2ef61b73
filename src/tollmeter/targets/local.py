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
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.exit_reasons import later, not_started, patience_s, trouble_of_visit
from tollmeter.targets.residents import Resident, Residents
from tollmeter.targets.setup_queue import IdleWorker, LayoutKey, PendingSetup, SetupQueue, SetupSchedule

_GRACE_S = 2.0
"""The probe keeps its own deadline, and reports why it ended. The host's deadline is for a probe that cannot."""


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


def _resident(child: Child, visit: Visit) -> Resident:
    return Resident(child, visit.seed, bytes=0, own_bytes=child.own_bytes())


def _largest_number(key: LayoutKey) -> int:
    """The largest parameter, which approximates a layout's memory; too large ends idle processes earlier."""
    return max((value for _, value in key[1] if isinstance(value, int)), default=0)


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
        self._setups = SetupQueue(
            self._started_setup, lambda visit: patience_s(visit, _usual_s(visit)), self._interruptible
        )
        self._residents = Residents()
        self._held_bytes: dict[LayoutKey, int] = {}

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
        if not self.keeps_residents:
            return self._finish(self._command(executable, words(visit)), patience_s(visit, _usual_s(visit))), visit
        key = (executable, visit.point.parameters, visit.cpus)
        resident = self._residents.take(key, visit.seed) or self._set_up(key, visit)
        visit = later(visit, began)
        limit_s = patience_s(visit, _usual_s(visit))
        calm = resident is not None and self._schedule.is_calm(visit.point, resident.own_bytes)
        ended = self._asked(resident.child, visit, limit_s, calm) if resident else None
        if resident is None or ended is None:
            resident = _resident(self._started(key), visit)
            ended = self._asked(resident.child, visit, limit_s, calm=False)
        self._keep_resident(key, resident)
        return ended or resident.child.finish(limit_s), visit

    def _set_up(self, key: LayoutKey, visit: Visit) -> Resident | None:
        """A process that has set up the layout before its visit; None where the visit has to do it."""
        began = time.monotonic()
        child = self._setups.take(key, visit) or self._prepared(key, later(visit, began))
        return _resident(child, visit)._replace(setup_s=child.cpu_s()) if child else None

    def _asked(self, child: Child, visit: Visit, limit_s: float, calm: bool) -> Ended | None:
        """The visit by a resident process. The running set-up continues beside a calm visit, without disturbing it."""
        if not calm:
            self._setups.halt()
        try:
            with self._interruptible(child):
                if not child.send(" ".join(words(visit))):
                    return None
                if calm:
                    self._meanwhile(child)
                return child.read_stream(limit_s, self._setups if calm else None)
        finally:
            self._residents.reap_terminated()
            self._setups.resume()

    def _meanwhile(self, visited: Child) -> None:
        """Host work beside the visit. On an error the process, which is in no collection yet, is ended here."""
        try:
            self._residents.reap_terminated()
            self._schedule.meanwhile()
        except BaseException:
            visited.end()
            raise

    @contextmanager
    def _interruptible(self, child: Child) -> Iterator[None]:
        """An interrupted set-up takes no sample; a process that the signal killed is replaced and interrupted."""
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
            self._setups.expect(schedule.pending)

    def is_ready(self, key: LayoutKey) -> bool:
        return self._setups.is_ready(key)

    def is_begun(self, key: LayoutKey) -> bool:
        return self._setups.is_begun(key)

    def idle_worker(self, key: LayoutKey) -> IdleWorker | None:
        """Where each visit has a process of its own, a layout is never over for lack of a resident one."""
        return self._residents.idle_worker(key) if self.keeps_residents else IdleWorker()

    def _started(self, key: LayoutKey, bytes_: int = 0) -> Child:
        """bytes_: memory that its sizes state. Raises OSError where it cannot be started."""
        self._residents.make_room(self._held_bytes.get(key) or max(bytes_, _largest_number(key)))
        return Child(self._command(key[0], ("--stay",)), listens=True)

    def _prepared(self, key: LayoutKey, visit: Visit) -> Child | None:
        """Sets up the layout now on the visit's CPU, to learn its memory. None if that is no use or fails."""
        if not self._schedule.may_begin(visit.point):
            return None
        child = self._started(key)
        with self._interruptible(child):
            child.answer(_setup_request(visit, visit.cpus[0]), patience_s(visit, _usual_s(visit)), self._setups)
        return child if child.is_alive else None

    def _started_setup(self, pending: PendingSetup) -> Child | None:
        try:
            child = self._started(pending.key, pending.bytes)
        except OSError:
            return None
        return child if child.send(_setup_request(pending.visit, self._schedule.cpu)) else None

    def _keep_resident(self, key: LayoutKey, resident: Resident) -> None:
        """Keeps the process of a visit. How much memory it holds is read after its first one."""
        if not resident.child.is_alive:
            return
        if not resident.bytes:
            resident = resident._replace(bytes=resident.child.resident_bytes(), own_bytes=resident.child.own_bytes())
            self._held_bytes[key] = resident.bytes
        self._residents.keep(key, resident)

    def close(self) -> None:
        """Ends resident processes and set-ups."""
        self._setups.close()
        self._residents.close()

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
