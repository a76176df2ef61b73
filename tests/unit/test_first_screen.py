# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a run without scrolling: the answer, how much it is worth, and nothing that it cannot carry."""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.example_runs import with_index, with_run
from support.recordings import copied
from support.rendered import printed, screens, words
from tollmeter.findings import carried
from tollmeter.judgement.verdict import unanswered, without_interception
from tollmeter.library.derive import open_run
from tollmeter.model import Claim, Finding, RunVerdict, State, Study, Surroundings, Uncompared
from tollmeter.report import page, run_verdict, shown, tolls
from tollmeter.report.numbers import of_row
from tollmeter.store.journal import NAME as JOURNAL


def test_a_run_that_another_process_measures_is_not_called_interrupted(tmp_path: Path) -> None:
    """Its journal says no more than that it has not ended; who holds it tells."""
    results = with_run(
        example_runs.small(), verdict="interrupted", status="measuring", folder=str(tmp_path), unanswered="x"
    )
    with (tmp_path / JOURNAL).open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        text = printed(results, 200, whole=True)
        assert "measuring now: " in text and "show --follow" in run_verdict.next_step(results).command
        assert "interrupted" not in text and "cut off" not in text and "not answered" not in text
    text = printed(results, 200, whole=True)
    assert "interrupted: " in text and "cut off" in text and "--resume" in run_verdict.next_step(results).command


@pytest.mark.parametrize(("end", "is_told"), [("settled", True), ("interrupted", False)])
def test_a_run_that_ended_after_it_was_read_was_not_stopped(tmp_path: Path, end: str, *, is_told: bool) -> None:
    """As one that ends while `toll compare` reads another."""
    results = with_run(example_runs.small(), verdict="interrupted", status="measuring", folder=str(tmp_path))
    (tmp_path / JOURNAL).write_text(f'{{"k":"run","status":"{end}"}}\n')
    assert ("measuring now: " in printed(results, 200)) == is_told


def test_no_line_of_the_page_s_first_words_ends_between_number_and_unit() -> None:
    text = page.render(with_run(example_runs.small(), verdict="busy", points=300, converged=100))
    assert "112\N{NO-BREAK SPACE}ns from memory" in text and "within 3\N{NO-BREAK SPACE}%" in text


def test_a_row_of_two_states_is_two_numbers() -> None:
    row = next(row for row in example_runs.small().index.rows if row.probe == "kernel.enter_syscall")
    first, second = (State(state=name, share=0.5, median=at, low=at, high=at) for name, at in
                     (("first", 14.0), ("second", 137.0)))  # type: ignore[arg-type]  # fmt: skip
    assert str(of_row(msgspec.structs.replace(row, state="second", states=(second, first)))) == "14 or 140 ns"
    assert " or " not in str(of_row(msgspec.structs.replace(row, state="uncontended", states=(first, second))))


# ---- what a run carries -----------------------------------------------------------------------------------------


def finding(name: str) -> Finding:
    return Finding(
        name=name, severity="note", claim="c", evidence=example_runs.small().index.findings[0].evidence[:1], remedy="r"
    )


SHARED, CACHE = finding("machine.core_is_shared"), finding("memory.cache_disagrees")
PROBLEM = msgspec.structs.replace(SHARED, severity="warning")


@pytest.mark.parametrize(
    ("verdict", "kept"),
    [("quiet", [SHARED, CACHE]), ("busy", [SHARED]), ("too short", []), ("interrupted", [SHARED, CACHE])],
)
def test_a_run_carries_what_it_has_seen_enough_of(verdict: RunVerdict, kept: list[Finding]) -> None:
    found = carried(verdict, [SHARED, CACHE], [SHARED, CACHE])
    assert list(found.findings) == kept
    assert set(found.withheld) == {SHARED.name, CACHE.name} - {one.name for one in kept}


def test_a_run_behind_a_filter_carries_what_it_found_of_memory_and_nothing_of_the_kernel() -> None:
    call = finding("kernel.clock_is_slow")
    found = carried("quiet", [CACHE, call], [CACHE, call], intercepted=True)
    assert (found.findings, found.withheld) == ((CACHE,), (call.name,))
    filtered = Surroundings(seccomp_filters=1)
    results = with_run(example_runs.small(), verdict="held back", surroundings=filtered)
    assert run_verdict.why_withheld(results) == "its system calls were filtered or traced"
    assert "seccomp" in run_verdict.next_step(results).when and "nice" not in run_verdict.next_step(results).when
    assert without_interception(results.index.run, results.index.rows) != "held back"
    nice = msgspec.structs.replace(results.index.run, surroundings=msgspec.structs.replace(filtered, nice=5))
    assert without_interception(nice, results.index.rows) == "held back"


