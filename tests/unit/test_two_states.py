# SPDX-License-Identifier: Apache-2.0
"""Points with two costs and none in between."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
from numpy.typing import NDArray

from tollmeter.numbers.stats import bimodal_split


def dearer(*costs: float) -> list[bool] | None:
    """Which visits of one batch each lie in the upper heap."""
    cut = bimodal_split([np.log([cost]) for cost in costs])
    return None if cut is None else [bool(np.log(cost) > cut) for cost in costs]


def test_two_heaps_are_told_apart_in_the_order_of_the_visits() -> None:
    assert dearer(10, 20, 10.1, 19.8, 9.9, 20.2, 10) == [False, True, False, True, False, True, False]


def test_five_visits_are_too_few_and_six_are_not() -> None:
    assert dearer(10, 10, 10, 20, 20) is None
    assert dearer(10, 10, 10, 10, 20, 20) == [False] * 4 + [True] * 2


def test_one_visit_alone_is_no_heap_nor_is_less_than_a_fifth() -> None:
    assert dearer(*[10] * 6, 20) is None
    assert dearer(*[10] * 8, 20, 20) == [False] * 8 + [True] * 2
    assert dearer(*[10] * 9, 20, 20) is None, "2 of 11 are less than a fifth"


def test_heaps_closer_than_a_tenth_are_one_and_of_few_batches_than_a_quarter() -> None:
    assert dearer(10, 10, 10, 12.6, 12.6, 12.6) is not None
    assert dearer(10, 10, 10, 12.1, 12.1, 12.1) is None
    assert dearer(*[10] * 100, *[11.15] * 100) is not None
    assert dearer(*[10] * 100, *[10.95] * 100) is None


def test_a_heap_with_a_tail_is_one() -> None:
    assert dearer(10, 10.1, 10.2, 10.4, 11, 12, 13.5, 15.5, 18) is None


def test_something_between_the_heaps_makes_them_one() -> None:
    assert dearer(10, 10, 10, 14, 20, 20, 20) is None


@pytest.mark.parametrize(("spread", "alarms_allowed"), [(0.01, 0.0), (0.1, 0.02), (0.3, 0.08)])
def test_chance_alone_seldom_looks_like_two(spread: float, alarms_allowed: float) -> None:
    generator = np.random.default_rng(3)
    alarms = [bimodal_split(generator.normal(0, spread, (6 + i % 10, 1))) is not None for i in range(500)]
    assert np.mean(alarms) <= alarms_allowed


@pytest.mark.parametrize("visits", [6, 8, 12, 20])
def test_two_costs_a_third_apart_are_nearly_always_seen(visits: int) -> None:
    generator = np.random.default_rng(4)
    heaps = np.where(np.arange(visits) % 3, 0.0, 0.3)
    seen = [bimodal_split((heaps + generator.normal(0, 0.02, visits))[:, None]) is not None for _ in range(200)]
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


def test_a_heap_that_one_visit_alone_met_is_none() -> None:
    cheap = [np.full(8, log(10))] * 5
    assert bimodal_split([*cheap, np.full(30, log(20))]) is None
    assert bimodal_split([*cheap, np.full(15, log(20)), np.full(15, log(20))]) is not None
