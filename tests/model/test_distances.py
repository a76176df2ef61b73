# SPDX-License-Identifier: Apache-2.0
"""How far apart loads of the same line lie, by the emulator's own code: against a list that is gone through, and as
caches of that size would have it."""

from __future__ import annotations

import numpy as np
import pytest

from model.library import Numbers, Operations, distances
from model.walks import CHASE, LOADS, STORE

QUARTERS = 4


def place_of(lines: int) -> float:
    """The middle of the quarter octave that a number of lines lies in."""
    octave = lines.bit_length() - 1
    quarter = lines * QUARTERS // (1 << octave) - QUARTERS
    return (1 << octave) / QUARTERS * (QUARTERS + quarter + 0.5)


def listed(lines: Numbers, operations: Operations, settled: int) -> dict[float, int]:
    """Loads by place, from a list of all lines, the one used last first."""
    used: list[int] = []
    found: dict[float, int] = {}
    for number, (line, operation) in enumerate(zip(lines.tolist(), operations.tolist(), strict=True)):
        if line in used:
            above = used.index(line)
            used.remove(line)
            if number >= settled and operation != STORE:
                found[place_of(above + 1)] = found.get(place_of(above + 1), 0) + 1
        used.insert(0, line)
    return found


def mixed(count: int) -> tuple[Numbers, Operations]:
    """Most by chance among few lines, some among many, every eighth a store: without a stride."""
    random = np.random.default_rng(5)
    near, far = random.integers(40, size=count) * 1000, random.integers(3000, size=count)
    lines = np.where(random.random(count) < 0.7, near, far).astype(np.uint32)
    return lines, np.where(np.arange(count) % 8 == 7, STORE, CHASE).astype(np.uint8)


def test_each_load_lies_as_far_from_the_last_of_its_line_as_a_list_says() -> None:
    """Moments are squeezed out and the room grows on the way."""
    lines, operations = mixed(15000)
    told = distances(lines, operations, 4000, 1)
    assert {place: others for place, foreseen, others in told if foreseen + others} == listed(lines, operations, 4000)
    assert not told[:, 1].any()


@pytest.mark.parametrize("stride", [1, -1, 3])
def test_a_walk_by_a_stride_is_foreseen_but_for_its_beginning(stride: int) -> None:
    lap = np.arange(4096, dtype=np.uint32) * abs(stride)
    walk = np.tile(lap if stride > 0 else lap[::-1], 3).astype(np.uint32)
    (told,) = distances(walk, np.full(len(walk), LOADS, np.uint8), 4096, 1).tolist()
    assert told == [place_of(4096), 2 * (4096 - 3), 6]


def test_of_several_instructions_each_has_its_own_stride() -> None:
    columns = np.column_stack([np.arange(2048) + offset * 100000 for offset in range(3)])
    walk = np.tile(columns.ravel(), 2).astype(np.uint32)
    operations = np.tile(np.array([LOADS, LOADS + 1, LOADS + 2], np.uint8), 2 * 2048)
    told = distances(walk, operations, 3 * 2048, 1)
    assert told[:, 1].sum() > 0.99 * 3 * 2048


@pytest.mark.parametrize("one_in", [2, 8])
def test_sampled_lines_estimate_the_distances_of_all_lines(one_in: int) -> None:
    walk = np.tile(np.random.default_rng(2).permutation(8192).astype(np.uint32), 3)
    told = distances(walk, np.full(len(walk), CHASE, np.uint8), 8192, one_in)
    assert told[:, 2].sum() == pytest.approx(2 * 8192, rel=0.1)
    assert np.average(told[:, 0], weights=told[:, 2]) == pytest.approx(8192, rel=0.15)