def test_a_run_that_was_stopped_too_early_carries_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve visits, most rows of two. A run of a second told of its neighbours what 15 samples had seen."""
    monkeypatch.setattr("tollmeter.findings.all_findings", lambda _: [PROBLEM])
    told = open_run(copied("format-1", tmp_path / "run"))
    assert (told.index.run.verdict, told.index.findings, told.index.withheld) == ("interrupted", (), (SHARED.name,))
    assert told.index.run.withheld_problems == 1


def test_what_only_thin_rows_say_is_withheld_and_named() -> None:
    assert carried("quiet", [CACHE], []) == ((), (CACHE.name,), 0)
    assert carried("quiet", [CACHE, SHARED], [PROBLEM]) == ((PROBLEM,), (CACHE.name,), 0)
    assert carried("too short", [CACHE, SHARED], [PROBLEM]) == ((), (CACHE.name, SHARED.name), 1)
    results = example_runs.small()
    held = with_index(results, withheld=(CACHE.name,))
    told = words(held)
    assert "1 finding withheld" in told and "cache disagrees" in told


def test_a_question_is_answered_unless_too_much_is_missing() -> None:
    rows, run = list(example_runs.small().index.rows), example_runs.small().index.run
    assert unanswered(run, rows, None) == ""
    unreached = [msgspec.structs.replace(row, status="interrupted") for row in rows[: len(rows) // 3]]
    assert f"{len(unreached)} of {len(rows)} rows were not reached" in unanswered(
        run, [*unreached, *rows[len(unreached) :]], None
    )
    impossible = [msgspec.structs.replace(row, status="unsupported") for row in unreached]
    assert unanswered(run, [*impossible, *rows[len(unreached) :]], None) == ""
    short = msgspec.structs.replace(run, verdict="too short")
    assert unanswered(short, rows, None) and unanswered(short, rows, None, shown=(2, 5))
    # The numbers of the first screen are measured first; the many others have a visit or two when they are known.
    assert unanswered(short, rows, None, shown=(3, 5)) == ""


def test_points_against_each_other_are_answered_where_most_have_a_ratio() -> None:
    rows, run = example_runs.small().index.rows, example_runs.small().index.run
    lacking = Uncompared(point="a", against="b", layouts=1, reason="1 of the 5 layouts that a ratio needs")
    alone = msgspec.structs.replace(run, uncompared=(lacking,), enough_s=40.0)
    assert unanswered(alone, rows, None) == "1 of the 5 layouts that a ratio needs; --budget 40s would suffice"
    assert unanswered(alone, rows, None, compared=3) == ""
    assert unanswered(alone, rows, None, compared=2).startswith("1 of 3 pairs have no ratio")
    assert "--budget" not in unanswered(msgspec.structs.replace(alone, enough_s=None), rows, None)
    results = msgspec.structs.replace(example_runs.small(), request={"anew": "./toll run a --against b"})
    told = with_run(results, unanswered="x", enough_s=40.0)
    assert run_verdict.next_step(told).command == "./toll run a --against b --budget 40s"


def test_a_study_is_answered_by_its_figures_whatever_beside_them_was_not_reached() -> None:
    rows, run = list(example_runs.small().index.rows), example_runs.small().index.run
    rows = [msgspec.structs.replace(rows[0], status="interrupted")] * len(rows) + rows
    claim = Claim(what="w", figure="2", value=2.0, here=None, low=None, high=None, unit="ns", verdict="cannot tell")
    holds = msgspec.structs.replace(claim, verdict="holds")
    assert unanswered(run, rows, Study(source="s", claims=(claim, holds, holds))) == ""
    assert "were not reached" in unanswered(run, rows, Study(source="s", claims=(claim, claim, holds)))
    short, known = msgspec.structs.replace(run, verdict="too short"), msgspec.structs.replace(holds, low=1.0, high=3.0)
    assert "fewer than" in unanswered(short, rows, Study(source="s", claims=(claim, holds, known)))
    assert unanswered(short, rows, Study(source="s", claims=(claim, known, known))) == ""


def test_a_study_without_a_verdict_is_not_answered() -> None:
    claim = Claim(what="w", figure="2", value=2.0, here=None, low=None, high=None, unit="ns", verdict="cannot tell")
    run, rows = example_runs.small().index.run, example_runs.small().index.rows
    assert "none of the study's 1 figures" in unanswered(run, rows, Study(source="s", claims=(claim,)))
    holds = msgspec.structs.replace(claim, verdict="holds")
    assert unanswered(run, rows, Study(source="s", claims=(claim, holds))) == ""
    worded = msgspec.structs.replace(claim, value=None)
    assert unanswered(run, rows, Study(source="s", claims=(worded,))) == ""


def test_the_best_known_lines_are_of_every_group() -> None:
    results = example_runs.small()
    chosen = shown.best_known(results)
    assert 6 <= len(chosen) <= 10
    assert {tolls.toll_group(toll, results.probes) for toll in chosen} >= {"kernel", "other processes"}
    assert sum(len(tolls) for _, tolls in tolls.toll_groups(results)) == len(results.index.tolls)


@pytest.mark.parametrize("cheapest", ["anonymous_write", "huge_page", "shared_file"])
def test_every_run_shows_the_same_kind_of_a_toll_whatever_it_costs(cheapest: str) -> None:
    results = example_runs.small()
    known = next(toll for toll in results.index.tolls if toll.probe == "kernel.page_fault")
    kinds = sorted(("anonymous_write", "huge_page", "shared_file"), key=lambda kind: kind != cheapest)
    made = tuple(
        msgspec.structs.replace(known, parameters={"kind": kind}, value=9.0 + n) for n, kind in enumerate(kinds)
    )
    own = [toll for toll in shown.best_known(with_index(results, tolls=made)) if toll.probe == known.probe]
    assert [toll.parameters["kind"] for toll in own] == ["anonymous_write"]
    some = [toll for toll in results.index.tolls if toll.probe == "kernel.call_object"]
    pipe = msgspec.structs.replace(some[0], parameters={"channel": "pipe", "placement": "one_cpu"})
    futex = msgspec.structs.replace(some[0], parameters={"channel": "futex", "placement": "two_cpus"})
    assert shown.best_known(with_index(results, tolls=(futex, pipe))) == (pipe,), "where there is one CPU"
    other = with_index(results, tolls=tuple(toll for toll in made if toll.parameters["kind"] != "anonymous_write"))
    assert len(shown.best_known(other)) == 1


@pytest.mark.parametrize("remark", ["damage", "narrowed", "reused", "uncounted"])
def test_what_a_run_lacks_is_in_every_form(remark: str) -> None:
    results = with_run(example_runs.small(), **{remark: "Seven visits differ."})
    assert all("Seven visits differ." in text for text in screens(results))
