# SPDX-License-Identifier: Apache-2.0
"""A run of the suite `doctor` on a sound machine, made by formula and a seeded generator, and conditions planted in it.
Nothing here was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from support.example_runs import derived
from tollmeter.model import (
    Cache,
    Index,
    Machine,
    Metric,
    Outcome,
    Point,
    Probe,
    Rank,
    Results,
    Row,
    RunInfo,
    Sample,
    Source,
    State,
    Surroundings,
    Unit,
    Value,
    Witness,
)
from tollmeter.numbers.known import row_name

MIB, GIB = 1 << 20, 1 << 30
CLOCK_HZ = 3.9e9
CPUS = 8
SPREAD, HALF_WIDTH = 0.04, 0.08
"""Standard deviation between machines of a kind, and half-width of a row's interval: those of a run of 20 s."""
ROWS: Sequence[tuple[str, float, Unit, dict[str, Value]]] = (
    ("core-clock", CLOCK_HZ, "op/s", {}), ("clock-ramp", 60e3, "ns", {}), ("clock-at-wake", 0.97, "ratio", {}),
    ("entry", 110.0, "ns", {"call": "getppid"}), ("entry", 90.0, "ns", {"call": "unknown"}),
    ("clock-read", 18.0, "ns", {}), ("noise-share", 0.0004, "ratio", {}), ("noise-period", 4e6, "ns", {}),
    ("noise-regular", 0.8, "ratio", {}), ("hidden-share", 1e-5, "ratio", {}), ("hidden-longest", 15e3, "ns", {}),
    ("timer-late", 55e3, "ns", {"interval": 1000, "slack": "usual"}),
    ("timer-late", 4e3, "ns", {"interval": 1000, "slack": "least"}),
    ("wake-of-idle", 6e3, "ns", {"idle": 1000}), ("wake-of-spinning", 2e3, "ns", {"idle": 1000}),
    ("gain-of-huge-pages", 4.0, "ns", {"size": 64 * MIB}),
    ("bandwidth-of-instances", 20e9, "B/s", {"operation": "read", "instances": 1, "size": 64 * MIB}),
    ("bandwidth-of-instances", 64e9, "B/s", {"operation": "read", "instances": CPUS, "size": 64 * MIB}),
)  # fmt: skip
"""Rows: meaning, median, unit and parameters."""
FACTS = {"clocksource": "tsc", "transparent_hugepage": "always [madvise] never", "governor": "performance",
         "frequency_max_khz": "4200000", "memory_modules": "2", "memory_rated_mts": "5600", "tracer": "nop",
         "memory_configured_mts": "5600", "zone_reclaim_mode": "0", "numa_balancing": "1"}  # fmt: skip
SEEN = Surroundings(
    others=0.08, pressure=0.05, seccomp_filters=0, traced=False, memory_pressure=0.0, memory_limit=None,
    interrupts={"LOC": 1000.0, "RES": 80.0, "24 nvme0q1": 30.0}, paging={"pgmajfault": 12, "numa_hint_faults": 40},
)  # fmt: skip


def _name(means: str) -> str:
    return f"kernel.{means.replace('-', '_')}"


def _source(means: str) -> Source:
    return "difference" if means.startswith("gain") else "body"


def probes() -> dict[str, Probe]:
    units = {means: unit for means, _, unit, _ in ROWS}
    return {
        _name(means): Probe(
            probe=_name(means), question="?", revision=1,
            metrics=(Metric(name="cost", unit=unit, better="less", summary="s", means=means, source=_source(means)),
                     Metric(name="beside", unit=unit, better="less", summary="s")),
        )
        for means, unit in units.items()
    }  # fmt: skip


def _row(means: str, median: float, unit: Unit, parameters: Mapping[str, Value]) -> Row:
    low, high = median * (1 - HALF_WIDTH), median * (1 + HALF_WIDTH)
    return Row(
        probe=_name(means), revision=1, abi="x86_64", target="local", clock="hardware", parameters=dict(parameters),
        metric="cost", unit=unit, better="less", status="ok", median=median, low=low, high=high, minimum=low,
        visits=5, samples=25, converged=True, state="uncontended",
        states=(State(state="uncontended", share=1.0, median=median, low=low, high=high),),
    )  # fmt: skip


