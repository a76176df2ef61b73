# SPDX-License-Identifier: Apache-2.0
"""How sure a number is: by hand where a hand can, and by many simulated points where chance is promised something; the
middle of pairs that are not written out is that of those that are."""

from __future__ import annotations

import tracemalloc
from math import exp, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollmeter.experiment.precision import (
    LEAST_SHARED,
    USUAL_RUNS_SD,
    Estimate,
    Scatter,
    between_visits,
    common_scatter,
    effective,
    estimate,
    greatest,
    hodges_lehmann,
    in_plain_numbers,
    is_limited,
    is_of_runs,
    log_half_width,
    middle_of,
    middle_of_pairs,
    shamos_sd,
    shrink_sd,
    visits_for,
)
from tollmeter.maths.distributions import NORMAL, combined, half_width
from tollmeter.numbers.stats import hodges_lehmann_ratio

EVERYTHING = (1e-300, 1e300)
STUDENT_6 = 2.446911851
"""The quantile of 0.975 with six degrees of freedom, as tables of Student's t have it."""
positive = st.floats(min_value=1e-3, max_value=1e9)


# ---- location and scale -----------------------------------------------------------------------------------------


def test_the_location_is_the_median_of_pairwise_means() -> None:
    """Of 1, 2 and 6: 1, 1.5, 2, 3.5, 4 and 6."""
    assert hodges_lehmann([1.0, 2.0, 6.0]) == 2.75
    assert hodges_lehmann([7.0]) == 7.0
    with pytest.raises(ValueError, match="no value"):
        hodges_lehmann([])


def test_the_scale_is_the_median_distance_of_pairs() -> None:
    """Of 1, 2 and 6: 1, 4 and 5; a normal deviate's pairs are 0.9539 deviations apart."""
    assert shamos_sd([1.0, 2.0, 6.0]) == pytest.approx(4 / 0.9539)
    assert shamos_sd([7.0]) == 0
    assert shamos_sd(np.random.default_rng(1).normal(0, 3, 3000)) == pytest.approx(3, rel=0.05)


def test_the_middle_is_the_median() -> None:
    assert (middle_of(np.array([3.0, 1.0, 2.0])), middle_of(np.array([[4.0, 1.0], [2.0, 3.0]]))) == (2.0, 2.5)


@pytest.mark.parametrize("wild", [1e3, 1e9])
def test_a_quarter_of_the_visits_may_be_anything(wild: float) -> None:
    """Both hold while fewer than 29 % are wrong: of 20 visits five may be, however far out."""
    sound = np.random.default_rng(2).normal(0, 1, 15)
    spoilt = [*sound, *[wild] * 5]
    assert hodges_lehmann(spoilt) <= float(sound.max())
    assert shamos_sd(spoilt) < 4
    assert hodges_lehmann([*sound, *[wild] * 8]) > 10, "and not for ever"


# ---- an estimate ------------------------------------------------------------------------------------------------


def test_an_interval_by_hand() -> None:
    """Logs -0.01, 0, 0.01: location 0, distances 0.01, 0.01, 0.02. Pulled to 0.02 by four visits' worth to the two of
    its own; Student's t of six degrees; nothing between runs."""
    logs = np.array([-0.01, 0.0, 0.01])
    own = 0.01 / 0.9539
    spread = sqrt((2 * own**2 + 4 * 0.02**2) / 6)
    expected = STUDENT_6 * spread / sqrt(0.955 * 3)
    assert log_half_width(logs, [1, 2, 3], Scatter(runs_sd=0.0)) == pytest.approx(expected)
    found = estimate(100 * np.exp(logs), [1, 2, 3], Scatter(runs_sd=0.0), EVERYTHING)
    assert found.value == pytest.approx(100)
    assert (log(found.low / 100), log(found.high / 100)) == pytest.approx((-expected, expected))


def test_what_runs_differ_by_is_in_every_interval() -> None:
    visits = [100.0] * 400
    found = estimate(visits, range(400), Scatter(visits_sd=1e-4, runs_sd=0.01), EVERYTHING)
    assert log(found.high / found.low) / 2 == pytest.approx(1.959964 * 0.01, rel=0.01)


def test_no_end_lies_beyond_what_was_seen_and_what_runs_differ_by() -> None:
    runs = exp(1.959964 * USUAL_RUNS_SD)
    found = estimate([90.0, 100.0, 111.0], [1, 2, 3], Scatter(visits_sd=0.5), (88.0, 113.0))
    assert (found.low, found.high) == pytest.approx((88.0 / runs, 113.0 * runs))


