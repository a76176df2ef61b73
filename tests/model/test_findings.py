# SPDX-License-Identifier: Apache-2.0
"""Each finding on the memory system is turned on by a machine that has the fault, and kept off by a sound one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import msgspec
import pytest

from model.crowd import instance_rows, node_rows, traffic_rows
from model.machine import KIB, MIB, Cache, Machine, Tlb
from model.measured import (
    Noise,
    conflict_rows,
    described,
    description,
    latency_rows,
    line_rows,
    policy_rows,
    reading_rows,
    stride_rows,
    translation_rows,
)
from support.builders import run_info
from support.example_runs import derived
from tollmeter.findings import all_findings
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import Index, Results
from tollmeter.model import Machine as Description

RUN = run_info()
SOUND = Machine(
    caches=(Cache(32 * KIB, 8, 4), Cache(512 * KIB, 8, 14, transfer=4, misses=32),
            Cache(4 * MIB, 16, 45, transfer=5, misses=48)),
    memory_latency=300,
    tlbs=(Tlb(64, 64, 7), Tlb(1536, 12, 45)),
    huge_tlbs=(Tlb(32, 32, 7), Tlb(1024, 8, 20)),
    transparent_hugepage="[always] madvise never",
    noise=0.03,
)  # fmt: skip
THROUGH = SOUND.with_cache(0, write_through=True)
NEVER_FETCHED = replace(SOUND, caches=tuple(replace(cache, no_allocate=True) for cache in SOUND.caches))
Change = Callable[[Description], Description]


def as_it_is(machine: Description) -> Description:
    return machine


def told(level: int, **changes: object) -> Change:
    """The system's word on one cache is another one."""

    def change(machine: Description) -> Description:
        caches = list(machine.caches)
        caches[level] = msgspec.structs.replace(caches[level], **changes)
        return msgspec.structs.replace(machine, caches=tuple(caches))

    return change


@lru_cache
def results(
    machine: Machine,
    change: Change = as_it_is,
    *,
    traffic: float = 0.3,
    lost: float = 0.0,
    together: float = 1.6,
    farther: float = 1.2,
) -> Results:
    """A run of every probe on the machine. the others: as model.crowd has them."""
    noise, probes = Noise(machine), described()
    rows = [
        *latency_rows(machine, noise), *reading_rows(machine, noise), *line_rows(machine, noise),
        *stride_rows(machine, noise),
        *conflict_rows(machine, noise), *translation_rows(machine, noise), *policy_rows(machine, noise),
        *traffic_rows(machine, noise, traffic), *instance_rows(machine, noise, 2, lost, together),
        *node_rows(machine, noise, farther),
    ]  # fmt: skip
    system = change(description(machine))
    levels = hierarchy(rows, probes, system)
    index = Index(format=1, run=RUN, machine=system, rows=tuple(rows), hierarchy=levels)
    return derived(Results(index=index, probes=probes))


def names(of: Results) -> set[str]:
    return {finding.name for finding in all_findings(of)}


TURNED_ON: dict[str, Callable[[], Results]] = {
    "memory.cache_writes_through": lambda: results(THROUGH),
    "memory.stores_do_not_allocate": lambda: results(NEVER_FETCHED),
    "memory.prefetcher_is_one_sided": lambda: results(replace(SOUND, prefetch_backward=False)),
    "memory.prefetcher_is_absent": lambda: results(replace(SOUND, prefetch_forward=False, prefetch_backward=False)),
    "memory.cache_sizes_unknown": lambda: results(SOUND, told(2, size_bytes=None)),
    "memory.line_disagrees": lambda: results(SOUND, told(0, line_bytes=128)),
    "memory.ways_disagree": lambda: results(SOUND, told(0, ways=4)),
    "memory.cache_disagrees": lambda: results(SOUND, told(1, size_bytes=MIB)),
    "memory.latency_is_out_of_line": lambda: results(SOUND.with_cache(0, latency=10)),
    "memory.cpus_share_a_core": lambda: results(SOUND, lost=0.4),
    "memory.more_cpus_get_less": lambda: results(SOUND, together=0.7),
    "memory.latency_rises_under_load": lambda: results(replace(SOUND, memory_transfer=40.0), traffic=0.99),
    "memory.huge_pages_are_unused": lambda: results(
        replace(SOUND, huge_pages=False, transparent_hugepage="always madvise [never]")
    ),
    "memory.remote_memory_is_slow": lambda: results(SOUND, farther=2.0),
}


@pytest.mark.parametrize("name", TURNED_ON)
def test_the_fault_turns_it_on(name: str) -> None:
    assert name in names(TURNED_ON[name]())


def test_a_sound_machine_keeps_all_of_them_off() -> None:
    assert names(results(SOUND)) == set()


def test_what_is_not_the_fault_keeps_the_others_off() -> None:
    """A fault is told once, and not as another one."""
    assert names(results(THROUGH)) == {"memory.cache_writes_through"}
    assert names(results(SOUND, farther=2.0)) == {"memory.remote_memory_is_slow"}
    assert names(results(SOUND, lost=0.4)) == {"memory.cpus_share_a_core"}
