# SPDX-License-Identifier: Apache-2.0
"""What conduct hears from analysis: settled points stay settled, bent curves ask for more, straight ones do not."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from random import Random
from typing import Any

import msgspec
import pytest

from support.builders import metric, outcome, probe, sample
from support.fake_catalog import LATENCY
from tollmeter.judgement.convergence import visits_wanted
from tollmeter.judgement.verdict import has_interval
from tollmeter.library.measure import AnalysisJudge
from tollmeter.model import (
    ClockReading,
    Outcome,
    Parameter,
    Point,
    Published,
    RowOf,
    Sample,
    Suite,
    Witness,
    Work,
)
from tollmeter.numbers import known
from tollmeter.numbers.known import Known, Learned
from tollmeter.numbers.rows import known_of, rows

PACE = Parameter(name="delay", kind="count", summary="cycles", start=64, stop=65536, per_octave=8, refine=True)


def judging() -> AnalysisJudge:
    return AnalysisJudge({LATENCY.probe: LATENCY}, Learned(), 0.03, Suite(name="any", question="?", select=()))


def visits(size: int, cost_ns: float, count: int = 3, spread: float = 0.0, clock_hz: float = 4e9) -> list[Outcome]:
    point = Point(probe="memory.latency", abi="x86_64", target="local", parameters=(("size", size), ("pages", "huge")))
    found = []
    for number in range(count):
        n = round(cost_ns * (1 + spread * (number - 1)) * 1000)
        taken = tuple(Sample(iterations=1000, body=(n, 2 * n), witness=Witness(control_hz=clock_hz)) for _ in range(5))
        clocks = clock_hz, clock_hz
        found.append(Outcome(visit=number, round=number, point=point, status="ok", controls=clocks, samples=taken))
    return found


def test_points_converge_by_their_interval() -> None:
    judge = judging()
    assert judge.visits_wanted(visits(4096, 100), LATENCY) <= 3
    assert judge.visits_wanted(visits(4096, 100, count=2), LATENCY) > 2
    assert judge.visits_wanted(visits(4096, 100, spread=0.3), LATENCY) > 3


def test_what_a_bare_board_counts_repeats_and_is_visited_once() -> None:
    """All points of eabi-2007 were visited three times: 155 s for 54 of 261 points."""
    (once,) = visits(4096, 100, count=1)
    for target, is_enough in (("bare:vexpress-a9", True), ("guest:virt", False)):
        point = msgspec.structs.replace(once.point, target=target)
        there = msgspec.structs.replace(once, point=point, clock=ClockReading(kind="virtual", cost_ns=0))
        assert (judging().visits_wanted([there], LATENCY) <= 1) is is_enough
        (row,) = rows([there], {LATENCY.probe: LATENCY})
        assert has_interval(row) is is_enough


@pytest.mark.parametrize(("ratio", "is_open"), [(14.0, False), (2.0, False), (1.62, True), (2.48, True)])
def test_a_pair_whose_claim_is_decided_wants_no_more_visits(ratio: float, *, is_open: bool) -> None:
    """Beside an edge of its range (1.6 to 2.5) a claim wants more: to stop there would make wrong verdicts."""
    told, random = probe(), Random(7)
    above, below = (RowOf(probe="any.probe", parameters={"way": way}) for way in ("new", "old"))
    claim = Published(what="?", figure="?", value=2, unit="ratio", relation="about", row=above, over=below)
    judge = AnalysisJudge({told.probe: told}, Learned(), 0.001, Suite(name="paper", question="?", published=(claim,)))
    made = [
        msgspec.structs.replace(
            outcome([sample(100 * cost * exp(random.gauss(0, 0.05)))] * 5, parameters={"way": way}, visit=number),
            round=number, seed=number,
        )
        for number in range(12) for way, cost in (("new", ratio), ("old", 1.0))
    ]  # fmt: skip
    judge.look(made)
    assert (judge.visits_wanted_against(made, (made[0].point, made[1].point)) > 12) is is_open


def test_a_bent_curve_wants_points_at_its_bend_and_a_straight_one_none() -> None:
    judge, grid = judging(), [1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384]
    begun = [1024, 2048, 4096, 8192, 16384]
    flat = {size: visits(size, 100) for size in begun}
    assert list(judge.refine(flat, LATENCY, grid)) == []
    bent = {size: visits(size, 100 if size <= 4096 else 400) for size in begun}
    wished = judging().refine(bent, LATENCY, grid)
    assert 6144 in wished
    assert not set(wished) & set(begun)


def test_a_latency_over_traffic_is_refined_by_both() -> None:
    beside = metric("beside", "B/s", means="traffic-beside", source="companions")
    load = probe(metric("load", means="latency-of-traffic"), beside, name="memory.loaded", parameters=(PACE,))

    def wished(curve: dict[int, list[Outcome]]) -> list[int]:
        judge = AnalysisJudge({load.probe: load}, Learned(), 0.03, Suite(name="any", question="?", select=()))
        return list(judge.refine(curve, load, [64, 96, 512, 1024, 4096]))

    def paced(pace: int, lines: int) -> list[Outcome]:
        point = Point(load.probe, "x86_64", "local", (("delay", pace),))
        return [
            msgspec.structs.replace(
                one, point=point, work=Work(bytes=64),
                samples=tuple(msgspec.structs.replace(taken, lanes=((lines, 100_000),) * 2) for taken in one.samples),
            )
            for one in visits(pace, 100)
        ]  # fmt: skip

    even, uneven = (
        {pace: paced(pace, lines) for pace, lines in zip((64, 512, 4096), rates, strict=True)}
        for rates in ((800, 800, 800), (800, 790, 80))
    )
    assert (wished(even), wished(uneven)) == ([], [1024])


def test_a_point_without_a_number_does_not_bend_a_curve() -> None:
    judge = judging()
    flat = {size: visits(size, 100) for size in (1024, 2048, 4096)}
    broken = [Outcome(visit=9, round=0, point=flat[1024][0].point, status="failed", reason="x")]
    assert list(judge.refine({**flat, 8192: broken}, LATENCY, [1024, 2048, 3072, 4096, 6144, 8192])) == []


def test_what_was_read_is_kept_where_the_machine_still_looks_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look at all of a run took as long as to read all of it anew."""
    read: list[int] = []

    def readings(told: Sequence[Outcome], *rest: Any) -> list[known.Reading]:
        read.extend(one.visit for one in told)
        return all_readings(told, *rest)

    all_readings = known.readings
    monkeypatch.setattr(known, "readings", readings)
    judge, made = judging(), visits(4096, 100, count=6)
    judge.look(made[:3])
    judge.look(made)
    assert read == [0, 1, 2, 3, 4, 5], "each once"
    judge.look([*made, *visits(4096, 100, count=12, clock_hz=3e9)])
    assert len(read) == 6 + 18


def test_what_is_known_after_looking_twice_is_what_is_known_after_looking_once() -> None:
    made = visits(4096, 100, count=12, spread=0.01)
    first = known_of(made[:5], {LATENCY.probe: LATENCY})
    twice, once = (known_of(made, {LATENCY.probe: LATENCY}, before=before) for before in (first, Known()))
    assert twice.scatter == once.scatter != first.scatter
    assert visits_wanted(made, LATENCY, twice) == visits_wanted(made, LATENCY, once)


def test_what_a_batch_pays_once_is_found_once_for_the_same_visits_and_anew_for_more() -> None:
    made = visits(4096, 100, count=12)
    ground = known_of(made, {LATENCY.probe: LATENCY})
    few, all_ = ground.readings(made[:5], LATENCY), ground.readings(made, LATENCY)
    first = ground.overheads(few)
    assert ground.overheads(few) is first
    assert ground.overheads(all_) is not first
