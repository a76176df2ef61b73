# SPDX-License-Identifier: Apache-2.0
"""Rows from hand-made samples: what each source and unit is made of, when there is no number, and what a row says of
runs that differ and of two costs."""

from __future__ import annotations

import random
import time
from math import exp, inf

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.builders import CLOCK_HZ, metric, outcome, probe, quiet, row, sample
from support.python_speed import within_units
from tollmeter.experiment.limits import UNDISTURBED
from tollmeter.experiment.precision import quantiles_of
from tollmeter.experiment.runs_differ import USUAL_RUNS_SD
from tollmeter.judgement.convergence import visits_wanted
from tollmeter.model import Columns, Counted, Failure, Metric, Outcome, Probe, Row, Sample, State, Witness, Work
from tollmeter.numbers.known import Known, Learned, row_name
from tollmeter.numbers.plausible import in_one_place, without_implausible
from tollmeter.numbers.rows import known_of, row_key, rows


def only(outcomes: list[Outcome], told: Probe) -> Row:
    (found,) = rows(outcomes, {told.probe: told})
    return found


def value_of(one: Metric, samples: list[Sample], **more: object) -> float | None:
    found = only([outcome(samples, **more)], probe(one))  # type: ignore[arg-type]
    assert found.status == "ok", found.reason
    return found.median


THREE = [sample(10, 4), sample(12, 4), sample(11, 5)]


@pytest.mark.parametrize(
    ("source", "unit", "expected"),
    [
        ("body", "ns", 11),
        ("control", "ns", 4),
        ("difference", "ns", 6),
        ("body", "cycle", 44),
        ("difference", "cycle", 24),
        ("body", "B/s", 64 / 11e-9),
        ("body", "flop/s", 8 / 11e-9),
        ("body", "op/s", 1 / 11e-9),
    ],
)
def test_what_a_value_is_made_of(source: str, unit: str, expected: float) -> None:
    one = metric(unit=unit, source=source)
    assert value_of(one, THREE, work=Work(bytes=64, flops=8)) == pytest.approx(expected)


def test_a_row_says_that_its_huge_pages_are_explicit_ones() -> None:
    told = {pages: only([outcome(THREE, counted=Counted(hugetlb_bytes=pages))], probe(metric())) for pages in (0, 4096)}
    assert told[0].reason is None and told[4096].status == "ok"
    assert told[4096].reason == "its huge pages are explicit ones (hugetlb)"


def test_operations_share_the_time_of_an_iteration() -> None:
    assert value_of(metric(), THREE, work=Work(operations=4)) == pytest.approx(11 / 4)
    assert value_of(metric(unit="op/s"), THREE, work=Work(operations=4)) == pytest.approx(4 / 11e-9)
    assert value_of(metric(), THREE, work=Work(operations=0)) == pytest.approx(11)


def test_each_visit_counts_cycles_by_its_own_clock() -> None:
    visits = [
        outcome([sample(10), sample(10)], visit=0, controls=(4e9, 4e9)),
        outcome([sample(20), sample(20)], visit=1, controls=(2e9, 2e9)),
    ]
    assert only(visits, probe(metric(unit="cycle"))).median == pytest.approx(40)


def test_companions_add_up_and_join_the_timed_worker() -> None:
    samples = [sample(10, lanes=((500, 5_000), (250, 5_000)))] * 2
    work = Work(bytes=64)
    companions = value_of(metric(unit="B/s", source="companions"), samples, work=work)
    together = value_of(metric(unit="B/s", source="together"), samples, work=work)
    assert companions == pytest.approx(64 * 0.15e9)
    assert together == pytest.approx(64 * 0.25e9)
    alone = value_of(metric(unit="B/s", source="together"), [sample(8), sample(8)], work=work)
    assert alone == pytest.approx(64 * 0.125e9), "the first of a series of instances has no companions"


def test_a_rate_turns_the_interval_and_the_minimum_stays_below() -> None:
    costs = [(10, 10.2, 10.1), (11, 11.4, 11.2), (10.4, 10.5, 10.9)]
    visits = [outcome([sample(c) for c in cost], work=Work(bytes=64), visit=i) for i, cost in enumerate(costs)]
    found = only(visits, probe(metric(unit="B/s")))
    assert found.low is not None
    assert found.median is not None
    assert found.high is not None
    assert found.minimum is not None
    assert found.low < found.median < found.high
    assert found.minimum <= found.median
    assert found.quartiles[0] < found.quartiles[1]


