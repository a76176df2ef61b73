# SPDX-License-Identifier: Apache-2.0
"""Locks the machine, so that only one run at a time measures on it: two would disturb each other.

The lock is on an empty file that every user may open. No process needs to remove it: the kernel releases the lock when
the holding process ends for any reason."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tollmeter.conduct import starvation
from tollmeter.targets.child import Child, leashed

_USUAL = (Path("/run/lock"), Path("/tmp"))
_NAME = "tollmeter.measuring"
_LOOKS_EVERY_S = 0.5
"""Seconds between two attempts to get the lock."""
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@contextlib.contextmanager
def hold_machine_lock(
    report: Callable[[str], None], stopped: Callable[[], bool], *, beside: bool = False
) -> Iterator[bool]:
    """Waits until no other run measures, or until a stop is requested; reports the wait first. Yields whether another
    run is known to measure at the same time. beside: do not wait. stopped: returns whether a stop was requested."""
    descriptor = _open_lock()
    if descriptor is None:
        report("no file for the machine's lock can be made: another run may measure at the same time")
        yield False
        return
    try:
        free = _acquired(descriptor)
        if not free and not beside:
            report("another run measures on this machine: waiting for its end (--beside measures all the same)")
            while not (free := _acquired(descriptor)) and not stopped():
                time.sleep(_LOOKS_EVERY_S)
        yield not free
    finally:
        os.close(descriptor)


def _acquired(descriptor: int) -> bool:
    """Tries to get the lock once, and returns whether it succeeded."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    return True


def _open_lock() -> int | None:
    """Opens the lock file; None if no folder permits it. TOLL_LOCK names another folder, for containers that share it.
    First tries without O_CREAT, which the kernel refuses for a file of another user in a folder that all may write
    (fs.protected_regular)."""
    named = os.environ.get("TOLL_LOCK")
    for folder in (Path(named),) if named else _USUAL:
        for making in (0, os.O_CREAT):
            with contextlib.suppress(OSError):
                flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | making
                return os.open(folder / _NAME, flags, 0o444)
    return None


# ---- the host process ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def pinned_to(cpu: int | None, report: Callable[[str], None]) -> Iterator[None]:
    """Pins this process to one CPU, and restores its CPUs at the end. Reports if the system does not permit it, and at
    the end if the process got no time on this CPU and was therefore released to all CPUs.

    Child processes inherit the CPU, and leave it immediately: the runtime pins every worker to the CPU of its visit."""
    before: set[int] = set()
    with contextlib.suppress(OSError):
        before = os.sched_getaffinity(0)
    if cpu is None or cpu not in before:
        report("the host tool has no CPU to itself, and shares one with the probes")
        yield
        return
    with _kept_from_starving():
        try:
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            why = error.strerror
            report(f"the system does not let the host tool choose its CPU ({why}): it may disturb the probes")
            yield
            return
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if os.sched_getaffinity(0) != {cpu}:
                    report(f"another program's real-time priority kept CPU {cpu} from this command: visits are missing")
                os.sched_setaffinity(0, before)


@contextlib.contextmanager
def _kept_from_starving() -> Iterator[None]:
    """Runs a second process that releases this one if it gets no CPU time. It must be started before this process is
    pinned. Without effect if no process can be started."""
    with contextlib.ExitStack() as opened:
        with contextlib.suppress(OSError):
            command = [sys.executable, "-I", "-S", starvation.__file__, str(os.getpid())]
            opened.callback(Child(leashed(command)).end)
        yield


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Disables garbage collection during a run, which keeps its objects to its end: collections between visits find no
    garbage, and take longer each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
