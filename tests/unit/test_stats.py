# SPDX-License-Identifier: Apache-2.0
"""Estimates against numbers worked out by hand, and against what they promise of chance."""

from __future__ import annotations

import time
from itertools import combinations
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as distributions

from tollmeter.numbers.stats import (
    benjamini_hochberg,
    hodges_lehmann_ratio,
    mann_whitney,
    median_of_visits,
    modes,
    quartiles,
    slope_minimum,
    welch,
)

positive = st.floats(min_value=1e-3, max_value=1e9)
visits_of_positive = st.lists(st.lists(positive, min_size=1, max_size=9), min_size=1, max_size=8)


def noisy_visits(seed: int, visits: int, between: float, within: float) -> list[list[float]]:
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, between, (visits, 1))
    return np.exp(log(100) + centres + generator.normal(0, within, (visits, 7))).tolist()  # type: ignore[no-any-return]


def test_the_median_is_that_of_all_samples() -> None:
    assert median_of_visits([[1, 2], [3, 100]]).value == 2.5
    assert median_of_visits([[7.0]]).value == 7.0


def test_no_sample_has_no_median() -> None:
    with pytest.raises(ValueError, match="no sample"):
        median_of_visits([[], []])


@given(visits_of_positive)
def test_the_interval_holds_the_median_and_stays_positive(visits: list[list[float]]) -> None:
    found = median_of_visits(visits)
    assert 0 < found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    assert found == median_of_visits(visits)


@pytest.mark.parametrize("visits", [3, 4, 5, 8, 20])
@pytest.mark.parametrize(("between", "within"), [(0.03, 0.01), (0.005, 0.03)])
def test_nineteen_intervals_of_twenty_cover_the_truth(visits: int, between: float, within: float) -> None:
    found = [median_of_visits(noisy_visits(seed, visits, between, within)) for seed in range(400)]
    covered = float(np.mean([one.low <= 100 <= one.high for one in found]))
    assert 0.89 <= covered <= 0.99


def test_samples_of_one_visit_are_not_taken_for_independent() -> None:
    """Between visits lies all the spread: as many samples in few visits must say less than in many."""
    few = np.mean([median_of_visits(noisy_visits(seed, 4, 0.05, 0.001)).half_width() for seed in range(50)])
    many = np.mean([median_of_visits(noisy_visits(seed, 28, 0.05, 0.001)).half_width() for seed in range(50)])
    assert few > 2 * many


def test_a_thousand_rows_take_less_than_a_second() -> None:
    data = [noisy_visits(seed, 5, 0.02, 0.02) for seed in range(1000)]
    median_of_visits(data[0])
    start = time.process_time()
    for visits in data:
        median_of_visits(visits)
    assert time.process_time() - start < 1


def test_quartiles_by_hand() -> None:
    assert quartiles([1, 2, 3, 4, 5]) == (2, 4)


def test_the_minimum_is_a_difference_of_minima() -> None:
    """The smallest difference of one sample, (130 - 100) / 10, is what a disturbed first half made of it."""
    disturbed = ([60.0, 100.0, 61.0], [110.0, 130.0, 112.0], 10.0)
    slower = ([62.0, 63.0], [124.0, 125.0], 10.0)
    assert slope_minimum([disturbed, slower]) == 5.0


@pytest.mark.parametrize("shape", ["normal", "lognormal", "exponential", "uniform", "student", "rounded"])
@pytest.mark.parametrize("count", [12, 20, 35, 200])
def test_one_mode_is_not_two(shape: str, count: int) -> None:
    generator = np.random.default_rng(count)
    draw = {
        "normal": lambda: np.exp(generator.normal(0, 0.05, count)),
        "lognormal": lambda: np.exp(generator.normal(0, 0.5, count)),
        "exponential": lambda: 1 + generator.exponential(0.3, count),
        "uniform": lambda: 1 + generator.random(count),
        "student": lambda: np.exp(0.05 * generator.standard_t(2, count)),
        "rounded": lambda: np.round(100 + generator.normal(0, 3, count)),
    }[shape]
    assert sum(bool(modes([draw().tolist()])) for _ in range(200)) <= 2


def test_visits_that_differ_are_not_modes() -> None:
    assert not any(modes(noisy_visits(seed, visits, 0.2, 0.002)) for visits in (3, 4, 6, 8) for seed in range(50))


def test_two_modes_are_seen() -> None:
    generator = np.random.default_rng(1)
    visits = [np.where(generator.random(10) < 0.4, 61, 27) * np.exp(generator.normal(0, 0.03, 10)) for _ in range(4)]
    low, high = modes([visit.tolist() for visit in visits])
    assert low == pytest.approx(27, rel=0.03)
    assert high == pytest.approx(61, rel=0.03)


