# SPDX-License-Identifier: Apache-2.0
"""Address streams of the finer memory probes, and what a modelled machine takes for them. Times in core cycles.

Each function is one probe's body and its control, as its file under probes/memory tells them. What it takes is a fact
of the machine, without noise: it is worked out once, and many runs are of one machine."""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from model.library import Numbers, Running
from model.machine import HUGE_BYTES, Machine, shape
from model.walks import CHASE, LOAD, LOOKED_AT, STORE, frames, order, sampling, settled

BLOCK_BYTES, BLOCKS, POINTER_BYTES = 1024, 256, 8
LOADS = 1 << 13
FRESH = 1 << 18
LEAST_STEPS = 1024


def started(machine: Machine, lines: int, *, huge: bool, translated: bool = True, seed: int = 0) -> Running:
    pages = -(-(lines + 1) * machine.line_bytes // machine.page_bytes)
    made = shape(machine, huge=huge, translated=translated)
    return Running(made, frames(machine, pages, seed, huge=huge), seed + 1)


def _step(machine: Machine, walk: Numbers, lines: int, *, huge: bool) -> float:
    """Cycles of one step of a dependent walk that has gone round before."""
    with started(machine, lines, huge=huge) as running:
        settled(running, walk)
        laps = np.tile(walk, -(-LEAST_STEPS // len(walk)))
        return running.run(laps, CHASE) / len(laps)


@lru_cache(maxsize=4096)
def line_pair(machine: Machine, distance: int) -> tuple[float, float]:
    """Pairs of dependent loads `distance` bytes apart, a pair in each block, against the first of each pair alone."""
    starts = order(1, BLOCKS, POINTER_BYTES, "random").astype(np.int64) * BLOCK_BYTES
    pairs = np.column_stack([starts, starts + distance]).ravel() // machine.line_bytes
    alone = starts // machine.line_bytes
    lines = BLOCKS * BLOCK_BYTES // machine.line_bytes
    body = 2 * _step(machine, pairs.astype(np.uint32), lines, huge=machine.huge_pages)
    return body, _step(machine, alone.astype(np.uint32), lines, huge=machine.huge_pages)


def chains(machine: Machine, count: int, size: int) -> float:
    """One load, with `count` independent walks side by side in equal parts of `size` bytes.

    A large buffer is looked at as a machine so many times smaller: what is under way at once stays the same."""
    one_in = sampling(machine, size // machine.line_bytes)
    part = size // count // machine.line_bytes // one_in
    walks = [order(seed, part, machine.line_bytes, "random") + np.uint32(i * part) for i, seed in _seeds(count)]
    lines = np.column_stack(walks).ravel()
    operations = np.tile(np.arange(count, dtype=np.uint8), part)
    made = shape(machine, huge=True, sampling=one_in, translated=False)
    made.prefetch_forward = made.prefetch_backward = made.prefetch_pairs = 0
    pages = -(-len(lines) // (machine.page_bytes // machine.line_bytes // one_in))
    with Running(made, frames(machine, pages, 0, huge=machine.huge_pages)) as running:
        for _ in range(2 if len(lines) > LOOKED_AT // 4 else 4):
            running.run(lines, operations)
        return running.run(lines, operations) / len(lines)


def _seeds(count: int) -> list[tuple[int, int]]:
    return [(i, 1000 + i) for i in range(count)]


@lru_cache(maxsize=4096)
def stride_walk(machine: Machine, size: int, stride: int, kind: str) -> float:
    """One dependent load of a walk with a stride, forward, backward or in random order, through far more than any cache
    holds: a stretch of it in which nothing was there before."""
    count = min(size // stride, FRESH)
    places = order(1, count, stride, kind)[:LOADS].astype(np.int64) * stride // machine.line_bytes
    with started(machine, int(places.max()), huge=machine.huge_pages) as running:
        return running.run(places.astype(np.uint32), CHASE) / len(places)


@lru_cache(maxsize=4096)
def conflict(machine: Machine, lines: int, apart: int, *, huge: bool) -> float:
    """One dependent load of a random cycle through `lines` lines that are `apart` bytes from each other."""
    walk = order(1, lines, apart, "random") * np.uint32(apart // machine.line_bytes)
    return _step(machine, walk, int(walk.max()), huge=huge)


@lru_cache(maxsize=4096)
def page_loads(machine: Machine, count: int, *, huge: bool) -> tuple[float, float]:
    """Dependent loads of one line in each of `count` pages, the line's place another one from page to page, against as
    many lines side by side, both in one random order."""
    line, page = machine.line_bytes, HUGE_BYTES if huge else machine.page_bytes
    step = machine.page_bytes + line if huge else line
    walk = order(1, count, line, "random")
    numbers = walk.astype(np.int64)
    offset = numbers * step + numbers // (machine.page_bytes // line) * line
    spread = ((numbers * page + offset % page) // line).astype(np.uint32)
    body = _step(machine, spread, int(spread.max()), huge=huge)
    return body, _step(machine, walk, count, huge=huge)


@lru_cache(maxsize=4096)
def sweep(machine: Machine, size: int) -> float:
    """One load of a loop that reads `size` bytes from end to end, over and over: a large buffer is looked at as a
    machine so many times smaller."""
    one_in = sampling(machine, size // machine.line_bytes)
    lines = np.arange(size // machine.line_bytes // one_in, dtype=np.uint32)
    made = shape(machine, huge=machine.huge_pages, sampling=one_in, translated=False)
    pages = -(-len(lines) // (machine.page_bytes // machine.line_bytes // one_in))
    with Running(made, frames(machine, pages, 0, huge=machine.huge_pages)) as running:
        for _ in range(3):
            running.run(lines, LOAD)
        return running.run(lines, LOAD) / len(lines)


@lru_cache(maxsize=4096)
def resident(machine: Machine, size: int) -> tuple[float, float]:
    """One store to each line of `size` bytes, over and over, against one load from each."""
    lines = np.arange(size // machine.line_bytes, dtype=np.uint32)
    return _again(machine, lines, lines, (STORE,)), _again(machine, lines, lines, (LOAD,))


@lru_cache(maxsize=4096)
def evict(machine: Machine, size: int) -> tuple[float, float]:
    """A store to each line of a set and a load from each of another, against loads from both."""
    first = np.arange(size // machine.line_bytes, dtype=np.uint32)
    second = first + np.uint32(len(first))
    return _again(machine, first, second, (STORE, LOAD)), _again(machine, first, second, (LOAD, LOAD))


def _again(machine: Machine, first: Numbers, second: Numbers, operations: tuple[int, ...]) -> float:
    """One access of a set, or of two, in the long run. Before it goes the baseline, as in a sample."""
    lines = np.concatenate([(first, second)[place] for place in range(len(operations))])
    what = np.repeat(np.array(operations, np.uint8), len(first))
    with started(machine, 2 * len(first), huge=machine.huge_pages) as running:
        running.run(lines, LOAD)
        for _ in range(2):
            running.run(lines, what)
        return running.run(lines, what) / len(lines)


def scattered(count: int) -> Numbers:
    """The order in which `reload` stores to a set of lines: steps near the golden section."""
    step = count * 5 // 8 | 1
    while gcd(step, count) != 1:
        step += 2
    return (np.arange(count, dtype=np.int64) * step % count).astype(np.uint32)


@lru_cache(maxsize=4096)
def reload(machine: Machine, size: int) -> tuple[float, float]:
    """Stores to lines that no cache has, then a chase through the same lines, against one through another such set."""
    stored = scattered(size // machine.line_bytes)
    chased = order(1, len(stored), machine.line_bytes, "random")
    return _reloaded(machine, stored, chased), _reloaded(machine, stored, chased + np.uint32(len(stored)))


def _reloaded(machine: Machine, stored: Numbers, chased: Numbers) -> float:
    lines = np.concatenate([stored, chased])
    what = np.repeat(np.array([STORE, CHASE], np.uint8), len(stored))
    with started(machine, 2 * len(stored), huge=machine.huge_pages) as running:
        return running.run(lines, what) / len(lines)
