# SPDX-License-Identifier: Apache-2.0
"""Processes that a probe left behind in a session of their own, where no signal to its group reaches them: they would
work beside every later visit. They carry the number of this process in the environment that they were started with.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

PROC = Path("/proc")


def children(process: int) -> list[int]:
    found: list[int] = []
    for task in (PROC / f"{process}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            found += map(int, task.read_text(encoding="ascii").split())
    return found


def family(process: int) -> set[int]:
    """The process and all that it started, and these, for as long as those between them live."""
    return {process}.union(*(family(child) for child in children(process)))


def end_strays() -> int:
    """Ends them, and returns how many there were."""
    mark, own, found = b"TOLL_PARENT=%010d" % os.getpid(), family(os.getpid()), 0
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
                found += 1
    return found
