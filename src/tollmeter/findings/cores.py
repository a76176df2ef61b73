# SPDX-License-Identifier: Apache-2.0
"""Rules about each core: its clock beside that of other cores, its idle states, and its interrupts."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import numpy as np

from tollmeter.experiment.limits import CLEARLY
from tollmeter.findings import LEAST_LOST, MOST_NAMED, FindingText, own_rows, ratio_evidence, row_evidence, rule
from tollmeter.judgement.unlike_cpus import CLOCK, UnlikeCpus, costs_of_loops, unlike_cpus
from tollmeter.model import Evidence, Results, Row, Setting
from tollmeter.model.topology import numbers
from tollmeter.numbers.each_cpu import MEANS, EachCpu
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.units import in_percent, short

OF_CPU = "cpu_"
"""Prefix of gauges that are the clock of one CPU in Hz."""
LEAST_RAMP_NS = 200_000
"""Share of the clock after waking, and time to reach 95 % of it, from which a ramp is slow. A core that wakes at its
clock has all of it within 100 us; hardware that raises the clock takes 0.5 ms or more."""
LEAST_WAKE_NS, EXPENSIVE_WAKE_NS = 10_000, 50_000
"""Time that idle states add to a wake-up, from which they are reported, and from which they are a problem: a shallow
state adds 1 us; a core with emptied caches, or a guest, 10 to 30 us; the deepest package states 100 to 200 us."""
LONG_HIDDEN_NS = 100_000
"""Length of a single reported gap: as long as 100 batches of 1 us. It is an alternative to LEAST_LOST of the time."""
MOST_INTERRUPTS, MOST_ON_ISOLATED = 1000.0, 10.0
"""Interrupts a second, in general and on isolated CPUs. An interrupt takes 1 to 5 us, so that 1,000 take a thousandth
of the time or more. A CPU that is isolated for `nohz_full` has one tick a second, and a few calls from other CPUs."""
OF_KERNEL = ("LOC", "RES", "CAL", "TLB", "IWI", "IPI", "arch_timer", "HVS", "HYP", "MCP", "NMI", "PMI")
"""Interrupt sources that are no device: timers, other CPUs and counters."""
LATE_NS = 75_000
"""Lateness of a timer: the kernel's usual slack of 50 us, and half as much again."""
GOVERNOR = Setting(
    path="/sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    values=("performance",),
    among="scaling_available_governors",
)


STEP_WORDS = {
    "clock": "clock", "second_cache": "a load from the second cache", "memory": "a load from memory",
    "copy": "a copy of four lines",
}  # fmt: skip


@rule(
    "machine.a_cpu_is_slow",
    remedy="keep work off it (taskset, cpuset), and look for heat or a power limit (turbostat), a lower limit in "
    "/sys/devices/system/cpu/cpufreq, or a memory module that fails",
    rank="distorts",
)
def a_cpu_is_slow(results: Results) -> Iterator[FindingText]:
    """A CPU, or all CPUs of a memory node or cache, are slower than the others of their kind.

    A loop takes 3 % longer there in nearly every visit, and differs by more than CPUs of one kind do: of 1,000 equal
    CPUs at most one is named."""
    for found in _unlike_cpus(results)[0][:MOST_NAMED]:
        evidence = [ratio_evidence(f"{STEP_WORDS[found.loop]}, times the others' median", found.times)]
        yield FindingText(f"{found.where}: {_beside_others(found)}{_cost_in_words(found)}", evidence)


@rule(
    "machine.a_cpu_is_contended",
    remedy="end the workload on the core's other thread, or measure after it has ended",
    rank="distorts",
)
def a_cpu_is_contended(results: Results) -> Iterator[FindingText]:
    """A CPU makes fewer independent additions in a cycle than the others: its sibling hyperthread is busy.

    Its speed without the other workload is unknown, so it is not called slow."""
    for found in _unlike_cpus(results)[1][:MOST_NAMED]:
        each, others = 1 / found.cost, _span(1 / found.high, 1 / found.low, ".2f")
        words = f"{found.where} is contended: {each:.2f} additions a cycle, others {others}"
        yield FindingText(words, [ratio_evidence("cycles of an addition, times the others' median", found.times)])


def _unlike_cpus(results: Results) -> tuple[list[UnlikeCpus], list[UnlikeCpus]]:
    """Returns slow and contended CPUs, by the loops of every CPU, or by the clock alone if only that was measured."""
    rows = own_rows(results, MEANS)
    points = {(row.probe, row.abi, row.target) for row in rows}
    outcomes = [o for o in results.outcomes if (o.point.probe, o.point.abi, o.point.target) in points]
    costs = {**clocks_of_cpus(results), **costs_of_loops(outcomes)}
    return unlike_cpus(costs, results.index.machine.topology)


