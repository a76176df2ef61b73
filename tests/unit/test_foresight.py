# SPDX-License-Identifier: Apache-2.0
"""What places are told of layouts to come, on a machine that exists only here."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from machines import MIB, catalog
from rigs import Rig
from streams import whole
from tollmeter.conduct.prestaging import SetupCpu
from tollmeter.experiment.precision import LEAST_LAYOUTS, LEAST_VISITS
from tollmeter.model import Point, Select, Visit
from tollmeter.plan import Costs, Plan, visit_order
from tollmeter.plan.effort import USUAL
from tollmeter.store.journal import read
from tollmeter.targets import PrestagesLayouts
from tollmeter.targets.worker_pool import LayoutKey, PendingSetup, SetupSchedule


class Foreseeing(Rig):
    """A rig whose place prepares slow layouts, one at a time; each takes as long as so many visits to others."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.told: list[SetupSchedule] = []
        self.waiting: list[PendingSetup] = []
        self.left_in_memory: dict[LayoutKey, float | None] = {}
        self.holds: Callable[[Visit], float | None] = lambda _: 0.0
        self.prepared_after = 2
        self.made_beside = 0
        self.beside = SetupCpu(0, 2 * MIB, catalog().probes())

    def expect(self, forecast: SetupSchedule) -> None:
        self.told.append(forecast)
        self.waiting, self.made_beside = [*forecast.pending], 0

    def is_ready(self, key: LayoutKey) -> bool:
        is_next = bool(self.waiting) and key == self.waiting[0].key
        return is_next and self.made_beside >= self.prepared_after

    def is_begun(self, key: LayoutKey) -> bool:
        return bool(self.waiting) and key == self.waiting[0].key

    def setup_s(self, key: LayoutKey) -> float | None:
        return self.left_in_memory.get(key)

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        key = executable, visit.point.parameters, visit.cpus
        self.left_in_memory[key] = self.holds(visit)
        self.made_beside += 1
        if self.waiting and self.waiting[0].visit.point == visit.point:
            self.waiting.pop(0)
            self.made_beside = 0
        return super().run(executable, visit, revision)

    def points_told(self) -> list[list[Point]]:
        """Of slow layouts, by round."""
        return [[one.visit.point for one in forecast.pending] for forecast in self.told]


@pytest.fixture
def rig(tmp_path: Path) -> Foreseeing:
    return Foreseeing(tmp_path / "run")


SLOW = 8 * MIB, 16 * MIB, 32 * MIB
LATENCY = Select(probe="memory.latency", parameters={"pages": "huge", "size": (4096, 8192, 16384, *SLOW)})
SMALL = Select(probe="memory.latency", parameters={"pages": "huge", "size": (4096, 8192, 16384)})
ENTER = Select(probe="kernel.enter", abi=("native", "ia32"))
BUDGET_S = 1000.0


def slow_of(points: Sequence[Point]) -> set[Point]:
    return {point for point in points if point.values().get("size") in SLOW}


def first_visits(rig: Rig) -> list[Visit]:
    """The first one of each point."""
    found: dict[Point, Visit] = {}
    for visit in rig.visits:
        found.setdefault(visit.point, visit)
    return list(found.values())


def test_a_place_is_told_of_slow_layouts_in_the_order_of_their_visits(rig: Foreseeing) -> None:
    assert isinstance(rig, PrestagesLayouts)
    plan = rig.plan(LATENCY, ENTER)
    rig.go(plan)
    told = rig.told[0].pending
    asked = [visit for visit in first_visits(rig) if visit.point in slow_of(plan.points())]
    assert told
    assert [one.visit.point for one in told] == [visit.point for visit in asked]
    for one, visit in zip(told, asked, strict=True):
        assert one.executable == catalog().executables[visit.point.probe, visit.point.abi].path
        assert one.seeded_key == (one.key, visit.seed), "it is the layout that is then asked for"
        assert one.key == (one.executable, visit.point.parameters, visit.cpus)


