# SPDX-License-Identifier: Apache-2.0
"""A watching process that gives a starved process all CPUs, if it gets no time on the CPU that it is pinned to. A
program at a higher real-time priority may occupy that CPU for ever, and neither a deadline nor a signal then takes
effect. A thread of the starved process could not watch, since it would wait for the interpreter's lock.

Started as a script with the id of the watched process: its start-up cost is that of its imports."""

import contextlib
import os
import sys
import time

TURN_S, _TURNS = 0.5, 4
"""Interval and number of intervals without CPU time after which a process is starved: two seconds, in which the system
grants ordinary programs 100 ms."""
FIELDS = ("state", "ppid", "pgrp", "session", "tty_nr", "tpgid", "flags", "minflt", "cminflt", "majflt", "cmajflt",
          "utime", "stime", "cutime", "cstime")  # fmt: skip
"""Fields of /proc/PID/stat behind the name (proc(5)); times in the kernel's ticks."""


def is_starved(pid: int) -> bool:
    """Waits until the process has waited too long for a CPU. False if it has ended."""
    turns, before = 0, ("", "")
    while turns < _TURNS:
        time.sleep(TURN_S)
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                fields = dict(zip(FIELDS, file.read().rpartition(")")[2].split(), strict=False))
        except OSError:
            return False
        seen = fields["utime"], fields["stime"]
        turns = turns + 1 if fields["state"] == "R" and seen == before else 0
        before = seen
    return True


def release(pid: int) -> None:
    """Moves a process to all CPUs that it may use, at the ordinary priority, for which the system reserves some
    time."""
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(thread), os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.sched_setaffinity(int(thread), os.sched_getaffinity(0))


if __name__ == "__main__" and is_starved(int(sys.argv[1])):
    release(int(sys.argv[1]))
