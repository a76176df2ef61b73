# SPDX-License-Identifier: Apache-2.0
"""What a run is worth in a word: each verdict is turned on by what it is about, and the gravest is told."""

from __future__ import annotations

import msgspec
import pytest

from support.builders import row, run_info
from tollmeter.judgement.verdict import verdict
from tollmeter.model import Row, RunVerdict, Surroundings

RUN = run_info(seconds=60, points=10, converged=8, contended_share=0.9, surroundings=Surroundings(others=0.0))


def rows(visits: int = 5, discarded: int = 0, **more: object) -> list[Row]:
    made = row(1.0, **more)  # type: ignore[arg-type]
    return [msgspec.structs.replace(made, visits=visits, samples=90, discarded=discarded)] * 3


def said(table: list[Row], **run: object) -> RunVerdict:
    return verdict(msgspec.structs.replace(RUN, **run), table)


def test_a_run_with_enough_good_samples_is_quiet_even_under_contention() -> None:
    assert said(rows(discarded=9)) == "quiet"


def test_many_discarded_samples_make_a_run_busy() -> None:
    assert said(rows(discarded=11)) == "busy"


def test_few_converged_points_make_a_run_busy_only_under_contention() -> None:
    assert said(rows(), converged=4) == "busy"
    assert said(rows(), converged=4, contended_share=0.5) == "quiet"
    assert said(rows(), converged=4, contended_share=None) == "quiet"


def test_the_median_row_needs_three_visits() -> None:
    assert said([*rows(visits=2), *rows(visits=9)[:2]]) == "too short"
    assert said([*rows(visits=2)[:2], *rows(visits=9)]) == "quiet"
    assert said(rows(visits=2, discarded=50)) == "too short"


def test_a_run_without_a_number_is_too_short() -> None:
    assert said([]) == "too short"
    assert said([row(None, status="failed")]) == "too short"


def test_counts_need_one_visit() -> None:
    assert said(rows(visits=1, clock="instructions", unit="instruction")) == "quiet"


def test_work_beside_an_emulator_changes_none_of_its_time() -> None:
    beside = Surroundings(others=0.5)
    assert said(rows(), surroundings=beside) == "busy"
    assert said(rows(clock="virtual"), surroundings=beside) == "quiet"
    assert said([*rows(clock="virtual"), *rows()], surroundings=beside) == "busy"


def test_a_run_of_which_nobody_recorded_what_ran_beside_it_is_not_called_quiet() -> None:
    """As a bundle's."""
    assert said(rows(), surroundings=None) == "unknown"
    assert said(rows(discarded=11), surroundings=None) == "busy"
    assert said(rows(clock="virtual"), surroundings=None) == "quiet"


def test_what_was_stopped_says_so_first() -> None:
    assert said(rows(visits=1), status="interrupted") == "interrupted"
    assert said(rows(), status="measuring") == "interrupted"


def test_a_run_that_the_system_holds_back_is_called_so() -> None:
    for seen in (Surroundings(nice=10), Surroundings(policy="idle"), Surroundings(quota=0.5, throttled_s=1.0)):
        assert said(rows(), surroundings=seen) == "held back"
    for seen in (Surroundings(others=0.0), Surroundings(others=0.0, nice=-5), Surroundings(pressure=0.0, quota=64.0)):
        assert said(rows(), surroundings=seen) == "quiet"


def test_a_run_without_evidence_is_unknown_and_not_quiet() -> None:
    """A run of half a second is too short for the ticks by which others' time is counted."""
    assert said(rows(), surroundings=Surroundings()) == "unknown"
    assert said(rows(clock="virtual"), surroundings=Surroundings()) == "quiet"
    assert said(rows(), surroundings=Surroundings(pressure=0.9)) == "busy"
    assert said(rows(), surroundings=Surroundings(pressure=0.9, others=0.05)) == "quiet", "it was other CPUs' tasks"


def test_others_at_work_are_busy() -> None:
    assert said(rows(), surroundings=Surroundings(others=0.3)) == "busy"
    assert said(rows(), surroundings=Surroundings(company=True)) == "busy"
    assert said(rows(), surroundings=Surroundings(others=0.1)) == "quiet"


def test_a_run_with_unreadable_evidence_is_not_quiet() -> None:
    assert said(rows(), unseen_share=0.5) == "unknown"
    assert said(rows(discarded=11), unseen_share=0.5) == "busy"


def test_a_filter_or_a_tracer_holds_back_what_times_system_calls_here() -> None:
    for seen in (Surroundings(others=0.0, seccomp_filters=1), Surroundings(others=0.0, traced=True)):
        assert said(rows(of="kernel.enter"), surroundings=seen) == "held back"
        assert said(rows(of="memory.walk"), surroundings=seen) == "quiet"
        assert said(rows(of="kernel.enter", target="guest:x"), surroundings=seen) == "quiet", "it has its own kernel"
        assert said(rows(of="kernel.enter", clock="instructions"), surroundings=seen) == "quiet"
    calm = Surroundings(others=0.0, seccomp_filters=0, traced=False)
    assert said(rows(of="kernel.enter"), surroundings=calm) == "quiet"


def test_a_status_that_could_not_be_read_leaves_times_of_system_calls_unknown() -> None:
    hidden = Surroundings(others=0.0, unreadable=("/proc/self/status",))
    assert said(rows(of="kernel.enter"), surroundings=hidden) == "unknown"
    assert said(rows(of="memory.walk"), surroundings=hidden) == "quiet"
    assert said(rows(of="kernel.enter"), surroundings=Surroundings(others=0.0)) == "quiet", "an older run's"


@pytest.mark.parametrize("source", ["/proc/stat", "getrusage", "/proc/self/cgroup", "getpriority", "sched_getaffinity"])
def test_an_unreadable_source_leaves_every_time_of_this_machine_unknown(source: str) -> None:
    hidden = Surroundings(pressure=0.0, unreadable=(source,))
    assert said(rows(of="memory.walk"), surroundings=hidden) == "unknown"
    assert said(rows(of="memory.walk", clock="instructions"), surroundings=hidden) == "quiet"
    assert said(rows(of="memory.walk"), surroundings=Surroundings(others=0.5, unreadable=(source,))) == "busy"
