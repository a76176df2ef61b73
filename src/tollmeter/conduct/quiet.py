# SPDX-License-Identifier: Apache-2.0
"""The host process itself: away from the measured CPUs, and scheduled at once when a visit has ended."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def pinned_to(cpu: int | None) -> Iterator[str | None]:
    """Pins this process to one CPU, and restores its CPUs at the end. Yields a sentence where that is not permitted.

    The processes that it starts inherit the one CPU and leave it at once: the runtime pins every worker to the CPU of
    its visit."""
    before: set[int] = set()
    with contextlib.suppress(OSError):
        before = os.sched_getaffinity(0)
    if cpu is None or cpu not in before:
        yield "the host tool has no CPU to itself, and shares one with the probes"
        return
    try:
        os.sched_setaffinity(0, {cpu})
    except OSError as error:
        yield f"the system does not let the host tool choose its CPU ({error.strerror}): it may disturb the probes"
        return
    try:
        yield None
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, before)


@contextlib.contextmanager
def realtime_priority(wanted: bool) -> Iterator[None]:
    """Gives this process, not its children, the least real-time priority where the system permits and bounds it."""
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
    """Whether real-time threads leave others some time, should one never stop (sched_rt_runtime_us)."""
    try:
        return not Path("/proc/sys/kernel/sched_rt_runtime_us").read_text(encoding="ascii").startswith("-")
    except OSError:
        return False


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """What a run keeps it keeps to its end: looking for garbage between visits finds none, for longer each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
