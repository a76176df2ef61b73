# SPDX-License-Identifier: Apache-2.0
"""What other programs make of a budget."""

from pathlib import Path

import pytest

from tollmeter.library.overrun import CpuTime, cpu_time, overrun
from tollmeter.library.prepare import finishing_later_s, for_measuring


@pytest.mark.parametrize("whole_s", [3.0, 5.0, 5.4])
def test_a_budget_that_held_needs_no_sentence(whole_s: float) -> None:
    assert overrun(5.0, whole_s - 1, whole_s, waited_s=whole_s) == ""


def test_a_run_that_waited_for_a_cpu_says_for_how_long() -> None:
    said = overrun(5.0, measured_s=13.0, whole_s=21.0, waited_s=18.9)
    assert "5 s took 21.0 s" in said and "8.0 s after the last visit" in said and "18.9 s (90 %)" in said


def test_other_programs_are_not_blamed_for_what_a_run_took_itself() -> None:
    said = overrun(5.0, measured_s=3.0, whole_s=21.0, waited_s=1.0)
    assert "18.0 s after the last visit" in said and "other programs" not in said


def test_the_wait_of_a_process_is_read_from_the_kernel(tmp_path: Path) -> None:
    assert cpu_time(tmp_path) == CpuTime()
    (tmp_path / "self").mkdir()
    (tmp_path / "self/schedstat").write_text("500000000 1500000000 120\n")
    seen = cpu_time(tmp_path)
    assert seen == CpuTime(0.5, 1.5) and seen.slowness == 4.0
    assert seen.since(CpuTime(0.25, 1.5)).slowness == CpuTime().slowness == 1.0


@pytest.mark.parametrize("budget_s", [5.0, 20.0, 300.0])
def test_where_the_answer_will_take_longer_the_visits_end_earlier(budget_s: float) -> None:
    usual_s = budget_s - for_measuring(budget_s)
    assert finishing_later_s(budget_s, 1.0) == finishing_later_s(budget_s, 2.0) == 0.0
    half_s = for_measuring(budget_s) / 2
    assert finishing_later_s(budget_s, 6.0) == pytest.approx(min(2 * usual_s, half_s))
    assert finishing_later_s(budget_s, 60.0) == half_s, "a run measures in half of its time at least"