def test_the_minimum_is_the_least_of_all_batches_less_what_they_pay_once() -> None:
    """An interrupted shorter batch makes no low value, as a difference of one sample's two batches would."""
    disturbed, clean = Sample(iterations=10, body=(170, 200)), Sample(iterations=10, body=(130, 182))
    assert only([outcome([disturbed, clean, clean])], probe()).minimum == 5.6


def test_a_time_whose_interval_reaches_below_nothing_is_no_number() -> None:
    """But a difference may be nothing: that two things cost the same is an answer."""
    visits = [outcome([sample(cost, 1)] * 2, visit=i) for i, cost in enumerate((-4.0, 6.0, 8.0))]
    found = only(visits, probe())
    assert (found.status, found.median) == ("unstable", None)
    assert found.reason
    assert only(visits, probe(metric(source="difference"))).status == "ok"


def test_a_difference_has_an_interval_though_its_first_visit_kept_no_sample() -> None:
    stolen = outcome([sample(12, 10, witness=quiet(steal_ticks=1))] * 3)
    visits = [stolen, *(outcome([sample(12 + visit / 100, 10)] * 3, visit=visit) for visit in (1, 2, 3))]
    found = only(visits, probe(metric(source="difference")))
    assert found.median == pytest.approx(2, abs=0.1) and found.low is not None and found.low < 2 < (found.high or 0)


def test_a_gauge_is_what_the_probe_said() -> None:
    one = metric("entries", unit="count", source="gauge")
    found = only(
        [outcome(gauges={"entries": value}, visit=i) for i, value in enumerate((64.0, 72.0, 64.0))], probe(one)
    )
    assert (found.median, found.visits, found.status) == (pytest.approx(64 * (72 / 64) ** 0.25), 3, "ok")
    assert only([outcome(gauges={"entries": inf})], probe(one)).status == "unstable"


def test_a_gauge_that_the_probe_never_reports_is_named() -> None:
    told = probe(*(metric(name, unit="count", source="gauge") for name in ("entries", "lines")))
    visits = [outcome(gauges={"entries": 64.0}, visit=visit) for visit in range(3)]
    reported, lacking = rows(visits, {"any.probe": told})
    assert (reported.status, lacking.status) == ("ok", "unsupported")
    assert lacking.reason == "the probe declares its metric lines and reports no value of it here"


def test_the_worst_value_is_the_greatest_of_all_visits_and_rare_events_have_their_mean_rate() -> None:
    """The median of the visits' worst values was called the worst; and 0 a second, what half of the visits saw."""
    gauges = (("late", "ns", None), ("late_worst", "ns", "worst"), ("rare", "op/s", None))
    described = probe(*(metric(name, unit=unit, means=means, source="gauge") for name, unit, means in gauges))
    values = [(80.0, 0.0), (900.0, 0.0), (0.0, 30.0), (75.0, 0.0)]
    visits = [
        outcome(gauges={"late": 50.0, "late_worst": worst, "rare": rare}, visit=visit)
        for visit, (worst, rare) in enumerate(values)
    ]
    _, worst, rare = rows(visits, {described.probe: described})
    assert (worst.median, worst.low, rare.median) == (900.0, 900.0, 7.5)
    assert worst.high and worst.high > 2 * 900
    assert visits_wanted(visits, described) == len(visits), "no number of visits narrows it"


def test_a_gauge_has_what_it_differed_by_in_earlier_runs() -> None:
    """A count that was never seen to differ is exact, whatever its probe's times do; one that was is not, though all
    visits of this run agree; a time has what its group has, and the usual without a history."""
    several = (metric("pages", unit="B", source="gauge"), metric("used", source="gauge"))
    visits = [outcome(gauges={"pages": 64.0, "used": 64.0}, visit=visit) for visit in range(3)]
    described = probe(*several)
    pages, used = rows(visits, {described.probe: described}, Known(learned=Learned({f"{described.probe} used": 0.05})))
    assert (pages.low, pages.high) == (64, 64)
    assert used.high == pytest.approx(64 * exp(1.959964 * 0.05))
    pages, used = rows(visits, {described.probe: described}, Known(learned=Learned({row_name(pages, None): 0.02})))
    assert (pages.low, pages.high) == pytest.approx((64 / exp(1.959964 * 0.02), 64 * exp(1.959964 * 0.02)))
    assert used.high == pytest.approx(64 * exp(1.959964 * USUAL_RUNS_SD))


