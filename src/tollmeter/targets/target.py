# SPDX-License-Identifier: Apache-2.0
"""The base of all targets, which run an executable: it describes itself or the machine, and the end of its process
becomes a row's status and reason."""

from __future__ import annotations

import errno
import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import inf

import msgspec

from tollmeter.model import Failure, Status, Visit
from tollmeter.protocol import Trouble, clean, refused
from tollmeter.targets.child import Ended

_USAGE, _DEADLINE = 2, 124
_LONGEST_REASON = 300


class Target(ABC):
    """A machine, guest or emulator. `run` raises for no failure of a probe, and leaves no process behind."""

    name: str
    asking_s = 20.0
    where = ""
    """Words after the executable's name in the sentence of a failure."""

    def describe(self, executable: str) -> bytes:
        """Returns the output of `EXECUTABLE --describe`. Raises Failure if it cannot be run."""
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        """Returns the output of `EXECUTABLE --machine`. Raises Failure if it cannot be run."""
        return self._ask(executable, "--machine")

    @abstractmethod
    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        """Returns the complete stream of one visit: as received, or completed with the reason of the failure."""

    def prepare(self, executables: Sequence[str], limit_s: float = inf) -> None:  # noqa: B027
        """Names the executables of the next visits, so that a target which packs them does so once; others do nothing.
        limit_s: the longest time that this may take; an executable that is not ready by then is reported in each of
        its visits."""

    def close(self) -> None:  # noqa: B027
        """Closes connections and processes that are open between visits. A target that is not closed ends with this
        process."""

    def interrupt(self) -> None:  # noqa: B027
        """Asks the running visit, if any, to end after its current sample. Safe inside a signal handler."""

    def _ask(self, executable: str, option: str) -> bytes:
        """Returns the output of an executable with this option. Raises Failure if it cannot be started, or fails."""
        try:
            ended = self._answered(executable, option)
        except OSError as error:
            raise Failure(f"{executable} {option}: {not_started(error)[1]}", exit_code=5) from error
        if problem := trouble(ended, int(self.asking_s * 1000)):
            raise Failure(f"{executable} {option}{self.where}: {problem[1]}", exit_code=5)
        return ended.output

    @abstractmethod
    def _answered(self, executable: str, option: str) -> Ended:
        """Runs an executable with one option and returns how its process ended. Raises OSError if it cannot be started,
        Failure if the target cannot be reached."""


class Absent(Target):
    """A target that could not be opened."""

    def __init__(self, name: str, failure: Failure) -> None:
        self.name = name
        self._failure = failure

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        del executable
        return refused(visit, revision, "infrastructure", self._failure.sentence)

    def _answered(self, executable: str, option: str) -> Ended:
        del executable, option
        raise self._failure


# ---- how a process ended ---------------------------------------------------------------------------------------------


def not_started(error: OSError) -> Trouble:
    """Returns the status and reason of an executable that did not start. If the kernel cannot run its ABI, the status
    is `unsupported`, which is a gap and not a failure."""
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.ENOEXEC:
        return "unsupported", f"this kernel cannot run it: {reason}"
    return "infrastructure", f"it could not be started: {reason}"


def patience_s(visit: Visit, usual_s: float) -> float:
    """Returns the seconds that the host waits for a visit: its usual duration, at most until the end of the run's
    budget. usual_s: seconds in which a visit ends on this target."""
    return min(usual_s, visit.wall_ms / 1000) if visit.wall_ms else usual_s


def later(visit: Visit, since: float) -> Visit:
    """Returns the visit with the present remainder of the budget. since: monotonic seconds."""
    left_ms = max(1, visit.wall_ms - int(1000 * (time.monotonic() - since)))
    return msgspec.structs.replace(visit, wall_ms=left_ms) if visit.wall_ms else visit


def trouble_of_visit(ended: Ended, visit: Visit, usual_s: float) -> Trouble | None:
    """Returns the failure of a visit as `trouble` does, except that a visit that the end of the budget cut short is
    `interrupted`, so that its point is visited again if the run is resumed."""
    if ended.limit and ended.limit[0] == "timeout" and patience_s(visit, usual_s) < usual_s:
        return "interrupted", "the budget ended before it did"
    return trouble(ended, visit.deadline_ms)


def trouble(ended: Ended, deadline_ms: int) -> Trouble | None:
    """Returns the failure of a process that was given a visit, by how it ended; None on success."""
    if ended.limit or ended.status == 0:
        return ended.limit
    status: Status = "failed"
    if ended.status < 0:
        number = -ended.status
        known = number in list(signal.Signals)
        reason = f"killed by {signal.Signals(number).name if known else f'signal {number}'}"
    elif ended.status == _DEADLINE:
        status, reason = "timeout", f"its deadline of {deadline_ms} ms passed"
    elif ended.status == _USAGE:
        status, reason = "infrastructure", "it refused its words"
    else:
        reason = f"exit status {ended.status}"
    # The last line of the output that is not a record is usually the reason.
    lines = (line for line in reversed(ended.output[-8192:].splitlines()) if line.strip() and b'{"k":' not in line)
    message = clean(next(lines, b"").decode(errors="replace").strip())[:_LONGEST_REASON]
    return status, f"{reason}: {message}" if message else reason