def test_it_is_told_where_to_prepare_and_beside_what(rig: Foreseeing) -> None:
    plan = rig.plan(LATENCY, ENTER)
    rig.go(plan)
    assert rig.beside
    for point in plan.points():
        assert rig.told[0].cpu == rig.beside.cpu
        assert rig.told[0].may_begin(point) == rig.beside.may_begin(point)
        assert rig.told[0].is_calm(point, 4096) == rig.beside.is_calm(point, 4096)


def test_what_is_slow_is_visited_when_it_is_ready_and_the_others_before(rig: Foreseeing) -> None:
    rig.visits_to_settle = 1
    rig.go(rig.plan(LATENCY, ENTER))
    is_slow = [visit.point in slow_of([visit.point]) for visit in first_visits(rig)]
    assert is_slow[:6] == [False, False, True, False, False, True]


def test_what_is_not_ready_is_left_to_the_next_rounds_and_waited_for_in_the_end(rig: Foreseeing) -> None:
    """In the first round there are others until one is ready, and in no round for another."""
    rig.prepared_after, rig.visits_to_settle = 5, 1
    rig.go(rig.plan(LATENCY, ENTER))
    made = {visit.point: visit.round for visit in reversed(rig.visits)}
    assert sorted(made[point] for point in slow_of([*made])) == [0, 1, 1]


@pytest.mark.parametrize(("rounds", "leaves"), [(3, False), (8, True)])
def test_nobody_is_left_over_where_the_budget_may_end_too_soon_for_that(
    rig: Foreseeing, rounds: float, leaves: bool
) -> None:
    """A point without a visit has no number: 12 to 25 of 227 had none in a run of 10 s."""
    rig.prepared_after = 5
    plan = rig.plan(LATENCY, ENTER)
    rig.visit_s = round_s(plan) / len(plan.points())
    rig.go(msgspec.structs.replace(plan, effort=USUAL, budget_seconds=rounds * round_s(plan)))
    assert any(visit.round for visit in first_visits(rig)) == leaves


def test_nobody_is_left_over_for_longer_than_ten_seconds(rig: Foreseeing) -> None:
    """What is prepared beside calm visits would never be ready where none of the rest is calm."""
    rig.prepared_after, rig.visits_to_settle, rig.visit_s = 10**9, 120, 0.025
    plan = rig.plan(LATENCY, ENTER)
    rig.go(plan)
    first = next(visit for visit in rig.visits if visit.point in slow_of(plan.points()))
    left, last = (sum(visit.round < end for visit in rig.visits) * rig.visit_s for end in (1, first.round))
    assert last == pytest.approx(left + 10, abs=2 * left), "in the first round that ends so late"


def test_where_nobody_stays_a_layout_serves_one_visit_and_costs_all_of_its_start(rig: Foreseeing) -> None:
    """A system that denies their pipes to many, or a probe that ends with its visit."""
    rig.visits_to_settle, rig.visit_s = 12, 0.3
    rig.holds = lambda _: None
    rig.go(rig.plan(Select(probe="kernel.enter")))
    assert [visit.round for visit in rig.visits] == [*range(12)]
    costs, point = Costs(catalog().probes()), rig.visits[0].point
    costs.learn(point, USUAL.samples, USUAL, 0.3, fresh=True)
    shared_by_several = costs.of(point, USUAL)
    costs.learn_that_it_ends(point)
    assert costs.of(point, USUAL) == pytest.approx(0.3)
    assert 2 * shared_by_several < 0.3
    costs.learn_layout(point, 0.0)
    assert costs.of(point, USUAL) == shared_by_several, "it stayed after all"


