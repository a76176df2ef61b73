# SPDX-License-Identifier: Apache-2.0
"""Measures the present cost of a crossing on this machine, and the cost that counting adds: by one loop, with and
without counting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from tollmeter.bill.crossings import CallCount, Crossings, Runner, Way, crossings
from tollmeter.model import Record
from tollmeter.targets.timer import Words

_CALLS, _PAGES, _SPAWNS, _ROUNDS, _ASKS = 200_000, 4_096, 50, 4_000, 20_000
"""Iterations of the loops of system calls, page faults, process starts, switches and path look-ups."""
_OF_32 = "toll_32_ns", "window_32_ns", "counted_32_ns"
WAYS_OF_LOOPS: tuple[Way, Way] = "kernel", "usage"
_TIMES = 3
"""Measurements of a context switch per trial; their median counts. A measurement has two loops, and if the core is
contended during only one of them, the result is half or twice as large."""
FORKS = ("fork", "clone", "clone3")
ASKS = frozenset(
    {"stat", "lstat", "access", "readlink", "statx", "newfstatat", "faccessat", "readlinkat", "stat64", "lstat64",
     "fstatat64"}
)  # fmt: skip
"""Calls that look up a path (probes/runtime/crossings/kernel.c)."""


class Calibration(Record, frozen=True):
    """A calibration; CPU times in ns. toll_ns: the shortest system call (getppid) without counting; store_ns, load_ns,
    copy_ns: a page fault at the first store to an anonymous page, at a load of a mapped file whose pages are in memory,
    and at a store to a page of such a file. The following are 0 unless calls are timed. spawn_ns: cost of vfork for the
    calling process; given_back: cost for a forked process to free its copied page tables, as a share of the cost of the
    copy; switch_ns: cost of a switch outside of windows: the return to user mode with the registers of the FPU, or a
    whole switch on the way back from a call; window_ns: window of getppid; fault_ns: window of a fault of store_ns, 0
    if the kernel does not time faults; added_call_ns, added_switch_ns, added_fault_ns: CPU time that counting adds to a
    call, a switch and a page fault; added_ask_ns: CPU time that counting adds to a look-up of a path, beyond
    added_call_ns; toll_32_ns, window_32_ns, counted_32_ns: getppid by the 32-bit ABI of the same kernel, which has
    another entry: without counting, its window, and with counting; 0 if no such call is billed or no program of that
    ABI can be built; scale: factor of a window for the usual state of the core."""

    toll_ns: float
    store_ns: float
    load_ns: float
    copy_ns: float
    spawn_ns: float = 0.0
    given_back: float = 0.0
    switch_ns: float = 0.0
    window_ns: float = 0.0
    fault_ns: float = 0.0
    added_call_ns: float = 0.0
    added_ask_ns: float = 0.0
    added_switch_ns: float = 0.0
    added_fault_ns: float = 0.0
    toll_32_ns: float = 0.0
    window_32_ns: float = 0.0
    counted_32_ns: float = 0.0
    scale: float = 1.0

    def cost_ns(self, calls: Iterable[CallCount]) -> float:
        """Returns the cost of calls without the cost of counting, from the sum of their windows. Both ends of a window
        lie inside the tracepoints: the window of getppid shows how much of the entry they miss and how much of the
        counting they contain."""
        return max(0.0, sum(self._signed_cost_ns(call) for call in calls))

    def _signed_cost_ns(self, call: CallCount) -> float:
        window_ns = self.window_32_ns if self._has_own_entry(call) else self.window_ns
        inside_ns = self.scale * (call.ns + call.switched * self.switch_ns)
        return inside_ns - call.count * window_ns + self.boundary_ns([call])

    def boundary_ns(self, calls: Iterable[CallCount]) -> float:
        """Returns the part of the calls' cost that the shortest call of their ABI has too."""
        return sum(call.count * (self.toll_32_ns if self._has_own_entry(call) else self.toll_ns) for call in calls)

    def _has_own_entry(self, call: CallCount) -> bool:
        return call.is_32 and self.toll_32_ns > 0

    def faults_ns(self, count: int, windows_ns: float) -> float:
        """Returns the cost of page faults without the cost of counting, from the sum of their windows. A window begins
        after the entry and ends before the return; the calibrated first store shows the missing part."""
        return max(0.0, self.scale * windows_ns + count * (self.store_ns - self.fault_ns))

    def counting_ns(self, counted: Crossings) -> float:
        """Returns the CPU time in ns that counting added to a run."""
        added_32_ns = max(0.0, self.counted_32_ns - self.toll_32_ns)
        of_calls_ns = sum(
            call.count * (added_32_ns if self._has_own_entry(call) else self.added_call_ns) for call in counted.calls
        )
        asks = sum(call.count for call in counted.calls if call.name in ASKS)
        faults = sum(number for name, number in counted.events.items() if name.endswith("_faults"))
        switches = counted.voluntary + counted.involuntary
        return of_calls_ns + asks * self.added_ask_ns + switches * self.added_switch_ns + faults * self.added_fault_ns


