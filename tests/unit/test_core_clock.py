# SPDX-License-Identifier: Apache-2.0
"""Which times consist of core cycles, by how they scatter with the core's clock."""

from __future__ import annotations

import numpy as np
import pytest

from made import CLOCK_HZ, metric, outcome, probe, quiet, sample
from tollmeter.experiment.core import ClockEvidence, clock_evidence, clocks_of, follows_clock, sample_clocks
from tollmeter.experiment.taken import Taken
from tollmeter.model import Outcome, Row
from tollmeter.numbers.rows import rows

CLOCKS_HZ = [4.0e9, 3.9e9, 4.1e9, 3.8e9, 4.05e9, 3.95e9]
SLOW = 0.85
PROBES = {"any.probe": probe(metric(means="entry"))}


def test_a_cost_in_cycles_follows_the_clock() -> None:
    assert clock_evidence([100 / hz * 1e9 for hz in CLOCKS_HZ], CLOCKS_HZ) > 1


def test_a_cost_in_ns_does_not() -> None:
    assert clock_evidence([25.0 * (1 + 0.001 * (-1) ** i) for i, _ in enumerate(CLOCKS_HZ)], CLOCKS_HZ) < -1


@pytest.mark.parametrize(("power", "follows"), [(0.8, True), (0.6, True), (0.4, False), (0.2, False)])
def test_what_is_partly_of_cycles_is_rounded_to_the_nearer(power: float, follows: bool) -> None:
    assert (clock_evidence([(4e9 / hz) ** power for hz in CLOCKS_HZ], CLOCKS_HZ) > 0) is follows


def test_a_steady_clock_shows_nothing() -> None:
    """Ten times less than a tenth of a percent, and costs that go with it all the same."""
    clocks = [4e9 * (1 + 0.0001 * i) for i in range(6)]
    assert clock_evidence([100 / hz * 1e9 for hz in clocks], clocks) == 0


def test_two_visits_show_nothing_and_three_do() -> None:
    costs = [100 / hz * 1e9 for hz in CLOCKS_HZ]
    assert clock_evidence(costs[:2], CLOCKS_HZ[:2]) == 0
    assert clock_evidence(costs[:3], CLOCKS_HZ[:3]) > 0


@pytest.mark.parametrize(("cost", "clock"), [(0.0, 4e9), (-1.0, 4e9), (1.0, 0.0)])
def test_what_has_no_logarithm_shows_nothing(cost: float, clock: float) -> None:
    costs = [100 / hz * 1e9 for hz in CLOCKS_HZ]
    assert clock_evidence([*costs, cost], [*CLOCKS_HZ, clock]) == 0


def test_one_odd_visit_decides_nothing() -> None:
    """The slowest visit took 7 % less than its clock allows, which brings its ns amid the others'."""
    costs = [100 / hz * 1e9 * (0.93 if hz == min(CLOCKS_HZ) else 1) for hz in CLOCKS_HZ]
    assert clock_evidence(costs, CLOCKS_HZ) > 0


def test_a_point_without_evidence_follows_as_those_of_about_its_cost_do() -> None:
    seen = ClockEvidence([1.2, 3.8, 4.5, 100.0, 120.0], [2.0, 2.0, 0.0, -1.0, 0.0])
    assert follows_clock(4.5, seen)
    assert not follows_clock(120.0, seen)


def test_what_nothing_shows_does_not_follow() -> None:
    assert not follows_clock(5.0, ClockEvidence([5.0, 900.0], [0.0, 3.0]))


def stepping(slow: list[bool], cycles: float = 400.0, visit: int = 0, of: int = 0) -> Outcome:
    """A visit of a cost in cycles, during some of whose samples the clock was lower. of: one of several points."""
    rates = [CLOCK_HZ * (SLOW if one else 1) for one in slow]
    seen = [
        quiet(control_before_hz=rate, control_hz=rate, width_before_hz=4 * rate, width_hz=4 * rate) for rate in rates
    ]
    samples = [sample(cycles / rate * 1e9, witness=witness) for rate, witness in zip(rates, seen, strict=True)]
    return outcome(samples, visit=visit, seed=visit + 1, parameters={"point": of})


def test_samples_of_a_lower_clock_have_it_and_one_slow_loop_changes_nothing() -> None:
    visit = stepping([False] * 5 + [True] * 4 + [False] + [True])
    taken = Taken([visit.samples])
    clocks = sample_clocks(taken, clocks_of(taken, [visit])) / CLOCK_HZ
    assert clocks[:5].min() == 1
    assert clocks[6:9].max() == pytest.approx(SLOW)
    assert np.median(clocks[9]) == 1


def row(visits: list[Outcome], point: int) -> Row:
    (one,) = [row for row in rows(visits, PROBES) if row.parameters["point"] == point and row.metric == "cost"]
    return one


def test_a_clock_that_steps_within_visits_is_neither_scatter_nor_a_neighbour() -> None:
    random = np.random.default_rng(1)
    visits = [stepping(np.repeat(random.random(4) < 0.4, 4).tolist(), visit=visit) for visit in range(5)]
    one = row(visits, 0)
    assert one.median == pytest.approx(400.0 / CLOCK_HZ * 1e9, rel=0.001)
    assert (one.high - one.low) / one.median < 0.05
    assert one.state == "whole"


def test_a_point_that_met_the_lower_clock_alone_is_stated_at_the_clock_of_the_others() -> None:
    """Its own visits show nothing; those of a point of about its cost do."""
    random = np.random.default_rng(2)
    other = [stepping(np.repeat(random.random(4) < 0.3, 4).tolist(), 420.0, visit, of=1) for visit in range(6)]
    visits = [*other, *(stepping([True] * 16, 400.0, visit) for visit in range(6, 9))]
    assert row(visits, 0).median == pytest.approx(400.0 / CLOCK_HZ * 1e9, rel=0.01)
