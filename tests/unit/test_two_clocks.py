# SPDX-License-Identifier: Apache-2.0
"""The rate of one clock by another that sees its moments late."""

from __future__ import annotations

import random

import pytest

from tollmeter.protocol.line_marks import Moment, rate

STEP = 1_000_000
HOUR = 3_600_000_000_000
"""Clocks do not begin at nothing."""


def moments(count: int, by: float, late: tuple[int, float] = (0, 0.0), seed: int = 1) -> list[Moment]:
    """late: up to how much, and the share of the moments that are."""
    rng = random.Random(seed)
    most, share = late
    return [
        (HOUR + STEP * at, round(by * STEP * at) + (rng.randrange(most) if rng.random() < share else 0))
        for at in range(count)
    ]


@pytest.mark.parametrize("by", [0.5, 0.9, 1.0, 1.01, 3.0])
def test_clocks_without_delays_have_their_rate_to_the_last_digit(by: float) -> None:
    found = rate(moments(40, by))
    assert found is not None
    assert (found.value, found.error) == (pytest.approx(by, rel=1e-6), pytest.approx(0, abs=1e-6))


@pytest.mark.parametrize("seed", range(20))
def test_delays_of_most_moments_by_many_steps_leave_the_rate_known(seed: int) -> None:
    found = rate(moments(300, 1.1, late=(20 * STEP, 0.7), seed=seed))
    assert found is not None and found.error < 0.01
    assert found.value == pytest.approx(1.1, rel=0.001)


def test_the_rate_is_no_other_whatever_the_order_of_the_moments() -> None:
    told = moments(40, 1.1, late=(STEP, 0.5))
    assert rate(told[::-1]) == rate(told)


@pytest.mark.parametrize("seed", range(20))
def test_a_rate_that_delays_hide_has_an_error_to_match(seed: int) -> None:
    """No moment comes at once."""
    found = rate(moments(40, 1.0, late=(10 * STEP, 1.0), seed=seed))
    assert found is not None
    assert abs(found.value - 1) < 4 * found.error


def test_moments_that_all_waited_for_the_last_one_are_no_rate_to_rely_on() -> None:
    told = [(own, max(seen, 30 * STEP)) for own, seen in moments(40, 1.0)]
    found = rate(told)
    assert found is None or found.error > 0.1


def test_a_clock_that_jumps_in_between_has_an_error_to_match() -> None:
    told = [(own, seen + (4 * STEP if at >= 20 else 0)) for at, (own, seen) in enumerate(moments(40, 1.0))]
    found = rate(told)
    assert found is not None and found.error > 0.05


STOOD_AT_FIRST = [(HOUR + STEP * max(0, at - 19), STEP * at) for at in range(40)]


@pytest.mark.parametrize("told", [[], moments(9, 1.0), [(HOUR, STEP * at) for at in range(40)], STOOD_AT_FIRST])
def test_few_readings_or_a_stopped_clock_give_no_rate(told: list[Moment]) -> None:
    assert rate(told) is None