def test_a_layout_that_ended_is_laid_out_anew_ahead_of_its_next_visit(rig: Foreseeing) -> None:
    """As where others needed its room: that its point was visited in it before is no reason to wait for it."""
    rig.visits_to_settle = LEAST_LAYOUTS
    rig.holds = lambda visit: None if visit.point.values()["size"] == SLOW[0] else 0.0
    rig.go(rig.plan(LATENCY))
    told = {one.seeded_key for forecast in rig.told for one in forecast.pending}
    seeds = {size: {v.seed for v in rig.visits if v.point.values()["size"] == size} for size in SLOW}
    assert [len(seeds[size]) for size in SLOW] == [LEAST_LAYOUTS, 1, 1]
    assert seeds[SLOW[0]] <= {seed for _, seed in told}


def test_a_layout_is_as_slow_as_the_cpu_time_that_it_took(rig: Foreseeing) -> None:
    """Wherever it was made: what was made ahead, or waited for in part, takes no time of its visit."""
    rig.visits_to_settle = 10
    rig.holds = lambda _: 0.3
    rig.go(rig.plan(Select(probe="kernel.enter")))
    assert not rig.told[0].pending
    assert any(forecast.pending for forecast in rig.told[1:])


def test_a_layout_that_serves_on_is_not_told_of_again(rig: Foreseeing) -> None:
    rig.visits_to_settle, rig.prepared_after = 9, 0
    rig.go(rig.plan(LATENCY))
    seeds: dict[Point, list[int]] = {}
    for visit in rig.visits:
        seeds.setdefault(visit.point, []).append(visit.seed)
    told = [one.seeded_key for forecast in rig.told for one in forecast.pending]
    assert len(told) == len(set(told)) == sum(len(set(seeds[point])) for point in slow_of([*seeds]))
    first, second = (len(points) for points in rig.points_told()[:2])
    assert first == 3 > second


def test_what_cannot_be_prepared_elsewhere_is_not_told_of(rig: Foreseeing) -> None:
    assert rig.beside
    walk = rig.beside.probes["memory.latency"]
    rig.beside = SetupCpu(0, 2 * MIB, {**rig.beside.probes, walk.probe: msgspec.structs.replace(walk, switches=True)})
    rig.go(rig.plan(LATENCY, ENTER))
    assert not any(rig.points_told())


def test_a_run_that_is_gone_on_with_tells_of_what_it_still_lacks(rig: Foreseeing) -> None:
    """What was visited before would be prepared for nobody, and hold the place of the next."""
    plan = rig.plan(LATENCY, ENTER)

    def answer(visit: Visit) -> bytes:
        if visit.point in slow_of([visit.point]):
            os.kill(os.getpid(), signal.SIGINT)
        return whole(visit=visit)

    rig.answer = answer
    assert rig.go(plan).status == "interrupted"
    (made,) = slow_of([visit.point for visit in rig.visits])
    rig.answer = lambda visit: whole(visit=visit)
    rig.told.clear()
    rig.go(plan, read(rig.folder).outcomes)
    assert {*rig.points_told()[0]} == slow_of(plan.points()) - {made}


def test_where_nothing_is_prepared_ahead_nobody_is_told(rig: Foreseeing) -> None:
    rig.beside = None
    plan = rig.plan(LATENCY, ENTER)
    assert rig.go(plan).status == "settled"
    assert rig.told == []
    assert {visit.point for visit in rig.visits} == set(plan.points())


def test_a_place_that_does_not_foresee_is_told_nothing(tmp_path: Path) -> None:
    rig, other = Rig(tmp_path / "run"), Rig(tmp_path / "other")
    rig.beside = SetupCpu(0, 2 * MIB, catalog().probes())
    assert not isinstance(rig, PrestagesLayouts)
    for one in (rig, other):
        assert one.go(one.plan(LATENCY, ENTER)).status == "settled"
    assert rig.visits == other.visits, "and nothing is put off"


def test_points_that_stand_against_each_other_keep_their_turns(rig: Foreseeing) -> None:
    size = Select(probe="memory.latency", parameters={"size": 64 * MIB})
    rig.visits_to_settle = 20
    rig.go(rig.plan(size, against=("pages=small",)))
    assert rig.told
    assert not any(forecast.pending for forecast in rig.told)
    assert [visit.point.values()["pages"] for visit in rig.visits[:4]] == ["huge", "small", "small", "huge"]


