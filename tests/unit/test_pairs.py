# SPDX-License-Identifier: Apache-2.0
"""Two points against each other in one run: planted changes are found, chance is not, and what both have in common
cancels. How often two points that do not differ are said to, and how soon a difference is found: simulated, with the
run's own look behind every block."""

from __future__ import annotations

from math import inf, log

import msgspec
import numpy as np
import pytest

from support import example_runs
from support.builders import CLOCK_HZ, metric, outcome, probe, quiet, sample
from support.rendered import screens
from tollmeter.experiment.pairs import LEAST_BLOCKS, Ratio, blocks_of, blocks_wanted, ratio_of_blocks
from tollmeter.judgement.opposed import differs, opposed, seconds_wanted, uncompared, visits_wanted_of_two
from tollmeter.model import RATIO_PRECISION, Metric, Opposed, Outcome, Point, Results, Uncompared
from tollmeter.numbers.known import Known
from tollmeter.report.headline import pair_sentences

POINT, OTHER = (Point(probe="any.probe", abi="x86_64", target="local", parameters=(("way", way),)) for way in (1, 0))
PAIR = [(POINT, OTHER)]


def visits(
    seed: int, change: float = 1.0, *, blocks: int = 10, drift: float = 0.3, layouts: float = 0.02
) -> list[Outcome]:
    """Both points in turns, eight visits a block. The machine drifts by `drift` over the run, and layouts that are not
    in common differ by `layouts`; the first point takes `change` times the second."""
    chance = np.random.default_rng(seed)
    made = []
    for round_ in range(8 * blocks):
        block = 1 + round_ // 8
        own = np.random.default_rng([seed, block]).normal(0, layouts, 2)
        common = np.exp(drift * round_ / (8 * blocks) + 0.05 * chance.normal())
        for way, factor in ((1, change), (0, 1.0)):
            each = 50 * factor * common * np.exp(own[way] + 0.005 * chance.normal())
            samples = [sample(each, iterations=100_000) for _ in range(5)]
            visit = outcome(samples, visit=2 * round_ + way, parameters={"way": way}, seed=block)
            made.append(msgspec.structs.replace(visit, round=round_))
    return made


def told(outcomes: list[Outcome], metric_: Metric | None = None) -> Opposed:
    (found,) = opposed(outcomes, PAIR, {"any.probe": probe(metric_ or metric())}, Known())
    return found