def combined_calibration(trials: Sequence[Calibration], counted: Sequence[Crossings]) -> Calibration:
    """Returns one calibration from several trials: the median of each value, which is a cost in the usual state of the
    core. The toll and the window of getppid are from the counted run with the least times, since interference only adds
    time, and their difference is small."""
    names = Calibration.__struct_fields__
    middle = {name: median(getattr(source, name) for source in trials) for name in names}
    least = min(counted, key=lambda source: source.toll_ns + source.counting_ns)
    if not least.toll_ns:
        return msgspec.convert({**middle, "toll_ns": min(source.toll_ns for source in trials)}, Calibration)
    added_ns = max(0.0, median(source.counting_ns - source.toll_ns for source in counted))
    timed = {"toll_ns": least.toll_ns, "window_ns": least.window_ns, "added_call_ns": added_ns}
    return msgspec.convert({**middle, **timed}, Calibration)


def calibrated(runner: Runner, way: Way, *, forks: bool = True, program_32: str = "") -> Calibration:
    """Returns the calibration of one short trial. forks: whether to measure starts of processes. program_32: path, on
    the machine that runs the commands, of the counting process for the 32-bit ABI; empty if not needed. Raises Failure
    as `crossings`."""
    toll_ns = _loop(runner, "usage", "calls", _CALLS).loop_ns / _CALLS
    faults = (_loop(runner, "usage", what, _PAGES) for what in ("stores", "loads", "copies"))
    prices = Calibration(toll_ns, *(of_kind.loop_ns / max(1, of_kind.loop_faults) for of_kind in faults))
    if program_32:
        prices = msgspec.structs.replace(
            prices, **dict(zip(_OF_32, _entry_of_32(runner, way, program_32), strict=True))
        )
    if way != "kernel":
        return prices
    trial = _with_counting(runner, prices)
    if not forks:
        return trial
    spawns, copies = (_loop(runner, way, what, _SPAWNS) for what in ("spawns", "forks"))
    spawn_ns, copied_ns = _window(spawns, "vfork"), _window(copies, *FORKS)
    given_back = (_window(copies, "exit_group") - _window(spawns, "exit_group")) / max(1.0, copied_ns - spawn_ns)
    return msgspec.structs.replace(trial, spawn_ns=spawn_ns, given_back=max(0.0, given_back))


def _entry_of_32(runner: Runner, way: Way, program: str) -> tuple[float, float, float]:
    """Returns three times in ns of getppid by the 32-bit ABI: without counting, its window, and with counting; the last
    two are 0 if calls are not timed. A program that makes one call gives the time of the program's start, which is
    subtracted."""

    def run(way: Way, calls: int) -> Crossings:
        return crossings(runner, way, Words(program, (program, "usage", "1", f"-calls-{calls}", "calls")))

    def each_ns(many: Crossings, one: Crossings) -> float:
        return max(1.0, (many.cpu_ns - one.cpu_ns) / (_CALLS - 1))

    toll_ns = each_ns(run("usage", _CALLS), run("usage", 1))
    if way != "kernel":
        return toll_ns, 0.0, 0.0
    many = run(way, _CALLS)
    shortest = [call for call in many.calls if call.is_32 and call.name == "getppid"]
    window_ns = sum(call.ns for call in shortest) / max(1, sum(call.count for call in shortest))
    return toll_ns, window_ns, each_ns(many, run(way, 1))


def _with_counting(runner: Runner, prices: Calibration) -> Calibration:
    """Returns the calibration with the values that depend on counting: the windows, and the CPU time that counting
    takes."""
    stores = _loop(runner, "kernel", "stores", _PAGES)
    fault_ns = stores.events.get("store_fault_ns", 0) / max(1, stores.events.get("store_faults", 0))
    added_fault_ns = stores.loop_ns / max(1, stores.loop_faults) - prices.store_ns
    counted, uncounted = (_loop(runner, way, "asks", _ASKS) for way in WAYS_OF_LOOPS)
    added_call_ns = max(0.0, counted.counting_ns - prices.toll_ns)
    added_ask_ns = (counted.loop_ns - uncounted.loop_ns) / _ASKS - added_call_ns
    switches = [_switch(runner, prices.toll_ns) for _ in range(_TIMES)]
    switch_ns, added_switch_ns = (median(of) for of in zip(*switches, strict=True))
    return msgspec.structs.replace(
        prices, switch_ns=switch_ns, fault_ns=fault_ns, added_call_ns=added_call_ns,
        added_ask_ns=max(0.0, added_ask_ns), added_switch_ns=max(0.0, added_switch_ns),
        added_fault_ns=max(0.0, added_fault_ns),
    )  # fmt: skip


def _switch(runner: Runner, toll_ns: float) -> tuple[float, float]:
    """Returns the CPU time in ns of a context switch outside of windows, and the CPU time in ns that counting adds to a
    switch, from one loop with and without counting."""
    counted, clean = (_loop(runner, way, "switches", _ROUNDS) for way in WAYS_OF_LOOPS)
    call_prices = Calibration(toll_ns, 0.0, 0.0, 0.0, window_ns=counted.window_ns)
    calls = [call for call in counted.calls if call.name in ("read", "write")]
    known_ns, switched = call_prices.cost_ns(calls), sum(call.switched for call in calls)
    of_calls_ns = counted.count * max(0.0, counted.counting_ns - toll_ns)
    added_ns = counted.loop_ns - clean.loop_ns - of_calls_ns
    switches = counted.voluntary + counted.involuntary
    return max(0.0, clean.loop_ns - known_ns) / max(1, switched), added_ns / max(1, switches)


def _window(counted: Crossings, *names: str) -> float:
    return next(call.ns / call.count for call in counted.calls if call.name in names)


def _loop(runner: Runner, way: Way, what: str, count: int) -> Crossings:
    return crossings(runner, way, Words(f"-{what}-{count}", (what,)))