def clocks_of_cpus(results: Results) -> dict[tuple[str, str], EachCpu]:
    """Returns the time of a cycle on each CPU by gauges of their clocks, from the visits on the same CPUs as the last
    one."""
    clocks: list[dict[int, float]] = []
    for outcome in native_outcomes(results.outcomes):
        clock_of_cpu = {
            int(name.removeprefix(OF_CPU)): hz
            for name, hz in outcome.gauges.items()
            if outcome.status == "ok" and name.startswith(OF_CPU) and name.removeprefix(OF_CPU).isdigit() and hz > 0
        }
        clocks += [clock_of_cpu] if clock_of_cpu else []
    if not clocks:
        return {}
    cpus = tuple(sorted(clocks[-1]))
    logs = [[-log(visit[cpu] / 1e9) for cpu in cpus] for visit in clocks if visit.keys() == clocks[-1].keys()]
    return {(CLOCK, "nothing"): EachCpu(cpus, np.array(logs))}


def _cost_in_words(found: UnlikeCpus) -> str:
    """Returns the clock or the cost of unlike CPUs, beside that of the others."""
    if found.loop == CLOCK:
        return f"clock {1 / found.cost:.2f} GHz, others {_span(1 / found.high, 1 / found.low, '.2f')}"
    return f"{STEP_WORDS[found.loop]} {found.cost:.3g} ns, others {_span(found.low, found.high, '.3g')}"


def _span(low: float, high: float, form: str) -> str:
    """Returns a range such as 3.4 to 3.5, or one number if both print alike."""
    return " to ".join(dict.fromkeys(format(end, form) for end in (low, high)))


def _beside_others(found: UnlikeCpus) -> str:
    """Returns the concurrent activity in words."""
    return "with all CPUs busy, " if found.beside == "all" else ""


@rule(
    "machine.clock_ramps_slowly",
    remedy="set the governor to performance; a program that waits often runs at the lower clock",
    rank="distorts",
)
def clock_ramps_slowly(results: Results) -> Iterator[FindingText]:
    """A CPU that was idle for some milliseconds does not reach its clock at once.

    It begins below 75 % of its clock, and takes 0.2 ms or more to reach 95 %."""
    ramp, at_wake = (next(iter(own_rows(results, means)), None) for means in ("clock-ramp", "clock-at-wake"))
    if ramp is None or at_wake is None or (ramp.low or 0.0) < LEAST_RAMP_NS:
        return
    if (at_wake.high or 1.0) < 1 - CLEARLY:
        words = (
            f"after some milliseconds of idleness a CPU runs at {in_percent(at_wake.median or 0.0)} of its clock, and "
            f"takes {short(ramp.median or 0.0, 'ns')} to reach it"
        )
        yield FindingText(words, [row_evidence(at_wake), row_evidence(ramp)], settings=[GOVERNOR])


@rule(
    "kernel.idle_states_are_deep",
    "note",
    "where latency matters, a program that holds /dev/cpu_dma_latency open with the microseconds that it allows keeps "
    "CPUs out of deeper states: `exec 3<>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3` in a root shell, as long as "
    "it lives",
    rank="costs",
)
def idle_states_are_deep(results: Results) -> Iterator[FindingText]:
    """Waking a thread takes longer on an idle CPU than on a spinning CPU.

    The difference is at least 10 us, by the ends of both intervals. From 50 us on it is a problem."""
    spinning = {row.parameters.get("idle"): row for row in own_rows(results, "wake-of-spinning")}
    for idle in own_rows(results, "wake-of-idle"):
        busy = spinning.get(idle.parameters.get("idle"))
        if busy is None or idle.median is None or busy.median is None:
            continue
        least_ns = (idle.low or idle.median) - (busy.high or busy.median)
        if least_ns >= LEAST_WAKE_NS:
            words = (
                f"waking a thread on a CPU that was idle for {idle.parameters.get('idle')} us takes "
                f"{short(idle.median, 'ns')}, and {short(busy.median, 'ns')} on a CPU that spins"
            )
            driver = results.index.machine.facts.get("idle_driver", "")
            evidence = [row_evidence(idle), row_evidence(busy)]
            evidence += [Evidence(what="idle driver", value=driver)] if driver else []
            yield FindingText(words, evidence, severity="warning" if least_ns >= EXPENSIVE_WAKE_NS else None)
            return


