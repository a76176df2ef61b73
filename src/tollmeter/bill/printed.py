# SPDX-License-Identifier: Apache-2.0
"""A bill as sentences and a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tollmeter.bill.billed import Billed
from tollmeter.bill.calibration import Calibration
from tollmeter.bill.crossings import Crossings
from tollmeter.bill.items import OF_32, Bill, Counts, label
from tollmeter.bill.savings import Saving
from tollmeter.experiment.precision import Estimate
from tollmeter.report.bills import bill_table, count_table
from tollmeter.report.blocks import Block
from tollmeter.report.numbers import count, duration, percent, plain, time

_WAYS = {
    "kernel": "counted and timed in the kernel (BPF)",
    "notified": "counted by seccomp notification, in a run of its own; not timed: each call is priced as the shortest "
    "system call, so times are lower bounds",
    "usage": "system calls are not counted: only what the kernel accounts to every process",
}
_EVENTS = {
    "voluntary": ("switch", " while waiting"), "involuntary": ("preemption", ""),
    "migrations": ("move", " to another CPU"), "wakes": ("wake-up", " of another thread"),
    "signals": ("signal", " handled"), "forks": ("start", " of a process or thread"),
    "execs": ("execution", " of a program"), "kernel_faults": ("page fault", " inside a call"),
    "major_faults": ("page", " from a disk"),
}  # fmt: skip


def blocks(several: Sequence[Billed]) -> Iterator[Block]:
    """Yields the printed bills, in the order of the commands."""
    for place, billed in enumerate(several, 1):
        bill = billed.bill
        if len(several) > 1:
            yield f"{place}  {bill.command}"
        if isinstance(bill, Counts):
            yield from _counts(bill, billed.counted)
            continue
        yield _headline(bill)
        yield bill_table(bill.items, bill.cpu.value)
        yield from _notes(bill)
        yield from _advice(billed.savings)
        before = several[0].bill
        if billed.saved is not None and isinstance(before, Bill):
            yield _checked_saving(billed.saved, before.cpu.value)


def _counts(bill: Counts, counted: Sequence[Crossings]) -> Iterator[Block]:
    calls = f"{count(bill.crossings)} system calls" if bill.way != "usage" else _WAYS["usage"]
    yield f"{calls} · not timed: {bill.untimed}"
    yield count_table(bill.items)
    yield from _besides(bill)
    for call in counted[0].calls:
        if call.repeats:
            yield (
                f"{label(call)}: the same process asked the same about a path again in {count(call.repeats)} of "
                f"{count(call.count)} calls."
            )
    if bill.why:
        yield f"A better way to count was not permitted: {bill.why}."


def _headline(bill: Bill) -> str:
    spent = f"CPU {time(bill.cpu.value, bill.cpu.low, bill.cpu.high)}"
    runs = count(bill.runs, "clean run")
    if not bill.runs:
        spent, runs = f"CPU {time(bill.cpu.value).bare}", f"in {time(bill.wall.value).bare}, without that of counting"
    at = "at least " if bill.way == "notified" else ""
    inside = f"in the kernel {at}{time(bill.kernel_ns).bare} ({percent(_share(bill.kernel_ns, bill))})"
    if bill.way == "usage":
        return f"{spent} ({runs}) · page faults about {time(bill.kernel_ns).bare}"
    return f"{spent} ({runs}) · {inside} · {count(bill.crossings)} system calls"


def _share(ns: float, bill: Bill) -> float:
    return min(1.0, ns / bill.cpu.value)


def _besides(bill: Bill | Counts) -> Iterator[str]:
    events = [
        f"{count(bill.events[name], noun)}{more}" for name, (noun, more) in _EVENTS.items() if bill.events.get(name)
    ]
    if events:
        yield f"Besides: {', '.join(events)}."


def _notes(bill: Bill) -> Iterator[str]:
    yield from _besides(bill)
    how = _WAYS[bill.way]
    yield f"Calls were {how}." if bill.way != "usage" else f"{how[0].upper()}{how[1:]}."
    if bill.why:
        yield f"A better way was not permitted: {bill.why}."
    if bill.way != "usage":
        boundary = percent(_share(sum(item.boundary_ns for item in bill.items), bill))
        yield (
            f"boundary: share of a call that the shortest system call takes too ({time(bill.calibration.toll_ns).bare} "
            f"on this machine now). In all it is {boundary} of the CPU time: fewer, larger crossings save no more."
        )
    if any(item.name.endswith(OF_32) for item in bill.items):
        yield _of_32(bill.calibration)
    if any(item.bound for item in bill.items if "page" in item.name):
        prices = bill.calibration.store_ns, bill.calibration.load_ns, bill.calibration.copy_ns
        store, load, copy = (time(ns).bare for ns in prices)
        yield (
            f"Page faults are counted, and priced by this machine's own: {store} for a first store, {load} for a page "
            f"of a file that is in memory, {copy} for a copy."
        )
    if bill.capped:
        yield "The items add up to more than the CPU time, and their sum is cut there: some overlap."


def _of_32(calibration: Calibration) -> str:
    if calibration.toll_32_ns:
        toll = time(calibration.toll_32_ns).bare
        return f"The shortest system call of the 32-bit ABI takes {toll}, by the entry of its vDSO."
    return "Calls of the 32-bit ABI are calibrated by the other ABI's entry: no program of it can be built here."


def _advice(several: Sequence[Saving]) -> Iterator[str]:
    for place, saving in enumerate(several[:3]):
        head = "Cheapest saving: " if not place else "Also: "
        crossings = f"{count(saving.before)} -> {count(saving.after)} crossings"
        least = f", at least {time(saving.least_ns).bare}" if saving.least_ns < saving.ns else ""
        yield f"{head}{saving.what}: {crossings}, predicted {time(saving.ns).bare}{least} ({saving.arithmetic})"


def _checked_saving(saved: Estimate, first_ns: float) -> str:
    """Returns a sentence on the saving that interleaved runs show for the second command. first_ns: CPU time of the
    first."""
    ends = f"{_seconds(saved.low)} to {_seconds(saved.high)}"
    share = f"{plain(100 * saved.value / first_ns, 2)} % of the CPU time"
    if saved.low <= 0 <= saved.high:
        return f"checked: no difference resolved: {_seconds(saved.value)} ({ends})"
    return f"checked: {'saves' if saved.value > 0 else 'costs'} {_seconds(abs(saved.value))} ({ends}), {share}"


def _seconds(ns: float) -> str:
    return f"{'−' if ns < 0 else ''}{duration(abs(ns) / 1e9) if abs(ns) >= 1e10 else time(abs(ns)).bare}"
