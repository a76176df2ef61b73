# SPDX-License-Identifier: Apache-2.0
"""What a crossing costs on this machine now, and what counting adds to it: the same loop, counted and not counted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from tollmeter.bill.crossings import Crossings, Way, crossings
from tollmeter.model import Record
from tollmeter.targets.timer import Words

_CALLS, _PAGES, _SPAWNS = 200_000, 4_096, 50
_TRIALS = 3
FORKS = ("fork", "clone", "clone3")


class Calibration(Record, frozen=True):
    """CPU times, ns. toll_ns: the shortest system call (getppid) without counting; store_ns, load_ns, copy_ns: a page
    fault at the first store to an anonymous page, at a load of a mapped file whose pages are in memory, and at a store
    to a page of it. Where calls are timed, else 0: window_ns, the window of getppid; counting_ns, what counting adds to
    a call; spawn_ns, what vfork costs the process that calls it; given_back, what a forked process pays to give its
    copied page tables back, as a share of what the copy costs."""

    toll_ns: float
    store_ns: float
    load_ns: float
    copy_ns: float
    window_ns: float = 0.0
    counting_ns: float = 0.0
    spawn_ns: float = 0.0
    given_back: float = 0.0

    def cost_ns(self, window_ns: float) -> float:
        """What a call costs that is not counted, from its window. Both ends of the window lie inside the tracepoints:
        their distance for getppid says how much of the entry they miss and how much of the counting they contain."""
        return max(0.0, window_ns - self.window_ns + self.toll_ns)


def calibrations(runner: Path, way: Way) -> tuple[Calibration, ...]:
    """Several short trials. Raises Failure as `crossings`."""
    return tuple(_trial(runner, way) for _ in range(_TRIALS))


def least(trials: Sequence[Calibration]) -> Calibration:
    """Of each time the least, since interference only adds, and the middle of a share."""
    names = Calibration.__struct_fields__
    made = {name: min(getattr(each, name) for each in trials) for name in names}
    return msgspec.convert({**made, "given_back": median(each.given_back for each in trials)}, Calibration)


def _trial(runner: Path, way: Way) -> Calibration:
    toll_ns = _loop(runner, "usage", "calls", _CALLS).loop_ns / _CALLS
    faults = (_loop(runner, "usage", what, _PAGES) for what in ("stores", "loads", "copies"))
    store_ns, load_ns, copy_ns = (of_kind.loop_ns / max(1, of_kind.loop_faults) for of_kind in faults)
    if way != "kernel":
        return Calibration(toll_ns, store_ns, load_ns, copy_ns)
    counted = _loop(runner, way, "calls", _CALLS)
    spawns, forks = (_loop(runner, way, what, _SPAWNS) for what in ("spawns", "forks"))
    spawn_ns, copied_ns = _window(spawns, "vfork"), _window(forks, *FORKS)
    given_back = (_window(forks, "exit_group") - _window(spawns, "exit_group")) / max(1.0, copied_ns - spawn_ns)
    return Calibration(
        toll_ns, store_ns, load_ns, copy_ns, window_ns=_window(counted, "getppid"),
        counting_ns=max(0.0, counted.loop_ns / _CALLS - toll_ns), spawn_ns=spawn_ns, given_back=max(0.0, given_back),
    )  # fmt: skip


def _window(counted: Crossings, *names: str) -> float:
    return next(call.ns / call.count for call in counted.calls if call.name in names)


def _loop(runner: Path, way: Way, what: str, count: int) -> Crossings:
    return crossings(runner, way, Words(f"-{what}-{count}", (what,)))
