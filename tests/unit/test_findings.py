# SPDX-License-Identifier: Apache-2.0
"""Every rule is turned on by the machine that it is about, and kept off by a sound one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.builders import run_info
from support.example_runs import derived
from tollmeter.experiment.evidence import stolen_share
from tollmeter.findings import all_findings, clocks, interference, rules, subjects
from tollmeter.model import (
    Cache,
    EventRate,
    Index,
    Level,
    Machine,
    Metric,
    Outcome,
    PlaceRelation,
    Point,
    Probe,
    Results,
    Row,
    Sample,
    State,
    Surroundings,
    Value,
    Witness,
)
from tollmeter.numbers.known import row_name

MIB = 1 << 20
RUN = run_info()
POINT = Point(probe="test.entry", abi="x86_64", target="local")


def probe_of(meaning: str) -> Probe:
    name = "test." + meaning.replace("-", "_")
    metric = Metric(name="cost", unit="ns", better="less", summary="s", means=meaning)
    return Probe(probe=name, question="?", revision=1, metrics=(metric,))


MEANINGS = ("latency-of-size", "latency-of-stride", "clock-read", "entry", "trap", "copy-of-offset",
            "read-bandwidth-of-size", "access-of-offset", "core-to-core", "transfer-of-state", "noise-share",
            "noise-period", "noise-regular", "clock-ramp", "clock-at-wake", "wake-of-idle", "wake-of-spinning",
            "hidden-share", "hidden-longest", "timer-late", "latency-of-node", "bandwidth-of-instances")  # fmt: skip
PROBES = {probe.probe: probe for probe in map(probe_of, MEANINGS)}


def row(meaning: str, median: float, width: float = 0.01, **parameters: Value) -> Row:
    return Row(
        probe="test." + meaning.replace("-", "_"), revision=1, abi="x86_64", target="local", clock="hardware",
        parameters=parameters, metric="cost", unit="ns", better="less", status="ok", median=median,
        low=median * (1 - width), high=median * (1 + width), minimum=median, visits=5, samples=25,
    )  # fmt: skip


def level(name: str, **facts: Any) -> Level:
    empty = dict.fromkeys(
        ["size_bytes", "size_low", "size_high", "os_size_bytes", "latency_ns", "latency_cycles",
         "read_bytes_per_second", "parallelism"],
    )  # fmt: skip
    return Level(level=name, **{**empty, **facts})


def results(
    rows: Sequence[Row] = (), levels: Sequence[Level] = (), outcomes: Sequence[Outcome] = (), **machine: Any
) -> Results:
    facts = {
        "host": "h", "cpu": "c", "kernel": "k", "hypervisor": None, "cpus": 2, "memory_bytes": 1 << 34,
        "architecture": "x86_64", "core_clock_hz": 4e9,
        "caches": (Cache(level=1, kind="data", size_bytes=49152, line_bytes=64, ways=12),),
    }  # fmt: skip
    run = msgspec.structs.replace(RUN, stolen_share=stolen_share(outcomes))
    index = Index(format=1, run=run, machine=Machine(**{**facts, **machine}), rows=tuple(rows), hierarchy=tuple(levels))
    return derived(Results(index=index, probes=PROBES, outcomes=tuple(outcomes)))


def visits(controls: Sequence[float], steal_ticks: int = 0) -> list[Outcome]:
    witness = Witness(steal_ticks=steal_ticks)
    sample = Sample(iterations=1000, body=(10_000_000, 20_000_000), witness=witness)
    return [
        Outcome(visit=n, round=0, point=POINT, status="ok", controls=(rate, rate), samples=(sample,))
        for n, rate in enumerate(controls)
    ]


def accesses(width: int, aligned: float, misaligned: float) -> list[Row]:
    return [
        msgspec.structs.replace(
            row("access-of-offset", ns), parameters={"width": width, "offset": at, "where": "in_line", "op": "load"}
        )
        for at, ns in ((0, aligned), (1, misaligned))
    ]


STEADY = [4e9 * (1 + 0.001 * (n % 5)) for n in range(60)]


def missing(from_bytes: int) -> list[Row]:
    """A walk whose loads miss the first cache from that size on."""
    rate = EventRate(source="pmu", value=0.0, low=0.0, high=0.0, visits=3)
    return [
        msgspec.structs.replace(
            row("latency-of-size", 1 + (size > 49152), size=size, pages="huge"),
            counters={"L1-dcache-load-misses": msgspec.structs.replace(rate, value=float(size > from_bytes))},
        )
        for size in (1 << power for power in range(12, 22))
    ]


L1D = level("L1d", size_bytes=49152.0, size_low=46e3, size_high=52e3)
ON_AND_OFF: dict[str, tuple[Callable[[], Results], Callable[[], Results]]] = {
    "memory.cache_disagrees": (
        lambda: results(levels=[level("L3", os_size_bytes=32 * MIB, size_bytes=6e6, size_low=5e6, size_high=7e6)]),
        lambda: results(levels=[level("L3", os_size_bytes=32 * MIB, size_bytes=3e7, size_low=2e7, size_high=4e7)]),
    ),
    "memory.boundary_not_in_misses": (
        lambda: results(missing(1 << 17), [L1D]),
        lambda: results(missing(1 << 15), [L1D]),
    ),
    "machine.time_is_stolen": (
        lambda: results(outcomes=visits(STEADY, steal_ticks=1)),
        lambda: results(outcomes=visits(STEADY)),
    ),
    "machine.control_loop_is_noisy": (
        lambda: results(outcomes=visits([4e9 * (1 + 0.02 * (n % 5)) for n in range(60)])),
        lambda: results(outcomes=visits(STEADY)),
    ),
    "machine.frequency_is_not_steady": (
        lambda: results(outcomes=visits([rate * (1 if n < 40 else 0.9) for n, rate in enumerate(STEADY)])),
        lambda: results(outcomes=visits(STEADY)),
    ),
    "machine.clock_is_below_maximum": (
        lambda: results(core_clock_hz=3.05e9, facts={"frequency_max_khz": "6000000", "governor": "powersave"}),
        lambda: results(core_clock_hz=5.1e9, facts={"frequency_max_khz": "6000000", "governor": "powersave"}),
    ),
    "memory.huge_pages_would_gain": (
        lambda: results([row("latency-of-size", 150, size=64 * MIB, pages="small"),
                      row("latency-of-size", 110, size=64 * MIB, pages="huge")],
                     facts={"transparent_hugepage": "always [madvise] never"}),
        lambda: results([row("latency-of-size", 150, width=0.3, size=64 * MIB, pages="small"),
                      row("latency-of-size", 110, width=0.3, size=64 * MIB, pages="huge")]),
    ),
    "kernel.clock_is_slow": (
        lambda: results([row("clock-read", 130), row("entry", 125)]),
        lambda: results([row("clock-read", 22), row("entry", 125)], facts={"clocksource": "tsc"}),
    ),
    "kernel.trap_is_intercepted": (
        lambda: results([row("trap", 2000, trap="breakpoint"), row("trap", 2200, trap="null_store"),
                      row("trap", 9000, trap="undefined_instruction")], hypervisor="KVM"),
        lambda: results([row("trap", 2000, trap="breakpoint"), row("trap", 2200, trap="null_store"),
                      row("trap", 2400, trap="undefined_instruction")], hypervisor="KVM"),
    ),
    "machine.noise_has_a_source": (
        lambda: results([row("noise-share", 0.002), row("noise-period", 4e6), row("noise-regular", 0.8)]),
        lambda: results([row("noise-share", 0.0005), row("noise-period", 4e6), row("noise-regular", 0.8)]),
    ),
    "alignment.access_is_slow": (
        lambda: results([row("entry", 100), *accesses(8, 0.25, 900)]),
        lambda: results([row("entry", 100), *accesses(8, 0.25, 0.26), *accesses(16, 0.25, 0.3)]),
    ),
    "memory.prefetcher_is_absent": (
        lambda: results([row("latency-of-stride", 100, size=64 * MIB, stride=64, order="forward"),
                      row("latency-of-stride", 105, size=64 * MIB, stride=64, order="random")]),
        lambda: results([row("latency-of-stride", 8, size=64 * MIB, stride=64, order="forward"),
                      row("latency-of-stride", 105, size=64 * MIB, stride=64, order="random")]),
    ),
    "memory.reading_is_slow": (
        lambda: results(levels=[level("memory", latency_ns=100.0, parallelism=16.0, read_bytes_per_second=3e9)]),
        lambda: results(levels=[level("memory", latency_ns=100.0, parallelism=16.0, read_bytes_per_second=9e9),
                             level("L1d", latency_ns=1.0, read_bytes_per_second=110e9)]),
    ),
    "alignment.copies_fall_off_a_cliff": (
        lambda: results([row("copy-of-offset", 60e9, routine="libc", bytes=1500, source=0),
                      row("copy-of-offset", 6e9, routine="libc", bytes=1500, source=2)]),
        lambda: results([row("copy-of-offset", 60e9, routine="libc", bytes=1500, source=0),
                      row("copy-of-offset", 45e9, routine="libc", bytes=1500, source=2)]),
    ),
}  # fmt: skip


def names(found: Results) -> list[str]:
    return [finding.name for finding in all_findings(found)]


@pytest.mark.parametrize("name", ON_AND_OFF)
def test_the_machine_that_it_is_about_turns_a_rule_on(name: str) -> None:
    turned_on, _ = ON_AND_OFF[name]
    found = [finding for finding in all_findings(turned_on()) if finding.name == name]
    assert len(found) == 1
    assert found[0].evidence
    assert found[0].claim
    assert found[0].remedy


@pytest.mark.parametrize("name", ON_AND_OFF)
def test_a_sound_machine_keeps_it_off(name: str) -> None:
    _, kept_off = ON_AND_OFF[name]
    assert names(kept_off()) == []


def beside(seen: Surroundings, contended: float = 0.0, **machine: Any) -> Results:
    outcomes = [msgspec.structs.replace(visit, cpus=(1,)) for visit in visits(STEADY)]
    made = results(outcomes=outcomes, **machine)
    run = msgspec.structs.replace(made.index.run, surroundings=seen, seconds=10.0, contended_share=contended)
    return msgspec.structs.replace(made, index=msgspec.structs.replace(made.index, run=run))


def strides(gain: float, size: int = 64 * MIB) -> Results:
    walks = {"forward": 100.0, "random": 100.0 * gain}
    return results([row("latency-of-stride", ns, 0.0, size=size, stride=64, order=name) for name, ns in walks.items()])


def nodes(times: float) -> Results:
    far = [row("latency-of-node", 100 * gain, 0.0, node=0, home=home) for home, gain in ((0, 1.0), (1, times))]
    return results(far)


def traps(times: float) -> Results:
    costs = {"breakpoint": 2000.0, "null_store": 2000.0, "undefined_instruction": 2000 * times}
    return results([row("trap", ns, trap=name) for name, ns in costs.items()], hypervisor="KVM")


def wakes(ns: float) -> Results:
    return results([row("wake-of-idle", 1e6 + ns, 0.0, idle=100), row("wake-of-spinning", 1e6, 0.0, idle=100)])


def timers(late_ns: float) -> Results:
    return results([row("timer-late", 1e6 + late_ns, 0.0, slack="usual"), row("timer-late", 1e6, 0.0, slack="least")])


def lines(ns: float, meaning: str) -> Results:
    """A line between two CPUs that share a cache with a load of 17 ns."""
    levels = [level("L1d", latency_ns=1.2), level("L3", latency_ns=17.0), level("memory", latency_ns=150.0)]
    of_line = row(meaning, ns, 0.0, state="modified", access="load")
    return results([msgspec.structs.replace(of_line, relation="same last-level cache")], levels=levels)


def entered(times: float) -> Results:
    """A system call, and the request's 400 cycles of an earlier run."""
    entry = row("entry", 100 * times, 0.0)
    return msgspec.structs.replace(results([entry]), request={"least_cycles": {row_name(entry, None): 400.0}})