def test_disturbed_samples_are_counted_and_not_used() -> None:
    good = [sample(10, witness=quiet()) for _ in range(4)]
    found = only([outcome([*good, sample(10_000, witness=quiet(involuntary=1))])], probe())
    assert (found.samples, found.discarded) == (4, 1)
    assert (found.median, *found.quartiles) == pytest.approx((10, 10, 10))


def test_all_samples_disturbed_leaves_a_sentence() -> None:
    found = only([outcome([sample(10, witness=quiet(steal_ticks=1))] * 5)], probe())
    assert (found.status, found.median, found.discarded) == ("unstable", None, 5)
    assert (found.reason or "").startswith("no usable sample: 5 were discarded for this: ")


@pytest.mark.parametrize(
    ("stolen", "switched", "told"),
    [
        (1, 0, "only 1 usable sample: 1 was discarded for this: "),
        (2, 1, "only 1 usable sample: 3 were discarded, 2 of them for this: "),
        (0, 0, "only 1 usable sample"),
    ],
)
def test_too_few_samples_are_told_with_those_that_were_discarded(stolen: int, switched: int, told: str) -> None:
    disturbed = [quiet(steal_ticks=1)] * stolen + [quiet(involuntary=1)] * switched
    found = only([outcome([sample(10, witness=seen) for seen in (quiet(), *disturbed)])], probe())
    assert (found.reason or "").startswith(told)


def test_one_sample_is_too_few() -> None:
    assert only([outcome([sample(10)])], probe()).status == "unstable"


def test_twice_the_work_in_no_time_is_refused() -> None:
    found = only([outcome([Sample(iterations=10, body=(100, 90))] * 8)], probe())
    assert (found.status, found.median) == ("unstable", None)


def test_one_batch_that_was_interrupted_for_longer_than_it_takes_leaves_the_others_their_number() -> None:
    """Of differences the least is then far below nothing: a switch between 24 processes took -55 µs at least."""
    looked = quiet(width_before_hz=4 * CLOCK_HZ, width_hz=4 * CLOCK_HZ)
    usual, interrupted = [(100, 200), (150, 250), (120, 260)] * 7, [(100, 200), (100, 200), *[(3_000, 300)] * 3]
    visits = [
        outcome([Sample(iterations=10, body=body, witness=looked) for body in bodies], visit=number, seed=number)
        for number, bodies in enumerate((usual, interrupted, usual, usual, usual))
    ]  # fmt: skip
    found = only(visits, probe())
    assert found.status == "ok", found.reason
    assert found.minimum and found.median and 0 < found.minimum <= found.median


def test_a_part_that_outlasts_the_whole_is_refused() -> None:
    told = probe(metric(source="difference"), metric("whole"))
    difference, whole = rows([outcome([sample(4, 10)] * 3)], {told.probe: told})
    assert (difference.status, whole.status) == ("unstable", "ok")


def test_what_a_metric_lacks_is_named() -> None:
    assert "control" in (only([outcome([sample(4)] * 3)], probe(metric(source="difference"))).reason or "")
    assert "companions" in (
        only([outcome([sample(4)] * 3)], probe(metric(unit="B/s", source="companions"))).reason or ""
    )
    assert "core clock" in (only([outcome([sample(4)] * 3, controls=())], probe(metric(unit="cycle"))).reason or "")
    assert only([outcome([sample(4)] * 3)], probe(metric(unit="flop/s"))).status == "unstable"


def test_a_wrong_answer_anywhere_takes_the_number() -> None:
    visits = [outcome([sample(10)] * 3, visit=0), outcome(visit=1, status="wrong_answer", reason="sum is off")]
    found = only(visits, probe())
    assert (found.status, found.reason, found.median) == ("wrong_answer", "sum is off", None)


def test_a_lost_visit_leaves_the_number_and_a_note() -> None:
    visits = [outcome([sample(10)] * 3, visit=0), outcome(visit=1, status="timeout", reason="deadline of 8 s")]
    found = only(visits, probe())
    assert (found.status, found.median, found.visits) == ("ok", pytest.approx(10), 1)
    assert "deadline of 8 s" in (found.reason or "")