def _visits(random: np.random.Generator) -> tuple[Outcome, ...]:
    """Returns the visits of the probe that reports each CPU's clock."""
    point = Point(probe=_name("clock-ramp"), abi="x86_64", target="local")
    sample = Sample(iterations=1000, body=(10_000_000, 20_000_000), witness=Witness(steal_ticks=0))
    return tuple(
        Outcome(
            visit=visit, round=0, point=point, status="ok", samples=(sample,), cpus=tuple(range(CPUS)),
            controls=(CLOCK_HZ * random.normal(1, 0.003),) * 2,
            gauges={f"cpu_{cpu}": CLOCK_HZ * random.normal(1, 0.01) for cpu in range(CPUS)},
        )
        for visit in range(30)
    )  # fmt: skip


def sound(seed: int) -> Results:
    random = np.random.default_rng(seed)
    rows = [
        _row(means, median * float(np.exp(random.normal(0, SPREAD))), unit, parameters)
        for means, median, unit, parameters in ROWS
    ]
    # What stands beside the difference, in the same samples.
    rows.append(replace(_row("gain-of-huge-pages", 90.0, "ns", {"size": 64 * MIB}), metric="beside"))
    machine = Machine(
        host="h", cpu="c", kernel="k", hypervisor=None, cpus=CPUS, memory_bytes=64 * GIB, architecture="x86_64",
        core_clock_hz=CLOCK_HZ * random.normal(1, 0.01), allowed_cpus=tuple(range(CPUS)), facts=FACTS,
        caches=(Cache(level=1, kind="data", size_bytes=48 << 10, line_bytes=64, ways=12),
                Cache(level=3, kind="unified", size_bytes=32 * MIB, line_bytes=64, ways=16)),
    )  # fmt: skip
    run = RunInfo(
        id="r", suite="doctor", started="", seconds=16.0, seed=seed, status="done", tollmeter="0", folder="runs/r",
        points=len(rows), converged=len(rows), contended_share=0.0, surroundings=SEEN,
    )  # fmt: skip
    index = Index(format=2, run=run, machine=machine, rows=tuple(rows))
    made = derived(Results(index=index, probes=probes(), outcomes=_visits(random), request={"cpus": [1, 2, 3]}))
    return once_faster("getppid", float(np.exp(random.normal(-0.07, 0.03))))(made)


# ---- conditions -----------------------------------------------------------------------------------------------------

Plant = Callable[[Results], Results]


class Condition(NamedTuple):
    """A planted condition. plant: changes an undisturbed machine's results to one that has it. finding: name and rank
    of the finding that must report it."""

    plant: Plant
    finding: str
    rank: Rank


def surrounded(**seen: Any) -> Plant:
    def plant(results: Results) -> Results:
        run = results.index.run
        surroundings = replace(run.surroundings or Surroundings(), **seen)
        return with_index(results, run=replace(run, surroundings=surroundings))

    return plant


def with_index(results: Results, **changed: Any) -> Results:
    return replace(results, index=replace(results.index, **changed))


def on_machine(**changed: Any) -> Plant:
    return lambda results: with_index(results, machine=replace(results.index.machine, **changed))


def with_facts(**facts: str) -> Plant:
    return lambda results: on_machine(facts={**results.index.machine.facts, **facts})(results)


def costing(means: str, times: float, **parameters: Value) -> Plant:
    """Returns a change that multiplies the rows of a meaning and with these parameters."""

    def changed(row: Row) -> Row:
        if (
            (row.probe, row.metric) != (_name(means), "cost")
            or not parameters.items() <= row.parameters.items()
            or row.median is None
        ):
            return row
        return _row(means, row.median * times, row.unit, row.parameters)

    return lambda results: with_index(results, rows=tuple(map(changed, results.index.rows)))


def slow_cpu(cpu: int, times: float) -> Plant:
    def plant(results: Results) -> Results:
        slowed = [
            replace(one, gauges={**one.gauges, f"cpu_{cpu}": times * one.gauges[f"cpu_{cpu}"]})
            for one in results.outcomes
        ]
        return replace(results, outcomes=tuple(slowed))

    return plant


def once_faster(call: str, times: float) -> Plant:
    """Returns a change by which an earlier run took a share of the cycles of a system call. times: this share."""

    def plant(results: Results) -> Results:
        clock_hz = results.index.machine.core_clock_hz or 0.0
        rows = [row for row in results.index.rows if row.parameters.get("call") == call]
        least = {row_name(row, row.state): times * (row.median or 0.0) * clock_hz / 1e9 for row in rows}
        return replace(results, request={**results.request, "least_cycles": least})

    return plant


