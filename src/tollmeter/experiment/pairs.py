# SPDX-License-Identifier: Apache-2.0
"""Two points against each other inside one run.

What runs of a machine differ by is common to both, and so is most of what moments differ by, where the two are visited
in turns: A B, B A, A B, B A. What is left is what layouts differ by, so that a block - one layout of each, laid out by
the same seed, and its visits in turns - gives one observation, the middle of its pairs, and blocks are independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.precision import Estimate, location, scale
from tollmeter.maths.distributions import student_reach, student_tails

LEAST_BLOCKS = 5
LAYOUT_SERVES = 8
"""Visits of a block, in turns: ABBA twice, so that a drift of the machine favours neither."""
_FLOOR_SD = 1e-5
_EFFICIENCY = 0.955
"""Of the location's variance beside that of a mean, for what is scattered normally (Hodges and Lehmann 1963)."""


class Ratio(NamedTuple):
    """found: the second over the first, with its 95 % interval; chance: that they are the same, two-sided. blocks: that
    it is made of."""

    found: Estimate
    chance: float
    blocks: int


def blocks_of(pairs: Iterable[tuple[Hashable, float, float]]) -> list[float]:
    """Of each block the middle of its pairs' log ratios. pairs: the block, the first's cost and the second's, both
    positive."""
    by_block: dict[Hashable, list[float]] = defaultdict(list)
    for block, first, second in pairs:
        by_block[block].append(log(second / first))
    return [location(logs) for logs in by_block.values()]


def ratio(blocks: Sequence[float]) -> Ratio | None:
    """None of fewer than five blocks, whose scatter is hardly known. blocks: of each the log ratio."""
    count = len(blocks)
    if count < LEAST_BLOCKS:
        return None
    logs = np.asarray(blocks)
    middle = location(logs)
    error = max(_FLOOR_SD, scale(logs)) / sqrt(_EFFICIENCY * count)
    half = student_reach(count - 1) * error
    chance = student_tails(count - 1, middle / error)
    return Ratio(Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half)), chance, count)


def blocks_wanted(found: Ratio | None, precision: float) -> float:
    """How many blocks give an interval of `precision` to either side; infinite where too few are there to tell."""
    if found is None:
        return inf
    half = log(found.found.high / found.found.low) / 2
    return max(float(LEAST_BLOCKS), found.blocks * (half / log(1 + precision)) ** 2)
