# SPDX-License-Identifier: Apache-2.0
"""Makes a bill from counts: the cost of each item, the part that is the boundary itself, and the remaining CPU time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import msgspec

from tollmeter.bill.calibration import Calibration
from tollmeter.bill.crossings import CallCount, Crossings, Way
from tollmeter.experiment.precision import Estimate, Scatter, estimate
from tollmeter.model import Charge, Record

READS = frozenset({"read", "pread64", "readv", "preadv", "preadv2", "recvfrom", "recvmsg"})
WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2", "sendto", "sendmsg"})
BOTH_WAYS = frozenset({"sendfile", "splice", "copy_file_range", "getdents64", "getrandom", "readlink", "readlinkat"})
TRANSFERS = READS | WRITES | BOTH_WAYS
"""Calls whose result is a number of bytes."""
FAULT_KINDS = {
    "store_fault": ("first store to a page", "store_ns", "at least"),
    "load_fault": ("first load of a page", "load_ns", "at most"),
    "fetch_fault": ("first instruction of a page", "load_ns", "at most"),
    "copy_fault": ("store to a shared page (copy)", "copy_ns", "at most"),
}
"""Kinds of page faults: name in the bill, the calibrated price that applies if the kernel does not time faults, and
whether that price is a lower or an upper bound. A store may clear a huge page. A load may find no file, or few
neighbours to map. A shared page that no other process uses any more is not copied."""
OF_32 = " (32 bit)"
"""Suffix of the name of a call of the 32-bit ABI of the same kernel."""
MAJOR, MINOR = "page fault from a disk", "page fault"
CLEAN_EVENTS = "voluntary", "involuntary", "major_faults"
"""Events that the kernel also counts in runs without counters: context switches and major page faults."""


class Bill(Record, frozen=True):
    """The bill of one command. cpu, wall: CPU time and elapsed time of one clean run, ns. runs: number of clean runs, 0
    for a running process. why: why no better method of counting is possible; empty if the best one was used. crossings:
    number of counted calls. events: other counts. kernel_ns: the sum of the items. capped: whether that sum was cut at
    the CPU time."""

    command: str
    cpu: Estimate
    wall: Estimate
    runs: int
    way: Way
    why: str
    crossings: int
    items: tuple[Charge, ...]
    events: Mapping[str, int]
    kernel_ns: float
    capped: bool
    calibration: Calibration


class Counts(Record, frozen=True):
    """A bill without times. untimed: why there are no times; the other fields as in `Bill`."""

    command: str
    way: Way
    why: str
    untimed: str
    crossings: int
    items: tuple[Charge, ...]
    events: Mapping[str, int]


def counts(command: str, counted: Crossings, *, way: Way, why: str, untimed: str) -> Counts:
    """Returns a bill without times, the most frequent crossing first."""
    charges = [_count_of(name, calls, way) for name, calls in _by_name(counted).items()]
    charges += [Charge(name, counted.events.get(f"{kind}s", 0), None, 0.0) for kind, (name, *_) in FAULT_KINDS.items()]
    shown = tuple(sorted((item for item in charges if item.count), key=lambda item: -item.count))
    events = {**counted.events, **{name: getattr(counted, name) for name in CLEAN_EVENTS}}
    return Counts(command, way, why, untimed, counted.count, shown, events)


def bill_of(
    command: str, clean: Sequence[Crossings], counted: Crossings, calibration: Calibration, *, way: Way, why: str = ""
) -> Bill:
    """Returns the bill of a command. clean: runs without counting, at least one. counted: the run that was counted."""
    cpu, wall = estimated([run.cpu_ns for run in clean]), estimated([run.wall_ns for run in clean])
    charges = items(counted, clean, calibration, way)
    total = sum(item.ns or 0.0 for item in charges)
    return Bill(
        command, cpu, wall, len(clean), way, why, counted.count, charges,
        {**counted.events, **{name: _middle(clean, name) for name in CLEAN_EVENTS}},
        min(total, cpu.value), total > cpu.value, calibration,
    )  # fmt: skip


def items(counted: Crossings, clean: Sequence[Crossings], calibration: Calibration, way: Way) -> tuple[Charge, ...]:
    """Returns the items of one counted run, most expensive first."""
    charges = (
        *_call_items(counted, way, calibration),
        *_fault_items(counted, clean, calibration),
        *_tick_items(counted, calibration),
    )
    return tuple(sorted(charges, key=lambda item: (-(item.ns or 0.0), -item.count)))


def estimated(values: Sequence[float]) -> Estimate:
    """Returns the median and its interval; for one or two values, the wide interval that a single value allows."""
    kept = [max(1.0, value) for value in values]
    return estimate(kept, range(len(kept)), Scatter(runs_sd=0.0), (min(kept) / 2, max(kept) * 2))


def _call_items(counted: Crossings, way: Way, calibration: Calibration) -> Iterator[Charge]:
    for name, calls in _by_name(counted).items():
        boundary = calibration.boundary_ns(calls)
        spent = calibration.cost_ns(calls) if way == "kernel" else boundary
        yield msgspec.structs.replace(
            _count_of(name, calls, way), ns=spent, boundary_ns=min(boundary, spent),
            bound="" if way == "kernel" else "at least",
        )  # fmt: skip


def _by_name(counted: Crossings) -> Mapping[str, Sequence[CallCount]]:
    by_name: dict[str, list[CallCount]] = defaultdict(list)
    for call in counted.calls:
        by_name[label(call)].append(call)
    return by_name


def label(call: CallCount) -> str:
    """Returns the name of a call's item."""
    return f"{call.name or f'call {call.number}'}{OF_32 if call.is_32 else ''}"


