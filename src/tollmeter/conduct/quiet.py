# SPDX-License-Identifier: Apache-2.0
"""The host process itself: away from the measured CPUs, and without pauses."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator


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
def no_collections() -> Iterator[None]:
    """What a run keeps it keeps to its end: looking for garbage between visits finds none, for longer each time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
