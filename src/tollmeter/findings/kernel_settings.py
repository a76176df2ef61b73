# SPDX-License-Identifier: Apache-2.0
"""Rules about kernel settings: reclaim, tracing and checks during a program."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.experiment.limits import CLEARLY, SAME_WITHIN
from tollmeter.findings import FindingText, count_evidence, own_rows, row_evidence, rule
from tollmeter.findings.cores import MOST_INTERRUPTS
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.model import Evidence, Results, Setting
from tollmeter.numbers.known import row_name

BYTES_OF_TRANSFER = 8
"""Bytes of one transfer over a memory module's 64 data lines."""
BEYOND_CACHE = 2


@rule(
    "kernel.numa_balancing_faults",
    remedy="bind the run to one node (numactl), or switch balancing off while you measure",
    rank="distorts",
    proof="counted",
)
def numa_balancing_faults(results: Results) -> Iterator[FindingText]:
    """While the run measures, the kernel unmaps pages of programs to see which node accesses them.

    It made more than 1,000 hint faults a second, of 1 us or more each, as interrupts take."""
    run = results.index.run
    faults = run.surroundings.paging.get("numa_hint_faults", 0) if run.surroundings else 0
    if run.seconds <= 0 or faults / run.seconds <= MOST_INTERRUPTS:
        return
    setting = Setting(path="/proc/sys/kernel/numa_balancing", values=("0",))
    words = f"NUMA balancing made {faults / run.seconds:.0f} page faults a second"
    yield FindingText(words, [count_evidence("hint faults during the run", faults)], settings=[setting])


@rule(
    "memory.zone_reclaim_is_on",
    remedy="set vm.zone_reclaim_mode to 0: a full node then uses another node's memory instead of dropping its cache",
    rank="costs",
    proof="counted",
)
def zone_reclaim_is_on(results: Results) -> Iterator[FindingText]:
    """A full memory node reclaims its own pages before it takes memory of another node.

    The setting is on, and the kernel made such reclaims during the run."""
    surroundings = results.index.run.surroundings
    mode = results.index.machine.facts.get("zone_reclaim_mode", "0")
    attempts = (
        surroundings.paging.get("zone_reclaim_success", 0) + surroundings.paging.get("zone_reclaim_failed", 0)
        if surroundings
        else 0
    )
    if mode != "0" and attempts:
        setting = Setting(path="/proc/sys/vm/zone_reclaim_mode", values=("0",))
        evidence = [
            Evidence(what="zone_reclaim_mode", value=mode),
            count_evidence("reclaims within a node", attempts),
        ]
        yield FindingText(f"full memory nodes reclaimed their own pages {attempts} times", evidence, settings=[setting])


@rule(
    "kernel.events_are_traced",
    remedy="stop the program that traces (perf, bpftrace, trace-cmd), or switch its events off",
    rank="distorts",
    proof="read",
)
def events_are_traced(results: Results) -> Iterator[FindingText]:
    """The kernel traces functions or events, which lengthens the measured operations.

    The source is tracefs, which only root may read."""
    facts = results.index.machine.facts
    tracer, events = facts.get("tracer", "nop"), facts.get("traced_events", "0")
    if tracer != "nop":
        setting = Setting(path="/sys/kernel/tracing/current_tracer", values=("nop",))
        evidence = [Evidence(what="current_tracer", value=tracer)]
        yield FindingText(f"the kernel's tracer {tracer} is on", evidence, settings=[setting])
    if events != "0":
        yield FindingText("events of the kernel are traced", [Evidence(what="events/enable", value=events)])


