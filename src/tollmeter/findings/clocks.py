# SPDX-License-Identifier: Apache-2.0
"""Rules about clocks, the core's frequency, and traps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tollmeter.experiment.core import own_ratio
from tollmeter.experiment.limits import CLEARLY, LEAST_SAMPLES, LEAST_VISITS, MOSTLY, NEGLIGIBLE
from tollmeter.experiment.taken import MANY_VISITS
from tollmeter.findings import FindingText, count_evidence, is_separate, own_rows, ratio_evidence, row_evidence, rule
from tollmeter.findings.cores import GOVERNOR
from tollmeter.model import PRECISION, Evidence, Outcome, Results, Setting
from tollmeter.model.topology import kind_of
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.stats import hodges_lehmann_ratio
from tollmeter.numbers.units import in_percent, in_words

SLOW_SOURCES = ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit")
CLOCKSOURCE = Setting(
    path="/sys/devices/system/clocksource/clocksource0/current_clocksource",
    values=("tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter"),
    among="available_clocksource",
)
BOOST = (
    Setting(path="/sys/devices/system/cpu/cpufreq/boost", values=("1",)),
    Setting(path="/sys/devices/system/cpu/intel_pstate/no_turbo", values=("0",)),
)
LEAST_OFF, LEAST_OFF_OF_FEW_VISITS = NEGLIGIBLE, 0.02
"""Smallest deviation of the rate of a clock that is reported, with many visits and with few. A crystal deviates by at
most 0.01 %, but the ratio of one visit deviated by up to 0.6 % on busy machines. A run of 5 s may have one visit or
two."""
LEAST_RATES = 2 * LEAST_SAMPLES
"""Fewest readings of the core's rate for its scatter, and fewest in a third of a run for its drift."""
EXPENSIVE_TRAP = 2.0


@rule("kernel.clock_is_slow", rank="costs")
def clock_is_slow(results: Results) -> Iterator[FindingText]:
    """Reading the clock needs a system call, or a slow device, where most machines read it in user space.

    Reading it costs more than half of a system call; where that was not measured, the clock source is known to be
    slow."""
    source = results.index.machine.facts.get("clocksource", "")
    of_source = [Evidence(what="clocksource", value=source)] if source else []
    remedy = (
        "write tsc (or kvm-clock, arch_sys_counter) to /sys/devices/system/clocksource/clocksource0/current_clocksource"
        f"{f' in place of {source}' if source else ''}, and link against a C library that uses the vDSO"
    )
    measured = list(zip(own_rows(results, "clock-read")[:1], own_rows(results, "entry")[:1], strict=False))
    for read, entry in measured:
        share = (read.median or 0.0) / (entry.median or 1.0)
        if share > MOSTLY:
            words = f"reading the clock costs {in_percent(share)} of a system call"
            evidence = [row_evidence(read), row_evidence(entry), *of_source]
            yield FindingText(words, evidence, remedy, settings=[CLOCKSOURCE])
    if not measured and source in SLOW_SOURCES:
        words = f"the clock source is {source}, which is read from a device"
        yield FindingText(words, of_source, remedy, proof="read", settings=[CLOCKSOURCE])


@rule(
    "machine.clock_is_wrong",
    "error",
    "compare both clocks with a third one; times measured without this line have the same error",
    rank="prevents",
    proof="counted",
)
def clock_is_wrong(results: Results) -> Iterator[FindingText]:
    """The clock of a target runs fast or slow, measured with an external clock.

    The interval of the ratio differs from 1 by more than 0.5 %, or by more than 2 % for fewer than three visits. It
    includes the steps of both clocks and the delays of marks."""
    targets: dict[str, list[Outcome]] = {}
    for outcome in results.outcomes:
        if outcome.status == "ok" and outcome.marks and outcome.marks.own_ratio:
            targets.setdefault(outcome.point.target, []).append(outcome)
    for target, visits in targets.items():
        times = own_ratio(visits)
        tolerated = LEAST_OFF if len(visits) >= LEAST_VISITS else LEAST_OFF_OF_FEW_VISITS
        if not times or (times.low <= 1 + tolerated and times.high >= 1 - tolerated):
            continue
        inner, _, line = target.partition("+")
        off, least, most = (
            in_percent(abs(end - 1), 2)
            for end in (times.value, *sorted((times.low, times.high), key=lambda end: abs(end - 1)))
        )
        yield FindingText(
            f"the clock of {inner} runs {off} {'fast' if times.value > 1 else 'slow'} "
            f"({least} to {most}) by the clock at the other end of {line}",
            [ratio_evidence("own time over the line's", times.value), count_evidence("visits with marks", len(visits))],
        )


