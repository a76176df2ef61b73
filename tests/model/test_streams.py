# SPDX-License-Identifier: Apache-2.0
"""The model's streams against what real probes were recorded to do."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from model.library import Numbers, Running
from model.machine import KIB, PAGE_BYTES, Cache, Machine, Tlb, shape
from model.streams import BLOCK_BYTES, BLOCKS, POINTER_BYTES
from model.walks import CHASE, frames, order

RECORDINGS = Path(__file__).parent.parent / "recordings" / "streams"
SEED, LINE, DISTANCE = 7, 64, 72
LOCAL_BYTES = 96 * PAGE_BYTES
FEW_TRANSLATIONS = Machine(caches=(Cache(32 * KIB, 8, 4),), memory_latency=100, tlbs=(Tlb(32, 32, 300),))


def recorded(name: str, kinds: str = "LS") -> list[int]:
    """Offsets in the probe's buffer, in the order of the accesses."""
    lines = gzip.decompress((RECORDINGS / name).read_bytes()).decode().split("\n")
    return [int(offset) for kind, offset in (line.split() for line in lines if line) if kind in kinds]


def followers(walk: Numbers) -> dict[int, int]:
    """What comes after each place of a cycle."""
    return dict(pairwise([*walk.tolist(), int(walk[0])]))


def share_followed(seen: list[int], cycle: dict[int, int]) -> float:
    """Of the recorded steps, how many the cycle makes as well: not those where the probe began anew."""
    return float(np.mean([cycle.get(here) == there for here, there in pairwise(seen)]))


@pytest.mark.parametrize(("name", "bytes_", "kind"), [("latency-8192-small.gz", 8192, "random"),
                                                      ("latency-393216-local.gz", LOCAL_BYTES, "local")])  # fmt: skip
def test_a_walk_meets_its_lines_in_the_recorded_order(name: str, bytes_: int, kind: str) -> None:
    seen = [offset // LINE for offset in recorded(name)]
    walk = order(SEED, bytes_ // LINE, LINE, kind)
    assert set(seen) == set(range(bytes_ // LINE))
    assert share_followed(seen, followers(walk)) > 0.99
    assert share_followed(seen, followers(order(SEED + 1, bytes_ // LINE, LINE, kind))) < 0.5


def test_pairs_of_accesses_are_the_recorded_ones() -> None:
    """The control's loads, which go through the second word of each block, are left out."""
    seen = [offset for offset in recorded("line-72.gz") if offset % BLOCK_BYTES in (0, DISTANCE)]
    starts = order(SEED, BLOCKS, POINTER_BYTES, "random").astype(np.int64) * BLOCK_BYTES
    pairs = np.column_stack([starts, starts + DISTANCE]).ravel()
    assert len(seen) > BLOCKS
    assert share_followed(seen, followers(pairs)) > 0.99


@pytest.mark.parametrize("kind", ["S", "L"])
def test_stores_and_loads_go_through_a_set_in_the_recorded_order(kind: str) -> None:
    seen = [offset // LINE for offset in recorded("write-policy-resident-8192.gz", kind)]
    assert len(seen) > 1000
    assert share_followed(seen, followers(np.arange(8192 // LINE))) > 0.99


def test_a_recorded_walk_takes_as_long_as_the_models() -> None:
    """On a machine whose translations are so few that the order of pages decides."""
    recording = recorded("latency-393216-local.gz")
    seen = np.array([offset // LINE for offset in recording], np.uint32)
    local, random = (np.resize(order(SEED, LOCAL_BYTES // LINE, LINE, kind), len(seen)) for kind in ("local", "random"))
    times = [_time(stream) for stream in (seen, local, random)]
    assert times[0] == pytest.approx(times[1], rel=0.02)
    assert times[2] > 2 * times[0]


def _time(stream: Numbers) -> float:
    with Running(shape(FEW_TRANSLATIONS), frames(FEW_TRANSLATIONS, LOCAL_BYTES // PAGE_BYTES, 0)) as running:
        return running.run(stream.astype(np.uint32), CHASE) / len(stream)