def both(*plants: Plant) -> Plant:
    def plant(results: Results) -> Results:
        for one in plants:
            results = one(results)
        return results

    return plant


def contended(results: Results) -> Results:
    return with_index(results, run=replace(results.index.run, contended_share=0.6))


PLANTED: dict[str, Condition] = {
    "busy neighbour": Condition(surrounded(others=0.5), "machine.other_programs_work", "distorts"),
    "CPU quota": Condition(surrounded(quota=0.5, throttled_s=4.2), "machine.cpu_time_is_limited", "distorts"),
    "seccomp filter": Condition(surrounded(seccomp_filters=1), "machine.system_calls_are_filtered", "distorts"),
    "slow clock source": Condition(
        both(with_facts(clocksource="hpet"), costing("clock-read", 40)), "kernel.clock_is_slow", "costs"
    ),
    "huge pages off": Condition(
        both(with_facts(transparent_hugepage="always madvise [never]"), costing("gain-of-huge-pages", 12)),
        "memory.huge_pages_would_gain", "costs",
    ),
    "memory limit": Condition(surrounded(memory_limit=256 * MIB), "machine.memory_is_limited", "prevents"),
    "affinity to one CPU": Condition(on_machine(allowed_cpus=(3,)), "machine.cpus_are_withheld", "prevents"),
    "tracer attached": Condition(surrounded(traced=True), "machine.probes_are_traced", "distorts"),
    "low-priority group": Condition(surrounded(weight=0.01), "machine.group_has_a_small_share", "distorts"),
    "swap pressure": Condition(
        surrounded(paging={"pswpin": 900, "pswpout": 4000}, memory_pressure=0.2), "machine.memory_is_short", "distorts"
    ),
    "busy SMT sibling": Condition(contended, "machine.core_is_shared", "distorts"),
    "wrong governor": Condition(
        both(with_facts(governor="powersave"), on_machine(core_clock_hz=2.1e9)),
        "machine.clock_is_below_maximum", "costs",
    ),
    "one slow core": Condition(slow_cpu(5, 0.55), "machine.a_cpu_is_slow", "distorts"),
    "slow ramp-up": Condition(
        both(costing("clock-ramp", 100), costing("clock-at-wake", 0.5)), "machine.clock_ramps_slowly", "distorts"
    ),
    "deep idle states": Condition(costing("wake-of-idle", 20), "kernel.idle_states_are_deep", "costs"),
    "firmware gaps": Condition(
        both(costing("hidden-share", 500), costing("hidden-longest", 20)), "machine.time_is_hidden", "distorts"
    ),
    "interrupts": Condition(
        surrounded(interrupts={"24 nvme0q1": 40000.0}), "machine.interrupts_on_measured_cpus", "distorts"
    ),
    "tick on isolated CPUs": Condition(
        both(with_facts(isolated_cpus=f"0-{CPUS - 1}"), surrounded(interrupts={"LOC": 2000.0})),
        "machine.interrupts_on_measured_cpus", "distorts",
    ),
    "timer slack": Condition(costing("timer-late", 20, slack="usual"), "kernel.timers_are_slack", "costs"),
    "NUMA balancing": Condition(
        surrounded(paging={"numa_hint_faults": 900_000}), "kernel.numa_balancing_faults", "distorts"
    ),
    "zone reclaim": Condition(
        both(with_facts(zone_reclaim_mode="1"), surrounded(paging={"zone_reclaim_failed": 70})),
        "memory.zone_reclaim_is_on", "costs",
    ),
    "missing memory channel": Condition(
        costing("bandwidth-of-instances", 0.3), "memory.channels_are_missing", "costs"
    ),
    "memory clock": Condition(with_facts(memory_configured_mts="4000"), "memory.modules_are_slow", "costs"),
    "tracepoints left on": Condition(with_facts(traced_events="1"), "kernel.events_are_traced", "distorts"),
    "slow entry": Condition(once_faster("getppid", 0.5), "machine.entry_is_slow", "costs"),
    "debug kernel": Condition(with_facts(debugging="lockdep"), "kernel.is_for_debugging", "distorts"),
}  # fmt: skip
"""The first twelve are those that docs/doctor.md lists as injected."""
