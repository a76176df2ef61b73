# SPDX-License-Identifier: Apache-2.0
"""Ends processes that a probe left in a session of their own, where no signal to its group reaches them: they would run
during every later visit. Their environment contains the id of this process.

Process ids are reused, and differ between containers. So a process is ended only if it runs as this user, in this PID
namespace, and began after this process; and a pidfd is opened before it is examined."""

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
    """Returns the ids of the live children of a process."""
    processes: list[int] = []
    for task in (PROC / f"{process}/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):
            processes += map(int, task.read_text(encoding="ascii").split())
    return processes


def family(process: int) -> set[int]:
    """Returns a process and its live descendants, except below an ancestor that has ended."""
    return {process}.union(*(family(child) for child in children(process)))


def end_strays() -> int:
    """Ends the processes that probes left behind, and returns how many there were."""
    mark, family_ids, ended = b"TOLL_PARENT=%010d" % os.getpid(), family(os.getpid()), 0
    for entry in PROC.iterdir():
        if not entry.name.isdigit() or int(entry.name) in family_ids:
            continue
        with contextlib.suppress(OSError, ValueError, IndexError), _held(int(entry.name)) as stray:
            if _is_own(entry, mark):
                signal.pidfd_send_signal(stray, signal.SIGKILL)
                # Waits for its end, which takes time on a busy machine: until then it uses a CPU and is found again.
                select.select([stray], [], [], GONE_WITHIN_S)
                ended += 1
    return ended


@contextlib.contextmanager
def _held(process: int) -> Iterator[int]:
    """Yields a pidfd of the process, which never refers to a later process with the same id."""
    pidfd = os.pidfd_open(process)
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def _is_own(entry: Path, mark: bytes) -> bool:
    """Returns whether a process was started by a probe of this run. mark: variable of its environment."""
    this_process = PROC / str(os.getpid())
    return (
        mark in (entry / "environ").read_bytes().split(b"\0")
        and entry.stat().st_uid == os.geteuid()
        and (entry / "ns/pid").readlink() == (this_process / "ns/pid").readlink()
        and _began(entry) >= _began(this_process)
    )


def _began(entry: Path) -> int:
    """Returns the start time of a process in ticks since boot. The name of the program, which may contain blanks and
    brackets, is skipped."""
    return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[19])
