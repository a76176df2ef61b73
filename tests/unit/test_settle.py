# SPDX-License-Identifier: Apache-2.0
"""When to stop visiting a point, and where to look closer."""

from __future__ import annotations

from tollmeter.analysis.settle import refine, settled
from tollmeter.model import Metric, Outcome, Point, Probe, Sample, Status

PROBE = Probe(
    probe="kernel.enter",
    question="?",
    revision=1,
    metrics=(Metric(name="cost", unit="ns", better="less", summary="s"),),
)
GRID = [1024 * step for step in (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32)]


def visit(number: int, cost_ns: float, spread: float = 0.0, status: Status = "ok") -> Outcome:
    costs = [cost_ns * (1 + spread * (place - 2)) for place in range(5)]
    samples = tuple(Sample(iterations=1000, body=(int(1000 * cost), int(2000 * cost))) for cost in costs)
    point = Point(probe="kernel.enter", abi="x86_64", target="local")
    return Outcome(visit=number, round=number, point=point, status=status, samples=samples if status == "ok" else ())


def test_three_visits_that_agree_are_enough_and_two_are_not() -> None:
    assert settled([visit(n, 100) for n in range(3)], PROBE)
    assert not settled([visit(n, 100) for n in range(2)], PROBE)


def test_visits_that_differ_ask_for_more() -> None:
    assert not settled([visit(0, 100), visit(1, 110), visit(2, 121)], PROBE)


def test_what_cannot_run_is_not_asked_again() -> None:
    assert settled([visit(0, 0, status="unsupported")], PROBE)
    assert settled([visit(0, 0, status="wrong_answer")], PROBE)
    assert not settled([visit(0, 0, status="failed")], PROBE)


def test_a_flat_curve_needs_nothing_more() -> None:
    assert refine([(4096, 1.0), (8192, 1.02), (16384, 0.99), (32768, 1.05)], GRID) == []


def test_a_step_is_looked_at_from_within() -> None:
    added = refine([(4096, 1.0), (8192, 1.0), (16384, 3.5), (32768, 3.6)], GRID)
    assert added
    assert all(8192 < value < 16384 for value in added)


def test_a_fall_is_a_step_too_and_the_grid_is_all_there_is() -> None:
    assert refine([(8192, 9.0), (16384, 3.0)], GRID) == [12288]
    assert refine([(8192, 9.0), (10240, 3.0)], GRID) == []


def test_steps_are_taken_in_the_order_of_their_size() -> None:
    grid = list(range(1, 200))
    stairs = [(10 * n, 1.5 ** (n * n / 10)) for n in range(1, 15)]
    added = refine(stairs, grid)
    assert len(added) == 6
    assert added == sorted(added)
    assert min(added) > 60
