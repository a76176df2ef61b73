# SPDX-License-Identifier: Apache-2.0
"""A study's listing: what the control loop around an attempt says of it, and what is done then."""

from __future__ import annotations

import msgspec
import pytest

from support.builders import metric, outcome, probe, quiet, row, sample
from support.example_runs import empty, with_rows
from tollmeter.model import Clock, Listed, Outcome, Published, Results, RowOf, Select, Suite
from tollmeter.report.blocks import Table
from tollmeter.report.numbers import quantity
from tollmeter.report.studies import FREE, by_attempt, listings
from tollmeter.studies.attempts import ATTEMPTS, Attempt, State, attempted_listing, chosen_attempts, differing, state_of

LOOP = probe(metric("turn", means="control-loop"), name="any.loop")
USUAL_HZ = 4e9


@pytest.mark.parametrize(
    ("off", "state"),
    [(1.0, "valid"), (1.029, "valid"), (0.971, "valid"), (1.031, "suspect"), (0.91, "suspect"), (1.11, "differs"),
     (0.89, "differs"), (0.0, "unseen")],
)  # fmt: skip
def test_the_control_loop_says_in_which_state_an_attempt_was(off: float, state: State) -> None:
    assert state_of(off * USUAL_HZ, USUAL_HZ) == state


def tried(*states: State) -> list[Attempt]:
    return [Attempt(float(place), USUAL_HZ, state) for place, state in enumerate(states)]


def test_what_differs_is_measured_again_and_three_times_at_most() -> None:
    kept, again = chosen_attempts(tried("valid", "differs", "valid", "valid", "valid", "valid", "valid"))
    assert (again, [one.loops_hz for one in kept]) == (1, [0, 2, 3, 4, 5])
    kept, again = chosen_attempts(tried(*["differs"] * 20))
    assert (again, len(kept), {one.state for one in kept}) == (3, ATTEMPTS, {"differs"})


def test_an_attempt_that_differs_is_shown_where_nothing_can_take_its_place() -> None:
    kept, again = chosen_attempts(tried("valid", "valid", "differs"))
    assert (again, [one.state for one in kept]) == (0, ["valid", "valid", "differs"])


def visit(number: int, ns: int, control_hz: float, width: float = 4.0) -> Outcome:
    """width: independent additions in a cycle around it."""
    of_width = {"width_hz": width * control_hz, "width_before_hz": width * control_hz}
    seen = quiet(control_hz=control_hz, control_before_hz=control_hz, **of_width)
    return outcome([sample(ns, start=0, witness=seen)], name="any.loop", visit=number)


def results(*visits: Outcome, clock: Clock = "hardware") -> Results:
    listed = Listed(test="A", what="the loop", row=RowOf(means="control-loop"), differs="it is another loop.")
    suite = Suite(
        name="paper", question="?", select=(Select(probe="*"),), published=(Published(what="a", figure="b"),),
        listing=(listed,),
    )  # fmt: skip
    timed = with_rows(empty(), [row(10.0, of="any.loop", name="turn", clock=clock)])
    return msgspec.structs.replace(timed, outcomes=tuple(visits), probes={LOOP.probe: LOOP}, suite=suite)


def test_visits_are_asked_for_until_another_attempt_can_stand_in_the_place_of_one_that_differs() -> None:
    """No longer than three were put aside; and for no point that the suite does not list."""
    suite = results().suite
    assert suite

    def wanted(*control_hz: float) -> bool:
        visits = [visit(number, 10, hz) for number, hz in enumerate(control_hz)]
        other = msgspec.structs.replace(visits[0].point, parameters=(("of", "the usual state"),))
        usual = [visit(number, 10, USUAL_HZ) for number in range(20)]
        asked = differing({visits[0].point: visits, other: usual}, suite, {LOOP.probe: LOOP})
        assert other not in asked
        return visits[0].point in asked

    assert wanted(USUAL_HZ, USUAL_HZ, 2 * USUAL_HZ)
    assert wanted(*[USUAL_HZ] * 4, 2 * USUAL_HZ)
    assert not wanted(*[USUAL_HZ] * 4, 2 * USUAL_HZ, USUAL_HZ)
    assert not wanted(*[USUAL_HZ] * 5)
    assert not wanted(*[2 * USUAL_HZ] * 8)
    unlisted = msgspec.structs.replace(suite, listing=())
    assert not differing({visit(0, 10, USUAL_HZ).point: [visit(0, 10, 2 * USUAL_HZ)]}, unlisted, {LOOP.probe: LOOP})


def test_a_listing_has_every_attempt_with_its_state() -> None:
    visits = [visit(number, 10, USUAL_HZ) for number in range(4)]
    (place,) = attempted_listing(results(*visits, visit(4, 20, 2 * USUAL_HZ)))
    (test,) = place.tests
    assert [one.state for one in test.attempts] == ["valid"] * 4 + ["differs"]
    assert test.attempts[-1].loops_hz == pytest.approx(5e7)


def test_an_attempt_beside_a_busy_sibling_differs_though_its_control_loop_does_not() -> None:
    visits = [visit(number, 10, USUAL_HZ) for number in range(12)]
    (place,) = attempted_listing(results(*visits[:3], visit(20, 24, USUAL_HZ, width=2.5), *visits[3:]))
    (test,) = place.tests
    assert (test.again, [one.state for one in test.attempts]) == (1, ["valid"] * 5)


def test_the_answer_says_what_the_control_loop_says_and_how_a_test_differs() -> None:
    table, *usual = listings(results(*(visit(number, 10, USUAL_HZ) for number in range(5))))
    assert isinstance(table, Table)
    cells = table.rows[0].cells
    assert "100 100 100 100 100 M/s" in cells
    assert quantity(10.0, "ns") in cells, "as the row states it"
    assert "it is another loop." in str(usual[-1])
    assert FREE not in usual
    _, *moved = listings(results(visit(0, 10, USUAL_HZ), visit(1, 10, USUAL_HZ), visit(2, 10, 2 * USUAL_HZ)))
    assert moved[0] != usual[0]
    emulated = listings(results(visit(0, 10, USUAL_HZ), visit(1, 10, USUAL_HZ), clock="virtual"))
    assert FREE in emulated


def test_marks_stand_behind_what_is_not_to_be_believed() -> None:
    states: list[State] = ["valid", "suspect", "differs"]
    assert by_attempt([Attempt(2e6, 0, state) for state in states]) == "2 2? 2! M/s"