def test_a_gap_has_a_row_for_every_metric_and_the_gravest_reason() -> None:
    told = probe(metric("a"), metric("b"))
    visits = [
        outcome(visit=0, status="unsupported", reason="no such gate"),
        outcome(visit=1, status="failed", reason="signal 11"),
    ]
    found = rows(visits, {told.probe: told})
    assert [(one.metric, one.status, one.reason) for one in found] == [
        ("a", "failed", "signal 11"),
        ("b", "failed", "signal 11"),
    ]


def test_clocks_of_two_kinds_do_not_mix() -> None:
    visits = [outcome([sample(10)] * 3), outcome([sample(10)] * 3, visit=1, clock="virtual")]
    assert only(visits, probe()).status == "unstable"


def test_a_visit_without_a_description_is_refused() -> None:
    with pytest.raises(Failure):
        rows([outcome([sample(10)] * 3)], {})


def test_order_does_not_depend_on_the_order_of_visits() -> None:
    visits = [
        outcome([sample(10), sample(11)], visit=i, parameters={"size": size}, abi=abi)
        for i, (size, abi) in enumerate((size, abi) for size in (1024, 65536, 2048) for abi in ("x86_64", "ia32") * 2)
    ]
    told = {"any.probe": probe(metric("b"), metric("a"))}
    expected = rows(visits, told)
    assert [one.parameters["size"] for one in expected[::4]] == [1024, 2048, 65536]
    assert [one.metric for one in expected[:2]] == ["b", "a"]
    random.Random(5).shuffle(visits)
    assert rows(visits, told) == expected
    assert len({row_key(one) for one in expected}) == len(expected)


def test_30_000_samples_take_about_a_third_of_a_second() -> None:
    witness, columns = quiet(), Columns()
    visits = [
        outcome(
            [sample(10 + i % 7, witness=witness) for i in range(10)],
            visit=visit,
            parameters={"size": visit % 300},
            columns=columns,
        )
        for visit in range(3000)
    ]

    def taken_s() -> float:
        began = time.process_time()
        rows(visits, {"any.probe": probe()})
        return time.process_time() - began

    assert within_units(22, taken_s)


def size_rows(values: dict[int, float]) -> list[Row]:
    return [row(value, parameters={"size": size, "pages": "huge"}) for size, value in values.items()]


LATENCY = {"any.probe": probe(metric(means="latency-of-size"))}


def statuses(found: tuple[Row, ...]) -> list[str]:
    return [one.status for one in found]


def test_a_spike_in_a_latency_curve_is_refused_and_the_rest_kept() -> None:
    spiked = size_rows({1024: 1.0, 2048: 1.0, 4096: 9.0, 8192: 1.0, 16384: 1.05, 32768: 3.0})
    found = without_implausible(spiked, LATENCY, {})
    assert statuses(found) == ["ok", "ok", "unstable", "ok", "ok", "ok"]
    assert found[2].median is None
    assert found[2].reason


def test_a_size_of_too_few_visits_for_an_interval_contradicts_no_other() -> None:
    """Four samples of one visit, beside other programs."""
    spiked = size_rows({1024: 1.0, 2048: 1.0, 4096: 9.0, 8192: 1.0, 16384: 1.05, 32768: 3.0})
    once = [msgspec.structs.replace(one, visits=1) if one.median == 9.0 else one for one in spiked]
    assert set(statuses(without_implausible(once, LATENCY, {}))) == {"ok"}


def test_noise_in_a_latency_curve_is_kept() -> None:
    wavy = size_rows({1024: 1.0, 2048: 0.97, 4096: 1.02, 8192: 3.6, 16384: 3.4, 32768: 3.6})
    assert set(statuses(without_implausible(wavy, LATENCY, {}))) == {"ok"}


def test_a_dependent_load_takes_at_least_a_cycle() -> None:
    assert statuses(without_implausible(size_rows({1024: 0.1}), LATENCY, {"local": 4e9})) == ["unstable"]
    assert statuses(without_implausible(size_rows({1024: 1.0}), LATENCY, {"local": 4e9})) == ["ok"]


def test_no_more_loads_under_way_than_chains() -> None:
    told = {"any.probe": probe(metric(means="load-of-chains"))}
    loads = [
        row(value, parameters={"chains": chains, "size": 1 << 26}) for chains, value in ((1, 100), (2, 52), (4, 12))
    ]
    assert statuses(without_implausible(loads, told, {})) == ["ok", "ok", "unstable"]