def beside(number: int, way: int, *, whole: bool) -> Outcome:
    """A visit that costs 50 ns; on a shared core, with the first way, 100."""
    width = (4.0 if whole else 2.0) * CLOCK_HZ
    looked = quiet(width_before_hz=width, width_hz=width)
    cost = 50.0 if whole or not way else 100.0
    samples = [sample(cost, iterations=100_000, witness=looked) for _ in range(5)]
    visit = outcome(samples, visit=2 * number + way, parameters={"way": way}, seed=1 + number // 2)
    return msgspec.structs.replace(visit, round=number)


def test_pairs_of_an_uncontended_core_count_alone_where_they_are_a_third() -> None:
    """What a neighbour does to one of the two is no difference between them."""
    known = Known(widths={("local", "x86_64"): 4.0})
    outcomes = [beside(number, way, whole=number % 2 == 0) for number in range(12) for way in (1, 0)]
    (found,) = opposed(outcomes, PAIR, {"any.probe": probe()}, known)
    assert found.ratio == pytest.approx(1)
    shared = [beside(number, way, whole=number < 2) for number in range(12) for way in (1, 0)]
    (found,) = opposed(shared, PAIR, {"any.probe": probe()}, known)
    assert found.ratio > 1.5


def test_a_block_is_the_middle_of_its_pairs() -> None:
    """One pair of eight may be anything."""
    pairs = [*[("a", 10.0, 11.0), ("a", 20.0, 22.0)] * 4, ("a", 10.0, 90.0), ("b", 10.0, 9.0)]
    assert blocks_of(pairs) == pytest.approx([log(1.1), log(0.9)])
    assert blocks_of([("a", 3.0, 6.0)]) == [pytest.approx(log(2))]


def test_a_ratio_of_known_blocks() -> None:
    """Five logs around 0.01 whose Shamos scale is 0.002 / 0.9539; t(0.975, 4) is 2.776."""
    found = ratio_of_blocks([0.008, 0.009, 0.010, 0.011, 0.012])
    assert found is not None
    assert log(found.estimate.value) == pytest.approx(0.010)
    half = 2.776 * (0.002 / 0.9539) / (0.955 * 5) ** 0.5
    assert log(found.estimate.high) == pytest.approx(0.010 + half, rel=1e-3)
    assert found.p_value < 0.001
    assert ratio_of_blocks([0.0] * (LEAST_BLOCKS - 1)) is None


def test_four_times_the_blocks_halve_the_interval() -> None:
    found = ratio_of_blocks([0.01, -0.01, 0.02, -0.02, 0.0, 0.015, -0.015, 0.005])
    assert found is not None
    half = log(found.estimate.high / found.estimate.low) / 2
    assert blocks_wanted(found, np.exp(half / 2) - 1) == pytest.approx(4 * found.blocks)
    assert blocks_wanted(None, 0.01) == float("inf")


def test_what_both_have_in_common_cancels() -> None:
    """The machine becomes a third slower meanwhile, and moments differ by 5 %."""
    found = told(visits(1, change=1.01, layouts=0.001))
    assert found.verdict == "slower"
    assert found.low < 1.01 < found.high
    assert found.high - found.low < 0.006


def test_a_hundred_runs_of_the_same_are_not_called_different() -> None:
    """Layouts differ by 2 %, so that ten of them say little; one false alarm in 100 is allowed."""
    found = [told(visits(seed)) for seed in range(100)]
    assert sum(one.verdict != "cannot tell" for one in found) <= 1
    assert sum(one.low <= 1 <= one.high for one in found) >= 88


def test_one_percent_is_found_where_layouts_differ_by_half_a_percent() -> None:
    found = [told(visits(seed, change=1.01, layouts=0.003, blocks=20)) for seed in range(20)]
    assert sum(one.verdict == "slower" for one in found) >= 19


def test_of_a_rate_more_is_faster() -> None:
    rate = metric("rate", "op/s")
    assert told(visits(3, change=1.05, layouts=0.001), rate).verdict == "slower"
    found = told(visits(3, change=0.95, layouts=0.001), rate)
    assert (found.verdict, round(found.ratio, 2)) == ("faster", 1.05)


def counting(outcomes: list[Outcome], *ways: int) -> list[Outcome]:
    """As an emulator that counts instructions tells it, for these of the two points."""
    return [msgspec.structs.replace(one, clock=msgspec.structs.replace(one.clock, kind="instructions"))
            if one.point.values()["way"] in ways else one for one in outcomes]  # fmt: skip


def test_of_a_counted_rate_the_ratio_is_of_the_instructions_that_its_rows_state() -> None:
    found = told(counting(visits(3, change=1.05, layouts=0.001), 0, 1), metric("rate", "op/s"))
    assert (found.unit, found.verdict, round(found.ratio, 2)) == ("instruction", "slower", 1.05)


def test_points_of_different_clocks_have_no_ratio() -> None:
    mixed = counting(visits(3, change=1.05), 0)
    assert opposed(mixed, PAIR, {"any.probe": probe()}, Known()) == ()
    assert "hardware and instructions" in without_ratio(mixed).reason


def test_what_was_wrong_once_has_no_ratio() -> None:
    outcomes = visits(1, change=1.01, layouts=0.001)
    wrong = msgspec.structs.replace(outcomes[-1], status="wrong_answer", samples=())
    assert opposed([*outcomes[:-1], wrong], PAIR, {"any.probe": probe()}, Known()) == ()


def test_too_few_layouts_say_nothing() -> None:
    outcomes = visits(1, change=1.5, blocks=LEAST_BLOCKS - 1)
    assert opposed(outcomes, PAIR, {"any.probe": probe()}, Known()) == ()
    assert visits_wanted_of_two(outcomes, (POINT, OTHER), {"any.probe": probe()}, Known(), 0.01) > len(outcomes) / 2


def without_ratio(outcomes: list[Outcome], *metrics: Metric) -> Uncompared:
    (found,) = uncompared(outcomes, PAIR, {"any.probe": probe(*metrics or (metric(),))}, ())
    return found


def test_a_pair_without_a_ratio_says_why() -> None:
    assert uncompared(visits(1), PAIR, {"any.probe": probe()}, [told(visits(1))]) == ()
    few = visits(1, blocks=2)
    assert (without_ratio(few).layouts, without_ratio(few).reason) == (2, "2 of the 5 layouts that a ratio needs")
    (one_sided,) = uncompared(few[:1], PAIR, {"any.probe": probe()}, ())
    assert one_sided.layouts == 0, "a layout counts once both points were measured in it"
    assert without_ratio(few).is_short
    refused = msgspec.structs.replace(few[0], status="unsupported", reason="no huge pages", samples=())
    alone = [refused, *(one for one in few if one.point != refused.point)]
    assert without_ratio(alone).reason.endswith("has no number (no huge pages)") and not without_ratio(alone).is_short
    assert without_ratio([refused, *few[1:]]).is_short, "a visit that failed once"
    wrong = msgspec.structs.replace(refused, status="wrong_answer", reason="wrong")
    assert not without_ratio([wrong, *few[1:]]).is_short
    assert "no timed metric" in without_ratio(few, metric(source="gauge")).reason
    other = msgspec.structs.replace(OTHER, probe="any.other")
    rate = probe(metric("second", unit="B/s"), name="any.other")
    probes = {"any.probe": probe(metric("first")), "any.other": rate}
    assert "no timed metric" in uncompared(few, [(POINT, other)], probes, ())[0].reason


def test_first_metrics_of_one_unit_are_compared_where_two_probes_share_no_name() -> None:
    """A line from another core is held against a load from memory."""
    other = msgspec.structs.replace(OTHER, probe="any.other")
    outcomes = [
        msgspec.structs.replace(one, point=other) if one.point == OTHER else one for one in visits(LEAST_BLOCKS, 0.5)
    ]
    probes = {"any.probe": probe(metric("access")), "any.other": probe(metric("load"), name="any.other")}
    (found,) = opposed(outcomes, [(POINT, other)], probes, Known())
    assert (found.metric, found.metric_against) == ("access", "load")


def test_the_time_until_a_ratio_is_made_of_layouts_and_visits() -> None:
    """Two layouts of each point were set up in 0.3 s each, and 32 visits of 0.1 s made in them: five of each take 5 s
    and 80 visits."""
    few = visits(1, blocks=2)
    seconds = 4 * 0.3 + 32 * 0.1
    run = msgspec.structs.replace(example_runs.small().index.run, seconds=seconds, timed_share=32 * 0.1 / seconds)
    lacking = [without_ratio(few)]
    assert seconds_wanted(few, lacking, 2, run) == pytest.approx(10 * 0.3 + 80 * 0.1)
    assert seconds_wanted([], lacking, 2, run) == inf
    assert seconds_wanted(few, [msgspec.structs.replace(lacking[0], is_short=False)], 2, run) == inf


def test_more_is_wanted_until_the_ratio_is_known_well_enough() -> None:
    known = {"any.probe": probe()}
    few, many = (visits(5, layouts=0.01, blocks=blocks) for blocks in (6, 60))
    assert visits_wanted_of_two(few, (POINT, OTHER), known, Known(), 0.006) > len(few) / 2
    assert visits_wanted_of_two(many, (POINT, OTHER), known, Known(), 0.006) <= len(many) / 2
    assert visits_wanted_of_two([], (POINT, OTHER), known, Known(), 0.006) == float("inf")


def test_the_sentence_says_what_stands_against_what() -> None:
    (said,) = pair_sentences(with_pair(told(visits(1, change=1.01, layouts=0.001))))
    assert said.startswith("any.probe way=1 x86_64, cost, against any.probe way=0 x86_64: slower, +1.")
    (alike,) = pair_sentences(with_pair(told(visits(2))))
    assert "no difference" in alike


def test_sizes_have_units_and_large_ratios_are_multiples() -> None:
    found = Opposed(metric="load", unit="ns", point="memory.latency size=16384 x86_64", blocks=9, verdict="slower",
                    against="memory.latency size=8192 x86_64", ratio=301.66, low=299.0, high=304.0)  # fmt: skip
    (said,) = pair_sentences(with_pair(found))
    assert "size=16 KiB" in said and "size=8 KiB" in said
    assert "slower, 302 times (299 to 304), from 9" in said


def with_pair(found: Opposed) -> Results:
    results = example_runs.small()
    return example_runs.with_index(results, opposed=(found,))


def test_a_pair_is_on_the_terminal_the_page_and_in_markdown() -> None:
    found = told(visits(1, change=1.01, layouts=0.001))
    results = with_pair(found)
    assert all(pair_sentences(results)[0] in screen for screen in screens(results))


# ---- false alarms ----------------------------------------------------------------------------------------------------

_LONGEST = 300
MOST_FALSE = 0.005


def at_its_end(blocks: list[float]) -> Ratio:
    """Of a run that ends as soon as its ratio is known to its precision, or when its budget is spent."""
    looks = [ratio_of_blocks(blocks[:LEAST_BLOCKS])]
    for count in range(LEAST_BLOCKS + 1, len(blocks) + 1):
        if blocks_wanted(looks[-1], RATIO_PRECISION) <= count - 1:
            break
        looks.append(ratio_of_blocks(blocks[:count]))
    assert looks[-1]
    return looks[-1]


def answers_of(runs: int, sd: float, most: int = _LONGEST, middle: float = 0.0) -> list[tuple[bool, int]]:
    """Whether each run says that there is a difference, and after how many blocks. most: that the budget reaches for.
    Pairs of one run are adjusted for each other elsewhere."""
    chance = np.random.default_rng([runs, most, round(1e6 * sd)])
    ends = (at_its_end(chance.normal(middle, sd, most).tolist()) for _ in range(runs))
    return [(differs(found, found.p_value, RATIO_PRECISION), found.blocks) for found in ends]


@pytest.mark.parametrize(("sd", "runs"), [(0.001, 4000), (0.003, 3000), (0.005, 2000), (0.01, 2000)])
def test_of_runs_without_a_difference_one_in_two_hundred_says_that_there_is_one(sd: float, runs: int) -> None:
    assert sum(differ for differ, _ in answers_of(runs, sd)) <= MOST_FALSE * runs


@pytest.mark.parametrize("most", [5, 8, 16])
@pytest.mark.parametrize("sd", [0.003, 0.007, 0.02])
def test_nor_do_more_where_a_budget_ends_the_run(sd: float, most: int) -> None:
    assert sum(differ for differ, _ in answers_of(2000, sd, most)) <= MOST_FALSE * 2000


def test_one_percent_is_found_by_as_many_blocks_as_the_precision_takes() -> None:
    """Where blocks scatter by 0.3 %: nine blocks, which the level at which a difference is told does not add to."""
    found = answers_of(1000, 0.003, middle=np.log1p(0.01))
    assert sum(differ for differ, _ in found) >= 0.98 * len(found)
    assert np.mean([blocks for _, blocks in found]) < 1.3 * 8.9


def test_a_difference_of_eight_errors_is_found_by_five_blocks() -> None:
    found = answers_of(1000, 0.03, most=LEAST_BLOCKS, middle=8 * 0.03 / LEAST_BLOCKS**0.5)
    assert sum(differ for differ, _ in found) >= 0.45 * len(found)


def test_a_ratio_as_precise_as_it_was_to_be_needs_a_smaller_chance() -> None:
    found = ratio_of_blocks([0.008, 0.009, 0.010, 0.011, 0.012])
    assert found is not None
    assert differs(found, 0.001, precision=1e-6), "its budget ended it"
    assert not differs(found, 0.001, precision=0.1)
