# SPDX-License-Identifier: Apache-2.0
"""This machine, natively."""

from __future__ import annotations

import errno
import os
import signal

from tollmeter.model import Failure, Status, Visit
from tollmeter.protocol import Trouble, clean, closed, refused, words
from tollmeter.targets.child import Child, Ended

_ASKING_S = 20.0
_GRACE_S = 2.0
"""The probe keeps its own deadline, and tells why it ended. The host's is for a probe that cannot."""

_USAGE, _DEADLINE = 2, 124
_LONGEST_REASON = 300


class Local:
    """Implements targets.Target."""

    name = "local"

    def __init__(self) -> None:
        self._child: Child | None = None

    def describe(self, executable: str) -> bytes:
        return self._ask(executable, "--describe")

    def machine(self, executable: str) -> bytes:
        return self._ask(executable, "--machine")

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        try:
            ended = self._finish([executable, *words(visit)], visit.deadline_ms / 1000 + _GRACE_S)
        except OSError as error:
            return refused(visit, revision, *_not_started(error))
        return closed(ended.output, visit, revision, _trouble(ended, visit.deadline_ms))

    def interrupt(self) -> None:
        if self._child:
            self._child.signal(signal.SIGINT)

    def _ask(self, executable: str, option: str) -> bytes:
        try:
            ended = self._finish([executable, option], _ASKING_S)
        except OSError as error:
            raise Failure(f"{executable} {option}: {_not_started(error)[1]}", exit_code=5) from error
        trouble = _trouble(ended, int(_ASKING_S * 1000))
        if trouble:
            raise Failure(f"{executable} {option}: {trouble[1]}", exit_code=5)
        return ended.output

    def _finish(self, command: list[str], limit_s: float) -> Ended:
        self._child = Child(command)
        try:
            return self._child.finish(limit_s)
        finally:
            self._child = None


def _not_started(error: OSError) -> Trouble:
    """A kernel that cannot run an ABI says so here, which is a gap and not a fault."""
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.ENOEXEC:
        return "unsupported", f"this kernel cannot run it: {reason}"
    return "infrastructure", f"it could not be started: {reason}"


def _trouble(ended: Ended, deadline_ms: int) -> Trouble | None:
    if ended.limit or ended.status == 0:
        return ended.limit
    status: Status = "failed"
    if ended.status < 0:
        reason = f"killed by {_signal_name(-ended.status)}"
    elif ended.status == _DEADLINE:
        status, reason = "timeout", f"its deadline of {deadline_ms} ms passed"
    elif ended.status == _USAGE:
        status, reason = "infrastructure", "it refused its words"
    else:
        reason = f"exit status {ended.status}"
    said = _said(ended.output)
    return status, f"{reason}: {said}" if said else reason


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _said(output: bytes) -> str:
    """The last line that is no record: what a dying program says last is usually why."""
    for text in reversed(output[-8192:].splitlines()):
        if text.strip() and b'{"k":' not in text:
            return str(clean(text.decode(errors="replace").strip()))[:_LONGEST_REASON]
    return ""
