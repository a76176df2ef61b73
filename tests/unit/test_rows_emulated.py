# SPDX-License-Identifier: Apache-2.0
"""Rows from places without a time of their own: a count stays a count, and nothing emulated has cycles."""

from __future__ import annotations

import pytest

from support.builders import metric, outcome, probe, sample
from tollmeter.judgement.verdict import has_interval
from tollmeter.library.measure import AnalysisJudge
from tollmeter.model import Clock, Probe, Row, Suite, Work
from tollmeter.numbers.known import Learned
from tollmeter.numbers.rows import rows

THREE = [sample(12), sample(12), sample(12)]


def row_of(clock: Clock, unit: str) -> Row:
    told = probe(metric(unit=unit))
    visit = outcome(THREE, clock=clock, work=Work(bytes=64, flops=4, operations=2))
    (found,) = rows([visit], {told.probe: told})
    return found


@pytest.mark.parametrize(("unit", "cost"), [("ns", 6), ("flop/s", 3), ("B/s", 12 / 64), ("op/s", 6)])
def test_a_count_is_given_in_instructions_whatever_the_probe_calls_it(unit: str, cost: float) -> None:
    found = row_of("instructions", unit)
    assert (found.status, found.unit, found.better, found.clock) == ("ok", "instruction", "less", "instructions")
    assert (found.median, found.minimum, found.low, found.high) == pytest.approx((cost, cost, cost, cost))


def test_virtual_time_keeps_its_unit_and_its_clock() -> None:
    found = row_of("virtual", "ns")
    assert (found.unit, found.clock, found.median) == ("ns", "virtual", pytest.approx(6))


@pytest.mark.parametrize(
    ("clock", "status"), [("instructions", "unsupported"), ("virtual", "unsupported"), ("hardware", "ok")]
)
def test_only_a_real_core_has_cycles(clock: Clock, status: str) -> None:
    assert row_of(clock, "cycle").status == status


def accounted(values: list[float], unit: str, clock: Clock = "virtual", means: str = "resident-peak") -> Row:
    told = probe(metric("resident_peak", unit, source="gauge", means=means))
    visits = [outcome(THREE, visit=number, clock=clock, gauges={"resident_peak": value})
              for number, value in enumerate(values)]  # fmt: skip
    (found,) = rows(visits, {told.probe: told})
    return found


@pytest.mark.parametrize(
    ("value", "unit", "half"), [(20e6, "B", 0.2e6), (400e3, "B", 8192), (49, "fault", 1), (0.25, "fault", 0.0025)]
)
def test_one_visit_gives_a_guest_kernels_count_with_the_usual_scatter(value: float, unit: str, half: float) -> None:
    found = accounted([value], unit)
    assert (found.median, found.low, found.high) == pytest.approx((value, value - half, value + half))
    assert has_interval(found)
    assert not has_interval(accounted([value], unit, clock="hardware"))


def test_what_a_probe_says_of_its_own_layout_has_no_pages_to_differ_by() -> None:
    """A node of 16 bytes was told as 0 to 8208."""
    node = accounted([16], "B", means="footprint")
    assert (node.low, node.high) == pytest.approx((15.84, 16.16))
    heap = accounted([135_168], "B", means="account")
    assert (heap.low, heap.high) == (135_168 - 8192, 135_168 + 8192)


def test_visits_that_agree_leave_what_runs_of_a_program_differ_by() -> None:
    """Between two runs of one machine a program had 26 faults and 27, or a page more, in every visit of each."""
    pages, faults = accounted([262_144] * 5, "B", clock="hardware"), accounted([26] * 5, "fault", clock="hardware")
    assert (pages.low, pages.high) == (262_144 - 8192, 262_144 + 8192)
    assert (faults.low, faults.high) == (25, 27)


def test_visits_that_differ_by_a_fault_are_no_surer_than_visits_that_agree() -> None:
    """Five runs of one program had 315 or 316 faults in a visit, and one had 316 to 319."""
    faults = accounted([315, 315, 316, 316], "fault", clock="hardware")
    assert faults.low < 314.6 and faults.high > 316.4


def test_a_program_is_visited_once_where_a_guest_counts_and_as_often_as_it_wants_elsewhere() -> None:
    told = probe(metric(), metric("resident_peak", "B", source="gauge", means="resident-peak"))
    judge = AnalysisJudge({told.probe: told}, Learned(), 0.03, Suite(name="any", question="?"))

    def wanted(clock: Clock, of: Probe = told) -> float:
        return judge.visits_wanted([outcome(THREE, clock=clock, gauges={"resident_peak": 1e6})], of)

    assert wanted("virtual") <= 1 < wanted("hardware")
    assert wanted("virtual", probe(metric())) > 1
