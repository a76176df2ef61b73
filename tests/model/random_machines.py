# SPDX-License-Identifier: Apache-2.0
"""Machines drawn at random, each of which could have been built: sizes, ways and latencies of caches that were sold.

A plain machine replaces the least recently used line, chooses the sets of its first cache inside a page, and gives huge
pages, which are huge in physical memory too. An awkward one need not: its caches may replace at random, its first cache
may be larger than its ways times a page, it may refuse huge pages, or have a guest's, which are made of small ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from model.machine import HUGE_BYTES, KIB, MIB, PAGE_BYTES, Cache, Machine, Tlb

FIRST = ((8, 2), (16, 4), (24, 6), (32, 8), (32, 8), (48, 12), (48, 12), (64, 16))
FIRST_BEYOND_PAGE = (
    (32, 4),
    (64, 4),
    (64, 8),
    (128, 8),
)  # their sets are chosen by bits that the program does not rule
SECOND = ((128, 8), (192, 12), (256, 4), (256, 8), (512, 8), (512, 16), (768, 12), (1024, 8), (1024, 16), (1280, 10),
          (1280, 20), (2048, 16), (3072, 12), (4096, 16))  # fmt: skip
THIRD = ((2, 16), (3, 12), (4, 16), (6, 12), (8, 16), (10, 20), (12, 12), (16, 16), (20, 20), (22, 11), (24, 12),
         (32, 16), (36, 12), (40, 20), (48, 12), (64, 16))  # fmt: skip
UNUSUAL_LINE_MOST = 8  # MiB: lines of 32 and 128 bytes are found on small machines
GAPS = ((1.0, 1.0), (0.5, 1.0), (0.5, 0.5), (1 / 3, 0.5), (0.25, 0.5))  # cycles from load to load, store to store
LEAST_SIZE_RATIO, LEAST_LATENCY_RATIO = 4, 1.8
Choice = TypeVar("Choice")


class Draw:
    """Choices from one seed."""

    def __init__(self, seed: int, awkward: bool) -> None:
        self.seed = seed
        self.awkward = awkward
        self.random = np.random.default_rng([0x70_11, seed])

    def one(self, choices: Sequence[Choice], weights: Sequence[float] | None = None) -> Choice:
        chances = None if weights is None else np.asarray(weights) / sum(weights)
        return choices[int(self.random.choice(len(choices), p=chances))]

    def between(self, low: float, high: float) -> float:
        """Any number of that range is as likely on a logarithmic scale."""
        return float(np.exp(self.random.uniform(np.log(low), np.log(high))))

    def whole(self, low: int, high: int) -> int:
        return int(self.random.integers(low, high + 1))

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)


def random_machine(seed: int, *, awkward: bool = False) -> Machine:
    """Two or three caches before the memory. Nobody shares them."""
    draw = Draw(seed, awkward)
    line = draw.one((32, 64, 128), (1, 7, 2))
    caches = _caches(draw, line, fetching=not draw.chance(0.2))
    load_gap, store_gap = draw.one(GAPS)
    memory = max(draw.between(150, 500), caches[-1].latency * 2.5)
    return Machine(
        caches=caches,
        memory_latency=memory,
        memory_transfer=draw.between(4, 20),
        line_bytes=line,
        tlbs=_tlbs(draw),
        huge_tlbs=(Tlb(32, 32, draw.between(5, 9)), Tlb(1024, 8, draw.between(15, 40))),
        prefetch_forward=draw.chance(0.7),
        prefetch_backward=draw.chance(0.6),
        prefetch_depth=draw.whole(2, 16),
        prefetch_pairs=draw.chance(0.3),
        load_gap=load_gap,
        store_gap=store_gap,
        window=draw.one((16, 64, 128, 224)),
        store_buffer=draw.one((8, 32, 64)),
        clock_hz=draw.between(0.8e9, 5e9),
        huge_pages=not (draw.chance(0.4) and awkward),
        page_run=draw.one((1, 4, 16), (3, 1, 1)),
        huge_run=draw.one((HUGE_BYTES // PAGE_BYTES, 1), (1, awkward)),
        seed=seed,
    )


def _caches(draw: Draw, line: int, *, fetching: bool) -> tuple[Cache, ...]:
    size, ways = draw.one(FIRST_BEYOND_PAGE if draw.awkward and draw.chance(0.5) else FIRST)
    caches = [_cache(draw, size * KIB, ways, draw.whole(2, 5), first=True, fetching=fetching)]
    third = tuple(choice for choice in THIRD if line == 64 or choice[0] <= UNUSUAL_LINE_MOST)
    kinds = [(SECOND, KIB, (9, 20))] + ([(third, MIB, (30, 80))] if draw.chance(0.75) else [])
    for choices, unit, (low, high) in kinds:
        before = caches[-1]
        fitting = [(size * unit, ways) for size, ways in choices if size * unit >= before.size_bytes * LEAST_SIZE_RATIO]
        if fitting:
            size, ways = draw.one(fitting)
            latency = max(draw.whole(low, high), round(before.latency * LEAST_LATENCY_RATIO))
            caches.append(_cache(draw, size, ways, latency, first=False, fetching=fetching))
    return tuple(caches)


def _cache(draw: Draw, size: int, ways: int, latency: float, *, first: bool, fetching: bool) -> Cache:
    through = draw.chance(0.25) if first else False
    return Cache(
        size_bytes=size,
        ways=ways,
        latency=latency,
        transfer=draw.between(1, 2) if first else draw.between(2, 8),
        misses=draw.one((4, 8, 10, 16)) if first else draw.one((16, 32, 48)),
        write_through=through,
        no_allocate=not fetching or (through and draw.chance(0.5)),
        replacement=draw.one(("oldest", "not recent", "any"), (2, draw.awkward, draw.awkward)),
    )


def _tlbs(draw: Draw) -> tuple[Tlb, ...]:
    first = draw.one((Tlb(32, 32, 7), Tlb(48, 48, 5), Tlb(64, 4, 7), Tlb(64, 64, 7), Tlb(96, 96, 8), Tlb(128, 4, 7)))
    second = draw.one(((512, 4), (1024, 8), (1536, 12), (2048, 16), (3072, 12)))
    return first, Tlb(*second, miss=draw.between(20, 120))
