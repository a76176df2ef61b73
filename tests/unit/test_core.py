# SPDX-License-Identifier: Apache-2.0
"""Whether the core was this program's alone, from independent additions; and which times consist of core cycles, by how
they scatter with the core's clock."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.builders import CLOCK_HZ, metric, outcome, probe, quiet, sample
from tollmeter.experiment.core import (
    ClockEvidence,
    clock_evidence,
    clocks_of,
    core_seen,
    cores_hz,
    follows_clock,
    sample_clocks,
    states,
    widths,
)
from tollmeter.experiment.taken import Taken
from tollmeter.model import Outcome, Row, Sample
from tollmeter.numbers import known
from tollmeter.numbers.known import Learned, machine_known
from tollmeter.numbers.rows import rows


def seen(before: float, after: float | None = None, between: float = 0.0) -> Sample:
    """A sample between two readings of the width, in additions a cycle, and with one in its middle."""
    rates = [width * CLOCK_HZ for width in (before, before if after is None else after, between)]
    return sample(10, witness=quiet(width_before_hz=rates[0], width_hz=rates[1], width_between_hz=rates[2]))


def visit(*readings: float, number: int = 0) -> Outcome:
    return outcome([seen(reading) for reading in readings], visit=number)


def clocks(*hz: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(hz)


def states_of(samples: Sequence[Sample], clock_hz: float | None, width: float | None) -> list[str]:
    return [str(state) for state in states(Taken([samples]), clocks(clock_hz or 0.0), np.array([width or 0.0]))]


def test_the_clock_is_what_the_loops_reach_nine_times_in_ten() -> None:
    """A neighbour makes most of them slower, and nothing makes one faster but a reading that went wrong."""
    slowed = [sample(1, witness=quiet(control_before_hz=3.6e9, control_hz=3.7e9)) for _ in range(4)]
    visits = [outcome(slowed, controls=(3.7e9, 9e9)), outcome([sample(1)], controls=())]
    assert cores_hz(visits) == pytest.approx([3.7e9, 0])


def test_a_width_is_additions_in_a_cycle() -> None:
    assert widths(Taken([[seen(4.0, 2.0)]]), clocks(CLOCK_HZ)) == pytest.approx((4.0, 2.0))
    assert not len(widths(Taken([[sample(1, witness=quiet())]]), clocks(CLOCK_HZ)))
    assert not len(widths(Taken([[seen(4.0)]]), clocks(0.0)))


def test_the_width_of_one_mode_is_its_median() -> None:
    assert core_seen([visit(3.98, 4.00, 4.02, 3.99, 4.01)]).width == pytest.approx(4.0)


def test_more_readings_of_a_mode_do_not_move_its_median() -> None:
    """A mode's upper end grows with the number of its readings, and is not its middle."""
    many = np.random.default_rng(1).normal(4.0, 0.01, 2000)
    assert core_seen([visit(*many)]).width == pytest.approx(4.0, rel=0.002)


def test_the_width_of_two_modes_is_the_upper_ones_however_small() -> None:
    """Neighbours had the core for 36 samples of 40, and two odd readings stand above both modes."""
    shared = [2.4 + 0.01 * (i % 5) for i in range(36)]
    found = core_seen([visit(*shared), visit(3.98, 4.00, 4.02, 4.00, number=1), visit(5.5, number=2)]).width
    assert found == pytest.approx(4.0)


def test_a_profiler_that_slows_control_loops_makes_no_core_wider() -> None:
    """`perf record -a -F 9973`: two control loops in a row are slow, and the width between them is not."""
    slow, width_hz = 0.44 * CLOCK_HZ, 4.0 * CLOCK_HZ
    rates = {"width_before_hz": width_hz, "width_hz": width_hz}
    calm = [sample(10, witness=quiet(**rates)) for _ in range(30)]
    slowed = [sample(10, witness=quiet(control_before_hz=slow, control_hz=slow, **rates)) for _ in range(10)]
    found = core_seen([outcome([*calm, *slowed])])
    assert found.width == pytest.approx(4.0)
    assert found.contended_share(4.0) == 0


def test_too_few_readings_have_no_width() -> None:
    """Three samples have six readings, and a mode has eight."""
    assert core_seen([visit(4.0, 4.0, 4.0)]).width is None
    assert core_seen([visit(4.0, 4.0, 4.0, 4.0)]).width == pytest.approx(4.0)
    assert core_seen([outcome([sample(1)] * 20)]).width is None
    assert core_seen([]).width is None


def test_a_width_that_no_float_of_32_bits_holds_is_a_reading_too() -> None:
    found = core_seen([visit(4.0, 4.0, 4.0, 1e300, 4.0)])
    assert found.width == pytest.approx(4.0)
    assert np.isfinite(found.readings).all() and found.readings.max() > 1e30


