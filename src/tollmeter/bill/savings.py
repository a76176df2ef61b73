# SPDX-License-Identifier: Apache-2.0
"""Possible savings, by rule: each with its arithmetic, as a prediction.

A rule counts only the kernel time that a change of the program removes: calls that are no longer made. The program's
own work around these calls is an additional saving."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

import msgspec

from tollmeter.bill.calibration import FORKS
from tollmeter.bill.crossings import SIZES, Crossings
from tollmeter.bill.items import OF_32, READS, WRITES, Bill, label
from tollmeter.model import USUAL_PAGE_BYTES, Charge, Record

_LEAST_SHARE = 0.01
"""Smallest reported saving, as a share of the CPU time: a smaller one is within the difference of two runs."""
_SMALL = SIZES.index("below 4 KiB")
_SIGNALS, _BATCH = 64, 64
"""Number of signals, and pieces of work that threads could hand over at a time."""
_MAPPED_AGAIN, _LOADED = 100, 10
"""Fewest pairs of mmap and munmap of one program, and fewest executed programs, that are a loop: a loader maps fewer
files, and a shell starts fewer programs by hand."""


class Saving(Record, frozen=True):
    """A possible saving. what: the change of the program. before, after: numbers of crossings. ns: CPU time saved,
    predicted. least_ns: CPU time saved if the calls' work remains and only their boundary is removed. arithmetic: how
    `ns` is computed, in words."""

    what: str
    before: int
    after: int
    ns: float
    least_ns: float
    arithmetic: str


def savings(bill: Bill, counted: Crossings) -> tuple[Saving, ...]:
    """Returns the savings, largest first. If the bill's items add up to more than the CPU time, savings are reduced in
    proportion. counted: the counted run of the bill."""
    fits = bill.kernel_ns / max(1.0, sum(item.ns or 0.0 for item in bill.items))
    found = (saving for rule in _RULES for saving in rule(bill, counted))
    cut = (
        msgspec.structs.replace(saving_found, ns=fits * saving_found.ns, least_ns=fits * saving_found.least_ns)
        for saving_found in found
    )
    worth = [saving for saving in cut if saving.ns >= _LEAST_SHARE * bill.cpu.value]
    return tuple(sorted(worth, key=lambda saving: -saving.ns))


def _small_transfers(bill: Bill, counted: Crossings) -> Iterator[Saving]:
    """Yields the saving for reads and writes of fewer than 4 KiB each."""
    small = [call for call in counted.calls if call.name in READS | WRITES and call.size <= _SMALL and call.bytes]
    of_verb = {
        verb: sum(call.bytes for call in small if call.name in names)
        for verb, names in (("read", READS), ("write", WRITES))
    }
    before, calibration = sum(call.count for call in small), bill.calibration
    after = sum(ceil(moved / USUAL_PAGE_BYTES) for moved in of_verb.values())
    if before > after:
        toll, removed = calibration.boundary_ns(small) / before, before - after
        each_ns = calibration.cost_ns(small) / before if any(call.ns for call in small) else toll
        verbs = " and ".join(verb for verb, moved in of_verb.items() if moved)
        what = f"{verbs} {USUAL_PAGE_BYTES >> 10} KiB at a time"
        text = f"({before:,} - {after:,}) x {each_ns:.0f} ns, {toll:.0f} ns of it boundary"
        yield Saving(what, before, after, removed * each_ns, removed * min(toll, each_ns), text)


_SAME = {"_llseek": "lseek", "mmap2": "mmap", "clock_gettime64": "clock_gettime", "futex_time64": "futex"}
"""Calls of the 32-bit ABI, with the name of the same call in other ABIs."""


def _item(bill: Bill, *names: str) -> Charge | None:
    """Returns the most expensive of these items, by either ABI of the kernel, that has a time; else None."""
    return next((item for item in bill.items if item.ns and _name(item) in names), None)


def _name(item: Charge) -> str:
    without_suffix = item.name.removesuffix(OF_32)
    return without_suffix if without_suffix == item.name else _SAME.get(without_suffix, without_suffix)


def _seek_and_read(bill: Bill, _: Crossings) -> Iterator[Saving]:
    seeks, transfers = _item(bill, "lseek"), sum(item.count for item in bill.items if _name(item) in ("read", "write"))
    if seeks and seeks.count <= transfers:
        yield _gone(seeks, "pread or pwrite in place of lseek and read or write")


def _clock_reads(bill: Bill, _: Crossings) -> Iterator[Saving]:
    if clocks := _item(bill, "clock_gettime", "gettimeofday", "time"):
        yield _gone(clocks, "read the clock through the vDSO, which does not enter the kernel")


def _signal_actions(bill: Bill, _: Crossings) -> Iterator[Saving]:
    """Yields the saving for a process start that sets the action of each signal by a separate call."""
    actions, forks = _item(bill, "rt_sigaction"), bill.events.get("forks", 0)
    if actions and forks and actions.count >= _SIGNALS // 2 * forks:
        yield _gone(actions, "do not set the action of every signal for each child")


def _mapping_churn(bill: Bill, _: Crossings) -> Iterator[Saving]:
    """Yields the saving for mappings that are repeatedly created and removed, as by an allocator above its
    threshold."""
    maps, unmaps = _item(bill, "mmap"), _item(bill, "munmap")
    execs = 1 + bill.events.get("execs", 0)
    if not maps or not unmaps or unmaps.count < max(_MAPPED_AGAIN * execs, maps.count / 2):
        return
    pair_ns = (maps.each_ns or 0.0) + (unmaps.each_ns or 0.0)
    ns, text = unmaps.count * pair_ns, f"{unmaps.count:,} pairs x {pair_ns:.0f} ns, and their page faults on top"
    yield Saving("keep mappings and use them again (a pool, M_MMAP_THRESHOLD)", 2 * unmaps.count, 0, ns, ns, text)


def _forks(bill: Bill, _: Crossings) -> Iterator[Saving]:
    """Yields the saving for a process that executes another program immediately after fork: it needs no copy of the
    page tables, which it then frees."""
    forks, calibration = _item(bill, *FORKS), bill.calibration
    if not forks or not calibration.spawn_ns or bill.events.get("execs", 0) < forks.count // 2:
        return
    copy_ns = max(0.0, (forks.each_ns or 0.0) - calibration.spawn_ns)
    least = forks.count * copy_ns
    text = f"{forks.count:,} x ({forks.each_ns or 0.0:,.0f} - {calibration.spawn_ns:,.0f}) ns"
    what = "start programs by vfork or posix_spawn, which copy no page tables"
    arithmetic = f"{text}, and {calibration.given_back:.2f} times that to give them back"
    yield Saving(what, forks.count, forks.count, least * (1 + calibration.given_back), least, arithmetic)


def _asked_again(bill: Bill, counted: Crossings) -> Iterator[Saving]:
    """Yields the saving for look-ups of a path that one process repeats. The answer may have changed between two
    look-ups."""
    for call in counted.calls:
        item = next((item for item in bill.items if item.ns and item.name == label(call)), None)
        if item and call.repeats:
            each_ns = item.each_ns or 0.0
            ns, text = call.repeats * each_ns, f"{call.repeats:,} of {call.count:,} x {each_ns:.0f} ns, at most"
            what = f"remember what {item.name} said of a path: the same process asks again"
            least = call.repeats * min(each_ns, bill.calibration.boundary_ns([call]) / call.count)
            yield Saving(what, call.count, call.count - call.repeats, ns, least, text)


def _hand_over(bill: Bill, _: Crossings) -> Iterator[Saving]:
    """Yields the saving for threads that wait for each other at every step."""
    futexes = _item(bill, "futex")
    if futexes and bill.events["voluntary"] >= futexes.count / 4:
        removed = futexes.count - futexes.count // _BATCH
        ns = removed * (futexes.each_ns or 0.0)
        what = f"hand {_BATCH} pieces of work over at a time, not one"
        text = f"{removed:,} x {futexes.each_ns or 0.0:.0f} ns"
        yield Saving(
            what,
            futexes.count,
            futexes.count - removed,
            ns,
            removed * min(ns / removed, bill.calibration.toll_ns),
            text,
        )


def _loaders(bill: Bill, _: Crossings) -> Iterator[Saving]:
    """Yields the saving of a static program: the loader of a dynamic program makes these calls in each process that is
    started."""
    execs = bill.events.get("execs", 0)
    items = [item for name in ("mprotect", "pread64", "access") if (item := _item(bill, name))]
    if execs < _LOADED or not items or any(item.count < execs for item in items):
        return
    calls, ns = sum(item.count for item in items), sum(item.ns or 0.0 for item in items)
    yield Saving(
        "start static programs, or fewer", calls, 0, ns, ns,
        f"{calls:,} calls of the loader in {execs:,} programs, and its page faults on top",
    )  # fmt: skip


def _gone(item: Charge, what: str) -> Saving:
    ns = item.ns or 0.0
    return Saving(what, item.count, 0, ns, ns, f"{item.count:,} x {ns / item.count:.0f} ns")


_RULES: tuple[Callable[[Bill, Crossings], Iterator[Saving]], ...] = (
    _small_transfers, _seek_and_read, _clock_reads, _signal_actions, _mapping_churn, _forks, _asked_again, _hand_over,
    _loaders,
)  # fmt: skip
