# SPDX-License-Identifier: Apache-2.0
"""A memory hierarchy to be measured: set-associative caches under a random cyclic walk, and a visit's luck with pages.

Each level is looked at on its own: a line misses it by the replacement rule and by how many lines of the buffer its
set holds. What a lap of the walk costs is the mean over lines of the latency of the first level that holds the line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray

KIB, MIB = 1 << 10, 1 << 20
LINE, PAGE = 64, 4096
LINES_OF_PAGE = PAGE // LINE


@dataclass(frozen=True)
class Level:
    """One cache. policy: how a full set makes room, `lru`, `nru` (one bit a way) or `random`."""

    size: int
    ways: int
    latency: float
    policy: str = "lru"

    def sets(self) -> int:
        return self.size // LINE // self.ways


@lru_cache(maxsize=1 << 14)
def hit_share(policy: str, ways: int, held: int, laps: int = 24) -> float:
    """Share of hits in one set that `held` lines are asked from, in the same order lap after lap, by doing it."""
    if held <= ways:
        return 1.0
    if policy == "lru":
        return 0.0
    chance = Random(held)
    slots: list[int] = list(range(ways))
    place = {line: line for line in slots}
    used = [False] * ways
    hits = 0
    for turn in range(laps * held):
        line = turn % held
        at = place.get(line)
        if at is None:
            at = chance.randrange(ways) if policy == "random" else used.index(False)
            del place[slots[at]]
            slots[at], place[line] = line, at
        else:
            hits += turn >= held * laps // 2
        used[at] = True
        if all(used):
            used = [slot == at for slot in range(ways)]
    return hits / (laps * held - held * laps // 2)


def grid(least: int, most: int, per_octave: int = 4) -> list[int]:
    octaves = range(least.bit_length() - 1, most.bit_length())
    sizes = [(1 << octave) * (per_octave + step) // per_octave for octave in octaves for step in range(per_octave)]
    return [size for size in sizes if least <= size <= most]


def latency(
    levels: Sequence[Level], memory: float, size: int, pages: NDArray[np.int64], chance: np.random.Generator
) -> float:
    """Mean latency of one lap over `size` bytes in the physical pages given."""
    lines = size // LINE
    address = (pages[: -(-size // PAGE), None] * LINES_OF_PAGE + np.arange(LINES_OF_PAGE)[None, :]).ravel()[:lines]
    cost, going = 0.0, np.ones(lines, bool)
    for level in levels:
        sets = address % level.sets()
        held = np.bincount(sets, minlength=level.sets())[sets]
        loads, which = np.unique(held, return_inverse=True)
        saved = np.array([hit_share(level.policy, level.ways, int(load)) for load in loads])[which]
        hit = going & (chance.random(lines) < saved)
        cost += level.latency * float(hit.sum())
        going &= ~hit
    return (cost + memory * float(going.sum())) / lines


def visits(
    levels: Sequence[Level],
    memory: float,
    size: int,
    *,
    seed: int,
    count: int = 4,
    noise: float = 0.03,
    random: bool = True,
) -> list[float]:
    """What so many visits would say: each has its own pages, and errors to the slow side twice as large."""
    chance = np.random.default_rng([seed, size])
    said = []
    for _ in range(count):
        needed = -(-size // PAGE)
        start = int(chance.integers(1 << 20))
        pages = chance.permutation(1 << 18)[:needed] if random else start + np.arange(needed)
        true = latency(levels, memory, size, pages.astype(np.int64), chance)
        error = chance.normal(0, noise)
        said.append(true * (1 + (2 * error if error > 0 else error)))
    return said
