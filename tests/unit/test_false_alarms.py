# SPDX-License-Identifier: Apache-2.0
"""How often a run of two points that do not differ says that they do, and how soon it finds a difference: simulated,
with the run's own look behind every block."""

from __future__ import annotations

import numpy as np
import pytest

from tollmeter.experiment.pairs import LEAST_BLOCKS, Ratio, blocks_wanted, ratio
from tollmeter.judgement.opposed import differs
from tollmeter.model import RATIO_PRECISION

_LONGEST = 300
MOST_FALSE = 0.005


def at_its_end(blocks: list[float]) -> Ratio:
    """Of a run that ends as soon as its ratio is known to its precision."""
    looks = (ratio(blocks[:count]) for count in range(LEAST_BLOCKS, len(blocks) + 1))
    return next(found for found in looks if found and blocks_wanted(found, RATIO_PRECISION) <= found.blocks)


def ends(runs: int, sd: float, middle: float = 0.0) -> list[Ratio]:
    chance = np.random.default_rng([runs, round(1e6 * sd)])
    return [at_its_end(chance.normal(middle, sd, _LONGEST).tolist()) for _ in range(runs)]


@pytest.mark.parametrize(("sd", "runs"), [(0.001, 10_000), (0.003, 6000), (0.005, 4000), (0.007, 3000), (0.01, 2000)])
def test_of_runs_without_a_difference_one_in_two_hundred_says_that_there_is_one(sd: float, runs: int) -> None:
    """One look; pairs of a run are adjusted for each other elsewhere."""
    assert sum(differs(found, found.chance) for found in ends(runs, sd)) <= MOST_FALSE * runs


def test_one_percent_is_found_by_as_many_blocks_as_the_precision_takes() -> None:
    """Where blocks scatter by 0.3 %: nine blocks, which the level at which a difference is told does not add to."""
    found = ends(1000, 0.003, np.log1p(0.01))
    assert sum(differs(one, one.chance) for one in found) >= 0.98 * len(found)
    assert np.mean([one.blocks for one in found]) < 1.3 * 8.9
