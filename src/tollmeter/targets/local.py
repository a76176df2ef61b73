# SPDX-License-Identifier: Apache-2.0
"""This machine, natively."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf

from tollmeter.model import Failure, Visit
from tollmeter.protocol import closed, refused, words
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.exit_reasons import later, not_started, patience_s, trouble, trouble_of_visit
from tollmeter.targets.residents import Resident, Residents
from tollmeter.targets.setup_queue import Ahead, Coming, Forecast, Place, Staying

_ASKING_S = 20.0
_GRACE_S = 2.0
"""The probe keeps its own deadline, and tells why it ended. The host's is for a probe that cannot."""


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


def _resident(child: Child, visit: Visit) -> Resident:
    return Resident(child, visit.seed, bytes=0, own_bytes=child.own_bytes())


def _largest_number(place: Place) -> int:
    """Of its parameters: for a layout that was not set up before, its size stands for the memory that it will hold. A
    large count is taken for a size too, and then idle processes only end earlier than they need to."""
    return max((value for _, value in place[1] if isinstance(value, int)), default=0)


def _told_ahead(visit: Visit, cpu: int) -> str:
    """The line that asks for what a visit needs, and not for the visit."""
    return " ".join((*words(visit), f"--ahead={cpu}"))


class Local:
    """Implements targets.Target. Visits of one layout are served by one process, which stays between them."""

    name: str = "local"
    keeps_residents = True

    def __init__(self) -> None:
        self._child: Child | None = None
        self._is_asked_to_stop = False
        self._forecast = Forecast()
        self._ahead = Ahead(self._begun_ahead, lambda visit: patience_s(visit, _usual_s(visit)), self._interruptible)
        self._residents = Residents()
        self._held_bytes: dict[Place, int] = {}

    def describe(self, executable: str) -> bytes:
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        return self._ask(executable, "--machine")

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
        """By the process that has prepared this layout, if one waits; a place that counts has one for each visit. With
        the visit as it was asked for: what its layout took is no longer left of the budget."""
        began = time.monotonic()
        if not self.keeps_residents:
            return self._finish(self._command(executable, words(visit)), patience_s(visit, _usual_s(visit))), visit
        place = (executable, visit.point.parameters, visit.cpus)
        one = self._residents.taken(place, visit.seed) or self._laid_out(place, visit)
        visit = later(visit, began)
        limit_s = patience_s(visit, _usual_s(visit))
        calm = one is not None and self._forecast.is_calm(visit.point, one.own_bytes)
        ended = self._asked(one.child, visit, limit_s, calm) if one else None
        if one is None or ended is None:
            one = _resident(self._started(place), visit)
            ended = self._asked(one.child, visit, limit_s, calm=False)
        self._keep(place, one)
        return ended or one.child.finish(limit_s), visit

    def _laid_out(self, place: Place, visit: Visit) -> Resident | None:
        """Ahead of its visit; None where the visit has to do it."""
        began = time.monotonic()
        child = self._ahead.taken(place, visit) or self._prepared(place, later(visit, began))
        return _resident(child, visit)._replace(prepared_s=child.cpu_s()) if child else None

    def _asked(self, child: Child, visit: Visit, limit_s: float, calm: bool) -> Ended | None:
        """Whoever prepares what comes next goes on beside a visit that is calm: not disturbed by it."""
        if not calm:
            self._ahead.halt()
        try:
            with self._interruptible(child):
                if not child.say(" ".join(words(visit))):
                    return None
                if calm:
                    self._meanwhile(child)
                return child.hear(limit_s, self._ahead if calm else None)
        finally:
            self._residents.see_off()
            self._ahead.resume()

    def _meanwhile(self, visited: Child) -> None:
        """Beside his visit, and not between two. Who is asked belongs to nobody until he is heard: an error here would
        leave him behind."""
        try:
            self._residents.see_off()
            self._forecast.meanwhile()
        except BaseException:
            visited.end()
            raise

    @contextmanager
    def _interruptible(self, child: Child) -> Iterator[None]:
        """A probe that is asked to stop while it prepares takes no sample. One that ended of that, before it could
        listen, has another in its place, which is asked as well."""
        self._child = child
        if self._is_asked_to_stop:
            child.signal(signal.SIGINT)
        try:
            yield
        finally:
            self._child = None

    def expect(self, forecast: Forecast) -> None:
        """Implements targets.Foresees. Where each visit has a process of its own, nothing is prepared for it."""
        if self.keeps_residents:
            self._forecast = forecast
            self._ahead.expect(forecast.coming)

    def is_ready(self, place: Place) -> bool:
        return self._ahead.is_ready(place)

    def is_begun(self, place: Place) -> bool:
        return self._ahead.is_begun(place)

    def staying(self, place: Place) -> Staying | None:
        """Where each visit has a process of its own, a layout is never over for want of one."""
        return self._residents.staying(place) if self.keeps_residents else Staying()

    def _started(self, place: Place, bytes_: int = 0) -> Child:
        """bytes_: of memory that its sizes say. Raises OSError where it cannot be started."""
        self._residents.make_room(self._held_bytes.get(place) or max(bytes_, _largest_number(place)))
        return Child(self._command(place[0], ("--stay",)), listens=True)

    def _prepared(self, place: Place, visit: Visit) -> Child | None:
        """Whose data can be seen before it is visited; None where that is of no use, or it could not be prepared."""
        if not self._forecast.may_begin(visit.point):
            return None
        child = self._started(place)
        with self._interruptible(child):
            child.answer(_told_ahead(visit, visit.cpus[0]), patience_s(visit, _usual_s(visit)), self._ahead)
        return child if child.stays else None

    def _begun_ahead(self, coming: Coming) -> Child | None:
        try:
            child = self._started(coming.place, coming.bytes)
        except OSError:
            return None
        return child if child.say(_told_ahead(coming.visit, self._forecast.cpu)) else None

    def _keep(self, place: Place, one: Resident) -> None:
        """One that has made a visit. What it holds is asked for behind its first."""
        if not one.child.stays:
            return
        if not one.bytes:
            one = one._replace(bytes=one.child.resident_bytes(), own_bytes=one.child.own_bytes())
            self._held_bytes[place] = one.bytes
        self._residents.keep(place, one)

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Nothing to do: they are here."""

    def close(self) -> None:
        """Ends those that wait, and those that prepare."""
        self._ahead.close()
        self._residents.close()

    def interrupt(self) -> None:
        self._is_asked_to_stop = True
        if self._child:
            self._child.signal(signal.SIGINT)

    def _ask(self, executable: str, option: str) -> bytes:
        try:
            ended = self._finish(self._command(executable, (option,)), _ASKING_S)
        except OSError as error:
            raise Failure(f"{executable} {option}: {not_started(error)[1]}", exit_code=5) from error
        ill = trouble(ended, int(_ASKING_S * 1000))
        if ill:
            raise Failure(f"{executable} {option}: {ill[1]}", exit_code=5)
        return ended.output

    def _command(self, executable: str, told: Sequence[str]) -> list[str]:
        return [executable, *told]

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        child = Child(command)
        with self._interruptible(child):
            return child.finish(limit_s)
