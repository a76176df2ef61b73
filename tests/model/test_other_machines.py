# SPDX-License-Identifier: Apache-2.0
"""Machines that are built otherwise than most."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from model.machine import KIB, MIB, Cache, Machine, Tlb
from model.measured import Noise, described, description, latency_rows, reading_rows
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import Level

PLAIN = Machine(
    caches=(Cache(32 * KIB, 8, 4), Cache(1 * MIB, 16, 14, transfer=4, misses=32),
            Cache(4 * MIB, 16, 50, transfer=5, misses=48)),
    memory_latency=330,
    tlbs=(Tlb(64, 64, 7), Tlb(1536, 12, 40)),
    huge_tlbs=(Tlb(32, 32, 7), Tlb(1024, 8, 20)),
)  # fmt: skip


def found(machine: Machine, told: Machine | None = None) -> dict[str, Level]:
    """Levels by name; told: the machine that the system describes in its place."""
    rows = latency_rows(machine, Noise(machine))
    return {level.level: level for level in hierarchy(rows, described(), description(told or machine))}


def test_an_exclusive_cache_serves_its_own_size_and_that_of_the_cache_before_it() -> None:
    """What the second level holds the third need not: over 5 MiB nothing misses, where the system says 4."""
    exclusive = found(PLAIN.with_cache(2, exclusive=True))
    assert list(exclusive) == ["L1d", "L2", "L3", "memory"]
    assert exclusive["L3"].size_bytes == pytest.approx(5 * MIB, rel=0.1)
    assert exclusive["L3"].os_size_bytes == 4 * MIB
    assert found(PLAIN)["L3"].size_bytes == pytest.approx(4 * MIB, rel=0.1)


@pytest.mark.parametrize("seed", [100, 101, 102])
def test_pages_of_64_kib(seed: int) -> None:
    """As many translations reach sixteen times as far, and page-local order goes sixteen times as far. A cache that is
    four such pages times its ways begins to overflow in most visits at four fifths of its size, as one of the four sets
    of pages has more than its share: taken for many colours, that is where it ended."""
    large = replace(PLAIN, page_bytes=64 * KIB, huge_pages=False, page_run=1, seed=seed)
    levels = found(large)
    assert list(levels) == ["L1d", "L2", "L3", "memory"]
    for level, cache in zip(levels.values(), large.caches, strict=False):
        assert level.size_bytes == pytest.approx(cache.size_bytes, rel=0.25)
        assert level.size_low is not None and level.size_high is not None
        assert level.size_low <= 1.03 * cache.size_bytes and cache.size_bytes <= 1.15 * level.size_high


def test_a_hybrid_cpu_whose_other_core_the_system_describes() -> None:
    """Sizes, levels and latencies are those of the core that was measured, whatever core the system's word is of."""
    small = replace(PLAIN, caches=(Cache(32 * KIB, 8, 3), Cache(2 * MIB, 16, 17, transfer=4, misses=32)))
    for told in (PLAIN, small):
        levels = list(found(small, told).values())
        assert [bool(level.size_bytes) for level in levels] == [True, True, False]
        assert levels[0].size_bytes == pytest.approx(32 * KIB, rel=0.1)
        assert levels[1].size_bytes == pytest.approx(2 * MIB, rel=0.1)


def test_reading_finds_the_end_of_the_last_cache_where_latency_does() -> None:
    rows = [*latency_rows(PLAIN, Noise(PLAIN)), *reading_rows(PLAIN, Noise(PLAIN))]
    last = hierarchy(rows, described(), description(PLAIN))[2]
    assert last.reading_low is not None and last.reading_high is not None
    assert 3 * MIB <= last.reading_low < last.reading_high <= 8 * MIB
    alone = found(PLAIN)["L3"]
    assert (last.size_low, last.size_high) == (alone.size_low, alone.size_high)
    told_by_reading = ("reading_low", "reading_high", "read_bytes_per_second", "read_low", "read_high", "read_by")
    of_reading = {name: getattr(alone, name) for name in told_by_reading}
    assert msgspec.structs.replace(last, **of_reading) == alone
