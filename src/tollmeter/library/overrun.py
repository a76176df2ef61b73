# SPDX-License-Identifier: Apache-2.0
"""The time of a run beyond its budget: how long this process waited for a CPU, and why the run took longer than
requested."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_MOST_SHARE, _MOST_S = 0.1, 0.5
"""Highest time beyond a budget, as a share and in seconds, whichever is more: the last visit may take this long."""


class CpuTime(NamedTuple):
    """Seconds that this process ran on a CPU, and seconds that it was ready to run without one."""

    had_s: float = 0.0
    waited_s: float = 0.0

    def since(self, before: CpuTime) -> CpuTime:
        return CpuTime(self.had_s - before.had_s, self.waited_s - before.waited_s)

    @property
    def slowness(self) -> float:
        """Returns the wall seconds per second of CPU time; 1 if unknown."""
        return 1 + self.waited_s / self.had_s if self.had_s > 0 and self.waited_s > 0 else 1.0


def cpu_time(proc: Path = _PROC) -> CpuTime:
    """Returns the CPU time until now (Documentation/scheduler/sched-stats.rst); zeros if the system does not
    report it."""
    with contextlib.suppress(OSError, ValueError):
        had_ns, waited_ns, *_ = map(int, (proc / "self/schedstat").read_text(encoding="ascii").split())
        return CpuTime(had_ns / 1e9, waited_ns / 1e9)
    return CpuTime()


def overrun(budget_s: float, measured_s: float, whole_s: float, waited_s: float) -> str:
    """Returns a sentence on why a run took longer than its budget; empty if it did not. measured_s: seconds until its
    last visit ended; whole_s: seconds until its answer; waited_s: seconds of whole_s in which it waited for a CPU."""
    over_s, waited_s = whole_s - budget_s, min(waited_s, whole_s)
    if over_s <= max(_MOST_S, _MOST_SHARE * budget_s):
        return ""
    took = (
        f"a budget of {budget_s:g} s took {whole_s:.1f} s, of these {whole_s - measured_s:.1f} s after the last visit"
    )
    if 2 * waited_s < over_s:
        return took
    share = 100 * waited_s / whole_s
    return f"{took}: for {waited_s:.1f} s ({share:.0f} %) it had no CPU, because of other programs or a quota"
