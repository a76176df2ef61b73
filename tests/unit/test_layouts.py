# SPDX-License-Identifier: Apache-2.0
"""Which layout a visit is of, how many visits a round makes of it, and in which order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from support import fake_catalog
from support.fake_catalog import MIB, catalog
from support.probe_streams import whole
from support.simulated_run import Emptied, Rig
from tollmeter.conduct.judging import Judging
from tollmeter.conduct.schedule import Schedule
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.model import Select, Visit
from tollmeter.plan import Costs, visit_order
from tollmeter.plan.effort import USUAL
from tollmeter.protocol import refused


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "run")


SMALL = Select(probe="memory.latency", parameters={"pages": "huge", "size": (1024, 2048, 4096)})
LARGE = Select(probe="memory.latency", parameters={"pages": "huge", "size": (32 * MIB, 64 * MIB)})


SMALL_SIZES, LARGE_SIZES = [1024 * number for number in range(1, 31)], [number * MIB for number in range(32, 48)]


def are_large(rig: Rig) -> list[bool]:
    return [visit.point.values()["size"] in LARGE_SIZES for visit in rig.visits]


@pytest.mark.parametrize("budget", [1000, 3])
def test_large_points_begin_when_the_others_have_intervals(rig: Rig, budget: float) -> None:
    rig.visits_to_settle = 4
    plan = rig.plan(select_of(*SMALL_SIZES, *LARGE_SIZES), budget=budget)
    rig.go(plan)
    assert are_large(rig)[: 30 * LEAST_VISITS] == [False] * 30 * LEAST_VISITS
    assert {visit.point for visit in rig.visits} == set(plan.points())


def test_a_short_budget_is_for_one_visit_of_everything_small_or_large(rig: Rig) -> None:
    rig.visits_to_settle, rig.visit_s = 4, 0.02
    plan = rig.plan(select_of(*SMALL_SIZES, *LARGE_SIZES), budget=1.4)
    rig.go(plan)
    assert {visit.point for visit in rig.visits} == set(plan.points())


@pytest.mark.parametrize("budget", [26, 100])
def test_large_points_that_take_long_on_a_busy_machine_keep_no_visit_from_small_ones(rig: Rig, budget: float) -> None:
    """A default run with other programs beside it reached 216 of 816 rows: 45 s were for layouts of the first screen of
    up to 1 GiB, of which each byte took 70 times as long as expected."""
    rig.visits_to_settle = 30
    large = [number * 128 * MIB for number in range(1, 9)]

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 0.05 + (7e-8 * visit.point.values()["size"] if visit.point.values().get("size") in large else 0)  # type: ignore[operator]
        return whole(2, visit)

    rig.answer = answer
    plan = rig.plan(select_of(*SMALL_SIZES, *large), Select(probe="memory.parallel"), budget=budget)
    rig.go(plan)
    small = {point for point in plan.points() if point.values().get("size") not in large}
    assert small <= {visit.point for visit in rig.visits}


def test_large_points_of_the_first_screen_have_three_layouts_before_others_have_a_fifth_visit(rig: Rig) -> None:
    rig.visits_to_settle = 8
    rig.go(rig.plan(select_of(*SMALL_SIZES, *LARGE_SIZES), Select(probe="memory.parallel"), budget=20))
    large = [visit for visit in rig.visits if visit.point.values().get("size") in LARGE_SIZES]
    layouts = {(visit.point, visit.seed) for visit in large[: LEAST_VISITS * len(LARGE_SIZES)]}
    assert len(layouts) == LEAST_VISITS * len(LARGE_SIZES)
    third = rig.visits.index(large[LEAST_VISITS * len(LARGE_SIZES) - 1])
    others = Counter(visit.point for visit in rig.visits[:third] if visit.point.probe == "memory.parallel")
    assert max(others.values(), default=0) < 5


def test_large_points_that_take_longer_than_the_run_leave_half_of_it_to_the_others(rig: Rig) -> None:
    rig.visits_to_settle = 6
    sizes = [number * 128 * MIB for number in range(4, 36)]

    def answer(visit: Visit) -> bytes:
        rig.clock_s += visit.point.values()["size"] * 2e-9  # type: ignore[operator]
        return whole(2, visit)

    rig.answer = answer
    rig.go(rig.plan(select_of(*SMALL_SIZES, *sizes), budget=24))
    is_large = [visit.point.values()["size"] in sizes for visit in rig.visits]
    others = [visit.point for visit, large in zip(rig.visits, is_large, strict=True) if not large]
    assert dict(Counter(others)) == dict.fromkeys(set(others), 6), "the others have converged"
    assert 4 < sum(is_large) < len(sizes)


@pytest.mark.parametrize(("budget", "gib_s"), [(20, 5), (28, 5), (28, 10)])
def test_memory_is_visited_before_other_large_sizes_take_the_time(rig: Rig, budget: float, gib_s: float) -> None:
    """With a last cache of 260 MiB a default run visited 64 to 256 MiB three times each, and showed no rate of
    memory."""
    rig.visits_to_settle = 12
    sizes = [size << octave for size, octaves in ((64 * MIB, 5), (96 * MIB, 4)) for octave in range(octaves)]

    def answer(visit: Visit) -> bytes:
        size = visit.point.values().get("size")
        rig.clock_s += 0.05 + (gib_s * size / (1024 * MIB) if size in sizes else 0)
        return whole(2, visit)

    rig.answer = answer
    rig.go(rig.plan(select_of(*SMALL_SIZES, *sizes), Select(probe="memory.parallel"), budget=budget))
    large = [visit.point.values()["size"] for visit in rig.visits if visit.point.values().get("size") in sizes]
    assert max(sizes) // 2 in large[:4], "the smallest in the farther half of the sizes"


def test_memory_has_an_interval_before_points_that_the_first_screen_does_not_show(rig: Rig) -> None:
    """A first run of 30 s, of which the build left 19 s, visited no size beyond the last cache."""
    rig.visits_to_settle = 12
    rig.go(rig.plan(select_of(1024, 2048, 64 * MIB, 128 * MIB), Select(probe="memory.parallel"), budget=8))
    order = [(visit.point.probe, visit.point.values().get("size")) for visit in rig.visits]
    before = order[: [probe for probe, _ in order].index("memory.parallel")]
    assert before.count(("memory.latency", 64 * MIB)) == LEAST_VISITS


def test_memory_does_not_come_first_where_other_small_points_would_have_no_visit(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [msgspec.structs.replace(fake_catalog.PARALLEL, probe=f"other.p{number}") for number in range(40)]
    monkeypatch.setattr(fake_catalog, "PROBES", (*fake_catalog.PROBES, *others))
    rig.visits_to_settle, rig.visit_s = 12, 0.05
    sizes = (1024, 4096, 16384, 65536, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB)
    plan = rig.plan(select_of(*sizes), Select(probe="other.*"), budget=16.45)
    rig.go(plan)
    small = {point for point in plan.points() if point.probe.startswith("other.")}
    assert len(small) == 320 and small <= {visit.point for visit in rig.visits}


def test_large_points_alone_do_not_wait(rig: Rig) -> None:
    rig.go(rig.plan(select_of(*LARGE_SIZES)))
    assert Counter(visit.round for visit in rig.visits)[0] == 16


def select_of(*sizes: int) -> Select:
    return Select(probe="memory.latency", parameters={"pages": "huge", "size": sizes})


def test_what_failed_is_not_visited_again_for_its_layout(rig: Rig) -> None:
    rig.answer = lambda visit: refused(visit, 1, "wrong_answer", "no")
    plan = rig.plan(LARGE)
    rig.go(plan)
    assert Counter(visit.point for visit in rig.visits) == dict.fromkeys(plan.points(), 1)


def seeds(rig: Rig) -> list[int]:
    """Of the visits of one point: layouts in the order of their first visits."""
    names = list(dict.fromkeys(visit.seed for visit in rig.visits))
    return [names.index(visit.seed) for visit in rig.visits]


ONE = Select(probe="kernel.enter")


def test_a_layout_serves_as_often_as_it_is_worth_and_the_next_round_has_another(rig: Rig) -> None:
    rig.visits_to_settle = 5
    rig.go(rig.plan(ONE))
    assert seeds(rig) == [0, 0, 1, 1, 2]


def test_a_layout_that_takes_long_serves_more_visits(rig: Rig) -> None:
    rig.visits_to_settle = 12

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 1.0 * (visit.seed not in {one.seed for one in rig.visits[:-1]})
        return whole(visit=visit)

    rig.answer = answer
    rig.go(rig.plan(ONE))
    assert seeds(rig) == [0] * 2 + [1] * 8 + [2] * 2, "an interval has two layouts"


def test_where_no_process_stays_a_layout_serves_one_visit_and_costs_all_of_its_start(rig: Rig) -> None:
    """A system that denies their pipes to many, or a probe that ends with its visit."""
    rig.visits_to_settle, rig.visit_s = 12, 0.3
    rig.pool = Emptied(lambda _: True)
    rig.go(rig.plan(ONE))
    assert seeds(rig) == [*range(12)]
    costs, first = Costs(catalog().probes()), rig.visits[0]
    costs.learn(first, USUAL, 0.3, is_first=True, stays=True)
    shared_by_several = costs.visit_s(first.point, USUAL)
    costs.learn(first, USUAL, 0.3, is_first=True, stays=False)
    assert costs.visit_s(first.point, USUAL) == pytest.approx(0.3)
    assert 2 * shared_by_several < 0.3
    costs.learn(first, USUAL, 0.3, is_first=True, stays=True)
    assert costs.visit_s(first.point, USUAL) == shared_by_several, "it stayed after all"


def test_the_largest_layout_of_a_probe_says_what_a_larger_one_takes(rig: Rig) -> None:
    """In a guest a walk of 1 GiB took 5 s to set up, where a byte of a small one takes 1 ns."""
    rig.go(rig.plan(select_of(64 * MIB, 256 * MIB)))
    costs = Costs(catalog().probes())
    of_size = {visit.point.values()["size"]: visit for visit in rig.visits}
    before_s = costs.first_visit_s(of_size[256 * MIB].point, USUAL)
    costs.learn(of_size[64 * MIB], USUAL, 1.0, is_first=True, stays=True)
    assert before_s < 0.5 and costs.first_visit_s(of_size[256 * MIB].point, USUAL) == pytest.approx(4.0, rel=0.1)


def test_what_first_visits_take_tells_the_cost_of_unvisited_points_and_a_timeout_does_not(rig: Rig) -> None:
    rig.go(rig.plan(select_of(*SMALL_SIZES)))
    visits = list({visit.point: visit for visit in rig.visits}.values())
    costs = Costs(catalog().probes())
    *several, last = visits
    estimates = [costs.first_visit_s(visit.point, USUAL) for visit in visits]
    for place, (visit, estimate) in enumerate(zip(several, estimates, strict=False)):
        costs.learn(visit, USUAL, 20.0 if place == 3 else 3 * estimate, is_first=True, stays=True)
    assert costs.first_visit_s(last.point, USUAL) == pytest.approx(3 * estimates[-1], rel=0.05)


def test_the_process_of_a_layout_that_ended_is_replaced_by_one_of_another_layout(rig: Rig) -> None:
    """As where others needed its memory."""
    rig.visits_to_settle = LEAST_LAYOUTS
    rig.pool = Emptied(lambda key: ("size", MIB) in key[1])
    rig.go(rig.plan(select_of(MIB, 2 * MIB)))
    several = {size: {v.seed for v in rig.visits if v.point.values()["size"] == size} for size in (MIB, 2 * MIB)}
    assert [len(own) for own in several.values()] == [LEAST_LAYOUTS, 1]


def test_the_visits_of_a_round_come_in_its_order_and_none_without_time(rig: Rig) -> None:
    plan = rig.plan(LARGE)
    schedule = Schedule(plan, Judging(plan, rig))
    assert schedule.begin(1000.0)
    first = schedule.next(1000.0)
    assert first and first.point == visit_order(plan, plan.points(), 0)[0]
    assert schedule.next(0.001) is None
    assert not schedule.is_cut, "a round with a visit is followed by another"
    assert not (schedule.begin(0.001) and schedule.next(0.001))


@pytest.mark.parametrize(("budget", "first_s"), [(5.0, 2.6), (30.0, 20.0)])
def test_a_slow_first_visit_ends_no_run(rig: Rig, budget: float, first_s: float) -> None:
    """A cold disk, a first connection by ssh, the first visit of a guest."""
    rig.visit_s = 0.03

    def answer(visit: Visit) -> bytes:
        rig.clock_s += first_s if len(rig.visits) == 1 else 0.0
        return whole(visit=visit)

    rig.answer = answer
    plan = rig.plan(Select(probe="memory.parallel"), Select(probe="kernel.enter"), SMALL, budget=budget)
    rig.go(plan)
    assert {visit.point for visit in rig.visits} == set(plan.points())


def test_large_points_that_do_not_fit_end_no_run_of_small_ones(rig: Rig) -> None:
    rig.visits_to_settle = 10**6

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 30.0 if visit.point.values()["size"] in LARGE_SIZES else 0.0
        return whole(2, visit)

    rig.answer = answer
    rig.go(rig.plan(select_of(*SMALL_SIZES, *LARGE_SIZES), budget=50))
    assert rig.clock_s > 49 and sum(are_large(rig)) == 1