def test_modes_of_whole_visits_are_seen_when_there_are_enough() -> None:
    generator = np.random.default_rng(2)
    visits = [(27 if i % 2 else 61) * np.exp(generator.normal(0, 0.02, 5)) for i in range(20)]
    assert modes([visit.tolist() for visit in visits]) == pytest.approx((27, 61), rel=0.03)


def test_the_ratio_and_its_interval_by_hand() -> None:
    """Four against four: of 70 splits the most extreme on either side is one, 1/70 < 2.5 % < 2/70, so the 95 %
    interval leaves out no more than rank 0 and runs from the first to the last ratio."""
    old, new = [10.0, 11.0, 12.0, 13.0], [20.0, 22.0, 24.0, 26.0]
    found = hodges_lehmann_ratio(old, new)
    ratios = sorted(b / a for a in old for b in new)
    assert found.value == pytest.approx(exp((log(ratios[7]) + log(ratios[8])) / 2))
    assert (found.low, found.high) == pytest.approx((ratios[0], ratios[-1]))


def test_three_against_three_cannot_reach_95_percent() -> None:
    found = hodges_lehmann_ratio([1, 2, 3], [10, 20, 30])
    assert (found.low, found.high) == (0, inf)


@pytest.mark.parametrize("count", [4, 5, 8, 15, 60])
def test_the_ratio_interval_covers(count: int) -> None:
    generator = np.random.default_rng(count)

    def draw(middle: float) -> list[float]:
        return list(middle * np.exp(0.1 * generator.standard_t(3, count)))

    found = [hodges_lehmann_ratio(draw(10), draw(13)) for _ in range(300)]
    assert np.mean([one.low <= 1.3 <= one.high for one in found]) >= 0.92


@given(st.lists(positive, min_size=4, max_size=8), st.lists(positive, min_size=4, max_size=8))
def test_turning_the_comparison_turns_the_ratio(old: list[float], new: list[float]) -> None:
    there, back = hodges_lehmann_ratio(old, new), hodges_lehmann_ratio(new, old)
    assert there.value * back.value == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


def test_mann_whitney_by_counting_all_splits() -> None:
    old, new = [1.0, 2.0, 3.0, 5.0], [4.0, 6.0, 7.0, 8.0]
    pooled = old + new
    splits = [sum(a > b for a in first for b in set(pooled) - set(first)) for first in combinations(pooled, 4)]
    seen = sum(a > b for a in old for b in new)
    assert mann_whitney(old, new) == pytest.approx(2 * np.mean([u <= seen for u in splits]))
    assert mann_whitney([], [1.0]) == 1


def test_welch_tells_far_from_near() -> None:
    assert welch([1.0, 1.01, 0.99], [2.0, 2.02, 1.98]) < 1e-3
    assert welch([1.0, 1.4, 0.7], [1.1, 1.3, 0.8]) > 0.5
    assert welch([1.0], [2.0, 2.1]) == 1
    assert (welch([1.0, 1.0], [1.0, 1.0]), welch([1.0, 1.0], [2.0, 2.0])) == (1, 0)


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx((0.04, 0.16 / 3, 0.16 / 3, 0.5))
    assert benjamini_hochberg([]) == ()


@given(st.lists(st.floats(min_value=0, max_value=1), min_size=1, max_size=30))
def test_adjusting_never_lowers_nor_reorders(p_values: list[float]) -> None:
    adjusted = benjamini_hochberg(p_values)
    assert all(
        after >= before or after == pytest.approx(before) for before, after in zip(p_values, adjusted, strict=True)
    )
    for (p, q), (p_other, q_other) in combinations(zip(p_values, adjusted, strict=True), 2):
        assert p > p_other or q <= q_other


@pytest.mark.parametrize(("first", "second"), [(3, 4), (5, 5), (8, 20), (60, 60)])
def test_rank_and_t_tests_agree_with_scipy(first: int, second: int) -> None:
    chance = np.random.default_rng(first)
    old, new = chance.lognormal(0, 0.3, first).tolist(), chance.lognormal(0.2, 0.5, second).tolist()
    assert mann_whitney(old, new) == pytest.approx(distributions.mannwhitneyu(old, new).pvalue, rel=1e-6)
    assert mann_whitney(new, old) == pytest.approx(mann_whitney(old, new))
    expected = distributions.ttest_ind(np.log(old), np.log(new), equal_var=False).pvalue
    assert welch(old, new) == pytest.approx(expected, rel=1e-9)


def test_ties_count_as_half() -> None:
    old, new = [1.0, 1.0, 2.0, 3.0, 3.0], [1.0, 3.0, 3.0, 4.0, 4.0, 5.0]
    expected = distributions.mannwhitneyu(old, new, method="asymptotic").pvalue
    assert mann_whitney(old, new) == pytest.approx(expected)
    assert mann_whitney([1.0, 1.0], [1.0, 1.0]) == 1