def _count_of(name: str, calls: Sequence[CallCount], way: Way) -> Charge:
    """Returns the charge for calls of one name without a time."""
    moved = sum(call.bytes for call in calls) if way == "kernel" and calls[0].name in TRANSFERS else None
    return Charge(name, sum(call.count for call in calls), None, 0.0, moved, sum(call.errors for call in calls))


def _fault_items(counted: Crossings, clean: Sequence[Crossings], calibration: Calibration) -> Iterator[Charge]:
    """Yields the charges for faults in user mode, by their kind: timed, or counted and priced. Faults inside a system
    call are in its time."""
    kinds = [_faults(kind, counted, calibration) for kind in FAULT_KINDS]
    if not any(kind.count for kind in kinds):  # not counted, or an architecture without such tracepoints
        kinds = [_priced(MINOR, _middle(clean, "minor_faults"), calibration.store_ns, "about", calibration)]
    if not calibration.fault_ns:
        # The disk's time is no CPU time of the program; the fault itself costs at least that of a page in memory.
        kinds.append(_priced(MAJOR, _middle(clean, "major_faults"), calibration.load_ns, "at least", calibration))
    yield from (kind for kind in kinds if kind.count)


def _faults(kind: str, counted: Crossings, calibration: Calibration) -> Charge:
    """Returns the charge for the page faults of a kind: a key of FAULT_KINDS."""
    name, price, bound = FAULT_KINDS[kind]
    count, windows_ns = (counted.events.get(f"{kind}{of}", 0) for of in ("s", "_ns"))
    if not (calibration.fault_ns and windows_ns):
        return _priced(name, count, getattr(calibration, price), bound, calibration)
    spent_ns = calibration.faults_ns(count, windows_ns)
    return Charge(name, count, spent_ns, min(count * calibration.toll_ns, spent_ns))


def _priced(name: str, count: int, each_ns: float, bound: str, calibration: Calibration) -> Charge:
    return Charge(name, count, count * each_ns, count * min(calibration.toll_ns, each_ns), bound=bound)


def _tick_items(counted: Crossings, calibration: Calibration) -> Iterator[Charge]:
    """Yields the charge for timer interrupts, which are left out of windows. Their work is charged to the program."""
    if ticks := counted.events.get("ticks", 0):
        yield Charge("timer interrupt", ticks, calibration.scale * counted.events.get("tick_ns", 0), 0.0)


def _middle(runs: Sequence[Crossings], name: str) -> int:
    return int(median(getattr(run, name) for run in runs))