@rule("machine.time_is_hidden", rank="distorts")
def time_is_hidden(results: Results) -> Iterator[FindingText]:
    """A loop loses time that neither an interrupt nor another task accounts for.

    Gaps of 10 us and more take a thousandth of the time, or the longest takes 100 us."""
    share, longest = (next(iter(own_rows(results, means)), None) for means in ("hidden-share", "hidden-longest"))
    if share is None or longest is None:
        return
    is_much, is_long = (share.median or 0.0) > LEAST_LOST, (longest.median or 0.0) >= LONG_HIDDEN_NS
    if not is_much and not is_long:
        return
    guest = results.index.machine.hypervisor
    source = f"the hypervisor ({guest})" if guest else "firmware (system management interrupts)"
    remedy = (
        "ask for dedicated CPUs, or measure again at a quieter hour"
        if guest
        else "look in the firmware for power capping, memory patrol scrubbing and USB emulation; as root, "
        "`echo hwlat > /sys/kernel/tracing/current_tracer` asks the kernel"
    )
    words = (
        f"gaps without an interrupt take {in_percent(share.median or 0.0, 2)} of a busy loop's time, the longest "
        f"{short(longest.median or 0.0, 'ns')}: {source} takes it"
    )
    yield FindingText(words, [row_evidence(share), row_evidence(longest)], remedy, None if is_much else "note")


@rule("machine.interrupts_on_measured_cpus", rank="distorts", proof="counted")
def interrupts_on_measured_cpus(results: Results) -> Iterator[FindingText]:
    """Devices interrupt the measured CPUs often, or isolated measured CPUs have interrupts.

    One device makes 1,000 interrupts a second; or all sources make 10, if every measured CPU is isolated."""
    surroundings = results.index.run.surroundings
    if surroundings is None or not surroundings.interrupts:
        return
    isolated = set(numbers(results.index.machine.facts.get("isolated_cpus", "")))
    measured = {cpu for outcome in native_outcomes(results.outcomes) for cpu in outcome.cpus}
    if measured and measured <= isolated and sum(surroundings.interrupts.values()) > MOST_ON_ISOLATED * len(measured):
        source, rate = next(iter(surroundings.interrupts.items()))
        words = (
            f"isolated CPUs have {sum(surroundings.interrupts.values()):.0f} interrupts a second, most from {source}"
        )
        yield FindingText(
            words, [_rate(source, rate)], "add nohz_full= and irqaffinity= to isolcpus= at the next start"
        )
        return
    for source, rate in surroundings.interrupts.items():
        number, _, device = source.partition(" ")
        if rate > MOST_INTERRUPTS and number not in OF_KERNEL and device not in OF_KERNEL:
            words = f"{device or number} interrupts the measured CPUs {rate:.0f} times a second"
            remedy = f"while you measure, give it another CPU: `echo CPU > /proc/irq/{number}/smp_affinity_list`"
            yield FindingText(
                words, [_rate(source, rate)], remedy if number.isdigit() else "end the programs that use it"
            )
            return


def _rate(source: str, rate: float) -> Evidence:
    """Returns the rate of an interrupt source as evidence."""
    return Evidence(what=f"interrupts of {source}", value=rate, unit="op/s")


@rule(
    "kernel.timers_are_slack",
    remedy="start it from a session without TimerSlackNSec=, or `echo 50000 > /proc/$$/timerslack_ns` in its shell",
    rank="costs",
)
def timers_are_slack(results: Results) -> Iterator[FindingText]:
    """Timers of an ordinary program expire later than the kernel's usual slack of 50 us explains.

    The median timer is more than 75 us later than one with the least slack."""
    late: dict[str, Row] = {str(row.parameters.get("slack")): row for row in own_rows(results, "timer-late")}
    if not {"usual", "least"} <= late.keys():
        return
    usual, least = late["usual"], late["least"]
    more_ns = (usual.low or 0.0) - (least.high or 0.0)
    if more_ns > LATE_NS:
        words = (
            f"a timer expires {short(usual.median or 0.0, 'ns')} late, and {short(least.median or 0.0, 'ns')} with the "
            "least slack that a program can request"
        )
        slack = results.index.machine.facts.get("timer_slack_ns")
        evidence = [row_evidence(usual), row_evidence(least)]
        yield FindingText(words, [*evidence, *([Evidence(what="timer slack in ns", value=slack)] if slack else [])])
