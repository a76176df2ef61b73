# SPDX-License-Identifier: Apache-2.0
"""Which layout a visit is of, how many visits a round makes of it, and in which order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import inf
from pathlib import Path

import pytest

from machines import MIB
from rigs import Rig
from tollmeter.conduct import layouts as conduct_layouts
from tollmeter.conduct.layouts import Layout, Layouts, RoundOrder
from tollmeter.model import Point, Select
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


def turns(order: str, slow: str = "", ready_after: float = inf, may_wait: str = "") -> str:
    """Points are letters; what is left stands behind a bar. ready_after: so many visits all are ready."""
    points = {letter: Point(probe=letter, abi="x86_64", target="local") for letter in order}
    made: list[str] = []
    whose = RoundOrder(points.values(), *([points[letter] for letter in some] for some in (slow, may_wait)))

    def is_ready(_: Point) -> bool:
        return len(made) >= ready_after

    for point in whose.each(is_ready):
        made += point.probe
    return "".join([*made, "|" * bool(whose.left), *(point.probe for point in whose.left)])


def test_what_is_slow_comes_as_soon_as_it_is_ready() -> None:
    assert turns("sabtc", slow="st", ready_after=0) == "stabc"
    assert turns("sabtc", slow="st", ready_after=2) == "abstc"


def test_what_is_never_ready_comes_behind_all_others() -> None:
    assert turns("sabtc", slow="st") == "abcst"


def test_what_is_slow_and_may_wait_is_left_to_the_next_round_where_it_is_not_ready() -> None:
    assert turns("sabtc", slow="st", may_wait="st") == "abc|st"
    assert turns("sabtc", slow="st", may_wait="t") == "abcs|t"
    assert turns("sabtc", slow="st", may_wait="st", ready_after=3) == "abcst"
    assert turns("st", slow="st", may_wait="st") == "st", "beside which visits?"


def test_of_the_others_what_is_ready_overtakes_a_few_that_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [Point(probe=letter, abi="x86_64", target="local") for letter in "abcdef"]

    def order(ready: str) -> str:
        whose = RoundOrder(points)
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
    whose = RoundOrder(points, points[:2])
    made = [point.probe for point in whose.each(lambda point: bool(asked.append(point.probe)) or point != points[0])]
    assert made == ["b", "s", "a"]
    assert asked == ["s", "b"]
