# SPDX-License-Identifier: Apache-2.0
"""What a modelled machine is made of, in the words of its data sheet: sizes in bytes, times in core cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from model.library import LevelShape, Shape, TlbShape

KIB, MIB = 1 << 10, 1 << 20
PAGE_BYTES = 4096
HUGE_BYTES = 2 * MIB
REPLACEMENTS = ("oldest", "any", "not recent")


@dataclass(frozen=True)
class Cache:
    """transfer: cycles for which one line keeps its way busy. neighbours: lines that others put in for each of ours.

    exclusive: it holds what the cache before it gave up, and nothing that this still has."""

    size_bytes: int
    ways: int
    latency: float
    transfer: float = 2.0
    misses: int = 16
    write_through: bool = False
    no_allocate: bool = False
    replacement: str = "oldest"
    neighbours: float = 0.0
    exclusive: bool = False


@dataclass(frozen=True)
class Tlb:
    """miss: cycles that finding a translation costs once it is not here."""

    entries: int
    ways: int
    miss: float


@dataclass(frozen=True)
class Machine:
    caches: tuple[Cache, ...]
    memory_latency: float
    memory_transfer: float = 8.0
    line_bytes: int = 64
    tlbs: tuple[Tlb, ...] = ()
    huge_tlbs: tuple[Tlb, ...] = ()
    prefetch_forward: bool = True
    prefetch_backward: bool = True
    prefetch_depth: int = 8
    prefetch_reach_bytes: int = 2 * KIB
    prefetch_pairs: bool = False
    load_gap: float = 0.5
    store_gap: float = 1.0
    window: int = 128
    store_buffer: int = 48
    clock_hz: float = 3e9
    page_bytes: int = PAGE_BYTES
    huge_pages: bool = True
    page_run: int = 1
    huge_run: int = HUGE_BYTES // PAGE_BYTES
    seed: int = 1
    noise: float = 0.05
    transparent_hugepage: str = "always [madvise] never"

    def ns(self, cycles: float) -> float:
        return cycles / self.clock_hz * 1e9

    def level_of(self, size_bytes: float) -> int:
        """The level that holds that many bytes, counted from 0; memory is the number of caches."""
        return next((i for i, cache in enumerate(self.caches) if size_bytes <= cache.size_bytes), len(self.caches))

    def latency_of(self, level: int) -> float:
        return self.memory_latency if level == len(self.caches) else self.caches[level].latency

    def with_cache(self, level: int, **changes: object) -> Machine:
        caches = list(self.caches)
        caches[level] = replace(caches[level], **changes)  # type: ignore[arg-type]
        return replace(self, caches=tuple(caches))


def shape(machine: Machine, *, huge: bool = False, sampling: int = 1, translated: bool = True) -> Shape:
    """As the core in C takes it. sampling: of how many lines one is looked at, a power of two."""
    made = Shape(
        levels=len(machine.caches),
        memory_latency=machine.memory_latency,
        memory_transfer=machine.memory_transfer,
        load_gap=machine.load_gap,
        store_gap=machine.store_gap,
        window=machine.window,
        store_buffer=machine.store_buffer,
        page_lines=machine.page_bytes // machine.line_bytes // sampling,
        translation_pages=HUGE_BYTES // machine.page_bytes if huge else 1,
        prefetch_forward=machine.prefetch_forward,
        prefetch_backward=machine.prefetch_backward,
        prefetch_depth=machine.prefetch_depth,
        prefetch_reach=machine.prefetch_reach_bytes // machine.line_bytes,
        prefetch_pairs=machine.prefetch_pairs,
    )
    for place, cache in enumerate(machine.caches):
        made.level[place] = _level(cache, machine.line_bytes, sampling)
    tlbs = (machine.huge_tlbs if huge else machine.tlbs) if translated else ()
    made.tlbs = len(tlbs)
    for place, tlb in enumerate(tlbs):
        made.tlb[place] = TlbShape(sets=tlb.entries // tlb.ways, ways=tlb.ways, miss=tlb.miss)
    return made


def sets_of(cache: Cache, line_bytes: int) -> int:
    sets, rest = divmod(cache.size_bytes, cache.ways * line_bytes)
    assert rest == 0, f"{cache} has no whole number of sets"
    return sets


def _level(cache: Cache, line_bytes: int, sampling: int) -> LevelShape:
    sets, rest = divmod(sets_of(cache, line_bytes), sampling)
    assert rest == 0, f"{cache} cannot be sampled one in {sampling}"
    return LevelShape(
        sets=sets,
        ways=cache.ways,
        replacement=REPLACEMENTS.index(cache.replacement),
        write_through=cache.write_through,
        no_allocate=cache.no_allocate,
        misses=cache.misses,
        latency=cache.latency,
        transfer=cache.transfer,
        neighbours=cache.neighbours,
        victims=cache.exclusive,
    )
