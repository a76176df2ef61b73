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
    """Of a run that ends as soon as its ratio is known to its precision, or when its budget is spent."""
    looks = [ratio(blocks[:LEAST_BLOCKS])]
    for count in range(LEAST_BLOCKS + 1, len(blocks) + 1):
        if blocks_wanted(looks[-1], RATIO_PRECISION) <= count - 1:
            break
        looks.append(ratio(blocks[:count]))
    assert looks[-1]
    return looks[-1]


def told(runs: int, sd: float, most: int = _LONGEST, middle: float = 0.0) -> list[tuple[bool, int]]:
    """Whether each run says that there is a difference, and after how many blocks. most: that the budget reaches for.
    Pairs of one run are adjusted for each other elsewhere."""
    chance = np.random.default_rng([runs, most, round(1e6 * sd)])
    ends = (at_its_end(chance.normal(middle, sd, most).tolist()) for _ in range(runs))
    return [(differs(found, found.p_value, RATIO_PRECISION), found.blocks) for found in ends]


@pytest.mark.parametrize(("sd", "runs"), [(0.001, 4000), (0.003, 3000), (0.005, 2000), (0.01, 2000)])
def test_of_runs_without_a_difference_one_in_two_hundred_says_that_there_is_one(sd: float, runs: int) -> None:
    assert sum(differ for differ, _ in told(runs, sd)) <= MOST_FALSE * runs


@pytest.mark.parametrize("most", [5, 8, 16])
@pytest.mark.parametrize("sd", [0.003, 0.007, 0.02])
def test_nor_do_more_where_a_budget_ends_the_run(sd: float, most: int) -> None:
    assert sum(differ for differ, _ in told(2000, sd, most)) <= MOST_FALSE * 2000


def test_one_percent_is_found_by_as_many_blocks_as_the_precision_takes() -> None:
    """Where blocks scatter by 0.3 %: nine blocks, which the level at which a difference is told does not add to."""
    found = told(1000, 0.003, middle=np.log1p(0.01))
    assert sum(differ for differ, _ in found) >= 0.98 * len(found)
    assert np.mean([blocks for _, blocks in found]) < 1.3 * 8.9


def test_a_difference_of_eight_errors_is_found_by_five_blocks() -> None:
    found = told(1000, 0.03, most=LEAST_BLOCKS, middle=8 * 0.03 / LEAST_BLOCKS**0.5)
    assert sum(differ for differ, _ in found) >= 0.45 * len(found)


def test_a_ratio_as_precise_as_it_was_to_be_needs_a_smaller_chance() -> None:
    found = ratio([0.008, 0.009, 0.010, 0.011, 0.012])
    assert found is not None
    assert differs(found, 0.001, precision=1e-6), "its budget ended it"
    assert not differs(found, 0.001, precision=0.1)
