# SPDX-License-Identifier: Apache-2.0
"""Estimates against numbers worked out by hand, and against what they promise of chance."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollmeter.numbers.stats import benjamini_hochberg, hodges_lehmann_ratio, modes, quartiles

positive = st.floats(min_value=1e-3, max_value=1e9)


def noisy_visits(seed: int, visits: int, between: float, within: float) -> list[list[float]]:
    generator = np.random.default_rng(seed)
    centres = generator.normal(0, between, (visits, 1))
    return np.exp(log(100) + centres + generator.normal(0, within, (visits, 7))).tolist()  # type: ignore[no-any-return]


def test_false_discoveries_by_hand() -> None:
    """Four chances times 4 over their rank: 0.04, 0.06, 0.0533 and 0.5; the second is no surer than the third."""
    assert benjamini_hochberg([0.03, 0.5, 0.01, 0.04]) == pytest.approx([0.16 / 3, 0.5, 0.04, 0.16 / 3])
    assert benjamini_hochberg([0.9, 1.0]) == pytest.approx([1.0, 1.0])
    assert benjamini_hochberg([]) == []


def test_quartiles_by_hand() -> None:
    assert quartiles([1, 2, 3, 4, 5]) == (2, 4)


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
