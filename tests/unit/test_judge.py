# SPDX-License-Identifier: Apache-2.0
"""What conduct hears from analysis: settled points stay settled, bent curves ask for more, straight ones do not."""

from __future__ import annotations

from machines import LATENCY
from tollmeter.library.judging import AnalysisJudge
from tollmeter.model import Outcome, Point, Sample, Suite, Witness
from tollmeter.numbers.known import Learned


def judging() -> AnalysisJudge:
    return AnalysisJudge({LATENCY.probe: LATENCY}, Learned(), 0.03, Suite(name="any", question="?", select=()))


def visits(size: int, cost_ns: float, count: int = 3, spread: float = 0.0) -> list[Outcome]:
    point = Point(probe="memory.latency", abi="x86_64", target="local", parameters=(("size", size), ("pages", "huge")))
    found = []
    for number in range(count):
        n = round(cost_ns * (1 + spread * (number - 1)) * 1000)
        taken = tuple(Sample(iterations=1000, body=(n, 2 * n), witness=Witness(control_hz=4e9)) for _ in range(5))
        found.append(Outcome(visit=number, round=number, point=point, status="ok", controls=(4e9, 4e9), samples=taken))
    return found


def test_points_are_settled_by_their_interval() -> None:
    judge = judging()
    assert judge.visits_wanted(visits(4096, 100), LATENCY) <= 3
    assert judge.visits_wanted(visits(4096, 100, count=2), LATENCY) > 2
    assert judge.visits_wanted(visits(4096, 100, spread=0.3), LATENCY) > 3


def test_a_bent_curve_wants_points_at_its_bend_and_a_straight_one_none() -> None:
    judge, grid = judging(), [1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
    begun = [1024, 2048, 4096, 8192, 16384]
    flat = {size: visits(size, 100) for size in begun}
    assert list(judge.refine(flat, LATENCY, grid)) == []
    bent = {size: visits(size, 100 if size <= 4096 else 400) for size in begun}
    wished = judging().refine(bent, LATENCY, grid)
    assert 6144 in wished
    assert not set(wished) & set(begun)


def test_a_point_without_a_number_does_not_bend_a_curve() -> None:
    judge = judging()
    flat = {size: visits(size, 100) for size in (1024, 2048, 4096)}
    broken = [Outcome(visit=9, round=0, point=flat[1024][0].point, status="failed", reason="x")]
    assert list(judge.refine({**flat, 8192: broken}, LATENCY, [1024, 2048, 3072, 4096, 6144, 8192])) == []
