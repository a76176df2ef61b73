# SPDX-License-Identifier: Apache-2.0
"""Points with two costs and none in between."""

from __future__ import annotations

import numpy as np
import pytest

from tollmeter.experiment.two_states import upper_heap


def dearer(*costs: float) -> list[bool] | None:
    found = upper_heap(np.log(costs))
    return None if found is None else found.tolist()


def test_two_heaps_are_told_apart_in_the_order_of_the_visits() -> None:
    assert dearer(10, 20, 10.1, 19.8, 9.9, 20.2, 10) == [False, True, False, True, False, True, False]


def test_five_visits_are_too_few_and_six_are_not() -> None:
    assert dearer(10, 10, 10, 20, 20) is None
    assert dearer(10, 10, 10, 10, 20, 20) == [False] * 4 + [True] * 2


def test_one_visit_alone_is_no_heap_nor_is_less_than_a_fifth() -> None:
    assert dearer(*[10] * 6, 20) is None
    assert dearer(*[10] * 8, 20, 20) == [False] * 8 + [True] * 2
    assert dearer(*[10] * 9, 20, 20) is None, "2 of 11 are less than a fifth"


def test_heaps_closer_than_a_fifth_are_one() -> None:
    assert dearer(10, 10, 10, 11.9, 11.9, 11.9) is None
    assert dearer(10, 10, 10, 12.1, 12.1, 12.1) is not None


def test_a_heap_with_a_tail_is_one() -> None:
    assert dearer(10, 10.1, 10.2, 10.4, 11, 12, 13.5, 15.5, 18) is None


def test_something_between_the_heaps_makes_them_one() -> None:
    assert dearer(10, 10, 10, 14, 20, 20, 20) is None


@pytest.mark.parametrize(("spread", "alarms_allowed"), [(0.01, 0.0), (0.1, 0.02), (0.3, 0.08)])
def test_chance_alone_seldom_looks_like_two(spread: float, alarms_allowed: float) -> None:
    generator = np.random.default_rng(3)
    alarms = [upper_heap(generator.normal(0, spread, 6 + i % 10)) is not None for i in range(500)]
    assert np.mean(alarms) <= alarms_allowed


@pytest.mark.parametrize("visits", [6, 8, 12, 20])
def test_two_costs_a_third_apart_are_nearly_always_seen(visits: int) -> None:
    generator = np.random.default_rng(4)
    heaps = np.where(np.arange(visits) % 3, 0.0, 0.3)
    seen = [upper_heap(heaps + generator.normal(0, 0.02, visits)) is not None for _ in range(200)]
    assert np.mean(seen) > 0.95