def test_the_odd_one_out_of_a_series_of_chains_is_refused_and_no_other() -> None:
    """One load alone was timed while neighbours held the cache, at 140 ns; 8 to 64 chains while they did not."""
    told = {"any.probe": probe(metric(means="load-of-chains"))}
    waits = {1: 140.0, 2: 13.0, 4: 13.2, 8: 13.1, 16: 13.5, 32: 26.0, 64: 50.0}
    loads = [row(wait / chains, parameters={"chains": chains, "size": 1 << 23}) for chains, wait in waits.items()]
    found = without_implausible(loads, told, {})
    assert statuses(found) == ["unstable"] + ["ok"] * 6
    assert found[0].reason == "a load waits no longer beside few others than it does beside more"


def test_chains_in_a_cache_that_other_guests_use_are_not_held_against_each_other() -> None:
    """One load alone took 120 ns while neighbours held the cache, and 32 chains found their data in it."""
    told = {"any.probe": probe(metric(means="load-of-chains"))}
    loads = [
        row(value, parameters={"chains": chains, "size": 1 << 23}, shares="L3")
        for chains, value in ((1, 120.0), (8, 15.0), (32, 0.46))
    ]
    assert set(statuses(without_implausible(loads, told, {}))) == {"ok"}
    assert [one.median for one in in_one_place(loads)] == [120.0, 15.0]


def test_a_row_of_two_states_contradicts_nothing_that_lies_in_one_of_them() -> None:
    states = tuple(
        State(state=name, share=0.5, median=at, low=at * 0.9, high=at * 1.1)
        for name, at in (("first", 13.0), ("second", 140.0))
    )
    curve = size_rows({1 << 20: 12.0, 1 << 22: 13.0, 1 << 23: 140.0, 3 << 22: 13.0, 7 << 21: 13.0, 1 << 24: 140.0})
    turning = [msgspec.structs.replace(one, states=states) if one.median == 140.0 else one for one in curve]
    assert statuses(without_implausible(curve, LATENCY, {})).count("unstable") == 1
    assert set(statuses(without_implausible(turning, LATENCY, {}))) == {"ok"}


def test_bandwidth_is_bounded_by_the_ports() -> None:
    told = {"any.probe": probe(metric(unit="B/s", means="read-bandwidth-of-size"))}
    reads = [row(value, unit="B/s", parameters={"size": 4096}) for value in (500e9, 700e9)]
    assert statuses(without_implausible(reads, told, {"local": 4e9})) == ["ok", "unstable"]


def test_additions_that_wait_take_a_cycle() -> None:
    told = {"any.probe": probe(metric(unit="op/s", means="core-clock"))}
    clocks = [row(value, unit="op/s") for value in (4.1e9, 8e9)]
    assert statuses(without_implausible(clocks, told, {"local": 4e9})) == ["ok", "unstable"]


@pytest.mark.parametrize(
    ("means", "unit", "sound", "absurd"),
    [
        ("entry", "ns", 127.0, 1.0),
        ("trap", "ns", 2200.0, 0.5),
        ("control-loop", "ns", 0.25, 0.05),
        ("flops-of-n", "flop/s", 120e9, 600e9),
    ],
)
def test_other_bounds(means: str, unit: str, sound: float, absurd: float) -> None:
    told = {"any.probe": probe(metric(unit=unit, means=means))}
    assert statuses(without_implausible([row(sound, unit=unit), row(absurd, unit=unit)], told, {"local": 4e9})) == [
        "ok",
        "unstable",
    ]


def test_emulated_rows_are_not_held_to_the_core_clock() -> None:
    emulated = row(0.01, parameters={"size": 1024}, clock="virtual")
    assert statuses(without_implausible([emulated], LATENCY, {"local": 4e9})) == ["ok"]


def test_rows_apply_the_rules() -> None:
    told = probe(metric(means="entry"))
    assert only([outcome([sample(0.5)] * 3)], told).status == "unstable"


# ---- states of the machine --------------------------------------------------------------------------------------


def beside(width: float, clock_hz: float = CLOCK_HZ) -> Witness:
    """Seen on a core that did so many additions in a cycle."""
    seen = {"control_hz": clock_hz, "control_before_hz": clock_hz}
    return quiet(width_before_hz=width * clock_hz, width_hz=width * clock_hz, **seen)


