# SPDX-License-Identifier: Apache-2.0
"""Modelled machines whose sibling hyperthread is busy at times, and then uses a part of the private caches.

A visit runs beside it or not. Beside it each private cache serves a walk with what the sibling leaves, and everything
takes longer. The curve is that of shapes.py; the count of pages is the cache's, or of what was left of it."""

from __future__ import annotations

from math import exp, inf
from typing import NamedTuple

import msgspec
import numpy as np

from model.machine import KIB, PAGE_BYTES, Machine
from model.measured import described, description
from model.random_machines import random_machine
from support.builders import row
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.inference.shapes import Shape, miss_share
from tollmeter.model import Level, Row, State, Value
from tollmeter.model.base import StateName

FIRST = Shape(ways=inf, keenness=inf)
BEYOND = (Shape(ways=10.0, keenness=2.0), Shape(ways=16.0, keenness=1.0))
LEAST_LEFT, SLOWER, NOISE = 0.3, 1.25, 0.01
LEAST_WHOLE = 3
PER_OCTAVE = 4


class Sibling(NamedTuple):
    """A machine, the share of the time in which its sibling is busy, and what that leaves of the private caches."""

    machine: Machine
    busy: float
    random: np.random.Generator

    def left(self) -> float:
        return float(self.random.uniform(LEAST_LEFT, 1.0))

    def is_busy(self) -> bool:
        return bool(self.random.random() < self.busy)


def drawn(seed: int) -> Sibling:
    random = np.random.default_rng([0x51B, seed])
    return Sibling(random_machine(seed), float(random.uniform(0, 1)), random)


def rows_of(sibling: Sibling) -> list[Row]:
    most = 4 * sibling.machine.caches[-1].size_bytes
    octaves = range(KIB.bit_length() - 1, most.bit_length())
    sizes = (((PER_OCTAVE + step) << octave) // PER_OCTAVE for octave in octaves for step in range(PER_OCTAVE))
    return [*(_walked(sibling, size) for size in sizes if size <= most), *_counted(sibling)]


def _latency(machine: Machine, size: int, left: float) -> float:
    cost = machine.ns(machine.caches[0].latency)
    for place, cache in enumerate(machine.caches):
        held = cache.size_bytes * (left if place < len(machine.caches) - 1 or place == 0 else 1.0)
        share = float(miss_share(BEYOND[place - 1] if place else FIRST, np.array([size / held]))[0])
        cost += share * machine.ns(machine.latency_of(place + 1) - machine.latency_of(place))
    return cost


def _walked(sibling: Sibling, size: int) -> Row:
    """Of what was seen in the state that its row would have: alone, where enough visits were."""
    visits = [sibling.is_busy() for _ in range(int(sibling.random.integers(5, 12)))]
    alone = [not busy for busy in visits]
    is_whole = sum(alone) >= LEAST_WHOLE
    state: StateName = "uncontended" if is_whole else "all"
    seen = []
    for busy in visits:
        noise = exp(sibling.random.normal(0, NOISE))
        if not is_whole or not busy:
            left = sibling.left() if busy else 1.0
            seen.append(_latency(sibling.machine, size, left) * (SLOWER if busy else 1.0) * noise)
    made = row(float(np.median(seen)), 0.02, of="memory.latency", name="load",
               parameters={"size": size, "pages": "huge"})  # fmt: skip
    low, high = float(min(seen)), float(max(seen))
    return msgspec.structs.replace(
        made, low=low, high=high, minimum=low, quartiles=(low, high), visits=len(seen), layouts=len(seen),
        samples=8 * len(seen), state=state,
        states=(State(state="contended", share=float(np.mean(visits)), median=low, low=low, high=low),),
    )  # fmt: skip


def _counted(sibling: Sibling) -> list[Row]:
    made: list[Row] = []
    for place, level in enumerate(("first", "second")[: len(sibling.machine.caches)]):
        pages = sibling.machine.caches[place].size_bytes // PAGE_BYTES
        visits = int(sibling.random.integers(3, 6))
        held = [float(PAGE_BYTES * _pages(sibling, pages)) for _ in range(visits)]
        shared = float(np.mean([sibling.is_busy() for _ in range(visits)]))
        where: dict[str, Value] = {"level": level}
        count = row(float(np.median(held)), of="memory.capacity", name="held", unit="B", parameters=where)
        made.append(
            msgspec.structs.replace(
                count,
                low=min(held),
                high=max(held),
                minimum=min(held),
                visits=visits,
                layouts=visits,
                quartiles=(float(np.quantile(held, 0.25)), float(np.quantile(held, 0.75))),
            )
        )
        states = (State(state="contended", share=shared, median=1, low=1, high=1),) if shared else ()
        load = row(1.0, of="memory.capacity", name="load", parameters=where)
        made.append(msgspec.structs.replace(load, states=states))
    return made


def _pages(sibling: Sibling, pages: int) -> int:
    if sibling.is_busy():
        return max(1, int(pages * sibling.left()))
    return pages - int(sibling.random.integers(0, 1 + pages // 128))


def private_levels(sibling: Sibling) -> list[tuple[Level, int]]:
    """The private caches that were found, each with its true size."""
    machine = sibling.machine
    found = {level.level: level for level in hierarchy(rows_of(sibling), described(), description(machine))}
    names = ["L1d", *(f"L{place + 1}" for place in range(1, len(machine.caches)))]
    private = list(zip(names, machine.caches, strict=True))[: max(1, len(machine.caches) - 1)]
    return [(found[name], cache.size_bytes) for name, cache in private if name in found]


def holds(level: Level, size_bytes: int) -> bool | None:
    """Whether its interval holds the cache's size, or what it calls the least is no more; None of a level without."""
    if level.size_low is None:
        return None
    return level.size_low <= size_bytes and (level.size_high is None or size_bytes <= level.size_high)