@rule(
    "machine.control_loop_is_noisy",
    remedy="trust ratios within this run more than its absolute times; stop other programs and measure again",
    rank="distorts",
)
def control_loop_is_noisy(results: Results) -> Iterator[FindingText]:
    """The rate of the control loop varies, so all numbers of the run are disturbed.

    The range from the first to the third quartile of all rates is wider than 3 % of their median."""
    rates = [rate for outcome in native_outcomes(results.outcomes) for rate in outcome.controls if rate > 0]
    if len(rates) < LEAST_RATES:
        return
    lower, middle, upper = np.percentile(rates, [25, 50, 75])
    spread = float((upper - lower) / middle)
    if spread > PRECISION:
        evidence = [
            ratio_evidence("middle half of the control loop's rates", spread),
            Evidence(what="median rate of dependent additions", value=float(middle), unit="op/s"),
            count_evidence("readings", len(rates)),
        ]
        scatter = in_percent(spread, 1)
        words = f"the control loop's rate scatters by {scatter}: other workloads or power management disturb the core"
        yield FindingText(words, evidence)


@rule(
    "machine.frequency_is_not_steady",
    remedy="fix the frequency (governor performance, boost off) or let the machine warm up, and compare in cycles",
    rank="distorts",
)
def frequency_is_not_steady(results: Results) -> Iterator[FindingText]:
    """The core clock changed during the run.

    The control loop's rate in the last third over that in the first third differs from 1 by more than 3 %, by the
    interval of the ratio."""
    visits = sorted(native_outcomes(results.outcomes), key=lambda outcome: outcome.visit)
    rates = [rate for outcome in visits for rate in outcome.controls if rate > 0]
    # The ratios of 400,000 readings take 7 s and 650 MB, and are no more precise.
    rates = rates[:: len(rates) // MANY_VISITS + 1]
    third = len(rates) // 3
    if third < LEAST_SAMPLES:
        return
    times = hodges_lehmann_ratio(rates[:third], rates[-third:])
    if times.high < 1 - PRECISION or times.low > 1 + PRECISION:
        off, direction = in_percent(abs(times.value - 1), 1), "faster" if times.value > 1 else "slower"
        yield FindingText(
            f"the core ran {off} {direction} at the end of the run than at its beginning",
            [
                ratio_evidence("core clock, last third of the run over its first", times.value),
                ratio_evidence("least ratio, 95 %", times.low),
                ratio_evidence("greatest ratio, 95 %", times.high),
            ],
        )


@rule(
    "machine.clock_is_below_maximum",
    remedy="set the governor to performance and allow boost; if that fails, look for a power limit or heat (turbostat)",
    rank="costs",
)
def clock_is_below_maximum(results: Results) -> Iterator[FindingText]:
    """The core ran far below the highest clock that cpufreq states for it.

    The measured clock is less than 75 % of it: a core keeps more of its highest clock while others are busy."""
    machine = results.index.machine
    cpus = next((outcome.cpus for outcome in native_outcomes(results.outcomes) if outcome.cpus), ())
    kind = kind_of(machine.topology, cpus[0]) if cpus else None
    stated_hz = 1e3 * (kind.max_khz if kind else int(machine.facts.get("frequency_max_khz", "0")))
    measured_hz = machine.core_clock_hz or 0.0
    if 0 < measured_hz < (1 - CLEARLY) * stated_hz:
        evidence = [
            Evidence(what="core clock measured", value=measured_hz, unit="Hz"),
            Evidence(what="highest clock that cpufreq states", value=stated_hz, unit="Hz"),
            *(Evidence(what=name, value=machine.facts[name])
              for name in ("governor", "boost", "no_turbo") if name in machine.facts),
        ]  # fmt: skip
        share = in_percent(measured_hz / stated_hz)
        ghz, most_ghz = measured_hz / 1e9, stated_hz / 1e9
        words = f"the core ran at {ghz:.2f} GHz, {share} of the {most_ghz:.2f} GHz that cpufreq states"
        yield FindingText(words, evidence, settings=[GOVERNOR, *BOOST])


@rule(
    "kernel.trap_is_intercepted",
    "note",
    "avoid such traps in hot paths in this guest; without a hypervisor they cost as much as similar traps",
)
def trap_is_intercepted(results: Results) -> Iterator[FindingText]:
    """A trap costs far more than similar traps, because the hypervisor intercepts it before the kernel.

    It costs more than twice the median trap, on a machine that names its hypervisor."""
    traps = sorted(own_rows(results, "trap"), key=lambda row: row.median or 0.0)
    hypervisor = results.index.machine.hypervisor
    if not hypervisor or len(traps) < 3:
        return
    median_trap = traps[(len(traps) - 1) // 2]
    for trap in traps:
        if (trap.median or 0.0) > EXPENSIVE_TRAP * (median_trap.median or 0.0) and is_separate(median_trap, trap):
            kind, other = (in_words(row.parameters.get("trap", row.probe)) for row in (trap, median_trap))
            more_us = ((trap.median or 0.0) - (median_trap.median or 0.0)) / 1000
            words = f"{kind} costs {more_us:.1f} µs more than {other}: the hypervisor ({hypervisor}) intercepts it"
            yield FindingText(words, [row_evidence(trap), row_evidence(median_trap)])
