# SPDX-License-Identifier: Apache-2.0
"""Records conditions around a run: other programs on its CPUs, and the limits of this process.

Probes inherit the niceness, scheduling policy and control group of the host process. A single sample does not show
these: a probe that a quota stops half of the time is measured only while it runs."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from math import inf
from pathlib import Path
from typing import NamedTuple

from tollmeter.conduct import kernel_counts
from tollmeter.conduct.starvation import FIELDS
from tollmeter.conduct.strays import family
from tollmeter.model import Surroundings
from tollmeter.targets import control_groups

_POLICIES = {
    os.SCHED_OTHER: "other", os.SCHED_BATCH: "batch", os.SCHED_IDLE: "idle", os.SCHED_FIFO: "fifo",
    os.SCHED_RR: "rr",
}  # fmt: skip
_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
"""Fields of a CPU in /proc/stat (proc(5)). Guest time, which follows, is part of user time."""
_IDLE, _IOWAIT = _FIELDS.index("idle"), _FIELDS.index("iowait")
_FIELDS_OF_STATUS = ("TracerPid", "Seccomp", "Seccomp_filters")
_LEAST_S = 0.5
"""Smallest number of seconds of CPU time from which a share is computed, since the kernel counts in ticks of 10 ms."""

PROC = Path("/proc")


class _Spent(NamedTuple):
    """CPU time in seconds. whole: available on the measured CPUs. worked: busy there. own: used by this process and its
    children."""

    whole: float
    worked: float
    own: float


class Watch:
    """Watches the conditions of a session, from the creation of this object."""

    def __init__(self, cpus: Iterable[int], *, company: bool = False) -> None:
        """Begins to watch these CPUs. company: whether another run measures at the same time."""
        self._cpus = frozenset(cpus)
        self._company = company
        self._before = self._spent()
        self._began_s, self._waited = time.monotonic(), self._waits()
        self._throttled = control_groups.throttled_s()
        self._paging, self._interrupts = kernel_counts.paging(PROC), kernel_counts.interrupts(PROC, self._cpus)

    def seen(self, left_behind: int = 0) -> Surroundings:
        """Returns the conditions until now. left_behind: number of processes that probes left."""
        status, lasted_s = _status(), time.monotonic() - self._began_s
        # Version 1 of control groups reports the highest number for no limit.
        limit, memory = control_groups.memory_bytes(), os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        is_limited = limit < (memory if memory > 0 else inf)
        return Surroundings(
            seccomp_filters=_filters(status), traced=_traced(status), unreadable=self._unreadable(), nice=_nice() or 0,
            policy=_policy(), quota=control_groups.quota(), others=self._others(), company=self._company,
            left_behind=left_behind, pressure=self._pressure("cpu", lasted_s), weight=control_groups.weight(),
            throttled_s=round(max(0.0, control_groups.throttled_s() - self._throttled), 3),
            memory_limit=int(limit) if is_limited else None, memory_pressure=self._pressure("memory", lasted_s),
            paging=kernel_counts.grown(self._paging, kernel_counts.paging(PROC)),
            interrupts=kernel_counts.frequent(
                kernel_counts.grown(self._interrupts, kernel_counts.interrupts(PROC, self._cpus)), lasted_s
            ),
        )  # fmt: skip

    def _unreadable(self) -> tuple[str, ...]:
        """Returns the sources that could not be read, so that their evidence is unknown."""
        is_readable = {
            "/proc/self/status": bool(_status()),
            "/proc/stat": bool(_ticks(self._cpus)),
            "/proc/self/cgroup": control_groups.are_readable(),
            "getrusage": _answers(resource.getrusage, resource.RUSAGE_SELF),
            "getpriority": _nice() is not None,
            "sched_getscheduler": _answers(os.sched_getscheduler, 0),
            "sched_getaffinity": _answers(os.sched_getaffinity, 0),
        }
        return tuple(name for name, readable in is_readable.items() if not readable)

    def _others(self) -> float | None:
        """Returns the share of the time of the measured CPUs that other programs took; None if unreported, or after too
        short a time."""
        now, before = self._spent(), self._before
        if now is None or before is None or now.whole - before.whole < _LEAST_S:
            return None
        foreign = (now.worked - before.worked) - (now.own - before.own)
        return round(min(1.0, max(0.0, foreign / (now.whole - before.whole))), 4)

    @staticmethod
    def _waits() -> dict[str, int | None]:
        """Returns the us for which some task waited for each resource since boot; None if unreported."""
        return {resource: kernel_counts.waited_us(PROC, resource) for resource in ("cpu", "memory")}

    def _pressure(self, resource: str, lasted_s: float) -> float | None:
        """Returns the share of the time in which some task waited for the resource; None if unreported. The totals of
        the kernel are in us, so even a run of a tenth of a second has a value."""
        now, before = kernel_counts.waited_us(PROC, resource), self._waited[resource]
        if now is None or before is None or not lasted_s:
            return None
        return round(min(1.0, max(0.0, (now - before) / (1e6 * lasted_s))), 4)

    def _spent(self) -> _Spent | None:
        """Returns the CPU seconds spent until now; None if the system does not report them."""
        ticks, each_s = _ticks(self._cpus), 1 / os.sysconf("SC_CLK_TCK")
        whole = sum(map(sum, ticks))
        idle = sum(of_cpu[_IDLE] + of_cpu[_IOWAIT] for of_cpu in ticks)
        try:
            return _Spent(whole * each_s, (whole - idle) * each_s, _own_s(each_s)) if ticks else None
        except OSError:
            return None


def _ticks(cpus: Collection[int]) -> list[list[int]]:
    """Returns the clock ticks of each CPU since boot, in the order of _FIELDS; empty if the system does not report
    them."""
    with contextlib.suppress(OSError, ValueError):
        lines = (PROC / "stat").read_text(encoding="ascii").splitlines()
        named = [line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit()]
        ours = [[int(field) for field in words[1 : 1 + len(_FIELDS)]] for words in named if int(words[0][3:]) in cpus]
        return [ticks for ticks in ours if len(ticks) > _IOWAIT]
    return []


def _own_s(tick_s: float) -> float:
    """Returns the CPU seconds of this process, of its ended children, and of its live children."""
    ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in ended) + sum(
        _living_s(living, tick_s) for living in family(os.getpid()) - {os.getpid()}
    )


def _living_s(process: int, tick_s: float) -> float:
    """Returns the CPU seconds of a live process and its ended children; 0 if they cannot be read. tick_s: seconds of a
    tick."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        words = (PROC / f"{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        fields = dict(zip(FIELDS, words, strict=False))
        return tick_s * sum(int(fields[name]) for name in ("utime", "stime", "cutime", "cstime"))
    return 0.0


# ---- filters and tracers of system calls (proc_pid_status(5)) ------------------------------------------------------


def _status(process: int | str = "self") -> Mapping[str, int]:
    """Returns fields of a process's status by name; empty if it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        lines = (PROC / f"{process}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        fields = dict(line.partition(":")[::2] for line in lines)
        return {name: int(fields[name]) for name in _FIELDS_OF_STATUS if name in fields}
    return {}


def _filters(status: Mapping[str, int]) -> int | None:
    """Returns the number of seccomp filters, which probes inherit. Kernels before 5.9 report only the mode, for which 1
    is returned."""
    least = int(status.get("Seccomp", 0) > 0)
    return max(least, status.get("Seccomp_filters", 0)) if status else None


def _traced(status: Mapping[str, int]) -> bool | None:
    """Returns whether a live probe is traced; without a live probe, whether this process is. A tracer need not follow
    children. None if unknown."""
    living = [_status(process) for process in family(os.getpid()) - {os.getpid()}]
    traced = [fields["TracerPid"] > 0 for fields in living if "TracerPid" in fields]
    return any(traced) if traced else status["TracerPid"] > 0 if "TracerPid" in status else None


def _answers(ask: Callable[[int], object], of: int) -> bool:
    """Returns whether a system call is permitted."""
    try:
        ask(of)
    except OSError:
        return False
    return True


# ---- scheduling ---------------------------------------------------------------------------------------------------


def _nice() -> int | None:
    """Returns the niceness; None if the system does not report it."""
    with contextlib.suppress(OSError):
        return os.getpriority(os.PRIO_PROCESS, 0)
    return None


def _policy() -> str:
    """Returns the scheduling policy of the children of this process."""
    with contextlib.suppress(OSError):
        number = os.sched_getscheduler(0)
        ordinary = number & os.SCHED_RESET_ON_FORK  # children then have the ordinary policy
        return "other" if ordinary else _POLICIES.get(number, f"number {number}")
    return "other"
