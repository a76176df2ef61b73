# SPDX-License-Identifier: Apache-2.0
"""The first steps of a command: descriptors 0 to 2 are opened, and signals are held so that none is lost or ends the
process silently.

A process may be started with its standard error closed. The next file that it opens then gets descriptor 2, and error
messages would be written into it: for example into a journal."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_LEAST = {
    resource.RLIMIT_AS: (400 << 20, "address space", "ulimit -v"),
    resource.RLIMIT_DATA: (150 << 20, "private memory", "ulimit -d"),
}
"""Least limits of memory with which a run can work, with a name and the command that raises the limit. A run of one
probe needs between 300 and 350 MB of address space, and between 120 and 150 MB of private memory."""

_received: list[int] = []
_holding = False
_began = 0.0


def open_descriptors() -> None:
    """Opens closed descriptors 0 to 2 so that writes to standard output fail, and standard error is discarded."""
    for number, way in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, way)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  it is a descriptor
    sys.stderr = io.TextIOWrapper(
        _Forgiving(2, "w", closefd=False), encoding="utf-8", errors="backslashreplace", write_through=True
    )


_UNNAMEABLE = "TOLL_UNNAMEABLE"
_LAUNCHED, _MOST_LAUNCHING_S = "TOLL_BEGAN", 5.0
"""Environment variable in which the launcher passes its start time; and the longest time in seconds that the launcher
takes, three times the time beside twelve busy programs."""


def restore_environment() -> None:
    """Restores environment variables whose names a shell cannot have, such as functions that bash exports. The shell
    that reads ./toll drops them, and passes them on in one variable: one in each line, with \\1 for a line end."""
    for line in os.environ.pop(_UNNAMEABLE, "").splitlines():
        name, _, value = line.partition("=")
        os.environ[name] = value.replace("\1", "\n")


def forget_output() -> None:
    """Discards buffered standard output, so that Python does not report an error when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


class _Forgiving(io.FileIO):
    """A stream that ignores write errors of a closed terminal or a full disk: they lose sentences, but never interrupt
    the command."""

    def write(self, data: object) -> int:
        with contextlib.suppress(OSError):
            super().write(data)  # type: ignore[arg-type]
        return len(memoryview(data))  # type: ignore[arg-type]


def make_room() -> str | None:
    """Returns why the command cannot run in its memory; None if it can. Numeric libraries would start a thread, with
    its memory, for each CPU: one suffices."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for limit, (least, what, typed) in _LEAST.items():
        with contextlib.suppress(OSError):
            allowed, _ = resource.getrlimit(limit)
            if allowed != resource.RLIM_INFINITY and allowed < least:
                return f"{least >> 20} MiB of {what} are needed, and this may have {allowed >> 20} ({typed})"
    return None


def read_clock() -> str | None:
    """Returns why Python cannot represent the present time; None if it can. Python counts nanoseconds since 1970 in 63
    bits."""
    try:
        time.time()
    except OverflowError:
        return "the system's clock says a year after 2262, or before 1677: set it, as with `date -s 2026-01-31`"
    return None


def name_system() -> None:
    """Makes os.uname answer from /proc if a sandbox denies uname(2): numpy, uuid and platform call it when they are
    imported, and fail with its error. The CPU is then the one for which this Python was compiled."""
    try:
        os.uname()
    except OSError:
        multiarch = getattr(sys.implementation, "_multiarch", "")
        names = [_of_kernel(name) for name in ("ostype", "hostname", "osrelease", "version")]
        answer = os.uname_result((*names, multiarch.partition("-")[0]))
        os.uname = lambda: answer


def _of_kernel(name: str) -> str:
    try:
        with open(f"/proc/sys/kernel/{name}", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  imports less
            return file.read().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def realtime_priority(wanted: bool) -> Iterator[None]:
    """Gives this process the lowest real-time priority while entered, if the system permits and limits it. Processes
    that it starts keep the usual priority."""
    policy, parameter = os.SCHED_OTHER, os.sched_param(0)
    with contextlib.suppress(OSError):
        policy, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        if wanted and _is_bounded():
            os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        pass  # an ordinary process waits its turn
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, policy, parameter)


def _is_bounded() -> bool:
    """Returns whether the system limits real-time threads (sched_rt_runtime_us), so that an endless one leaves time for
    others."""
    return bool(bound := _of_kernel("sched_rt_runtime_us")) and not bound.startswith("-")


def began() -> float:
    """Returns the monotonic seconds at which this command began, before its imports; in a program that uses the
    library, the present time."""
    return _began or time.monotonic()


def complain(sentence: str) -> None:
    """Prints a sentence before the usual output is available."""
    sys.stderr.write(f"toll: {' '.join(sentence.split())}\n")


def hold_signals() -> None:
    """Blocks signals during imports, in which an exception would print a traceback or be ignored, and records when the
    command began."""
    global _holding, _began
    _holding, _began = True, time.monotonic() - _launched_s()
    _mask(signal.SIG_BLOCK)


def _launched_s() -> float:
    """Returns the seconds since the launcher began (proc_uptime(5)); 0 if unknown, or if the launcher set up an
    environment, which is done once."""
    with contextlib.suppress(KeyError, OSError, ValueError):
        launched = float(os.environ.pop(_LAUNCHED))
        with open("/proc/uptime", encoding="ascii") as file:  # noqa: PTH123  imports less
            ago_s = float(file.read().split()[0]) - launched
        return ago_s if 0 <= ago_s <= _MOST_LAUNCHING_S else 0.0
    return 0.0


@contextlib.contextmanager
def hearing_signals() -> Iterator[None]:
    """Lets each signal, including a pending one, raise KeyboardInterrupt while the block runs; without effect if
    signals are not held."""
    if not _holding:
        yield
        return
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    _mask(signal.SIG_UNBLOCK)
    try:
        yield
    finally:
        _mask(signal.SIG_BLOCK)
        with contextlib.suppress(OSError):
            for number in SIGNALS:  # a thread has a mask of its own, and Python restores the default when it ends
                signal.signal(number, signal.SIG_IGN)


def _mask(how: int) -> None:
    """Changes the signal mask. If a sandbox denies it, signals are not held."""
    with contextlib.suppress(OSError):
        signal.pthread_sigmask(how, SIGNALS)


def signal_received() -> bool:
    """Returns whether a signal has arrived: a library may have swallowed its KeyboardInterrupt."""
    return bool(_received)


def _interrupt(number: int, _: FrameType | None) -> None:
    _received.append(number)
    raise KeyboardInterrupt