@given(st.lists(positive, min_size=1, max_size=9), st.lists(st.integers(1, 3), min_size=9, max_size=9))
def test_an_interval_holds_its_value_and_stays_within_reach(visits: list[float], layouts: list[int]) -> None:
    reach = (min(visits), max(visits))
    found = estimate(visits, layouts[: len(visits)], Scatter(), reach)
    runs = exp(1.959964 * USUAL_RUNS_SD)
    assert 0 < found.low <= found.value * (1 + 1e-9)
    assert found.value <= found.high * (1 + 1e-9)
    assert reach[0] / runs * (1 - 1e-9) <= found.low
    assert found.high <= reach[1] * runs * (1 + 1e-9)


Visits = tuple[np.ndarray, list[int]]  # type: ignore[type-arg]


def simulated(seed: int, layouts: int, visits: int, shared: float, runs_sd: float) -> list[Visits]:
    """Twelve points of one probe in one run, each with so many layouts of so many visits; the truth of each is 0. Their
    standard deviations differ by a third."""
    chance = np.random.default_rng(seed)
    owner = [place // visits for place in range(layouts * visits)]
    of_point = 0.02 * np.exp(chance.normal(0, 0.3, 12))
    between, within = (chance.normal(0, 1, (12, count)) for count in (layouts, len(owner)))
    scatter = sqrt(shared) * between[:, owner] + sqrt(1 - shared) * within
    logs = chance.normal(0, runs_sd, (12, 1)) + of_point[:, None] * scatter
    return [(one, owner) for one in logs]


@pytest.mark.parametrize(("layouts", "visits"), [(2, 2), (2, 4), (3, 2), (3, 1), (6, 1), (6, 3), (12, 2), (20, 1)])
@pytest.mark.parametrize("shared", [0.0, 0.4, 0.8])
def test_nineteen_intervals_of_twenty_cover_the_truth(layouts: int, visits: int, shared: float) -> None:
    """Whatever share of the variance is the layout's: what the points have in common is found from themselves. 1200
    points, 0.007 for one standard error; where visits are strangers the intervals are wider than they need be."""
    held = []
    for seed in range(100):
        points = simulated(seed, layouts, visits, shared, 0.006)
        known = common_scatter(points, 0.006)
        held += [abs(hodges_lehmann(logs)) <= log_half_width(logs, owner, known) for logs, owner in points]
    assert np.mean(held) >= 0.93
    assert visits > 1 or layouts < 6 or np.mean(held) <= 0.98


def test_layouts_that_are_not_seen_make_an_interval_a_lie() -> None:
    """Why layouts are asked for: visits of one layout that pass for independent ones miss too many truths."""
    held = []
    for seed in range(100):
        strangers = [(logs, [*range(len(logs))]) for logs, _ in simulated(seed, 2, 4, 0.8, 0.0)]
        known = common_scatter(strangers, 0.0)
        held += [abs(hodges_lehmann(logs)) <= log_half_width(logs, owner, known) for logs, owner in strangers]
    assert np.mean(held) < 0.85


def test_an_interval_of_a_difference_may_hold_nothing() -> None:
    """Differences of -1, 0 and 1 of a whole that takes 100: scatter 0.02 x 100, pulled as above."""
    own = 1 / 0.9539
    spread = sqrt((2 * own**2 + 4 * 2.0**2) / 6)
    half = STUDENT_6 * spread / sqrt(0.955 * 3)
    found = in_plain_numbers([-1.0, 0.0, 1.0], [1, 2, 3], 100.0, Scatter(runs_sd=0.0))
    assert (found.low, found.value, found.high) == pytest.approx((-half, 0.0, half))


def test_half_an_interval_as_a_share() -> None:
    assert Estimate(value=50.0, low=49.0, high=52.0).share_half_width() == pytest.approx(0.03)
    assert Estimate(value=-50.0, low=-52.0, high=-49.0).share_half_width() == pytest.approx(0.03)
    assert Estimate(value=0.0, low=-1.0, high=1.0).share_half_width() == inf


# ---- what the points of a probe have in common ------------------------------------------------------------------


def test_moderated_by_hand() -> None:
    """Variances weighed by what each is worth; a scatter of nothing is not believed."""
    assert shrink_sd(0.01, 2, 0.02, 4) == pytest.approx((sqrt((2 * 1e-4 + 4 * 4e-4) / 6), 6))
    assert shrink_sd(0.0, 10, 0.0, 1) == (1e-4, 11)


def test_visits_of_one_layout_count_for_less() -> None:
    """Six visits in two layouts: the design effect is 1 + (18/6 - 1) share."""
    layouts = [1, 1, 1, 2, 2, 2]
    assert effective(layouts, 0.0) == 6
    assert effective(layouts, 1.0) == pytest.approx(2)
    assert effective(layouts, 0.5) == pytest.approx(3)
    assert effective([1, 2, 3, 4], 1.0) == 4


def points(seed: int, count: int, visits: int, deviations: list[float]) -> list[Visits]:
    chance = np.random.default_rng(seed)
    return [(chance.normal(0, deviations[i % len(deviations)], visits), list(range(visits))) for i in range(count)]


def test_points_of_one_scatter_know_it_well_and_others_do_not() -> None:
    """Homogeneous points give a knowledge worth many visits, and points a factor of ten apart hardly one."""
    alike = common_scatter(points(1, 200, 6, [0.02]))
    apart = common_scatter(points(1, 200, 6, [0.002, 0.02, 0.2]))
    assert alike.visits_sd == pytest.approx(0.02, rel=0.15)
    assert alike.freedom > 4
    assert 1 <= apart.freedom < 2
    assert 0.002 < apart.visits_sd < 0.2


def test_a_few_points_are_taken_at_their_worst() -> None:
    """Of three points there is no distribution: the one that scatters most speaks, and its word is worth one visit."""
    found = common_scatter(points(2, 3, 6, [0.002, 0.02, 0.05]))
    assert found.freedom == 1
    assert found.visits_sd > 0.02


def test_no_point_with_three_visits_says_nothing() -> None:
    assert common_scatter([], 0.01) == Scatter(runs_sd=0.01)
    assert common_scatter(points(3, 9, 2, [0.5]), 0.01) == Scatter(runs_sd=0.01)


def test_the_share_of_layouts_is_found_where_it_is_large_and_never_taken_for_small() -> None:
    chance, owner = np.random.default_rng(4), [0, 0, 0, 1, 1, 1, 2, 2, 2]

    def drawn(layouts_sd: float, visits_sd: float) -> list[Visits]:
        of_layout = chance.normal(0, layouts_sd, (300, 3)).repeat(3, axis=1)
        return [(one, owner) for one in of_layout + chance.normal(0, visits_sd, (300, 9))]

    assert common_scatter(drawn(0.03, 0.003)).layouts > 0.9
    assert common_scatter(drawn(0.0, 0.02)).layouts == LEAST_SHARED
    assert common_scatter(points(5, 20, 6, [0.02])).layouts == LEAST_SHARED, "no two visits shared a layout"


def test_visits_of_one_layout_have_fewer_degrees_of_freedom() -> None:
    """Of two layouts of two visits one pair in three shares a layout, and differs by 1 - shared of the variance;
    contrasts of variance 0.6 (two) and 1.4 (one) are worth 2.6^2 / (2 0.36 + 1.96) degrees of freedom."""
    values = np.array([-0.02, -0.01, 0.01, 0.02])
    assert between_visits(values, [1, 2, 3, 4], 0.4) == pytest.approx((shamos_sd(values), 3))
    found = between_visits(values, [1, 1, 2, 2], 0.4)
    assert found == pytest.approx((shamos_sd(values) / sqrt(1 - 0.4 / 3), 2.6**2 / (2 * 0.36 + 1.96)))
    assert between_visits(values[:1], [1], 0.4) == (0, 0)


@pytest.mark.parametrize("shared", [0.4, 0.999, 1.0])
def test_visits_of_the_only_layout_have_a_degree_of_freedom_less_than_there_are(shared: float) -> None:
    assert between_visits(np.array([-0.02, 0.0, 0.01]), [1, 1, 1], shared)[1] == pytest.approx(2)


def test_independent_parts_of_an_error_have_welchs_degrees_of_freedom() -> None:
    """Two samples of five and of nine with standard deviations of 2 and 3, by hand."""
    error, freedom = combined([(2 / sqrt(5), 4), (3 / sqrt(9), 8)])
    assert error == pytest.approx(sqrt(4 / 5 + 1))
    assert freedom == pytest.approx((4 / 5 + 1) ** 2 / ((4 / 5) ** 2 / 4 + 1 / 8))
    assert half_width(error, freedom) == pytest.approx(2.1788 * error, rel=0.01)
    assert half_width(1.0, 6.0) == pytest.approx(STUDENT_6, rel=1e-9)


def test_intervals_with_a_known_part_hold_as_often_as_they_say() -> None:
    """A scatter that four values estimate, and as much again that is known: the sum of both half-widths as squares held
    in 97 %."""
    random, held = np.random.default_rng(11), 0
    for _ in range(4000):
        values = random.normal(0, 2, 4)
        error = combined([(values.std(ddof=1) / 2, 3), (1.0, inf)])
        held += abs(values.mean() + random.normal()) < half_width(*error)
    assert 0.94 <= held / 4000 <= 0.965


# ---- how many visits more ---------------------------------------------------------------------------------------


def test_visits_wanted_by_hand() -> None:
    """Twice the half-width wanted asks for four times the visits, where the scatter is known beforehand and runs do not
    differ."""
    known = Scatter(freedom=1e6, runs_sd=0.0)
    assert visits_for(0.03, 5, 2 * log(1.03) / NORMAL, known) == pytest.approx(20, rel=0.01)
    assert visits_for(0.03, 5, 0.1 * log(1.03) / NORMAL, known) == 3, "fewer than three are none"


def test_wanted_visits_account_for_the_degrees_of_freedom_that_they_add() -> None:
    """Student's t of 3 degrees of freedom is 3.182, and of 12 it is 2.179: half as many visits are wanted."""
    found = visits_for(0.03, 3, 3 * log(1.03) / 3.182, Scatter(freedom=1.0, runs_sd=0.0))
    assert found == pytest.approx(3 * 9 * (2.179 / 3.182) ** 2, rel=0.02)


def test_visits_are_wanted_until_what_runs_differ_by_makes_up_the_interval() -> None:
    """A system call whose runs differ by more than the precision was given up at three visits, at +-14 %."""
    runs = log(1.03)
    known = Scatter(freedom=1e6, runs_sd=runs / NORMAL)
    assert is_limited(0.03, known.runs_sd)
    wanted = visits_for(0.03, 5, sqrt(3) * known.runs_sd, known)
    left = runs * sqrt(1 + 3 * 5 / wanted)
    assert is_of_runs(0.999 * left, known.runs_sd)
    assert not is_of_runs(1.01 * left, known.runs_sd)


def test_visits_wanted_beside_what_runs_differ_by() -> None:
    wanted = log(1.03)
    known = Scatter(freedom=1e6, runs_sd=wanted / NORMAL / 2)
    assert not is_limited(0.03, known.runs_sd)
    assert visits_for(0.03, 5, 0.1 / NORMAL, known) == pytest.approx(5 * 0.01 / (wanted**2 * 3 / 4), rel=0.01)


@pytest.mark.parametrize("law", ["exponential", "heavy"])
def test_the_greatest_of_another_run_seldom_exceeds_the_interval_of_this_one(law: str) -> None:
    """In one case in forty, with a light and with a heavy tail; it does not narrow with the visits."""
    chance = np.random.default_rng(20)
    held = 0
    for visits in (5, 40) * 200:
        size = (2, visits, 1000)
        values = chance.exponential(1.0, size) if law == "exponential" else chance.pareto(2.0, size) + 1
        first, second = values.max(axis=2)
        held += second.max() <= greatest(first, runs_sd=0.0).high
    assert 0.94 < held / 400 < 0.999


def test_a_greatest_value_beside_zeros_is_itself() -> None:
    """On an isolated CPU most visits see no detour."""
    assert greatest([0.0, 0.0, 7e5, 0.0]).value == 7e5
    assert greatest([0.0, 0.0]) == Estimate(value=0.0, low=0.0, high=0.0)


# ---- the middle of all pairs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 128, 129, 400, 401])
@pytest.mark.parametrize("kind", ["normal", "few values", "one value", "long tail", "negative"])
def test_it_is_the_median_of_all_pairs(count: int, kind: str) -> None:
    random = np.random.default_rng(count)
    values = {
        "normal": random.normal(3.0, 0.02, count),
        "few values": random.integers(0, 4, count).astype(float),
        "one value": np.full(count, 1.7),
        "long tail": random.pareto(0.5, count),
        "negative": random.normal(-1e6, 1e5, count),
    }[kind]
    for sign, least in ((1, 0), (-1, 1)):
        first, second = np.triu_indices(count, least)
        written = np.median(
            np.abs(values[first] + sign * values[second]) if sign < 0 else values[first] + values[second]
        )
        assert middle_of_pairs(values, sign, least) == pytest.approx(written, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("kind", ["normal", "few values"])
def test_ten_thousand_visits_take_no_gigabyte(kind: str) -> None:
    """Also where the middle pair is one of millions of equal pairs."""
    random = np.random.default_rng(1)
    values = random.normal(0.0, 0.02, 10_000) if kind == "normal" else random.integers(0, 4, 10_000).astype(float)
    location, spread = (0.0, 0.02) if kind == "normal" else (1.5, 1 / 0.9539)
    tracemalloc.start()
    try:
        assert hodges_lehmann(values) == pytest.approx(location, abs=1e-3)
        assert shamos_sd(values) == pytest.approx(spread, rel=0.05)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("old", "new"), [(1, 1), (7, 5), (200, 300)])
def test_a_ratio_is_the_median_of_all_ratios(old: int, new: int) -> None:
    random = np.random.default_rng(old)
    before, after = random.lognormal(0.0, 0.1, old), random.lognormal(0.1, 0.1, new)
    written = np.exp(np.median(np.log(after)[:, None] - np.log(before)[None, :]))
    assert hodges_lehmann_ratio(list(before), list(after)).value == pytest.approx(written, rel=1e-12)
