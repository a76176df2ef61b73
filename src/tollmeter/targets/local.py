# SPDX-License-Identifier: Apache-2.0
"""This machine, natively."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Sequence
from math import inf
from typing import NamedTuple

from tollmeter.model import Failure, Visit
from tollmeter.protocol import closed, refused, words
from tollmeter.targets.ahead import Ahead, Coming, Forecast, Place
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.judging import not_started, patience_s, trouble, trouble_of_visit

_ASKING_S = 20.0
_GRACE_S = 2.0
"""The probe keeps its own deadline, and tells why it ended. The host's is for a probe that cannot."""


_MOST_HELD, _MOST_RESIDENTS = 1 / 4, 512
"""Of the machine's memory, and processes: what waits takes no time, but its memory is nobody else's."""
_LARGE_BYTES, _MOST_LARGE_BYTES = 24 << 20, 512 << 20
"""Who holds more than the first is large, and all large ones together hold no more than the second. In a guest a page
that nobody has used for some seconds is the host's again, and to have it back takes ten times as long as to clear it:
128 MiB of such pages were filled in 0.3 to 0.4 s, and in 0.03 s where another process had just left them."""
_FILES_EACH, _FILES_OF_THE_HOST = 2, 128


class _Resident(NamedTuple):
    """A process that waits for another visit of its layout."""

    child: Child
    seed: int
    bytes: int


def _most_residents() -> int:
    """As many as this process may hold pipes of; one where the system does not tell."""
    try:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return 1
    return max(1, min(_MOST_RESIDENTS, (files - _FILES_OF_THE_HOST) // _FILES_EACH))


def _usual_s(visit: Visit) -> float:
    return visit.deadline_ms / 1000 + _GRACE_S


def _told_ahead(visit: Visit, cpu: int) -> str:
    """The line that asks for what a visit needs, and not for the visit."""
    return " ".join((*words(visit), f"--ahead={cpu}"))


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")


class Local:
    """Implements targets.Target. Visits of one layout are served by one process, which stays between them."""

    name: str = "local"
    keeps_residents = True

    def __init__(self) -> None:
        self._child: Child | None = None
        self._forecast = Forecast()
        self._ahead = Ahead(self._begun_ahead, lambda visit: patience_s(visit, _usual_s(visit)))
        self._waiting: dict[Place, _Resident] = {}
        self._held_bytes: dict[Place, int] = {}

    def describe(self, executable: str) -> bytes:
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        return self._ask(executable, "--machine")

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            ended = self._visited(executable, visit)
        except OSError as error:
            return refused(visit, revision, *not_started(error))
        return closed(ended.output, visit, revision, trouble_of_visit(ended, visit, _usual_s(visit)))

    def _visited(self, executable: str, visit: Visit) -> Ended:
        """By the process that has prepared this layout, if one waits; a place that counts has one for each visit."""
        limit_s = patience_s(visit, _usual_s(visit))
        if not self.keeps_residents:
            return self._finish(self._command(executable, words(visit)), limit_s)
        place = (executable, visit.point.parameters, visit.cpus)
        resident = self._waiting.pop(place, None)
        if resident and resident.seed != visit.seed:
            resident.child.end()
            resident = None
        child = resident.child if resident else self._ahead.taken(place, visit) or self._prepared(executable, visit)
        ended = self._asked(child, visit, limit_s, self._is_calm(child, visit)) if child else None
        if child is None or ended is None:
            child = self._started(executable, self._held_bytes.get(place, 0))
            ended = self._asked(child, visit, limit_s, calm=False)
        self._keep(place, child, visit.seed)
        return ended or child.finish(limit_s)

    def _is_calm(self, child: Child, visit: Visit) -> bool:
        return self._forecast.is_calm(visit.point, child.own_bytes())

    def _asked(self, child: Child, visit: Visit, limit_s: float, calm: bool) -> Ended | None:
        """Whoever prepares what comes next goes on beside a visit that is calm: not disturbed by it."""
        if calm:
            self._ahead.resume()
        else:
            self._ahead.halt()
        self._child = child
        try:
            return child.answer(" ".join(words(visit)), limit_s, self._ahead if calm else None)
        finally:
            self._child = None

    def expect(self, forecast: Forecast) -> None:
        """Implements targets.Foresees."""
        self._forecast = forecast
        self._ahead.expect(forecast.coming)

    def is_ready(self, place: Place) -> bool:
        return self._ahead.is_ready(place)

    def _started(self, executable: str, bytes_: int) -> Child:
        """bytes_: that it will hold, as far as that is known. Raises OSError where it cannot be started."""
        self._make_room(bytes_)
        return Child(self._command(executable, ("--stay",)), listens=True)

    def _prepared(self, executable: str, visit: Visit) -> Child | None:
        """Whose data can be seen before it is visited; None where that is of no use, or it could not be prepared."""
        if not self._forecast.may_begin(visit.point):
            return None
        place = (executable, visit.point.parameters, visit.cpus)
        child = self._started(executable, self._held_bytes.get(place, 0))
        child.answer(_told_ahead(visit, visit.cpus[0]), patience_s(visit, _usual_s(visit)))
        return child if child.stays else None

    def _begun_ahead(self, coming: Coming) -> Child | None:
        try:
            child = self._started(coming.executable, max(coming.bytes, self._held_bytes.get(coming.place, 0)))
        except OSError:
            return None
        return child if child.say(_told_ahead(coming.visit, self._forecast.cpu)) else None

    def _keep(self, place: Place, child: Child, seed: int) -> None:
        """As long as all that wait leave the machine its memory: what does not fit is started again each time."""
        if not child.stays:
            return
        resident = _Resident(child, seed, child.resident_bytes())
        self._held_bytes[place] = resident.bytes
        self._make_room(resident.bytes)
        held = sum(other.bytes for other in self._waiting.values())
        if held + resident.bytes > _MOST_HELD * _memory_bytes() or len(self._waiting) >= _most_residents():
            child.end()
        else:
            self._waiting[place] = resident

    def _make_room(self, wanted: int) -> None:
        """Ends the large ones that have waited longest, before a layout begins whose size is known: what was held until
        then is not the host's yet, and is taken first."""
        large = {place: other for place, other in self._waiting.items() if other.bytes > _LARGE_BYTES}
        held = sum(other.bytes for other in large.values())
        for place, other in large.items():
            if wanted <= _LARGE_BYTES or held + wanted <= _MOST_LARGE_BYTES:
                return
            self._waiting.pop(place).child.end()
            held -= other.bytes

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:
        """Nothing to do: they are here."""

    def close(self) -> None:
        """Ends those that wait, and those that prepare."""
        self._ahead.close()
        while self._waiting:
            self._waiting.popitem()[1].child.end()

    def interrupt(self) -> None:
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
        self._child = Child(command)
        try:
            return self._child.finish(limit_s)
        finally:
            self._child = None
