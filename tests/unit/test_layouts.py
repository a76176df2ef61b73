# SPDX-License-Identifier: Apache-2.0
"""Which layout a visit is of, how many visits a round makes of it, and in which order."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path

import pytest

from machines import MIB
from rigs import Rig
from streams import whole
from tollmeter.conduct import layouts as conduct_layouts
from tollmeter.conduct.layouts import Layout, Layouts, RoundOrder
from tollmeter.experiment.precision import LEAST_LAYOUTS, LEAST_VISITS
from tollmeter.model import Point, Select, Visit
from tollmeter.plan.effort import USUAL
from tollmeter.protocol import refused
from tollmeter.store.journal import read

ENTER = Select(probe="kernel.enter", abi=("native", "ia32"))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path / "run")


LARGE = Select(probe="memory.latency", parameters={"pages": "huge", "size": (32 * MIB, 64 * MIB)})


def rounds_of(rig: Rig, point: Point) -> list[int]:
    return [visit.round for visit in rig.visits if visit.point == point]


def test_a_layout_that_others_will_need_the_room_of_is_visited_while_it_is_there(rig: Rig) -> None:
    rig.visits_to_settle = 7
    plan = rig.plan(ENTER, LARGE)
    large = {point for point in plan.points() if point.values().get("size", 0) in (32 * MIB, 64 * MIB)}
    assert rig.go(plan).status == "settled"
    for point in plan.points():
        serves = plan.costs().visits_of_layout(point, USUAL)
        assert LEAST_LAYOUTS <= serves < 7
        assert rounds_of(rig, point) == [place // serves if point in large else place for place in range(7)]
        if point in large:
            seeds = [visit.seed for visit in rig.visits if visit.point == point]
            assert [seeds.index(seed) for seed in seeds] == [place // serves * serves for place in range(7)]
    made = [visit.point for visit in rig.visits if visit.point in large and visit.round == 0]
    in_turns = made[: 2 * min(Counter(made).values())]
    assert all(one != next_ for one, next_ in itertools.pairwise(in_turns)), "two in turns"


@pytest.mark.parametrize("wanted", [1, 3, 4])
def test_a_large_layout_is_visited_until_its_point_has_an_interval_and_is_known(rig: Rig, wanted: int) -> None:
    rig.visits_to_settle = wanted
    plan = rig.plan(LARGE)
    assert rig.go(plan).status == "settled"
    for point in plan.points():
        serves = plan.costs().visits_of_layout(point, USUAL)
        assert rounds_of(rig, point) == [place // serves for place in range(max(serves, wanted))]


def test_what_was_seen_to_take_long_to_lay_out_is_visited_until_its_layout_is_over_and_no_longer(rig: Rig) -> None:
    """It says nothing of sizes: its first visit tells. The rest of what its layout serves is of the next round."""
    rig.visits_to_settle = 12

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 1.5 * ((visit.point, visit.seed) not in {(one.point, one.seed) for one in rig.visits[:-1]})
        return whole(visit=visit)

    rig.answer = answer
    plan = rig.plan(ENTER)
    rig.go(plan)
    for point in plan.points():
        made = [visit for visit in rig.visits if visit.point == point]
        serves = Counter(visit.seed for visit in made)
        assert len(serves) == 2
        assert serves[made[0].seed] == 8 > 2 * LEAST_VISITS, "as many as any layout serves"
        assert [visit.round for visit in made] == [0, *[1] * 7, *[2] * 4], "and no round begins one of two"


def test_a_round_makes_fewer_visits_of_a_layout_when_one_is_seen_to_take_long(rig: Rig) -> None:
    """A plan cannot know what a visit to so much memory takes."""
    rig.visits_to_settle = 7

    def answer(visit: Visit) -> bytes:
        rig.clock_s += 12 * (visit.point.values().get("size") == 64 * MIB)
        return whole(visit=visit)

    rig.answer = answer
    plan = rig.plan(LARGE, budget=200)
    rig.go(plan)
    first = Counter(visit.point.values()["size"] for visit in rig.visits if visit.round == 0)
    assert first[64 * MIB] <= 0.1 * 200 / 12 < first[32 * MIB]


def test_a_short_budget_is_for_one_visit_of_everything(rig: Rig) -> None:
    sizes = tuple(number * MIB for number in range(32, 48))
    plan = rig.plan(ENTER, Select(probe="memory.latency", parameters={"pages": "huge", "size": sizes}), budget=3)
    rig.go(plan)
    assert len({visit.point for visit in rig.visits[: len(plan.points())]}) == len(plan.points())


def test_a_run_that_was_stopped_between_visits_of_one_round_makes_those_that_it_still_lacks(rig: Rig) -> None:
    plan = rig.plan(LARGE)

    def answer(visit: Visit) -> bytes:
        if len(rig.visits) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return whole(visit=visit)

    rig.answer = answer
    assert rig.go(plan).status == "interrupted"
    told = read(rig.folder)
    rig.go(plan, told.outcomes)
    assert Counter((visit.point, visit.round) for visit in rig.visits) == {(point, 0): 3 for point in plan.points()}


def test_what_failed_is_not_visited_again_for_its_layout(rig: Rig) -> None:
    rig.answer = lambda visit: refused(visit, 1, "wrong_answer", "no")
    plan = rig.plan(LARGE)
    rig.go(plan)
    assert Counter(visit.point for visit in rig.visits) == dict.fromkeys(plan.points(), 1)


PLACE = (Point(probe="any.probe", abi="x86_64", target="local"), (1,))


def numbers(layouts: Layouts, rounds: Iterable[int], serves: int, gone_behind: int = -1) -> list[int]:
    """Of the layouts that visits in these rounds are of; who made so many has ended."""
    found: list[int] = []
    for round_ in rounds:
        layout = layouts.next(PLACE, round_, serves, has_ended=len(found) == gone_behind)
        layouts.serve(PLACE, layout)
        found.append(layout.number)
    return found


def test_a_layout_serves_as_often_as_it_is_told_and_the_next_round_has_another() -> None:
    assert numbers(Layouts(), range(7), 3) == [0, 0, 0, 1, 1, 1, 2]


def test_within_a_round_a_layout_is_not_left() -> None:
    assert numbers(Layouts(), [0, 0, 0, 0, 1], 2) == [0, 0, 0, 0, 1]
    assert numbers(Layouts(), [4, 4, 4, 5, 5], 1) == [0, 0, 0, 1, 1]


def test_where_who_made_the_last_visit_has_ended_the_next_is_of_another_layout_however_few_it_served() -> None:
    assert numbers(Layouts(), [0, 1, 2, 3], 8, gone_behind=2) == [0, 0, 1, 1]
    assert numbers(Layouts(), [0, 0, 0], 8, gone_behind=1) == [0, 1, 1], "within a round as well"
    assert numbers(Layouts(), [0, 0], 8, gone_behind=0) == [0, 0], "nobody has made any"


def test_a_layout_that_was_only_asked_about_has_served_nothing() -> None:
    layouts = Layouts()
    asked = [layouts.next(PLACE, 2, 1, has_ended=has_ended) for has_ended in (True, True, False)]
    assert asked == [Layout(0, 2, 0)] * 3
    layouts.serve(PLACE, Layout(0, 2, 0))
    assert layouts.next(PLACE, 2, 1, has_ended=False).served == 1
    assert layouts.next((PLACE[0], (2,)), 3, 1, has_ended=False).number == 0, "of other CPUs"


def turns(
    order: str, times: Mapping[str, int] | None = None, slow: str = "", ready_after: float = inf, may_wait: str = ""
) -> str:
    """Points are letters; what is not named in times is visited once, and what is left stands behind a bar.
    ready_after: so many visits all are ready."""
    points = {letter: Point(probe=letter, abi="x86_64", target="local") for letter in order}
    how_often = {point: (times or {}).get(letter, 1) for letter, point in points.items()}
    made: list[str] = []
    whose = RoundOrder(points.values(), how_often, *([points[letter] for letter in some] for some in (slow, may_wait)))

    def is_ready(_: Point) -> bool:
        return len(made) >= ready_after

    for point in whose.each(is_ready):
        made += point.probe
    return "".join([*made, "|" * bool(whose.left), *(point.probe for point in whose.left)])


def test_what_comes_several_times_does_so_in_turns_with_what_is_behind_it() -> None:
    assert turns("Abcd", {"A": 3}) == "AbAcAd"
    assert turns("bcA", {"A": 3}) == "bcAAA"


def test_two_large_ones_come_in_turns_and_no_third_before_they_are_done() -> None:
    """It would take the room of the one that still waits for its last visit."""
    assert turns("ABCD", dict.fromkeys("ABCD", 3)) == "ABABABCDCDCD"
    assert turns("ABCde", {"A": 4, "B": 2, "C": 2}) == "ABABAACdCe"
    assert turns("AbcBCd", {"A": 2, "B": 2, "C": 2}) == "AbAcBCdBC", "what is done does not count"


def test_each_comes_as_often_as_times_say() -> None:
    times = {"A": 4, "B": 2, "C": 5, "s": 3}
    for ready_after in (0, 3, inf):
        made = Counter(turns("AbBcCsdt", times, "st", ready_after))
        assert made == {**dict.fromkeys("bcdt", 1), **times}


def test_what_is_slow_comes_as_soon_as_it_is_ready() -> None:
    assert turns("sabtc", slow="st", ready_after=0) == "stabc"
    assert turns("sabtc", slow="st", ready_after=2) == "abstc"
    assert turns("sabtc", {"s": 2}, "st", ready_after=1) == "astsbc"


def test_what_is_never_ready_comes_behind_all_others() -> None:
    assert turns("sabtc", slow="st") == "abcst"


def test_what_is_slow_and_may_wait_is_left_to_the_next_round_where_it_is_not_ready() -> None:
    assert turns("sabtc", slow="st", may_wait="st") == "abc|st"
    assert turns("sabtc", slow="st", may_wait="t") == "abcs|t"
    assert turns("sabtc", slow="st", may_wait="st", ready_after=3) == "abcst"
    assert turns("sabtc", {"c": 3}, slow="st", may_wait="s", ready_after=4) == "abctcc|s", (
        "c again, and t comes meanwhile"
    )
    assert turns("st", slow="st", may_wait="st") == "st", "beside which visits?"


def test_of_the_others_what_is_ready_overtakes_a_few_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(probe=letter, abi="x86_64", target="local") for letter in "abcdef"]

    def order(ready: str) -> str:
        whose = RoundOrder(points, dict.fromkeys(points, 1))
        return "".join(point.probe for point in whose.each(lambda point: point.probe in ready))

    assert order("abcdef") == "abcdef"
    assert order("cf") == "cfabde"
    monkeypatch.setattr(conduct_layouts, "_MOST_OVERTAKEN", 2)
    assert order("cf") == "cabfde", "f is too far behind a, and not behind d"
    assert order("bcdef") == "bcadef", "a is overtaken twice, and not by all"


def test_of_the_slow_ones_only_the_next_is_asked_for() -> None:
    """They are prepared in this order, one at a time."""
    asked: list[str] = []
    points = [Point(probe=letter, abi="x86_64", target="local") for letter in "sab"]
    whose = RoundOrder(points, dict.fromkeys(points, 1), points[:2])
    made = [point.probe for point in whose.each(lambda point: bool(asked.append(point.probe)) or point != points[0])]
    assert made == ["b", "s", "a"]
    assert asked == ["s", "b"]
