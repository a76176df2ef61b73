# SPDX-License-Identifier: Apache-2.0
"""Rows from places without a time of their own: a count stays a count, and nothing emulated has cycles."""

from __future__ import annotations

import pytest

from made import metric, outcome, probe, sample
from tollmeter.model import Clock, Row, Work
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
