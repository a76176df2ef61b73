# SPDX-License-Identifier: Apache-2.0
"""Watches a process from another process, and gives it all CPUs if it gets no time on the CPU that it is pinned to. A
program of a higher real-time priority may occupy this CPU for ever, and neither a deadline nor a signal then takes
effect. A thread of the starved process could not watch, since it would wait for the interpreter's lock.

Started as a script with the id of the watched process, and imports little, since its start-up time is that of its
imports."""

import contextlib
import os
import sys
import time

TURN_S, _TURNS = 0.5, 4
"""Interval in seconds, and number of intervals without CPU time after which a process is starved: two seconds, in which
the system grants ordinary programs 100 ms."""
FIELDS = ("state", "ppid", "pgrp", "session", "tty_nr", "tpgid", "flags", "minflt", "cminflt", "majflt", "cmajflt",
          "utime", "stime", "cutime", "cstime")  # fmt: skip
"""Fields of /proc/PID/stat after the name (proc(5)); times are in ticks of the kernel."""


def is_starved(pid: int) -> bool:
    """Returns True when the process has waited too long for a CPU, and False when it has ended."""
    turns, before = 0, ("", "")
    while turns < _TURNS:
        time.sleep(TURN_S)
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                fields = dict(zip(FIELDS, file.read().rpartition(")")[2].split(), strict=False))
        except OSError:
            return False
        cpu_time = fields["utime"], fields["stime"]
        turns = turns + 1 if fields["state"] == "R" and cpu_time == before else 0
        before = cpu_time
    return True


def release(pid: int) -> None:
    """Moves a process to all CPUs that it may use, at the ordinary priority, for which the system reserves some CPU
    time."""
    for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
        with contextlib.suppress(OSError):
            os.sched_setscheduler(int(thread), os.SCHED_OTHER | os.SCHED_RESET_ON_FORK, os.sched_param(0))
            os.sched_setaffinity(int(thread), os.sched_getaffinity(0))


if __name__ == "__main__" and is_starved(int(sys.argv[1])):
    release(int(sys.argv[1]))
