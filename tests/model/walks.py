# SPDX-License-Identifier: Apache-2.0
"""Address streams of the probes' walks, and what a modelled machine takes for them. Times in core cycles."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from model.library import Numbers, Running, library, pointer, translation
from model.machine import PAGE_BYTES, Machine, sets_of, shape

ORDERS = {"random": 0, "local": 1, "forward": 2, "backward": 3}
CHASE, LOAD, STORE, FENCE = 0, 64, 65, 66
LOOKED_AT = 1 << 14
TRANSLATIONS = 1 << 14
FRAMES = 1 << 22


@lru_cache(maxsize=256)
def order(seed: int, count: int, stride: int, kind: str) -> Numbers:
    """Places, in strides, that a walk over `count` nodes meets from its head on, by the runtime's own code."""
    nodes = np.empty(count, np.uint32)
    met = library().stream_chase(seed, count * stride, stride, ORDERS[kind], pointer(nodes))
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
    most = PAGE_BYTES // machine.line_bytes
    for cache in machine.caches:
        most = gcd(most, sets_of(cache, machine.line_bytes))
    wished = 1
    while wished * 2 <= most and lines // (wished * 2) >= LOOKED_AT:
        wished *= 2
    return wished


def load_latency(machine: Machine, size: int, pages: str, seed: int = 0) -> float:
    """One dependent load of the walk of memory.latency over `size` bytes, its pages `small`, `huge` or `local`."""
    lines = size // machine.line_bytes
    huge = pages == "huge"
    walk = order(1, lines, machine.line_bytes, "local" if pages == "local" else "random")
    return cache_time(machine, walk, seed, huge=huge) + translation_time(machine, walk, huge=huge)


def cache_time(machine: Machine, walk: Numbers, seed: int, *, huge: bool) -> float:
    """What the caches take for one load once the walk has gone round often enough to leave no trace of the start."""
    one_in = sampling(machine, len(walk))
    seen = walk[walk % one_in == seed % one_in] // np.uint32(one_in) if one_in > 1 else walk
    page_lines = PAGE_BYTES // machine.line_bytes
    pages = -(-len(walk) // page_lines)
    quiet = shape(machine, huge=huge, sampling=one_in, translated=False)
    quiet.prefetch_forward = quiet.prefetch_backward = 0
    with Running(quiet, frames(machine, pages, seed, huge=huge), seed + 1) as running:
        settle(running, seen)
        return running.run(seen, CHASE) / len(seen)


def settle(running: Running, walk: Numbers) -> None:
    laps = max(2, -(-4096 // len(walk)))
    for _ in range(min(laps, 64)):
        running.run(walk, CHASE)


def translation_time(machine: Machine, walk: Numbers, *, huge: bool) -> float:
    """What translation adds to one load: a stretch of the walk stands for all of it, since it is random throughout."""
    if not (machine.huge_tlbs if huge else machine.tlbs):
        return 0.0
    page_lines = PAGE_BYTES // machine.line_bytes
    longest = 2 * TRANSLATIONS
    stretch = walk[:longest] if len(walk) >= longest else np.tile(walk, -(-longest // len(walk)))[:longest]
    return translation(shape(machine, huge=huge), stretch // np.uint32(page_lines), TRANSLATIONS)
