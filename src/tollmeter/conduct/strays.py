# SPDX-License-Identifier: Apache-2.0
"""Processes that a probe left behind in a session of their own, where no signal to its group reaches them: they would
work beside every later visit. They carry the number of this process in the environment that they were started with.

Numbers are given again, and mean another process in another container. So only what runs as this user, in this
namespace of processes, and began after this process is taken for its own; and it is held before it is looked at."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
GONE_WITHIN_S = 1.0


def children(process: int) -> list[int]:
    processes: list[int] = []
    for task in (PROC / f"{process}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            processes += map(int, task.read_text(encoding="ascii").split())
    return processes


def family(process: int) -> set[int]:
    """The process and all that it started, and these, for as long as those between them live."""
    return {process}.union(*(family(child) for child in children(process)))


def end_strays() -> int:
    """Ends the processes that probes left behind, and returns how many there were."""
    mark, own, ended = b"TOLL_PARENT=%010d" % os.getpid(), family(os.getpid()), 0
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) in own:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError), _held(int(entry.name)) as stray:
            if _is_own(entry, mark):
                signal.pidfd_send_signal(stray, signal.SIGKILL)
                # Until it is gone it holds a CPU and reads as before: a busy machine takes its time over that.
                select.select([stray], [], [], GONE_WITHIN_S)
                ended += 1
    return ended


@contextlib.contextmanager
def _held(process: int) -> Iterator[int]:
    """A descriptor that no later process of the same number answers to."""
    held = os.pidfd_open(process)
    try:
        yield held
    finally:
        os.close(held)


def _is_own(entry: Path, mark: bytes) -> bool:
    own = PROC / str(os.getpid())
    return (
        mark in (entry / "environ").read_bytes().split(b"\0")
        and entry.stat().st_uid == os.geteuid()
        and (entry / "ns/pid").readlink() == (own / "ns/pid").readlink()
        and _began(entry) >= _began(own)
    )


def _began(entry: Path) -> int:
    """In ticks since the machine's start. A program's name may hold blanks and brackets."""
    return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[19])
