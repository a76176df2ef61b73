# SPDX-License-Identifier: Apache-2.0
"""The line that says whether the machine is set up right: never that it is where nothing could be seen."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.rendered import of_blocks, screens
from support.snapshots import approve
from tollmeter.model import Evidence, Finding, Results, Severity
from tollmeter.report import page
from tollmeter.report.headline import MOST_NAMED, problems
from tollmeter.store.journal import NAME as JOURNAL


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


ENTRIES = [row for row in example_runs.small().index.rows if row.probe == "kernel.enter_syscall"]
FOREIGN = [msgspec.structs.replace(row, clock="instructions") for row in example_runs.small().index.rows]
SLOW, WRONG, NOTE = finding("slow: since the clock is"), finding("wrong", "error"), finding("later", "note")
RUNS = {
    "a note is no problem": results(NOTE),
    "a small run names the little that it measured": example_runs.with_rows(results(), ENTRIES),
    "the gravest is named first": results(NOTE, SLOW, WRONG),
    "one problem": results(SLOW),
    "many problems": results(*(finding(f"claim {number}") for number in range(MOST_NAMED + 2))),
    "too short, with withheld problems": results(verdict="too short", withheld=["a.b", "c.d"]),
    "too short": results(verdict="too short"),
    "too short, with a problem": results(SLOW, verdict="too short"),
    "busy": results(verdict="busy", withheld=["a.b"]),
    "throttled": results(verdict="held back"),
    "stopped": results(verdict="interrupted"),
    "too few visits": results(verdict="quiet", withheld=["a.b"]),
    "too few visits, with a problem": results(SLOW, verdict="quiet", withheld=["a.b"]),
    "a withheld note is counted with the findings": results(verdict="quiet", withheld=["a.b"], withheld_problems=0),
    "no row": example_runs.empty(),
    "rows of an emulator alone": example_runs.with_rows(results(), FOREIGN),
}


def test_the_sentence_about_problems() -> None:
    approve("problems", of_blocks(f"{title}: {problems(of)}" for title, of in RUNS.items()))


@pytest.mark.parametrize("title", ["a note is no problem", "the gravest is named first", "busy", "too few visits"])
def test_it_stands_on_all_screens(title: str) -> None:
    said = problems(RUNS[title])
    assert all(said.lead in screen for screen in screens(RUNS[title]))


def test_each_problem_leads_to_its_finding_on_the_page() -> None:
    text = page.render(results(finding("a note", "note"), finding("slow"), finding("wrong", "error")))
    for number, claim in enumerate(("wrong", "slow"), start=1):
        assert f'<a href="#finding-{number}">{claim}</a>' in text
        assert claim in text.partition(f'id="finding-{number}"')[2].partition("</li>")[0]


def test_a_run_that_is_measured_has_not_been_judged_yet(tmp_path: Path) -> None:
    with (tmp_path / JOURNAL).open("w") as journal:
        fcntl.flock(journal, fcntl.LOCK_EX)
        told = problems(results(verdict="interrupted", status="measuring", folder=str(tmp_path)))
    assert str(told) == "Problems are not ruled out: the run is still being measured"
