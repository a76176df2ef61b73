# SPDX-License-Identifier: Apache-2.0
"""Attempts of a visit that is timed over a line: how long each is, when there is another, what the last one says."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from tollmeter.model import Failure, Point, Visit
from tollmeter.protocol import NotTimed, Stamp, outcome, refused
from tollmeter.targets.external_clock import timed_over

VISIT = Visit(
    id=1, point=Point(probe="any.probe", abi="x86_64", target="local+pty"), round=0, cpus=(1,), samples=16,
    sample_ns=10_000, seed=1, deadline_ms=20_000, iterations=700, control_iterations=70,
)  # fmt: skip
TIMED = refused(VISIT, 1, "unsupported", "a stream without a sample is as it was")
LINE = "pty"

Attempt = Callable[[Visit], tuple[bytes, Sequence[Stamp]]]


def attempts(*told: Failure | bytes) -> tuple[Attempt, list[Visit]]:
    """What each attempt comes to, and the visits that were asked for."""
    asked: list[Visit] = []

    def attempt(visit: Visit) -> tuple[bytes, Sequence[Stamp]]:
        asked.append(visit)
        result = told[len(asked) - 1]
        if isinstance(result, Failure):
            raise result
        return result, ()

    return attempt, asked


def hidden(number: int = 0, *, is_stopped: bool = False) -> NotTimed:
    return NotTimed(f"delays hid the rate, {number}", is_stopped)


def test_an_attempt_that_gives_the_rate_is_the_only_one() -> None:
    attempt, asked = attempts(TIMED)
    assert timed_over(LINE, VISIT, 1, attempt) == TIMED
    assert [(one.samples, one.iterations, one.control_iterations) for one in asked] == [(64, 700, 70)]


def test_each_further_attempt_is_longer_and_looks_for_its_iterations_anew() -> None:
    attempt, asked = attempts(hidden(), hidden(), TIMED)
    assert timed_over(LINE, VISIT, 1, attempt) == TIMED
    lengths = [3 * one.samples * one.sample_ns for one in asked]
    assert lengths == pytest.approx([100e6, 300e6, 1000e6], rel=1e-3), "of all batches"
    assert [(one.iterations, one.control_iterations) for one in asked[1:]] == [(0, 0), (0, 0)]


def test_a_visit_that_is_longer_by_itself_stays_so() -> None:
    long = msgspec.structs.replace(VISIT, samples=100, sample_ns=20_000_000)
    attempt, asked = attempts(TIMED)
    timed_over(LINE, long, 1, attempt)
    assert (asked[0].samples, asked[0].sample_ns) == (100, 20_000_000)


def test_a_third_attempt_that_fails_says_why_and_there_is_no_fourth() -> None:
    attempt, asked = attempts(hidden(1), hidden(2), hidden(3), TIMED)
    told = outcome(timed_over(LINE, VISIT, 1, attempt))
    assert (told.status, told.reason, len(asked)) == ("infrastructure", "delays hid the rate, 3", 3)


def test_a_visit_that_was_to_end_early_is_not_made_again() -> None:
    attempt, asked = attempts(hidden(is_stopped=True), TIMED)
    assert outcome(timed_over(LINE, VISIT, 1, attempt)).status == "interrupted"
    assert len(asked) == 1


def test_a_line_that_failed_is_not_tried_again() -> None:
    attempt, asked = attempts(Failure("the line is gone", exit_code=5), TIMED)
    told = outcome(timed_over(LINE, VISIT, 1, attempt))
    assert (told.status, told.reason, len(asked)) == ("infrastructure", "the line is gone", 1)