def test_a_whole_core_stands_beside_a_shared_one_and_is_the_headline() -> None:
    """Somebody was on the core's other thread for two samples of three; the one right beside them is unknown."""
    alone, shared = sample(10, witness=beside(4.0)), sample(15, witness=beside(2.4))
    found = only([outcome([alone] * 4 + [shared] * 8, visit=i) for i in range(5)], probe())
    assert (found.state, found.median) == ("uncontended", pytest.approx(10))
    assert [one.state for one in found.states] == ["uncontended", "all", "contended"]
    assert [one.median for one in found.states] == pytest.approx([10, (4 * 10 + 8 * 15) / 12, 15])
    assert [one.share for one in found.states] == pytest.approx([1 / 4, 1, 2 / 3])
    assert (found.samples, found.visits) == (60, 5)


def test_a_core_that_was_never_whole_says_what_it_was() -> None:
    shared = [sample(15, witness=beside(2.4))] * 6
    learned = Known(widths={("local", "x86_64"): 4.0})
    (found,) = rows([outcome(shared, visit=i) for i in range(3)], {"any.probe": probe()}, learned)
    assert (found.state, [one.state for one in found.states]) == ("all", ["all", "contended"])


@pytest.mark.parametrize(("alone", "state"), [(1, "all"), (4, "uncontended")])
def test_a_moment_without_a_sibling_does_not_make_a_row_uncontended(alone: int, state: str) -> None:
    """Fewer than four values of a visit are none, however many visits have them."""
    some, rest = sample(10, witness=beside(4.0)), sample(15, witness=beside(2.4))
    learned = Known(widths={("local", "x86_64"): 4.0})
    visits = [outcome([some] * alone + [rest] * 8, visit=i) for i in range(6)]
    (found,) = rows(visits, {"any.probe": probe()}, learned)
    assert found.state == state
    assert found.median == pytest.approx(10 if state == "uncontended" else (10 + 8 * 15) / 9)


@pytest.mark.parametrize("batches", [4, 8, 32])
def test_an_uncontended_cost_does_not_depend_on_how_many_batches_saw_it(batches: int) -> None:
    """Noise of 2 % to one side: visits of few batches and of many mean the same within 0.3 %."""
    rng = np.random.default_rng(batches)
    costs = 1 + 0.02 * rng.exponential(size=(4000, batches))
    seen = quantiles_of(costs.ravel(), np.full(4000, batches), UNDISTURBED)
    assert np.mean(np.log(seen)) == pytest.approx(np.log(1 - 0.02 * np.log(1 - UNDISTURBED)), abs=0.003)
    assert quantiles_of(np.full(batches, 7.0), np.array([batches]), UNDISTURBED).tolist() == [7.0]


def test_a_core_that_was_not_seen_has_no_state() -> None:
    found = only([outcome([sample(10)] * 3, visit=i) for i in range(3)], probe())
    assert (found.state, found.states) == (None, ())


def test_a_point_with_two_costs_has_both_and_none_in_between() -> None:
    costs = [10.0, 10.1, 20.0, 9.9, 10.05, 20.2, 10.0, 9.95]
    found = only([outcome([sample(cost)] * 4, visit=i) for i, cost in enumerate(costs)], probe())
    assert (found.state, found.median) == ("first", pytest.approx(10, rel=0.01))
    assert [(one.state, one.share) for one in found.states] == [("first", 0.75), ("second", 0.25)]
    assert found.states[1].median == pytest.approx(20.1, rel=0.01)
    assert found.high is not None and found.high < found.states[1].low


def test_the_commoner_of_two_costs_is_the_headline() -> None:
    costs = [20.0, 20.1, 10.0, 19.9, 20.05, 10.1, 20.0]
    found = only([outcome([sample(cost)] * 4, visit=i) for i, cost in enumerate(costs)], probe())
    assert (found.state, found.median) == ("second", pytest.approx(20, rel=0.01))


# ---- at one clock -----------------------------------------------------------------------------------------------


