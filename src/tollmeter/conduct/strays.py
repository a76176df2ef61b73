# SPDX-License-Identifier: Apache-2.0
"""Processes that a probe left in their own session, where no signal to its group reaches them: they would run during
every later visit. Their environment contains the id of this process.

Process ids are reused, and differ between containers. So a process is treated as a stray only if it runs as this user,
in this PID namespace, and began after this process; and a descriptor holds it before it is examined."""

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
    """Returns the process and its descendants whose ancestors still live."""
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
    """Yields a pidfd of the process, which never refers to a later process with that id."""
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
    """Returns the start time of a process in ticks since boot. A program's name may contain blanks and brackets."""
    return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[19])