LIMITS: dict[str, tuple[str, Callable[[float], Results], float]] = {
    "a reading of the clock": (
        "kernel.clock_is_slow", lambda share: results([row("clock-read", 125 * share), row("entry", 125)]), 0.5,
    ),
    "the highest clock": (
        "machine.clock_is_below_maximum",
        lambda share: results(core_clock_hz=6e9 * share, facts={"frequency_max_khz": "6000000"}), 0.75,
    ),
    "the gain of a prefetcher": ("memory.prefetcher_is_absent", strides, 1.5),
    "bytes of a walk that a prefetcher shortens": (
        "memory.prefetcher_is_absent", lambda size: strides(1.0, round(size)), 4 * MIB,
    ),
    "reading": (
        "memory.reading_is_slow",
        lambda share: results(levels=[level("memory", latency_ns=100.0, parallelism=16.0,
                                            read_bytes_per_second=16 * 64e7 * share)]), 0.4,
    ),
    "a trap": ("kernel.trap_is_intercepted", traps, 2.0),
    "a copy": (
        "alignment.copies_fall_off_a_cliff",
        lambda times: results([row("copy-of-offset", 60e9, 0.0, routine="libc", bytes=1500, source=0),
                               row("copy-of-offset", 60e9 / times, 0.0, routine="libc", bytes=1500, source=2)]), 2.5,
    ),
    "the first cache": (
        "memory.latency_is_out_of_line", lambda cycles: results(levels=[level("L1d", latency_ns=cycles / 4)]), 8,
    ),
    "the second cache": (
        "memory.latency_is_out_of_line", lambda cycles: results(levels=[level("L2", latency_ns=cycles / 4)]), 40,
    ),
    "the third cache": (
        "memory.latency_is_out_of_line", lambda cycles: results(levels=[level("L3", latency_ns=cycles / 4)]), 160,
    ),
    "memory": ("memory.latency_is_out_of_line", lambda ns: results(levels=[level("memory", latency_ns=ns)]), 250),
    "a load in another order": (
        "memory.walk_is_not_random",
        lambda times: results([
            row("latency-of-stride", 10 * times, 0.0, size=64 * MIB, stride=4096, order="random"),
            row("latency-of-size", 10, 0.0, size=64 * MIB, pages="huge"),
        ]), 2.5,
    ),
    "readings that show a scatter": (
        "machine.control_loop_is_noisy",
        lambda rates: results(outcomes=visits([4e9 * (1 + 0.02 * (n % 5)) for n in range(round(rates / 2))])), 16,
    ),
    "readings that show a drift": (
        "machine.frequency_is_not_steady",
        lambda third: results(outcomes=visits([4e9 * (1 + n // 7) for n in range(round(1.5 * third))])), 8,
    ),
    "interrupts of an isolated CPU": (
        "machine.interrupts_on_measured_cpus",
        lambda rate: beside(Surroundings(interrupts={"LOC": rate}), facts={"isolated_cpus": "1"}), 10,
    ),
    "a contended core": ("machine.core_is_shared", lambda share: beside(Surroundings(), share), 0.05),
    "a system call": ("machine.entry_is_slow", entered, 1.25),
    "bytes of all modules": (
        "memory.channels_are_missing",
        lambda share: results(
            [row("bandwidth-of-instances", share * 4 * 3200e6 * 8, 0.0, size=MIB, instances=2)],
            facts={"memory_modules": "4", "memory_configured_mts": "3200"},
        ), 0.25,
    ),
    "a line": ("memory.cores_share_no_cache", lambda ns: lines(ns, "transfer-of-state"), 4 * 17),
    "a line and back": ("memory.cores_share_no_cache", lambda ns: lines(ns, "core-to-core"), 2 * 4 * 17),
    "memory of another node": ("memory.remote_memory_is_slow", nodes, 1.5),
    "the clock after waking": (
        "machine.clock_ramps_slowly",
        lambda share: results([row("clock-ramp", 1e6), row("clock-at-wake", share, 0.0)]), 0.75,
    ),
    "the time to the clock": (
        "machine.clock_ramps_slowly", lambda ns: results([row("clock-ramp", ns), row("clock-at-wake", 0.5)]), 2e5,
    ),
    "a wake-up": ("kernel.idle_states_are_deep", wakes, 1e4),
    "an expensive wake-up": ("kernel.idle_states_are_deep", wakes, 5e4),
    "one hidden gap": (
        "machine.time_is_hidden", lambda ns: results([row("hidden-share", 1e-5), row("hidden-longest", ns)]), 1e5,
    ),
    "all hidden gaps": (
        "machine.time_is_hidden", lambda share: results([row("hidden-share", share), row("hidden-longest", 1e4)]), 1e-3,
    ),
    "the slack of timers": ("kernel.timers_are_slack", timers, 75e3),
    "interrupts of a device": (
        "machine.interrupts_on_measured_cpus", lambda rate: beside(Surroundings(interrupts={"40 nvme0": rate})), 1e3,
    ),
    "pages of swap": (
        "machine.memory_is_short", lambda pages: beside(Surroundings(paging={"pswpin": round(pages)})), 256,
    ),
    "waits for memory": (
        "machine.memory_is_short", lambda share: beside(Surroundings(memory_pressure=share)), 0.01,
    ),
    "hint faults": (
        "kernel.numa_balancing_faults",
        lambda rate: beside(Surroundings(paging={"numa_hint_faults": round(10 * rate)})), 1e3,
    ),
    "a limit of memory": (
        "machine.memory_is_limited",
        lambda caches: beside(Surroundings(memory_limit=round(caches * 49152))), 16,
    ),
    "the rated clock of modules": (
        "memory.modules_are_slow",
        lambda share: results(facts={"memory_rated_mts": "6400", "memory_configured_mts": f"{6400 * share:.0f}"}), 0.95,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_a_finding_changes_at_its_limit(name: str) -> None:
    """The limit is told from half and twice its value: a finding is added, or is graver, on one side of it alone."""
    finding, made, limit = LIMITS[name]
    below, above = (
        {(found.name, found.severity) for found in all_findings(made(limit * factor))} for factor in (0.9, 1.1)
    )
    assert {of for of, _ in below ^ above} == {finding}


@pytest.mark.parametrize("hz", [100, 250, 300, 1000])
def test_noise_at_the_distance_of_ticks_is_the_timers(hz: int) -> None:
    def claim(off: float, regular: float = 0.3) -> str:
        period = row("noise-period", (1 + off) * 1e9 / hz)
        (found,) = all_findings(results([row("noise-share", 0.002), period, row("noise-regular", regular)]))
        return found.claim

    assert f"tick, {hz} a second" in claim(0.02)
    assert "repeats every" in claim(0.06)
    assert "no timer" in claim(0.0, regular=0.15)


def test_an_empty_run_says_nothing_and_every_rule_has_words_of_its_own() -> None:
    assert names(results()) == []
    assert len(rules()) >= 10
    assert all(subjects().values())


def test_the_gravest_comes_first() -> None:
    noted = [row("trap", 2000, trap="breakpoint"), row("trap", 2200, trap="null_store"), row("trap", 9000, trap="ud")]
    found = all_findings(results([*noted, row("clock-read", 130), row("entry", 125)], hypervisor="KVM"))
    assert [finding.severity for finding in found] == ["warning", "note"]


def test_an_expensive_trap_on_bare_metal_is_no_finding() -> None:
    dear = [row("trap", 2000, trap="a"), row("trap", 2200, trap="b"), row("trap", 9000, trap="c")]
    assert names(results(dear)) == []


def test_emulated_rows_never_speak_of_the_machine() -> None:
    emulated = [
        row("clock-read", 130), row("entry", 125),
    ]  # fmt: skip

    foreign = [msgspec.structs.replace(one, clock="instructions") for one in emulated]
    assert names(results(foreign)) == []


def test_a_system_that_always_gives_huge_pages_gets_no_advice_on_them() -> None:
    turned_on, _ = ON_AND_OFF["memory.huge_pages_would_gain"]
    rows = turned_on().index.rows
    assert names(results(rows, facts={"transparent_hugepage": "[always] madvise never"})) == []


def shared(**facts: Any) -> Results:
    """A guest whose last cache is 32 MiB, of which a walk finds 6 MB."""
    caches = (Cache(level=3, kind="unified", size_bytes=32 * MIB, line_bytes=64, ways=16),)
    last = level("L3", **{"os_size_bytes": 32 * MIB, "size_bytes": 6e6, "size_low": 5e6, "size_high": 7e6, **facts})
    return results(levels=[last], caches=caches, hypervisor="KVM")


def test_less_of_a_cache_that_other_guests_use_is_no_problem() -> None:
    """On a machine without a hypervisor, or of a cache before the last, the system is wrong; and so it is of a guest
    that measures more than the system reports."""
    assert names(shared()) == []
    sound = shared().index
    bare = msgspec.structs.replace(sound.machine, hypervisor=None)
    assert names(results(levels=sound.hierarchy, **msgspec.structs.asdict(bare))) == ["memory.cache_disagrees"]
    assert names(shared(size_bytes=64e6, size_low=60e6, size_high=70e6)) == ["memory.cache_disagrees"]
    private = (*bare.caches, Cache(level=4, kind="unified", size_bytes=128 * MIB, line_bytes=64, ways=16))
    assert names(results(levels=sound.hierarchy, caches=private, hypervisor="KVM")) == ["memory.cache_disagrees"]


def test_cpus_of_this_machine_that_may_not_be_used_hold_the_rest_as_well() -> None:
    (last,) = shared().index.hierarchy
    caches = shared().index.machine.caches
    some = names(results(levels=[last], caches=caches, cpus=4, allowed_cpus=(0, 1)))
    assert some == ["machine.cpus_are_withheld"]
    assert names(results(levels=[last], caches=caches, cpus=4, allowed_cpus=(0, 1, 2, 3))) == ["memory.cache_disagrees"]


def test_a_cache_size_with_a_wide_interval_does_not_disagree_with_the_systems() -> None:
    """3.3 to 24 MiB in place of 1: the second cache and the third, not told apart."""
    second = {"os_size_bytes": MIB, "size_bytes": 5 * MIB, "size_low": 3.3 * MIB}
    assert names(results(levels=[level("L2", **second, size_high=24 * MIB)])) == []
    assert names(results(levels=[level("L2", **second, size_high=6 * MIB)])) == ["memory.cache_disagrees"]


def test_a_narrow_kernel_says_nothing_of_the_load_ports() -> None:
    first = [level("L1d", latency_ns=1.0, read_bytes_per_second=39e9)]
    kernels = {
        name: [row("read-bandwidth-of-size", 39e9, kernel=name, size=16384)] for name in ("portable", "sse2", "avx2")
    }
    assert names(results(kernels["portable"], levels=first)) == []
    assert names(results(kernels["sse2"], levels=first)) == ["memory.reading_is_slow"]
    assert names(results(kernels["avx2"], levels=first)) == ["memory.reading_is_slow"]
    unresolved = [msgspec.structs.replace(first[0], not_apart_from="L2")]
    assert names(results(kernels["avx2"], levels=unresolved)) == []


def test_a_drift_is_found_in_some_of_many_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "MANY_VISITS", 60)
    compared: list[int] = []
    ratio = clocks.hodges_lehmann_ratio
    monkeypatch.setattr(
        clocks, "hodges_lehmann_ratio",
        lambda first, last: (compared.append(len(first)), ratio(first, last))[1],
    )  # fmt: skip
    rates = [4e9 * (1 + 0.001 * (n % 5)) * (1 if n < 400 else 0.9) for n in range(600)]
    (found,) = clocks.frequency_is_not_steady(results(outcomes=visits(rates)))
    assert compared[0] <= 20
    assert found.evidence[0].value == pytest.approx(0.9, rel=0.01)


def test_a_pair_that_is_not_behind_the_cache_that_the_system_says() -> None:
    levels = [level("L1d", latency_ns=1.2), level("L3", latency_ns=17.0), level("memory", latency_ns=150.0)]

    def found(cost: float, relation: PlaceRelation) -> list[str]:
        return names(results([msgspec.structs.replace(row("core-to-core", cost), relation=relation)], levels=levels))

    assert "memory.cores_share_no_cache" in found(268.0, "same last-level cache")
    assert "memory.cores_share_no_cache" not in found(61.0, "same last-level cache")
    assert "memory.cores_share_no_cache" not in found(268.0, "same package")


def test_a_pair_that_is_moved_between_chiplets_while_it_is_measured() -> None:
    """The faster mode is what the system says; the slower one is another placement."""
    levels = [level("L1d", latency_ns=1.2), level("L3", latency_ns=17.0), level("memory", latency_ns=150.0)]
    of_line = row("transfer-of-state", 40.0, state="modified", access="load")

    def claims(slower: float) -> list[str]:
        first = State(state="first", share=0.8, median=40.0, low=36.0, high=44.0)
        second = State(state="second", share=0.2, median=slower, low=0.9 * slower, high=1.1 * slower)
        moved = msgspec.structs.replace(of_line, relation="same last-level cache", states=(first, second))
        found = all_findings(results([moved], levels=levels))
        return [one.claim for one in found if one.name == "memory.cores_share_no_cache"]

    assert len(claims(152.0)) == 1 and "152 ns in 20 %" in claims(152.0)[0]
    assert claims(60.0) == []


def test_a_misaligned_access_is_slow_or_emulated_by_kinds_of_registers() -> None:
    machine = results([row("entry", 100), *accesses(8, 0.25, 900), *accesses(16, 0.25, 0.26), *accesses(32, 0.5, 2)])
    claims = [one.claim for one in all_findings(machine) if one.name == "alignment.access_is_slow"]
    assert len(claims) == 2
    assert "scalar" in claims[0] and "emulated" in claims[0]
    assert "vector" in claims[1] and "slow" in claims[1] and "4.0 times" in claims[1]


@pytest.mark.parametrize(
    ("machine", "has"),
    [
        ({"hypervisor": "KVM"}, True),
        ({"hypervisor": None}, False),
        ({"hypervisor": None, "cores": ((0, 1),)}, True),
        ({"hypervisor": "KVM", "architecture": "armv7l"}, False),
    ],
)
def test_a_hyperthread_is_named_only_where_there_may_be_one(machine: dict[str, Any], has: bool) -> None:
    contended = results(**machine)
    run = msgspec.structs.replace(contended.index.run, contended_share=0.8)
    contended = msgspec.structs.replace(contended, index=msgspec.structs.replace(contended.index, run=run))
    (found,) = interference.core_is_shared(contended)
    assert "80 %" in found.claim and ("hyperthread" in found.claim) is has


def test_the_example_of_the_document_is_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs/add-a-finding.md").read_text(encoding="utf-8")
    monkeypatch.setattr("tollmeter.findings.RULES", registered := {})
    exec(text.split("```python\n")[1].split("```")[0], {"__name__": "example"})
    (loads_wait,) = registered.values()
    slow, fast = (results([row("latency-of-size", ns, size=64 * MIB)]) for ns in (400, 90))
    assert [finding.name for finding in loads_wait(slow)] == ["memory.loads_wait"] and not [*loads_wait(fast)]
