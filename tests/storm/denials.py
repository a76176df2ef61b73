# SPDX-License-Identifier: Apache-2.0
"""Every system call that each probe and a run make, denied in turn: a sentence, or the right number.

The kernel's own filter denies them (seccomp(2)), as a sandbox does: the call is not there, or not permitted. What is
right is what the same probe says under a filter of the same length that denies nothing, visited in turns with it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import platform
import random
import signal
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from storm.ended import Ended, Tally, ended, ill, marked
from storm.uses import BUILT, HOST, QUICK, ROOT, RUN, numbers, uses
from tollmeter.library.derive import open_index
from tollmeter.model import Failure, Outcome
from tollmeter.protocol import outcome

ERRORS = (errno.EPERM, errno.ENOSYS)
_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2
_NO_FILTER = 99
_LOAD, _EQUAL, _RETURN, _ALLOW, _ERRNO = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
_NOTHING = 0xFFFF
"""No call has this number."""

UNENDING = {"exit", "exit_group"}
"""A program that may not end, or whose threads may not, does not: that a deadline ends it is the right end."""
FAR, TURNS = 8, 12
"""How many times more or less is another number, by the least of so many visits each: a neighbour only takes. On a loud
machine a wake-up took 60 us once and 15 ms the next time, and by three visits each two of 2,900 seemed far."""
HOST_CODES = {0, 1, 2, 5, 6}
LOOKS, LOOK_S = 50, 0.01


class Denial(NamedTuple):
    probe: str
    parameters: str
    call: str


def storm(seed: int, count: int) -> Tally:
    tally = Tally("denied system calls")
    if platform.machine() != "x86_64":
        return tally
    chance, half = random.Random(seed), (count + 1) // 2
    every = [Denial(*who, call) for who, calls in uses().items() for call in calls if call in numbers()]
    for of, denies in ((True, deny_host), (False, deny_probe)):
        asked = [*itertools.product([denial for denial in every if (denial.probe == HOST) == of], ERRORS)]
        for denial, error in chance.sample(asked, min(half, len(asked))):
            words = f"{denial.call} ({errno.errorcode[error]}), {denial.probe} {denial.parameters}"
            tally.one(words, denies(denial, error))
    return tally


def denying(number: int, error: int) -> Callable[[], None]:
    """For a child, before it becomes the program."""
    program = b"".join(
        struct.pack("HBBI", *step)
        for step in ((_LOAD, 0, 0, 0), (_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | error), (_RETURN, 0, 0, _ALLOW))
    )
    libc = ctypes.CDLL(None, use_errno=True)
    steps = ctypes.create_string_buffer(program)

    def deny() -> None:
        head = ctypes.create_string_buffer(struct.pack("H6xQ", len(program) // 8, ctypes.addressof(steps)))
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        if libc.prctl(_SECCOMP, _FILTER, ctypes.byref(head)) != 0:
            os._exit(_NO_FILTER)

    return deny


# ---- a probe --------------------------------------------------------------------------------------------------------


def deny_probe(denial: Denial, error: int) -> str | None:
    """A visit as a person could type it: a whole stream with a number or a reason, or an end that the host takes for a
    failure, which it tells."""
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    told = _visit(denial, numbers()[denial.call], error, mark)
    left = _left_behind(mark)
    if told.code == _NO_FILTER:
        return "the kernel does not take the filter"
    if denial.call in UNENDING:
        return None
    if told.code is None or left:
        return f"it left behind: {left}" if left else "it hung"
    try:
        found = outcome(told.out)
    except Failure as failure:
        return f"code 0 and no whole stream: {failure.sentence}" if told.code == 0 else None
    if not (found.samples or found.gauges or found.reason):
        return "neither a number nor a sentence"
    return _another_number(denial, error, found) if found.status == "ok" else None


def _visit(denial: Denial, number: int, error: int, mark: str = "") -> Ended:
    words = [str(BUILT / denial.probe), *denial.parameters.split(), *QUICK]
    return ended(words, 20, preexec_fn=denying(number, error), env={**os.environ, "TOLL_STORM": mark})


def _another_number(denial: Denial, error: int, first: Outcome) -> str | None:
    """A visit that a loaded machine let reach its deadline says nothing, and is made again."""
    denied, allowed, ratio = [first], list[Outcome](), 1.0
    for _ in range(TURNS):
        allowed += _told(denial, _NOTHING, error)
        if not _is_far(ratio := _least_ns(denied) / _least_ns(allowed or denied)):
            return None
        denied += _told(denial, numbers()[denial.call], error)
    return f"{ratio:.3g} times the number, and not a word"


def _told(denial: Denial, number: int, error: int) -> list[Outcome]:
    with contextlib.suppress(Failure):
        return [outcome(_visit(denial, number, error).out)]
    return []


def _is_far(ratio: float) -> bool:
    return not 1 / FAR < ratio < FAR


def _least_ns(visits: list[Outcome]) -> float:
    """Of one iteration; 1 where nothing was timed."""
    costs = [sample.body[1] / sample.iterations for told in visits for sample in told.samples]
    return max(min(costs, default=1.0), 1e-9)


def _left_behind(mark: str) -> list[str]:
    """What the visit started and did not end, ended now."""
    for _ in range(LOOKS):
        if not (found := marked(f"TOLL_STORM={mark}".encode())):
            return []
        time.sleep(LOOK_S)
    for process in found:
        os.kill(process, signal.SIGKILL)
    return list(found.values())


# ---- the host -------------------------------------------------------------------------------------------------------


def deny_host(denial: Denial, error: int) -> str | None:
    call = denial.call
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name:
        words = [str(ROOT / RUN[0]), *RUN[1:], "--out", f"{name}/run"]
        told = ended(words, 60, preexec_fn=denying(numbers()[call], error))
        if call in UNENDING or (told.code and not python_starts(call, error)):
            return None
        return ill(told, HOST_CODES) or (_no_loop(Path(name) / "run") if told.code == 0 else None)


def python_starts(call: str, error: int) -> bool:
    """Whether there can be anything of ours: without mmap the C library itself ends in a SIGSEGV."""
    words = [str(ROOT / RUN[0]), "-I", "-c", ""]
    return ended(words, 20, preexec_fn=denying(numbers()[call], error)).code == 0


def _no_loop(folder: Path) -> str | None:
    """A core turns a loop in one cycle or some, and no core has another clock than a few GHz."""
    found = [row for row in open_index(folder).rows if row.metric == "loops" and row.median]
    return None if found and all(1e8 < (row.median or 0) < 1e10 for row in found) else "code 0 and no such number"
