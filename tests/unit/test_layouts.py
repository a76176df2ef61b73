# SPDX-License-Identifier: Apache-2.0
"""Which layout a visit is of, how many visits a round makes of it, and in which order."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from machines import MIB
from rigs import Rig
from streams import whole
from tollmeter.conduct.judging import Judging
from tollmeter.conduct.schedule import Schedule, State
from tollmeter.model import Select, Visit
from tollmeter.protocol import refused

ENTER = Select(probe="kernel.enter", abi=("native", "ia32"))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "run")


LARGE = Select(probe="memory.latency", parameters={"pages": "huge", "size": (32 * MIB, 64 * MIB)})


def test_a_short_budget_is_for_one_visit_of_everything(rig: Rig) -> None:
    sizes = tuple(number * MIB for number in range(32, 48))
    plan = rig.plan(ENTER, Select(probe="memory.latency", parameters={"pages": "huge", "size": sizes}), budget=3)
    rig.go(plan)
    assert len({visit.point for visit in rig.visits[: len(plan.points())]}) == len(plan.points())


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
    assert seeds(rig) == [0] * 8 + [1] * 4


def test_a_visit_that_was_not_made_has_served_nothing(rig: Rig) -> None:
    """A round looks ahead at its visits, to have their layouts set up."""
    plan = rig.plan(ONE)
    judging = Judging(plan, rig)
    schedule = Schedule(plan, judging, plan.costs(), (), ())
    state = State(1000.0, lambda _: True, lambda _: False)
    assert schedule.begin(0, 1000.0)
    (coming,), (again,) = schedule.coming(state), schedule.coming(state)
    visit = schedule.next(state)
    assert visit
    assert coming.seed == again.seed == visit.seed
    assert schedule.next(state) is None


def test_the_first_that_is_ready_comes_first_and_without_one_the_first(rig: Rig) -> None:
    plan = rig.plan(Select(probe="memory.latency", parameters={"pages": "huge", "size": (4096, 8192, 16384)}))
    schedule = Schedule(plan, Judging(plan, rig), plan.costs(), (), ())
    assert schedule.begin(0, 1000.0)
    order = [visit.point for visit in schedule.coming(State(1000.0, lambda _: True, lambda _: False))]
    schedule.put_first(order, 1000.0)
    made = [schedule.next(State(1000.0, lambda point: point == order[2], lambda _: False)) for _ in order]
    assert [visit.point for visit in made if visit] == [order[2], order[0], order[1]]