def round_s(plan: Plan) -> float:
    return sum(plan.costs().of(point, USUAL) for point in plan.points())


@pytest.mark.parametrize(("rounds", "stays"), [(1.5, True), (100.0, False)])
def test_where_the_budget_ends_within_the_round_the_order_stays(rig: Foreseeing, rounds: float, stays: bool) -> None:
    """What is slow would be what is left out; it is prepared all the same."""
    plan = rig.plan(LATENCY, ENTER)
    rig.go(msgspec.structs.replace(plan, effort=USUAL, budget_seconds=rounds * round_s(plan)))
    order = [point for point in visit_order(plan, plan.points(), 0) if point in {v.point for v in first_visits(rig)}]
    assert ([visit.point for visit in first_visits(rig)] == order) == stays
    assert any(rig.points_told()[:1])


def test_a_visit_that_waits_for_a_begun_layout_does_not_tell_how_long_that_takes(rig: Foreseeing) -> None:
    """It takes 0.3 s alone, as its first visit saw, and the rest of it where somebody has begun."""
    rig.visits_to_settle, rig.prepared_after = 30, 10**9

    def answer(visit: Visit) -> bytes:
        is_first = visit.seed not in {one.seed for one in rig.visits[:-1]}
        rig.clock_s += 0.3 * (is_first and len(rig.told) == 1)
        return whole(visit=visit)

    rig.answer = answer
    rig.go(rig.plan(Select(probe="kernel.enter")))
    assert not rig.points_told()[0]
    coming = [one for forecast in rig.told[1:] for one in forecast.pending]
    assert len(coming) > 2


def test_what_was_expected_before_is_replaced_in_every_round(rig: Foreseeing) -> None:
    rig.go(rig.plan(LATENCY, ENTER))
    assert len(rig.told) == 1 + max(visit.round for visit in rig.visits)
    assert not read(rig.folder).outcomes[-1].reason


def test_a_layout_that_was_seen_to_be_slow_stays_so_when_it_is_prepared_ahead() -> None:
    """Its first visit then finds it there, and takes no longer than any."""
    point = Point(probe="kernel.enter", abi="x86_64", target="local")
    costs = Costs(catalog().probes())
    samples_s = 4 * USUAL.sample_s()
    assert not costs.is_slow(point)
    costs.learn(point, 4, USUAL, 0.1 + samples_s, fresh=False)
    assert not costs.is_slow(point), "what waits says nothing of what begins"
    costs.learn(point, 4, USUAL, 20.0 + samples_s, fresh=True)
    assert costs.is_slow(point)
    serves = costs.visits_of_layout(point, USUAL)
    costs.learn(point, 4, USUAL, samples_s, fresh=True, ahead=True)
    assert costs.is_slow(point)
    assert costs.visits_of_layout(point, USUAL) == serves > LEAST_VISITS, "somebody else is kept busy by it"
    costs.learn(point, 4, USUAL, samples_s, fresh=True)
    assert not costs.is_slow(point), "it was somebody else who took so long"


def test_what_a_quick_program_holds_does_not_make_it_slow() -> None:
    """A process of 5 MiB, most of them its program's."""
    point = Point(probe="kernel.enter", abi="x86_64", target="local")
    costs = Costs(catalog().probes())
    costs.learn_layout(point, 0.0005)
    assert not costs.is_slow(point)
    costs.learn_layout(point, 0.05)
    assert costs.is_slow(point)


def test_a_large_layout_is_slow_before_it_was_seen_and_after_it_was_quick() -> None:
    point = Point(probe="memory.latency", abi="x86_64", target="local", parameters=(("size", 16 * MIB),))
    costs = Costs(catalog().probes())
    assert costs.is_slow(point)
    costs.learn(point, 4, USUAL, 4 * USUAL.sample_s(), fresh=True)
    assert costs.is_slow(point)
    assert not costs.is_slow(msgspec.structs.replace(point, parameters=(("size", 4096),)))
