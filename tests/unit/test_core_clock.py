# SPDX-License-Identifier: Apache-2.0
"""Which times are made of core cycles, by how they scatter with the core's clock."""

from __future__ import annotations

import pytest

from tollmeter.experiment.core_clock import follows_clock

CLOCKS_HZ = [4.0e9, 3.9e9, 4.1e9, 3.8e9, 4.05e9, 3.95e9]


def test_a_cost_in_cycles_follows_the_clock() -> None:
    assert follows_clock([100 / hz * 1e9 for hz in CLOCKS_HZ], CLOCKS_HZ)


def test_a_cost_in_ns_does_not() -> None:
    assert not follows_clock([25.0 * (1 + 0.001 * (-1) ** i) for i, _ in enumerate(CLOCKS_HZ)], CLOCKS_HZ)


@pytest.mark.parametrize(("power", "follows"), [(0.8, True), (0.6, True), (0.4, False), (0.2, False)])
def test_what_is_partly_of_cycles_is_rounded_to_the_nearer(power: float, follows: bool) -> None:
    assert follows_clock([(4e9 / hz) ** power for hz in CLOCKS_HZ], CLOCKS_HZ) is follows


def test_a_steady_clock_tells_nothing() -> None:
    """Ten times less than a tenth of a percent, and costs that go with it all the same."""
    clocks = [4e9 * (1 + 0.0001 * i) for i in range(6)]
    assert not follows_clock([100 / hz * 1e9 for hz in clocks], clocks)


def test_three_visits_tell_nothing_and_four_do() -> None:
    costs = [100 / hz * 1e9 for hz in CLOCKS_HZ]
    assert not follows_clock(costs[:3], CLOCKS_HZ[:3])
    assert follows_clock(costs[:4], CLOCKS_HZ[:4])


@pytest.mark.parametrize(("cost", "clock"), [(0.0, 4e9), (-1.0, 4e9), (1.0, 0.0)])
def test_what_has_no_logarithm_tells_nothing(cost: float, clock: float) -> None:
    costs = [100 / hz * 1e9 for hz in CLOCKS_HZ]
    assert not follows_clock([*costs, cost], [*CLOCKS_HZ, clock])


def test_one_odd_visit_decides_nothing() -> None:
    """The slowest visit took 7 % less than its clock allows, which brings its ns amid the others'."""
    costs = [100 / hz * 1e9 * (0.93 if hz == min(CLOCKS_HZ) else 1) for hz in CLOCKS_HZ]
    assert follows_clock(costs, CLOCKS_HZ)
