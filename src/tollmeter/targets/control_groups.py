# SPDX-License-Identifier: Apache-2.0
"""Limits by the control groups of this process (Documentation/admin-guide/cgroup-v2.rst; cgroup-v1/memory.rst and
scheduler/sched-bwc.rst of version 1). Each group's limit holds for all groups in it."""

from __future__ import annotations

import contextlib
from math import inf
from pathlib import Path

PROC, CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def _groups(controller: str) -> list[Path]:
    """Returns the control groups of this process and their parents, in the unified hierarchy or in the controller's
    own."""
    groups: list[Path] = []
    with contextlib.suppress(OSError):
        for line in (PROC / "self/cgroup").read_text(encoding="utf-8").splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" or controller in controllers.split(","):
                root = CGROUPS / controllers
                group_of_process = root / path.lstrip("/")
                groups += [
                    group_of_process,
                    *(parent for parent in group_of_process.parents if root in (parent, *parent.parents)),
                ]
    return groups


def are_readable() -> bool:
    """Returns whether control groups can be read. A kernel without control groups has no such file, and imposes no
    limits by them."""
    try:
        return bool((PROC / "self/cgroup").read_text(encoding="utf-8", errors="replace").strip())
    except FileNotFoundError:
        return True
    except OSError:
        return False


def quota() -> float | None:
    """Returns the lowest quota of all groups, in CPUs; None without one."""
    limits: list[float] = []
    for group in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            most, period = _group_file(group, "cpu.max").split()
            limits.append(float(most) / float(period))
        with contextlib.suppress(OSError, ValueError):
            most_us = float(_group_file(group, "cpu.cfs_quota_us"))
            limits += [most_us / float(_group_file(group, "cpu.cfs_period_us"))] if most_us > 0 else []
    return min(limits, default=None)


def weight() -> float:
    """Returns the lowest CPU weight of all groups, as a share of the default weight, which is 100 in cpu.weight and
    1024 in cpu.shares. An idle group (cpu.idle) has 0: it gets only time that no other group uses."""
    shares = [1.0]
    for group in _groups("cpu"):
        for name, ordinary in (("cpu.weight", 100), ("cpu.shares", 1024)):
            with contextlib.suppress(OSError, ValueError):
                shares.append(int(_group_file(group, name)) / ordinary)
        with contextlib.suppress(OSError, ValueError):
            shares += [0.0] if int(_group_file(group, "cpu.idle")) else []
    return round(min(shares), 4)


def throttled_s() -> float:
    """Returns the throttled time in seconds of the group that was throttled longest: each group counts the time of its
    own quota."""
    stopped_s = [0.0]
    for group in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            fields = dict(line.split() for line in _group_file(group, "cpu.stat").splitlines())
            for name, each_s in (("throttled_usec", 1e-6), ("throttled_time", 1e-9)):
                if name in fields:
                    stopped_s.append(int(fields[name]) * each_s)
    return max(stopped_s)


def memory_bytes() -> float:
    """Returns the lowest memory limit of all groups in bytes; infinite without one."""
    limits = [inf]
    for group in _groups("memory"):
        for name in ("memory.max", "memory.high", "memory.limit_in_bytes"):
            with contextlib.suppress(OSError, ValueError):
                limits.append(int(_group_file(group, name)))
    return min(limits)


def _group_file(group: Path, name: str) -> str:
    return (group / name).read_text(encoding="ascii")
