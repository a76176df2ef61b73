# SPDX-License-Identifier: Apache-2.0
"""Estimates against numbers worked out by hand, and against what they promise of chance; points with two costs."""

from __future__ import annotations

from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tollmeter.numbers.stats import benjamini_hochberg, bimodal_split, hodges_lehmann_ratio, modes, quartiles

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


# ---- points with two costs and none in between -----------------------------------------------------------------------


def dearer(*costs: float) -> list[bool] | None:
    """Which visits of one batch each lie in the upper mode."""
    cut = bimodal_split([np.log([cost]) for cost in costs])
    return None if cut is None else [bool(np.log(cost) > cut) for cost in costs]


def test_two_modes_are_separated_in_the_order_of_the_visits() -> None:
    assert dearer(10, 20, 10.1, 19.8, 9.9, 20.2, 10) == [False, True, False, True, False, True, False]


def test_five_visits_are_too_few_and_six_are_not() -> None:
    assert dearer(10, 10, 10, 20, 20) is None
    assert dearer(10, 10, 10, 10, 20, 20) == [False] * 4 + [True] * 2


def test_one_visit_or_less_than_a_fifth_is_no_mode() -> None:
    assert dearer(*[10] * 6, 20) is None
    assert dearer(*[10] * 8, 20, 20) == [False] * 8 + [True] * 2
    assert dearer(*[10] * 9, 20, 20) is None, "2 of 11 are less than a fifth"


def test_modes_closer_than_a_tenth_are_one_and_of_few_batches_than_a_quarter() -> None:
    assert dearer(10, 10, 10, 12.6, 12.6, 12.6) is not None
    assert dearer(10, 10, 10, 12.1, 12.1, 12.1) is None
    assert dearer(*[10] * 100, *[11.15] * 100) is not None
    assert dearer(*[10] * 100, *[10.95] * 100) is None


def test_a_mode_with_a_tail_is_one() -> None:
    assert dearer(10, 10.1, 10.2, 10.4, 11, 12, 13.5, 15.5, 18) is None


def test_values_between_the_modes_make_them_one() -> None:
    assert dearer(10, 10, 10, 14, 20, 20, 20) is None


@pytest.mark.parametrize(("spread", "alarms_allowed"), [(0.01, 0.0), (0.1, 0.02), (0.3, 0.08)])
def test_chance_alone_seldom_looks_like_two(spread: float, alarms_allowed: float) -> None:
    generator = np.random.default_rng(3)
    alarms = [bimodal_split(generator.normal(0, spread, (6 + i % 10, 1))) is not None for i in range(500)]
    assert np.mean(alarms) <= alarms_allowed


@pytest.mark.parametrize("visits", [6, 8, 12, 20])
def test_two_modes_that_differ_by_a_third_are_nearly_always_found(visits: int) -> None:
    generator = np.random.default_rng(4)
    modes = np.where(np.arange(visits) % 3, 0.0, 0.3)
    seen = [bimodal_split((modes + generator.normal(0, 0.02, visits))[:, None]) is not None for _ in range(200)]
    assert np.mean(seen) > 0.95


def sticky(generator: np.random.Generator, dear_share: float, visits: int) -> list[NDArray[np.float64]]:
    """Visits of 32 batches; the state is drawn anew three times in each, and a batch in twenty is interrupted."""
    found = []
    for _ in range(visits):
        dear = np.repeat(generator.random(4) < dear_share, 8)
        tail = np.where(generator.random(32) < 0.05, generator.exponential(0.05, 32), 0.0)
        found.append(log(115) + np.where(dear, log(153 / 115), 0.0) + generator.normal(0, 0.003, 32) + tail)
    return found


@pytest.mark.parametrize("dear_share", [0.35, 0.5, 0.65])
def test_a_state_that_changes_within_visits_is_seen_where_their_medians_lie_anywhere(dear_share: float) -> None:
    generator = np.random.default_rng(5)
    cuts = [bimodal_split(sticky(generator, dear_share, 12)) for _ in range(100)]
    assert np.mean([cut is not None and log(118) < cut < log(150) for cut in cuts]) > 0.95


def test_one_state_with_interrupted_batches_is_one() -> None:
    generator = np.random.default_rng(6)
    assert not any(bimodal_split(sticky(generator, 0.0, 6 + i % 10)) is not None for i in range(200))


def test_a_mode_in_one_visit_alone_is_none() -> None:
    cheap = [np.full(8, log(10))] * 5
    assert bimodal_split([*cheap, np.full(30, log(20))]) is None
    assert bimodal_split([*cheap, np.full(15, log(20)), np.full(15, log(20))]) is not None