def test_a_time_of_cycles_is_stated_at_one_clock_beside_what_was_read() -> None:
    """Forty cycles at five clocks: all of them are 10 ns at the median of 4 GHz."""
    clocks = (4.0e9, 3.8e9, 4.2e9, 3.6e9, 4.1e9)
    visits = [outcome([sample(40e9 / hz)] * 4, visit=i, controls=(hz, hz)) for i, hz in enumerate(clocks)]
    found = only(visits, probe())
    assert found.clock_hz == 4.0e9
    assert found.median == pytest.approx(10.0, rel=1e-3)
    assert found.unadjusted == pytest.approx(10.0, rel=1e-3)
    slow = [msgspec.structs.replace(one, controls=(hz / 2, hz / 2)) for one, hz in zip(visits, clocks, strict=True)]
    (other,) = rows([*visits[:4], slow[4]], {"any.probe": probe()}, Known(clocks_hz={"local": 2.0e9}))
    assert (other.clock_hz, other.median) == (2.0e9, pytest.approx(20.0, rel=1e-3))
    assert other.unadjusted == pytest.approx(10.0, rel=0.05)


def test_a_time_that_does_not_follow_the_clock_is_left_as_it_was_read() -> None:
    clocks = (4.0e9, 3.8e9, 4.2e9, 3.6e9, 4.1e9)
    visits = [outcome([sample(10.0 + 0.001 * i)] * 4, visit=i, controls=(hz, hz)) for i, hz in enumerate(clocks)]
    found = only(visits, probe())
    assert found.clock_hz is None
    assert (found.median, found.unadjusted) == pytest.approx((10.002, 10.002), rel=1e-6)


costs = st.lists(st.lists(st.floats(1.0, 1e3), min_size=2, max_size=5), min_size=1, max_size=9)


@settings(max_examples=60)
@given(costs, st.sampled_from(["ns", "B/s"]), st.lists(st.sampled_from([2.4, 4.0]), min_size=9, max_size=9))
def test_a_rows_numbers_stand_in_their_order(drawn: list[list[float]], unit: str, widths: list[float]) -> None:
    """Whatever was seen: the minimum is no more than the lower quartile, and the interval holds its median."""
    visits = [
        outcome([sample(cost, witness=beside(widths[i])) for cost in visit], visit=i, work=Work(bytes=64))
        for i, visit in enumerate(drawn)
    ]
    found = only(visits, probe(metric(unit=unit)))
    if found.status != "ok":
        return
    assert found.minimum is not None and found.median is not None and found.low is not None and found.high is not None
    assert found.minimum <= found.quartiles[0] * (1 + 1e-9)
    assert found.minimum <= found.median
    assert found.quartiles[0] <= found.quartiles[1]
    assert found.low <= found.median * (1 + 1e-9) and found.median <= found.high * (1 + 1e-9)
    assert not found.states or found.states[0].median == found.median


@pytest.mark.parametrize(
    ("served", "numbers"),
    [
        (None, {"cost", "late", "used", "size"}),
        (0.0, {"cost", "used", "size"}),
        (0.02, {"size"}),
    ],
    ids=["by the kernel", "no call in a batch", "2 % of the batches"],
)
def test_a_time_that_a_loader_has_part_in_is_refused(served: float | None, numbers: set[str]) -> None:
    """Gauges in ns are a probe's own times, but for CPU time; memory and counts stay."""
    gauges = (
        metric("late", source="gauge"), metric("used", source="gauge", means="cpu-time"),
        metric("size", unit="B", source="gauge"),
    )  # fmt: skip
    told = probe(metric(), *gauges)
    visits = [
        msgspec.structs.replace(
            outcome([sample(50.0), sample(50.1)], visit=visit), gauges={one.name: 9.0 for one in gauges}, served=served
        )
        for visit in range(4)
    ]
    made = {one.metric: one.status for one in rows(visits, {"any.probe": told})}
    assert {name for name, status in made.items() if status == "ok"} == numbers
    assert {status for name, status in made.items() if name not in numbers} <= {"unsupported"}


# ---- runs that differ, and two costs ---------------------------------------------------------------------------------


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


def test_two_modes_are_separated_where_each_visit_saw_both() -> None:
    """Visits whose medians lie in either mode or between; the state with most batches is the row's."""
    told = probe(metric())
    (row,) = rows(visits_of(*[[10.0] * 12 + [15.0] * 8, [10.0] * 8 + [15.0] * 12] * 3), {told.probe: told})
    assert [(state.state, round(state.median, 3), state.share) for state in row.states] == [
        ("first", 10.0, pytest.approx(0.5)),
        ("second", 15.0, pytest.approx(0.5)),
    ]
    (row,) = rows(visits_of(*[[10.0] * 8 + [15.0] * 12] * 6), {told.probe: told})
    assert (row.state, row.median) == ("second", pytest.approx(15.0))
    assert row.states[1].share == pytest.approx(0.4)
