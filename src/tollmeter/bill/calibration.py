# SPDX-License-Identifier: Apache-2.0
"""What a crossing costs on this machine now, and what counting adds to it: the same loop, counted and not counted."""

from __future__ import annotations

from pathlib import Path

from tollmeter.bill.crossings import Crossings, Way, crossings
from tollmeter.model import Record
from tollmeter.targets.timer import Words

_CALLS, _PAGES, _SPAWNS = 200_000, 8_192, 200
_TRIALS = 3


class Calibration(Record, frozen=True):
    """CPU times, ns. toll_ns: the shortest system call (getppid) without counting; fault_ns: a first store to an
    anonymous page of the usual size. Where calls are timed, else 0: window_ns, the window of getppid; counting_ns,
    what counting adds to a call; spawn_ns, what vfork costs the process that calls it."""

    toll_ns: float
    fault_ns: float
    window_ns: float = 0.0
    counting_ns: float = 0.0
    spawn_ns: float = 0.0

    def cost_ns(self, window_ns: float) -> float:
        """What a call costs that is not counted, from its window. Both ends of the window lie inside the tracepoints:
        their distance for getppid says how much of the entry they miss and how much of the counting they contain."""
        return max(0.0, window_ns - self.window_ns + self.toll_ns)


def calibrated(runner: Path, way: Way) -> Calibration:
    """The least of a few short trials, since interference only adds. Raises Failure as `crossings`."""
    toll_ns = min(_each(runner, "calls", _CALLS) for _ in range(_TRIALS))
    fault_ns = min(_each(runner, "faults", _PAGES) for _ in range(_TRIALS))
    if way != "kernel":
        return Calibration(toll_ns, fault_ns)
    counted = [crossings(runner, "kernel", _loop("calls", _CALLS)) for _ in range(_TRIALS)]
    window_ns = min(_window(one, "getppid") for one in counted)
    counting_ns = max(0.0, min(one.cpu_ns for one in counted) / _CALLS - toll_ns)
    spawn_ns = min(_window(crossings(runner, "kernel", _loop("spawns", _SPAWNS)), "vfork") for _ in range(_TRIALS))
    return Calibration(toll_ns, fault_ns, window_ns, counting_ns, spawn_ns)


def _each(runner: Path, what: str, count: int) -> float:
    """ns of CPU time of one, from two lengths, so that the process's own start cancels."""
    short, long = (crossings(runner, "usage", _loop(what, times * count)).cpu_ns for times in (1, 2))
    return max(0.0, long - short) / count


def _window(counted: Crossings, name: str) -> float:
    return next(call.ns / call.count for call in counted.calls if call.name == name)


def _loop(what: str, count: int) -> Words:
    return Words(f"-{what}-{count}", (what,))
