# SPDX-License-Identifier: Apache-2.0
"""Address streams of the probes' walks, and what a modelled machine takes for them. Times in core cycles."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from statistics import median

import numpy as np

from model.library import Numbers, Running, library, packed, pointer, translation
from model.machine import PAGE_BYTES, Machine, sets_of, shape

ORDERS = {"random": 0, "local": 1, "forward": 2, "backward": 3}
CHASE, LOAD, STORE, FENCE, LOADS = 0, 64, 65, 66, 67
LOOKED_AT = 1 << 13
TRANSLATIONS = 1 << 14
FRAMES = 1 << 22
CANDIDATES = 4096
VISITS = 5
ALIKE = 0.003
LAPS_CYCLES, MOST_LAPS = 60e6, 40


@lru_cache(maxsize=4096)
def order(seed: int, count: int, stride: int, kind: str, page_bytes: int = PAGE_BYTES) -> Numbers:
    """Places, in strides, that a walk over `count` nodes meets from its head on, by the runtime's own code."""
    nodes = np.empty(count, np.uint32)
    met = library().stream_chase(seed, count, stride, ORDERS[kind], page_bytes, pointer(nodes))
    assert met == count, "a chase is one cycle over all of its nodes"
    nodes.flags.writeable = False
    return nodes


def frames(machine: Machine, pages: int, seed: int, *, huge: bool = False) -> Numbers:
    """Physical frames of so many base pages: runs of neighbouring frames at random places, as a system gives them."""
    run = machine.huge_run if huge else machine.page_run
    random = np.random.default_rng([machine.seed, seed, pages, huge])
    runs = -(-pages // run)
    starts = random.choice(FRAMES // run, runs, replace=False, shuffle=True).astype(np.uint32) * np.uint32(run)
    every: Numbers = (starts[:, None] + np.arange(run, dtype=np.uint32)).ravel()[:pages]
    return every


def sampling(machine: Machine, lines: int) -> int:
    """Of how many lines one is looked at, so that about LOOKED_AT are left of a large buffer."""
    most = machine.page_bytes // machine.line_bytes
    for cache in machine.caches:
        most = gcd(most, sets_of(cache, machine.line_bytes))
    wished = 1
    while wished * 2 <= most and lines // (wished * 2) >= LOOKED_AT:
        wished *= 2
    return wished


@lru_cache(maxsize=4096)
def load_latency(machine: Machine, size: int, pages: str) -> float:
    """One dependent load of the walk of memory.latency over `size` bytes, its pages `small`, `huge` or `local`.

    The median of VISITS visits, each of which was given other frames. Where two are alike, the others are too."""
    lines = size // machine.line_bytes
    huge = pages == "huge"
    walk = order(1, lines, machine.line_bytes, "local" if pages == "local" else "random", machine.page_bytes)
    seen = [cache_time(machine, walk, visit, huge=huge) for visit in range(2)]
    if abs(seen[0] / seen[1] - 1) > ALIKE:
        seen += [cache_time(machine, walk, visit, huge=huge) for visit in range(2, VISITS)]
    return median(seen) + translation_time(machine, walk, huge=huge)


def cache_time(machine: Machine, walk: Numbers, seed: int, *, huge: bool) -> float:
    """What the caches take for one load once the walk has gone round often enough to leave no trace of the start."""
    one_in = sampling(machine, len(walk))
    seen = walk[walk % one_in == seed % one_in] // np.uint32(one_in) if one_in > 1 else walk
    page_lines = machine.page_bytes // machine.line_bytes
    pages = -(-len(walk) // page_lines)
    quiet = shape(machine, huge=huge, sampling=one_in, translated=False)
    quiet.prefetch_forward = quiet.prefetch_backward = 0
    with Running(quiet, frames(machine, pages, seed, huge=huge), seed + 1) as running:
        return settled(running, seen, most=LAPS_CYCLES / one_in) / len(seen)


def held_pages(machine: Machine, visit: int, *, second: bool) -> int:
    """How many pages a visit of memory.capacity finds to fit together."""
    one_in = sampling(machine, CANDIDATES * PAGE_BYTES // machine.line_bytes)
    cell_lines = PAGE_BYTES // machine.line_bytes // one_in
    quiet = shape(machine, huge=machine.huge_pages, sampling=one_in, translated=False)
    quiet.prefetch_forward = quiet.prefetch_backward = 0
    pages = CANDIDATES * PAGE_BYTES // machine.page_bytes
    lines = np.arange(CANDIDATES * cell_lines, dtype=np.uint32)
    asked = packed(lines, cell_lines, second=second, noise=machine.noise / 15, seed=visit + (machine.seed << 8))
    with Running(quiet, frames(machine, pages, visit, huge=machine.huge_pages), visit + 1) as running:
        return running.packed(asked)


def settled(running: Running, walk: Numbers, most: float = LAPS_CYCLES) -> float:
    """Cycles of a lap once laps have become alike, or as near to that as a visit of a few milliseconds comes."""
    before, lap, spent = 0.0, running.run(walk, CHASE), 0.0
    for laps in range(MOST_LAPS):
        before, lap = lap, running.run(walk, CHASE)
        spent += lap
        if (laps and abs(lap / before - 1) < ALIKE) or (laps and spent > most):
            break
    return lap


def translation_time(machine: Machine, walk: Numbers, *, huge: bool) -> float:
    """What translation adds to one load: a stretch of the walk stands for all of it, since it is random throughout."""
    if not (machine.huge_tlbs if huge else machine.tlbs):
        return 0.0
    page_lines = machine.page_bytes // machine.line_bytes
    longest = 2 * TRANSLATIONS
    stretch = walk[:longest] if len(walk) >= longest else np.tile(walk, -(-longest // len(walk)))[:longest]
    return translation(shape(machine, huge=huge), stretch // np.uint32(page_lines), TRANSLATIONS)
