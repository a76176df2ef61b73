# SPDX-License-Identifier: Apache-2.0
"""The counters of `toll time --metrics`: hardware events in user mode by perf_event_open(2), and the kernel's accounts
of every process. Context switches are those of getrusage(2): every user can open the kernel's counter of them, but for
most it counts 0 (kernel.perf_event_paranoid)."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence

from tollmeter.catalog import check_known
from tollmeter.model import Failure, Metric, Unit
from tollmeter.targets import energy
from tollmeter.targets.timer import Ran

_AT_ONCE = 4
"""Hardware events that every PMU in use counts concurrently: Intel's has four counters for a hyperthread, AMD's and
ARM's have six. More events are distributed over runs, so that each count covers a whole run."""


_METRICS: tuple[tuple[str, Unit, str], ...] = (
    ("cycles", "cycle", "core cycles in user mode"),
    ("instructions", "instruction", "in user mode, of one run"),
    ("branches", "count", "branch instructions in user mode"),
    ("branch-misses", "count", "mispredicted branches in user mode"),
    ("cache-references", "count", "accesses of the last cache, as perf(1) defines them for the CPU"),
    ("cache-misses", "count", "misses of the last cache, as perf(1) defines them for the CPU"),
    ("L1-dcache-load-misses", "count", "loads that miss the first data cache"),
    ("LLC-load-misses", "count", "loads that miss the last cache"),
    ("dTLB-load-misses", "count", "loads that miss the data TLB"),
    ("page-walks", "count", "loads whose translation is read from the page tables"),
    ("stalled-cycles-frontend", "cycle", "cycles without an instruction to issue"),
    ("stalled-cycles-backend", "cycle", "cycles in which no instruction could issue"),
    ("cpu-migrations", "count", "moves to another CPU"),
    ("page-faults", "fault", "page faults"),
    ("minor-faults", "fault", "page faults without a disk"),
    ("major-faults", "fault", "page faults that waited for a disk"),
    ("context-switches", "count", "context switches"),
    ("energy", "J", "energy of all packages of the machine meanwhile"),
    ("task-clock", "ns", "CPU time of all its threads and children"),
)
COMMAND_METRICS = {
    name: Metric(name=name, unit=unit, better="less", summary=summary, source="gauge")
    for name, unit, summary in _METRICS
}
ACCOUNTED = {
    "page-faults": ("minor_faults", "major_faults"),
    "minor-faults": ("minor_faults",),
    "major-faults": ("major_faults",),
    "context-switches": ("voluntary", "involuntary"),
    "energy": ("energy_uj",),
    "task-clock": ("user_ns", "system_ns"),
}
"""Fields of a run that a metric sums. All other metrics are events that are counted."""
SOFTWARE = ("cpu-migrations",)
"""Events that the kernel counts, and not the PMU."""


ENERGY, _UJ_OF_J = "energy", 1e6
NO_ENERGY = "no package's energy counter can be read in /sys/class/powercap: RAPL, and root on most systems"


def metrics_named(text: str) -> tuple[str, ...]:
    """Returns the metrics of these names. Raises Failure (2) for an unknown name, with the nearest names."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(","))) if text else ()
    for name in names:
        check_known("metric", name, COMMAND_METRICS)
    return names


def turns_of(names: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns the groups of events to count in successive executions; at least one."""
    events = [name for name in names if name not in ACCOUNTED]
    hardware = [name for name in events if name not in SOFTWARE]
    others = tuple(name for name in events if name not in hardware)
    groups = [hardware[place : place + _AT_ONCE] for place in range(0, len(hardware), _AT_ONCE)]
    return [(*group, *others) for group in groups] or [others]


def values_of(names: Sequence[str], events: Sequence[str], ran: Ran) -> dict[str, float]:
    """Returns the values of the metrics in one run. events: events counted in it."""
    counts = dict(zip(events, ran.counts, strict=True))
    accounted = {name: ACCOUNTED[name] for name in names if name in ACCOUNTED}
    sums: dict[str, float] = {name: sum(getattr(ran, field) for field in fields) for name, fields in accounted.items()}
    if ENERGY in sums and why_no_energy(ran):
        del sums[ENERGY]
    elif ENERGY in sums:
        sums[ENERGY] /= _UJ_OF_J
    return sums | {name: count for name, count in counts.items() if not why_uncounted(name, count)}


def why_no_energy(ran: Ran) -> str:
    """Returns why a run has no energy; empty if it has."""
    if ran.energy_uj == energy.UNREADABLE:
        return NO_ENERGY
    if ran.wall_ns < energy.LEAST_NS:
        return "they took less than 50 ms, and a package's counter is renewed about once a millisecond"
    return ""


def why_uncounted(name: str, count: int) -> str:
    """Returns why an event was not counted; empty if it was. A PMU that a hypervisor offers but does not run counts
    0."""
    if count > 0 or (count == 0 and name in SOFTWARE):
        return ""
    if -count in (errno.ENOENT, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV):
        return "this machine has no such counter"
    if -count in (errno.EACCES, errno.EPERM):
        return "the kernel permits no such counter (kernel.perf_event_paranoid)"
    if -count == errno.EBUSY:
        return "it took turns with other counters on the PMU, and only a part of a run was counted"
    return f"perf_event_open: {os.strerror(-count)}" if count < 0 else "the counter stays at 0"


def uncounted_sentences(refused: Mapping[str, str]) -> list[str]:
    """Returns sentences on metrics that were not counted and why, metrics of one reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, why in refused.items():
        by_reason.setdefault(why, []).append(name)
    return [f"Not counted: {', '.join(names)} ({why})" for why, names in by_reason.items()]


def judging(names: Sequence[str]) -> str:
    """Returns the metric by which a gate judges; empty for the time. Raises Failure (2) for more than one."""
    if len(names) > 1:
        raise Failure(f"--metrics {','.join(names)}: a gate judges by one metric")
    return names[0] if names else ""