def test_a_sample_is_whole_shared_or_unknown() -> None:
    """From 95 % of the width on, on both sides."""
    told = [seen(4.0), seen(3.81), seen(3.79), seen(2.4), seen(4.0, 2.4), seen(2.4, 4.0), sample(1, witness=quiet())]
    expected = ["uncontended", "uncontended", "contended", "contended", "unknown", "unknown", "unknown"]
    assert [states_of([one], CLOCK_HZ, 4.0)[0] for one in told] == expected
    assert states_of(told[:2], CLOCK_HZ, None) == ["unknown", "unknown"]
    assert states_of(told[:2], None, 4.0) == ["unknown", "unknown"]


def test_a_sample_is_whole_only_beside_looks_that_saw_the_core_whole() -> None:
    """Somebody who was there a moment before may have been there a moment after two looks."""
    told = [seen(4.0), seen(4.0), seen(4.0), seen(2.4), seen(4.0), seen(4.0)]
    expected = ["uncontended", "uncontended", "unknown", "contended", "unknown", "uncontended"]
    assert states_of(told, CLOCK_HZ, 4.0) == expected


def test_contention_in_the_middle_of_a_sample_alone_is_detected() -> None:
    told = [seen(4.0, between=4.0), seen(4.0, between=2.4), seen(4.0, between=4.0), seen(4.0, between=4.0)]
    assert widths(Taken([told[1:2]]), clocks(CLOCK_HZ)) == pytest.approx((4.0, 2.4, 4.0))
    expected = ["unknown", "unknown", "unknown", "uncontended"]
    assert states_of(told, CLOCK_HZ, 4.0) == expected, "who is there in one sample's middle came from somewhere"
    assert states_of([seen(2.4, between=4.0)], CLOCK_HZ, 4.0) == ["unknown"]
    assert states_of([seen(2.4, between=2.4)], CLOCK_HZ, 4.0) == ["contended"]


def test_visits_judged_in_one_call_do_not_affect_each_other() -> None:
    """Somebody was there at the end of the first visit, and at the beginning of the third; the second has no sample."""
    alone, beside = [seen(4.0)] * 2, [seen(2.4)]
    told = Taken([[*alone, *beside], [], [*beside, *alone], alone])
    expected = [
        "uncontended",
        "unknown",
        "contended",
        "contended",
        "unknown",
        "uncontended",
        "uncontended",
        "uncontended",
    ]
    assert states(told, clocks(*[CLOCK_HZ] * 4), np.full(4, 4.0)).tolist() == expected
    some = told.where(np.array([True, True, False, False, True, True, True, True]))
    assert (some.counts.tolist(), some.column("width_hz").tolist()) == ([2, 0, 2, 2], [4.0 * CLOCK_HZ] * 6)
    assert states(some, clocks(CLOCK_HZ, CLOCK_HZ, 0.0, CLOCK_HZ), np.full(4, 4.0)).tolist() == [
        "uncontended", "uncontended", "unknown", "unknown", "uncontended", "uncontended"
    ]  # fmt: skip


def test_a_width_that_earlier_runs_saw_counts_where_this_one_was_never_alone() -> None:
    alone, beside = [visit(*[4.0] * 8)], [visit(*[2.4] * 8)]
    place = ("local", "x86_64")
    assert machine_known(alone).widths[place] == pytest.approx(4.0)
    assert machine_known(beside).widths[place] == pytest.approx(2.4)
    assert machine_known(beside, Learned(widths={place: 4.0})).widths[place] == 4.0
    assert machine_known(alone, Learned(widths={place: 2.4})).widths[place] == pytest.approx(4.0)


def test_the_core_of_many_visits_is_that_of_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MANY_VISITS", 30)
    looked: list[int] = []
    whole = known.core_seen
    monkeypatch.setattr(known, "core_seen", lambda some: (looked.append(len(some)), whole(some))[1])
    found = machine_known([visit(4.0, 3.99, 4.01, number=number) for number in range(100)])
    assert looked == [25]
    assert [*found.widths.values()] == pytest.approx([4.0], rel=0.005)


# ---- the clock -------------------------------------------------------------------------------------------------------

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


def test_a_clock_step_within_visits_is_neither_scatter_nor_contention() -> None:
    random = np.random.default_rng(1)
    visits = [stepping(np.repeat(random.random(4) < 0.4, 4).tolist(), visit=visit) for visit in range(5)]
    one = row(visits, 0)
    assert one.median == pytest.approx(400.0 / CLOCK_HZ * 1e9, rel=0.001)
    assert (one.high - one.low) / one.median < 0.05
    assert one.state == "uncontended"


def test_a_point_that_met_the_lower_clock_alone_is_stated_at_the_clock_of_the_others() -> None:
    """Its own visits show nothing; those of a point of about its cost do."""
    random = np.random.default_rng(2)
    other = [stepping(np.repeat(random.random(4) < 0.3, 4).tolist(), 420.0, visit, of=1) for visit in range(6)]
    visits = [*other, *(stepping([True] * 16, 400.0, visit) for visit in range(6, 9))]
    assert row(visits, 0).median == pytest.approx(400.0 / CLOCK_HZ * 1e9, rel=0.01)
