# SPDX-License-Identifier: Apache-2.0
"""A target's own clock beside the clock at the other end of a line: the ratio in rows, the finding, and the physics."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import msgspec
import pytest

from support import example_runs
from support.builders import CLOCK_HZ, metric, outcome, probe, row, sample
from tollmeter.experiment.core import own_ratio
from tollmeter.findings import carried
from tollmeter.findings.clocks import clock_is_wrong
from tollmeter.model import Clock, Finding, Marks, Metric, Outcome, Row, RunVerdict
from tollmeter.numbers.plausible import without_implausible
from tollmeter.numbers.rows import rows

LOOP = metric("turn", means="control-loop")
CYCLE_NS = 1e9 / CLOCK_HZ


def visits(ratios: Sequence[float], error: float = 0.001, cost: float = 1.0) -> list[Outcome]:
    return [
        outcome([sample(cost)] * 4, visit=number, clock="external", marks=Marks(own_ratio=ratio, ratio_error=error))
        for number, ratio in enumerate(ratios)
    ]


def around(ratio: float, count: int = 6) -> list[Outcome]:
    return visits([ratio * (1 + (0.0005 if number % 2 else -0.0005)) for number in range(count)])


def found(outcomes: Sequence[Outcome]) -> list[Finding]:
    return list(clock_is_wrong(msgspec.structs.replace(example_runs.small(), outcomes=tuple(outcomes))))


# ---- the ratio --------------------------------------------------------------------------------------------------


def test_a_row_has_the_ratio_of_the_two_clocks() -> None:
    (told,) = rows(around(1.01), {"any.probe": probe()})
    assert told.own_ratio == pytest.approx(1.01, rel=1e-3)
    (alone,) = rows([outcome([sample(1.0)] * 4)], {"any.probe": probe()})
    assert alone.own_ratio is None


def test_the_interval_of_the_ratio_holds_what_the_visits_state_of_their_errors() -> None:
    """Three visits that happen to agree are no certainty."""
    sure, unsure = (own_ratio(visits([1.01] * 3, error)) for error in (1e-4, 0.01))
    assert sure and unsure
    assert sure.high - sure.low < 0.001
    assert unsure.high - unsure.low > 0.01


@pytest.mark.parametrize("ratio", [0.0, -1.0])
def test_a_ratio_that_no_clocks_can_have_is_left_out(ratio: float) -> None:
    """A journal may be damaged."""
    assert own_ratio(visits([1.01, ratio, 1.01])) == own_ratio(visits([1.01, 1.01]))
    assert own_ratio(visits([ratio])) is None


@pytest.mark.parametrize(("unit", "by_line"), [("ns", 100.0), ("op/s", 400.0), ("count", 200.0)])
def test_a_probes_gauge_is_converted_to_the_lines_time(unit: str, by_line: float) -> None:
    """Twice as many of its own nanoseconds pass."""
    said = [
        msgspec.structs.replace(told, gauges={"cost": 200.0}) for told in visits([2.0] * 3)
    ]  # fmt: skip
    (made,) = rows(said, {"any.probe": probe(metric(unit=unit, source="gauge"))})
    assert made.median == by_line


# ---- the finding ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ratio", "words"), [(1.01, "1.00 % fast"), (0.99, "1.00 % slow"), (1.1, "10.00 % fast")])
@pytest.mark.parametrize("count", [3, 6])
def test_a_wrong_clock_is_found(ratio: float, words: str, count: int) -> None:
    (one,) = found(visits([ratio] * count))
    assert (one.name, one.severity, words in one.claim) == ("machine.clock_is_wrong", "error", True)


@pytest.mark.parametrize("count", [1, 2])
def test_a_clock_that_is_far_off_is_found_by_a_visit_or_two(count: int) -> None:
    assert found(visits([1.1] * count, error=0.005))


@pytest.mark.parametrize(
    "told",
    [
        around(1.0),
        around(1.001),
        visits([1.015] * 2),
        visits([1.01, 0.995, 1.03, 1.0], error=0.01),
        visits([1.004] * 3, error=0.01),
        [outcome([sample(1.0)] * 4, visit=visit) for visit in range(4)],
        [msgspec.structs.replace(told, status="wrong_answer") for told in around(1.1)],
    ],
    ids=["right", "nearly right", "two visits, not far off", "scattered", "unsure", "no line", "wrong answers"],
)
def test_a_correct_clock_or_too_little_evidence_is_no_finding(told: list[Outcome]) -> None:
    assert found(told) == []


@pytest.mark.parametrize("verdict", ["quiet", "busy", "held back", "too short", "interrupted"])
def test_a_run_of_any_worth_carries_it(verdict: RunVerdict) -> None:
    wrong = found(around(1.1))
    assert carried(verdict, wrong, wrong).findings == tuple(wrong) != ()


# ---- physics ----------------------------------------------------------------------------------------------------


def told_of(median: float, asked: Metric, clock: Clock = "external", **more: float) -> Row:
    known = {"any.probe": probe(asked)}
    made = row(median, name=asked.name, unit=asked.unit, clock=clock, **more)
    return without_implausible([made], known, {"local": CLOCK_HZ})[0]


@pytest.mark.parametrize("clock", ["hardware", "external"])
@pytest.mark.parametrize(
    ("asked", "sound", "refused"),
    [
        (LOOP, CYCLE_NS, 0.4 * CYCLE_NS),
        (metric("loops", "op/s", means="control-loop"), CLOCK_HZ, 2.5 * CLOCK_HZ),
        (metric("adds", "op/s", means="core-clock"), CLOCK_HZ, 1.3 * CLOCK_HZ),
    ],
    ids=["time of a loop", "rate of a loop", "rate of additions"],
)
def test_what_a_core_cannot_do_is_refused_by_either_clock(
    clock: Clock, asked: Metric, sound: float, refused: float
) -> None:
    assert told_of(sound, asked, clock).status == "ok"
    assert told_of(refused, asked, clock).status == "unstable"


def test_the_core_clock_is_also_known_from_the_line() -> None:
    """So that a loop faster than the core is refused in a run that has no other clock."""
    (made,) = rows(visits([1.0] * 3, cost=0.4 * CYCLE_NS), {"any.probe": probe(LOOP)})
    assert (made.status, made.median) == ("unstable", None)


@pytest.mark.parametrize(("source", "status"), [("body", "unstable"), ("difference", "ok"), ("gauge", "ok")])
def test_a_time_is_never_negative_but_a_difference_may_be(source: str, status: str) -> None:
    made = told_of(1.0, metric(source=source), minimum=-0.1)
    assert made.status == status
    assert (made.minimum or inf) > 0 or status == "ok"
