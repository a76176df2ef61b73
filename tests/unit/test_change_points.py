# SPDX-License-Identifier: Apache-2.0
"""Levels of a series are found, and scatter, outliers and modes are not taken for levels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tollmeter.maths.fits import change_points, level, scatter

SERIES = 200


def noise(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng([2036, seed, count]).standard_normal(count)


def found(values: Sequence[float] | np.ndarray, error: float = 1.0) -> list[int]:
    return change_points(list(values), [error] * len(values))


@pytest.mark.parametrize("count", [20, 100])
def test_a_series_without_a_change_has_none(count: int) -> None:
    assert sum(bool(found(noise(seed, count))) for seed in range(SERIES)) <= SERIES // 100


@pytest.mark.parametrize("times", [0.5, 2.0])
def test_intervals_that_are_half_or_twice_as_wide_as_the_scatter_make_no_change(times: float) -> None:
    assert sum(bool(found(times * noise(seed, 50))) for seed in range(SERIES)) <= 3 * SERIES // 100


def test_a_step_of_three_standard_errors_is_found_within_two_runs() -> None:
    near = 0
    for seed in range(SERIES):
        at = 5 + seed % 30
        values = noise(seed, 40) + 3 * (np.arange(40) >= at)
        near += any(abs(place - at) <= 2 for place in found(values))
    assert near >= 0.9 * SERIES


def test_one_value_that_is_off_is_no_level_and_two_at_the_end_are() -> None:
    flat = [0.0] * 12
    assert found([*flat, 50.0, *flat]) == []
    assert found([*flat, 50.0]) == []
    assert found([*flat, 50.0, 50.0]) == [12]
    assert found([*flat, *[50.0] * 3, *flat]) == [12, 15]


def test_an_uncertain_value_weighs_less() -> None:
    values, errors = [0.0] * 8 + [6.0] * 2, [1.0] * 10
    assert change_points(values, errors) == [8]
    assert change_points(values, [1.0] * 8 + [6.0] * 2) == []


def test_a_row_that_alternates_between_two_modes_has_no_change() -> None:
    changed = 0
    for seed in range(SERIES):
        chance = np.random.default_rng([7, seed])
        changed += bool(found(noise(seed, 60) + 8 * (chance.random(60) < 0.4)))
    assert changed <= 3 * SERIES // 100


def test_scatter_beyond_the_errors_is_measured_and_a_step_is_no_scatter() -> None:
    values = 3 * noise(1, 400)
    assert scatter(list(values), [1.0] * 400) == pytest.approx(3, rel=0.15)
    steps = [0.1 * (place % 2) + 50 * (place >= 10) for place in range(20)]
    assert scatter(steps, [1.0] * 20) == 1.0


def test_a_level_leaves_outliers_out() -> None:
    middle, error = level([1.0, 1.2, 0.8, 40.0], [0.1, 0.1, 0.1, 0.1], 1.0)
    assert middle == pytest.approx(1.0)
    assert error == pytest.approx(0.1 / 3**0.5)


def test_too_few_values_have_no_change() -> None:
    assert found([]) == [] and found([1.0]) == [] and found([0.0, 50.0]) == [] and found([0.0, 0.0, 50.0]) == []
    assert found([0.0, 0.0, 50.0, 50.0]) == [2]
