# SPDX-License-Identifier: Apache-2.0
"""Distributions against their closed forms and published values, fits against what their solutions must satisfy; levels
of a series are found, and scatter, outliers and modes are not taken for levels."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from itertools import pairwise
from math import exp, factorial, inf, log, pi, sqrt, tan

import numpy as np
import pytest

from tollmeter.maths.distributions import (
    digamma,
    log_factorials,
    lower_gamma,
    student_reach,
    student_tails,
    survivors,
    trigamma,
)
from tollmeter.maths.fits import Array, bounded, change_points, level, nearest_rising, not_negative, scatter

EULER = 0.5772156649015329
FITS = 300


def near(value: float, error: float = 1e-12) -> object:
    return pytest.approx(value, rel=error)


@pytest.mark.parametrize(
    ("freedom", "reach"),
    [
        (1, tan(0.475 * pi)), (2, 0.95 * sqrt(2 / (1 - 0.95**2))),  # closed forms
        (0.5, 164.55767348048821), (3.7, 2.867520707191187), (5, 2.5705818356363141), (10, 2.2281388519862739),
        (33.3, 2.0338192241340521), (500, 1.9647198374673675),
    ],
)  # fmt: skip
def test_a_95_percent_interval_reaches_as_far_as_students_t(freedom: float, reach: float) -> None:
    assert student_reach(freedom) == near(reach)
    assert student_tails(freedom, student_reach(freedom)) == near(0.05)


@pytest.mark.parametrize("t", [1e-9, 0.01, 0.5, 1.0, 3.0, 200.0])
def test_tails_of_students_t_are_its_closed_forms(t: float) -> None:
    assert student_tails(1, t) == near(2 / pi * np.arctan2(1, t))
    assert student_tails(2, -t) == near(2 / (2 + t * t + t * sqrt(2 + t * t)))
    assert student_tails(7, 0) == 1


def test_digamma_and_trigamma_at_known_places() -> None:
    assert digamma(1) == near(-EULER) and digamma(0.5) == near(-EULER - 2 * log(2))
    assert digamma(12.5) == near(digamma(11.5) + 1 / 11.5) and digamma(1e6) == near(log(1e6) - 5e-7 - 1e-12 / 12)
    assert trigamma(1) == near(pi**2 / 6) and trigamma(0.5) == near(pi**2 / 2)
    assert trigamma(3) == near(pi**2 / 6 - 1 - 1 / 4)


def test_the_lower_gamma_function_is_a_poisson_numbers_chance() -> None:
    means = np.array([1e-3, 0.5, 1.0, 4.0, 30.0, 250.0])
    for least in (1, 2, 16):
        fewer = [sum(exp(k * log(mean) - mean) / factorial(k) for k in range(least)) for mean in means]
        assert lower_gamma(least, means) == pytest.approx(1 - np.array(fewer), abs=1e-12)
    assert lower_gamma(0.5, np.array([0.25])) == near(0.5204998778130465)  # erf(0.5)


def test_log_factorials_by_hand() -> None:
    assert log_factorials(20).tolist() == [near(log(factorial(number))) if number > 1 else 0.0 for number in range(21)]


def test_survivors_solve_their_equation() -> None:
    """Also close to a mean of 1, where twice the excess is left."""
    means = np.array([1 + 1e-12, 1.001, 1.5, 2 * log(2), 3.0, 50.0])
    found = survivors(means)
    assert found == pytest.approx(1 - np.exp(-means * found), rel=1e-9, abs=1e-12)
    assert found[0] == near(2e-12, 1e-3) and found[3] == near(0.5) and found[-1] == near(1.0)


def best(terms: Array, wanted: Array, low: Array, high: Array) -> None:
    """Inside their bounds the slope of an unknown is nothing; at a bound it leads out (Karush, Kuhn and Tucker)."""
    found = bounded(terms, wanted, low, high)
    assert np.all(found >= low) and np.all(found <= high)
    slope = terms.T @ (wanted - terms @ found) / np.linalg.norm(terms, axis=0) / np.linalg.norm(wanted)
    for value, least, most, along in zip(found, low, high, slope, strict=True):
        assert (along < 1e-9 or value == most) and (along > -1e-9 or value == least)


def test_a_bounded_fit_is_the_best_there_is() -> None:
    random = np.random.default_rng(4711)
    for _ in range(FITS):
        rows, unknowns = random.integers(3, 40), random.integers(1, 8)
        terms, wanted = random.standard_normal((rows, unknowns)), random.standard_normal(rows) * 3
        low = np.where(random.random(unknowns) < 0.4, -inf, random.standard_normal(unknowns) - 1)
        high = np.where(random.random(unknowns) < 0.4, inf, np.where(np.isfinite(low), low, 0) + 2)
        best(terms, wanted, low, high)
        best(np.abs(terms) ** 3, wanted, np.zeros(unknowns), np.full(unknowns, inf))


def test_a_fit_with_identical_columns_terminates() -> None:
    """Two columns are one: what both take together is all that is known."""
    column = np.array([1.0, 2.0, 3.0])
    found = not_negative(np.column_stack([column, column, -column]), 2 * column)
    assert found[0] + found[1] - found[2] == near(2) and np.all(found >= 0)
    assert not_negative(np.eye(2), np.array([-1.0, 3.0])) == pytest.approx([0, 3])


def test_the_nearest_rising_values_are_the_least_of_the_greatest_means() -> None:
    """max over starts of the min over ends of a stretch's weighted mean (Robertson, Wright and Dykstra 1988)."""
    random = np.random.default_rng(4711)
    for _ in range(30):
        count = int(random.integers(1, 12))
        values, weights = random.standard_normal(count), random.random(count) + 0.01
        found = nearest_rising(values, weights)
        for at in range(count):
            means = [
                min(np.average(values[a : b + 1], weights=weights[a : b + 1]) for b in range(at, count))
                for a in range(at + 1)
            ]
            assert found[at] == near(max(means))
        assert all(left <= right for left, right in pairwise(found))
    assert nearest_rising([3.0, 1.0, 2.0, 5.0]).tolist() == [2, 2, 2, 5]


# ---- change points ---------------------------------------------------------------------------------------------------

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


def test_change_points_of_four_times_as_many_runs_take_no_sixteen_times_the_memory() -> None:
    """10,000 runs took 2.4 GB a series."""

    def peak(runs: int) -> int:
        values = np.random.default_rng(1).normal(0, 0.01, runs)
        values[runs // 2 :] += 0.08
        tracemalloc.start()
        try:
            assert change_points(values.tolist(), [0.01] * runs) == [runs // 2]
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(2400) < 12 * peak(600)
