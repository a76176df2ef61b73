# SPDX-License-Identifier: Apache-2.0
"""Which points the next round visits."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from math import inf

import pytest

from tollmeter.catalog import read_suite
from tollmeter.library import places
from tollmeter.model import Select
from tollmeter.plan.effort import LARGE_BYTES, Wish, next_visits
from tollmeter.root import ROOT


def chosen(left_s: float, *wishes: Wish[str]) -> list[str]:
    return next_visits(wishes, left_s)


def test_what_a_point_still_wants_takes() -> None:
    assert Wish("a", 6, 13.0, 0.5).to_settle_s() == 3.5
    assert Wish("a", 6, 2.0, 0.5).to_settle_s() == 0.5, "it is open, so one more at least"


def test_points_without_an_interval_come_first_the_cheapest_to_get_one_before_the_others() -> None:
    wishes = (Wish("known", 3, 4, 0.1), Wish("two", 2, 9, 0.1), Wish("dear", 1, 9, 0.3), Wish("one", 1, 9, 0.2))
    assert chosen(100.0, *wishes) == ["two", "one", "dear", "known"]


def test_expensive_points_wait_until_the_cheap_ones_have_intervals() -> None:
    """Two visits of each expensive point would take 80 of the 61 s that are left."""
    cheap = [Wish(f"cheap {place}", 1, 9, 0.05) for place in range(100)]
    dear = [Wish(f"dear {place}", 1, 9, 1.0) for place in range(40)]
    assert chosen(61.0, *dear, *cheap) == [*(wish.point for wish in cheap), *(wish.point for wish in dear[:10])]
    assert chosen(1.5, *dear) == ["dear 0"], "one visit, where no interval can be had"


def test_points_that_converge_soonest_come_before_the_cheapest_visit() -> None:
    """Ten visits of 0.1 s are dearer than one of 0.5 s."""
    assert chosen(100.0, Wish("many", 6, 16, 0.1), Wish("one", 6, 7, 0.5)) == ["one", "many"]


def test_a_point_beyond_the_budget_is_passed_over_for_one_that_fits() -> None:
    wishes = (Wish("dear", 6, 106, 0.1), Wish("hopeless", 9, inf, 0.01), Wish("cheap", 3, 5, 0.1))
    assert chosen(0.5, *wishes) == ["cheap"]
    new = (Wish("first", 1, 9, 0.1), Wish("dear", 1, 9, 10.0), Wish("last", 2, 9, 0.2))
    assert chosen(5.0, *new) == ["first", "last"]


def test_no_point_converges_at_the_cost_of_one_without_an_interval() -> None:
    """The new one wants two visits of 2 s: that leaves 1 s of 5 for the other, which wants 1.5."""
    new = Wish("new", 1, 9, 2.0)
    assert chosen(5.0, new, Wish("known", 3, 6, 0.5)) == ["new"], "and none of what is left over"
    assert chosen(6.0, new, Wish("known", 3, 6, 0.5)) == ["new", "known"]


def test_where_no_point_can_converge_the_least_visited_share_the_rest() -> None:
    wishes = (Wish("a", 9, inf, 0.1), Wish("b", 4, inf, 0.1), Wish("c", 6, inf, 0.1))
    assert chosen(0.25, *wishes) == ["b", "c"]


@pytest.mark.parametrize("left_s", [0.0, 0.05])
def test_no_time_is_no_visit(left_s: float) -> None:
    assert chosen(left_s, Wish("a", 1, 9, 0.1), Wish("b", 5, inf, 0.1)) == []


def test_the_benchmark_of_the_scheduler_is_about_probes_that_exist() -> None:
    """Some that are quick to set up and some that are slow, in both ABIs of one CPU."""
    suite = read_suite(ROOT / "bench/scheduler.toml")
    known = places.sources()
    assert all(fnmatch.filter(known, select.probe) for select in suite.select)
    assert {abi for select in suite.select for abi in select.abi} == {"native", "ia32"}
    sizes = [size for select in suite.select for size in values_of(select) if isinstance(size, int)]
    assert min(sizes) < LARGE_BYTES < max(sizes)


def values_of(select: Select) -> Sequence[object]:
    sizes = select.parameters.get("size", ())
    return sizes if isinstance(sizes, list | tuple) else (sizes,)
