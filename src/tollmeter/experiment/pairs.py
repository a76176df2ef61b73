# SPDX-License-Identifier: Apache-2.0
"""Computes the ratio of two points that are compared by interleaved visits (A/B) inside one run.

Between-run variance is common to both points, and so is most of the drift if the visits are interleaved: A B, B A, A B,
B A. The variance between layouts remains. A block is one layout of each point, set up with one seed, with its
interleaved visits. A block gives one observation, the median of its pairs, and blocks are independent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from math import exp, inf, log, sqrt
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.limits import FLOOR_SD, UNDISTURBED
from tollmeter.experiment.precision import Estimate, hodges_lehmann, shamos_sd
from tollmeter.maths.distributions import EFFICIENCY_OF_MIDDLE, student_reach, student_tails

LEAST_BLOCKS = 5
"""Fewest blocks that have a ratio: the scatter of fewer is too uncertain (decision 14)."""
LAYOUT_SERVES = 8
"""Visits of a block: ABBA twice, so that a drift of the machine favours neither point."""


class Ratio(NamedTuple):
    """The ratio of two points. estimate: the second point's cost over the first's, with its 95 % interval. p_value:
    two-sided, of the hypothesis that the points are equal. blocks: number of blocks."""

    estimate: Estimate
    p_value: float
    blocks: int


def blocks_of(pairs: Iterable[tuple[Hashable, float, float]]) -> list[float]:
    """Returns the Hodges-Lehmann estimate of the log ratio in each block. pairs: block, cost of the first point and
    cost of the second, both positive."""
    by_block: dict[Hashable, list[float]] = defaultdict(list)
    for block, first, second in pairs:
        by_block[block].append(log(second / first))
    return [hodges_lehmann(logs) for logs in by_block.values()]


def blocks_of_runs(pairs: Iterable[tuple[Hashable, float, float]]) -> list[float]:
    """Returns for each block the log ratio of the lower quartiles of single executions, which other workloads only
    lengthen. pairs: as in `blocks_of`, with times in place of medians of visits."""
    by_block: dict[Hashable, list[tuple[float, float]]] = defaultdict(list)
    for block, first, second in pairs:
        by_block[block].append((log(first), log(second)))
    quartiles = (np.quantile(np.asarray(logs), UNDISTURBED, axis=0) for logs in by_block.values())
    return [float(second - first) for first, second in quartiles]


def ratio_of_blocks(blocks: Sequence[float]) -> Ratio | None:
    """Returns the ratio of two points; None for fewer than LEAST_BLOCKS blocks. blocks: log ratio of each block."""
    count = len(blocks)
    if count < LEAST_BLOCKS:
        return None
    logs = np.asarray(blocks)
    middle = hodges_lehmann(logs)
    error = max(FLOOR_SD, shamos_sd(logs)) / sqrt(EFFICIENCY_OF_MIDDLE * count)
    half = student_reach(count - 1) * error
    p_value = student_tails(count - 1, middle / error)
    return Ratio(Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half)), p_value, count)


def blocks_wanted(measured: Ratio | None, precision: float) -> float:
    """Returns the number of blocks that give an interval of `precision` to either side; infinite if there are too few
    blocks to estimate it."""
    if measured is None:
        return inf
    half = log(measured.estimate.high / measured.estimate.low) / 2
    return max(float(LEAST_BLOCKS), measured.blocks * (half / log(1 + precision)) ** 2)