@rule(
    "machine.entry_is_slow",
    remedy="compare the present settings with those of that run: filters and tracers of the process, audit "
    "(`auditctl -s`), tracefs, and the mitigations in /sys/devices/system/cpu/vulnerabilities",
    rank="costs",
)
def entry_is_slow(results: Results) -> Iterator[FindingText]:
    """A system call takes more core cycles than in an earlier run on this kind of CPU.

    The lower end of its interval is a quarter above the best of the earlier runs on this machine, in the same state of
    the core."""
    least: dict[str, float] = results.request.get("least_cycles") or {}
    clock_hz = results.index.machine.core_clock_hz
    for row in own_rows(results, "entry") if clock_hz else ():
        best = least.get(row_name(row, row.state))
        cycles = [(ns or 0.0) * (clock_hz or 0.0) / 1e9 for ns in (row.low, row.median)]
        if best is None or cycles[0] <= (1 + CLEARLY) * best:
            continue
        words = (
            f"a system call takes {cycles[1]:.0f} core cycles, and took {best:.0f} in the best earlier run on this "
            "kind of CPU"
        )
        evidence = [row_evidence(row), Evidence(what="the best earlier run", value=best, unit="cycle")]
        evidence += [
            Evidence(what=name.removeprefix("vulnerability_"), value=state)
            for name, state in results.index.machine.facts.items()
            if name.startswith("vulnerability_") and state.startswith("Mitigation")
        ]
        yield FindingText(words, evidence)
        return


@rule(
    "kernel.is_for_debugging",
    remedy="for numbers that hold on other machines, boot a kernel built without these options",
    rank="distorts",
    proof="read",
)
def is_for_debugging(results: Results) -> Iterator[FindingText]:
    """The kernel was built with checks that make each crossing slower.

    The checks have files in /proc and /sys, by which they are found."""
    if found := results.index.machine.facts.get("debugging"):
        evidence = [Evidence(what="checks", value=found)]
        entry = next(iter(own_rows(results, "entry")), None)
        cost = f"; the shortest system call takes {entry.median:.0f} ns" if entry is not None else ""
        evidence += [row_evidence(entry)] if entry is not None else []
        yield FindingText(f"the kernel is built for debugging: {found}{cost}", evidence)


@rule(
    "memory.modules_are_slow",
    remedy="look in the firmware for the memory clock, and at the slots: mixed or too many modules lower it",
    rank="costs",
    proof="read",
)
def modules_are_slow(results: Results) -> Iterator[FindingText]:
    """Memory modules run below the clock that they are rated for.

    The clock is more than 5 % below, by the firmware's list (SMBIOS), which only root may read."""
    facts = results.index.machine.facts
    rated, configured = (int(facts.get(f"memory_{name}_mts", "0")) for name in ("rated", "configured"))
    if 0 < configured < (1 - SAME_WITHIN) * rated:
        evidence = [Evidence(what=f"{name}, million transfers a second", value=str(value))
                    for name, value in (("rated", rated), ("configured", configured))]  # fmt: skip
        words = f"memory modules that are rated for {rated} MT/s run at {configured} MT/s"
        yield FindingText(words, evidence)


@rule(
    "memory.channels_are_missing",
    remedy="compare the filled slots (dmidecode -t memory) with the board's manual: first one module for each channel",
    rank="costs",
)
def channels_are_missing(results: Results) -> Iterator[FindingText]:
    """All CPUs together read far less than the memory modules can transfer.

    The upper end of the interval is below 25 % of the peak: number of modules times transfer rate (MT/s) times 8
    bytes."""
    machine = results.index.machine
    modules, rate = (int(machine.facts.get(name, "0")) for name in ("memory_modules", "memory_configured_mts"))
    last = max((cache.size_bytes or 0 for cache in os_sizes(machine)), default=0)
    read = [
        row for row in own_rows(results, "bandwidth-of-instances")
        if last and int(row.parameters.get("size", 0)) >= BEYOND_CACHE * last
        and int(row.parameters.get("instances", 0)) >= machine.cpus
    ]  # fmt: skip
    best, peak = max(read, key=lambda row: row.median or 0.0, default=None), 1e6 * rate * BYTES_OF_TRANSFER * modules
    if best is not None and peak and (best.high or 0.0) < CLEARLY * peak:
        of_peak = f"the {peak / 1e9:.0f} GB/s that {modules} modules at {rate} MT/s transfer"
        words = f"all CPUs read {(best.median or 0.0) / 1e9:.0f} GB/s of {of_peak}"
        yield FindingText(words, [row_evidence(best), Evidence(what="all modules together", value=peak, unit="B/s")])
