# SPDX-License-Identifier: Apache-2.0
"""What a row says of runs that differ, and of two costs."""

from __future__ import annotations

import pytest

from made import metric, outcome, probe, sample
from tollmeter.model import Outcome
from tollmeter.numbers.known import Learned, row_name
from tollmeter.numbers.rows import known_of, rows


def visits_of(*costs: list[float]) -> list[Outcome]:
    """A visit each, of a batch for each cost."""
    return [outcome([sample(cost) for cost in some], visit=visit) for visit, some in enumerate(costs)]


def test_a_row_that_was_seen_to_differ_by_more_between_runs_is_known_less_well() -> None:
    visits, told = visits_of(*[[10.0, 10.1, 9.9]] * 8), probe(metric())
    (plain,) = rows(visits, {told.probe: told})
    found = []
    for name in (row_name(plain, plain.state), "another row"):
        known = known_of(visits, {told.probe: told}, Learned(runs_sd={told.probe: 0.002, name: 0.05}))
        (row,) = rows(visits, {told.probe: told}, known)
        assert row.low and row.high
        found.append((row.high - row.low) / 2)
    assert found[0] == pytest.approx(10 * 1.96 * 0.05, rel=0.1)
    assert found[1] < 0.2


def test_two_costs_are_told_apart_where_each_visit_saw_both() -> None:
    """Visits whose medians lie in either heap or between; the state with most batches is the row's."""
    told = probe(metric())
    (row,) = rows(visits_of(*[[10.0] * 12 + [15.0] * 8, [10.0] * 8 + [15.0] * 12] * 3), {told.probe: told})
    assert [(state.state, round(state.median, 3), state.share) for state in row.states] == [
        ("first", 10.0, pytest.approx(0.5)),
        ("second", 15.0, pytest.approx(0.5)),
    ]
    (row,) = rows(visits_of(*[[10.0] * 8 + [15.0] * 12] * 6), {told.probe: told})
    assert (row.state, row.median) == ("second", pytest.approx(15.0))
    assert row.states[1].share == pytest.approx(0.4)
