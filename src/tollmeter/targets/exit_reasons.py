# SPDX-License-Identifier: Apache-2.0
"""How a process ended, in the words of a row's status and reason: the same for every target."""

from __future__ import annotations

import errno
import os
import signal
import time

import msgspec

from tollmeter.model import Status, Visit
from tollmeter.protocol import Trouble, clean
from tollmeter.targets.child import Ended

_USAGE, _DEADLINE = 2, 124
_LONGEST_REASON = 300


def not_started(error: OSError) -> Trouble:
    """A kernel that cannot run an ABI reports it here: a gap, not a fault."""
    reason = os.strerror(error.errno or 0)
    if error.errno == errno.ENOEXEC:
        return "unsupported", f"this kernel cannot run it: {reason}"
    return "infrastructure", f"it could not be started: {reason}"


def patience_s(visit: Visit, usual_s: float) -> float:
    """How long the host waits for a visit that usually ends within so long: no longer than the run's budget lasts."""
    return min(usual_s, visit.wall_ms / 1000) if visit.wall_ms else usual_s


def later(visit: Visit, since: float) -> Visit:
    """The same visit, with what the budget leaves for it by now. since: monotonic seconds."""
    left_ms = max(1, visit.wall_ms - int(1000 * (time.monotonic() - since)))
    return msgspec.structs.replace(visit, wall_ms=left_ms) if visit.wall_ms else visit


def trouble_of_visit(ended: Ended, visit: Visit, usual_s: float) -> Trouble | None:
    """As `trouble`; but a visit that the budget cut short is no result, and the point may be visited again."""
    if ended.limit and ended.limit[0] == "timeout" and patience_s(visit, usual_s) < usual_s:
        return "interrupted", "the budget ended before it did"
    return trouble(ended, visit.deadline_ms)


def trouble(ended: Ended, deadline_ms: int) -> Trouble | None:
    """What went wrong with a process that was given a visit, by how it ended; None where it went well."""
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
    message = _last_words(ended.output)
    return status, f"{reason}: {message}" if message else reason


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _last_words(output: bytes) -> str:
    """The last line that is no record: the last words of a process that ends are usually the reason."""
    for text in reversed(output[-8192:].splitlines()):
        if text.strip() and b'{"k":' not in text:
            return str(clean(text.decode(errors="replace").strip()))[:_LONGEST_REASON]
    return ""
