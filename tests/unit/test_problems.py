# SPDX-License-Identifier: Apache-2.0
"""The line that says whether the machine is set up right: never that it is where nothing could be seen."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.rendered import screens
from tollmeter.model import Evidence, Finding, Results, Severity
from tollmeter.report import page
from tollmeter.report.headline import MOST_NAMED, problems
from tollmeter.store.journal import NAME as JOURNAL

NONE_FOUND = "No problem found"


def finding(claim: str, severity: Severity = "warning") -> Finding:
    evidence = (Evidence(what="size", value=1.0, unit="B"),)
    return Finding(name="memory.rule", severity=severity, claim=claim, evidence=evidence, remedy="mend it")


def results(*findings: Finding, withheld: Sequence[str] = (), **run: object) -> Results:
    """withheld: names of problems."""
    made = example_runs.small()
    told = {"points": 10, "converged": 9, "withheld_problems": len(withheld), **run}
    info = msgspec.structs.replace(made.index.run, **told)
    index = msgspec.structs.replace(made.index, findings=findings, withheld=tuple(withheld), run=info)
    return msgspec.structs.replace(made, index=index)


def test_no_problem_is_said_of_a_run_that_could_have_found_one_and_with_what_it_measured() -> None:
    told = problems(results(finding("a copy is slow", "note")))
    assert told.lead == NONE_FOUND and not told.named
    for family in ("kernel", "memory", "float"):
        assert family in told.rest
    assert all(NONE_FOUND in screen for screen in screens(results()))


def test_a_small_run_names_the_little_that_it_looked_at() -> None:
    few = [row for row in example_runs.small().index.rows if row.probe == "kernel.enter_syscall"]
    assert str(problems(example_runs.with_rows(results(), few))) == f"{NONE_FOUND} (measured: kernel)"


def test_problems_are_counted_without_notes_and_the_gravest_are_named_first() -> None:
    shown = results(finding("later", "note"), finding("slow: since the clock is"), finding("wrong", "error"))
    assert str(problems(shown)) == "2 problems: wrong; slow"
    assert all("2 problems" in screen for screen in screens(shown))
    assert problems(results(finding("slow"))).lead == "1 problem"
    many = problems(results(*(finding(f"claim {number}") for number in range(MOST_NAMED + 2))))
    assert len(many.named) == MOST_NAMED and many.rest == "; and 2 more"


def test_each_problem_leads_to_its_finding_on_the_page() -> None:
    text = page.render(results(finding("a note", "note"), finding("slow"), finding("wrong", "error")))
    for number, claim in enumerate(("wrong", "slow"), start=1):
        assert f'<a href="#finding-{number}">{claim}</a>' in text
        assert claim in text.partition(f'id="finding-{number}"')[2].partition("</li>")[0]


@pytest.mark.parametrize(
    ("verdict", "held", "why"),
    [
        ("too short", ["a.b", "c.d"], "the run was too short (2 findings withheld)"),
        ("too short", [], "the run was too short"),
        ("busy", ["a.b"], "the machine was busy (1 finding withheld)"),
        ("held back", [], "the run was throttled or deprioritised"),
        ("interrupted", [], "the run was stopped before its end"),
        ("quiet", ["a.b"], "too few visits were made for an interval (1 finding withheld)"),
    ],
)
def test_what_could_not_be_judged_is_said(verdict: str, held: list[str], why: str) -> None:
    shown = results(verdict=verdict, withheld=held)
    assert str(problems(shown)) == f"Problems are not ruled out: {why}"
    assert all(NONE_FOUND not in screen and "Problems are not ruled out" in screen for screen in screens(shown))
    beside = problems(results(finding("slow"), verdict=verdict, withheld=held))
    assert str(beside) == f"1 problem: slow. Other problems are not ruled out: {why}"


def test_a_withheld_note_is_no_problem_and_is_counted_with_the_findings() -> None:
    shown = results(verdict="quiet", withheld=["a.b"], withheld_problems=0)
    assert problems(shown).lead == NONE_FOUND
    assert all(NONE_FOUND in screen and "1 finding withheld" in screen for screen in screens(shown))


def test_a_run_without_a_number_of_this_machine_judges_nothing() -> None:
    assert "no row has a number" in str(problems(example_runs.empty()))
    foreign = [msgspec.structs.replace(row, clock="instructions") for row in example_runs.small().index.rows]
    assert "nothing was timed on this machine" in str(problems(example_runs.with_rows(results(), foreign)))


def test_a_run_that_is_measured_has_not_been_judged_yet(tmp_path: Path) -> None:
    with (tmp_path / JOURNAL).open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        told = problems(results(verdict="interrupted", status="measuring", folder=str(tmp_path)))
    assert str(told) == "Problems are not ruled out: the run is still being measured"
