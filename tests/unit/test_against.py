# SPDX-License-Identifier: Apache-2.0
"""`--against`: which points stand against which, and in which turns they are visited."""

from __future__ import annotations

import pytest

from support.fake_catalog import MACHINE, catalog
from tollmeter.model import Failure, Point, Select, Suite
from tollmeter.plan import Plan, expected_seconds, make_plan, visit_order

HUGE = Select(probe="memory.latency", parameters={"size": (1024, 4096), "pages": "huge"})
SMALL = Select(probe="memory.latency", parameters={"size": 1024})
ENTER = Select(probe="kernel.enter")


def plan_of(select: Select, *against: str) -> Plan:
    suite = Suite(name="s", question="?", select=(select,))
    return make_plan(suite, catalog(), MACHINE, budget_seconds=100, seed=1, against=against)


def latency(size: int, pages: str, abi: str = "x86_64") -> Point:
    return Point(probe="memory.latency", abi=abi, target="local", parameters=(("size", size), ("pages", pages)))


def test_another_value_of_a_parameter() -> None:
    plan = plan_of(HUGE, "pages=small")
    assert plan.against == {latency(size, "huge"): latency(size, "small") for size in (1024, 4096)}
    assert sorted(map(str, plan.points())) == sorted(
        str(latency(s, p)) for s in (1024, 4096) for p in ("huge", "small")
    )


def test_what_is_that_already_stands_against_nothing() -> None:
    assert plan_of(SMALL, "pages=small").against == {latency(1024, "huge"): latency(1024, "small")}


def test_another_abi_and_several_words() -> None:
    assert plan_of(ENTER, "ia32").against == {
        Point(probe="kernel.enter", abi="x86_64", target="local"): Point(
            probe="kernel.enter", abi="ia32", target="local"
        )
    }
    both = plan_of(SMALL, "ia32", "size=16KiB").against
    assert both[latency(1024, "huge")] == latency(16384, "huge", "ia32")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pages=hug",), "huge"),
        (("page=huge",), "pages"),
        (("ia23",), "ia32"),
        (("kernel.enter",), "has not the parameters of memory.latency"),
        (("pages=huge",), "this changes no point"),
        (("size=1KiB..4KiB",), "expected one value"),
    ],
)
def test_a_word_that_means_nothing_is_refused_with_the_nearest(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(Failure, match=said) as refused:
        plan_of(HUGE, *words)
    assert refused.value.exit_code == 2


def test_an_interleaved_plan_expects_as_many_visits_as_a_ratio_takes() -> None:
    alone, both = plan_of(SMALL), plan_of(SMALL, "size=4096")
    assert len(both.points()) == 2 * len(alone.points())
    assert expected_seconds(both) > 10 * expected_seconds(alone)


def test_turns_are_taken_forth_and_back_and_layouts_are_in_common() -> None:
    plan = plan_of(HUGE, "pages=small")
    first, second = (visit_order(plan, plan.points(), round_) for round_ in (0, 1))
    assert first == [point for size in (1024, 4096) for point in (latency(size, "huge"), latency(size, "small"))]
    assert second == [point for size in (1024, 4096) for point in (latency(size, "small"), latency(size, "huge"))]
    seeds = {plan.visit(0, point, 0, (1,), layout=3).seed for point in plan.points()}
    assert len(seeds) == 1
    assert plan.visit(0, first[0], 0, (1,), layout=4).seed not in seeds
