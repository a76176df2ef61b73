# SPDX-License-Identifier: Apache-2.0
"""A run of few probes begins with their numbers, though no line of any table is known to the report."""

from __future__ import annotations

import re

import msgspec

from support import example_runs, study_run
from support.example_runs import with_run
from support.rendered import of_blocks, screens
from support.snapshots import approve
from tollmeter.model import Opposed, Point, Results
from tollmeter.report.headline import FEW_PROBES, below_the_headline, headline
from tollmeter.report.page import render

UNKNOWN = ("alignment.access", "alignment.copy", "float.dot", "memory.line", "memory.parallelism")


def of(*probes: str, points: int = 1) -> Results:
    """Results of these probes' first metrics at so many points, without levels."""
    results = example_runs.healthy(("x86_64",))
    bare = example_runs.with_index(results, hierarchy=())
    first = {name: results.probes[name].metrics[0].name for name in probes}
    rows = [[row for row in results.index.rows if (row.probe, row.metric) == found] for found in first.items()]
    return example_runs.with_rows(bare, [row for found in rows for row in found[:points]])


KNOWN = example_runs.healthy(("x86_64",))
CALL = tuple(toll for toll in KNOWN.index.tolls if toll.typical and toll.probe == "kernel.enter_syscall")[:1]
CALLS = [row for row in KNOWN.index.rows if row.probe == "kernel.enter_syscall"][:1]
PAIR = Opposed(metric="m", unit="ns", point="a", against="b", ratio=1, low=1, high=1, blocks=7, verdict="slower")
ONE = of(UNKNOWN[0])
RUNS = {
    **{f"one point of {probe}": of(probe) for probe in UNKNOWN},
    "several points have the least and the greatest": of("memory.parallelism", points=5),
    "beside a system call": example_runs.with_index(ONE, tolls=CALL),
    "a system call alone": example_runs.with_rows(example_runs.with_index(ONE, tolls=CALL), CALLS),
    "as many probes as a headline has": of(*UNKNOWN[:FEW_PROBES]),
    "one probe in two emulators": example_runs.with_rows(ONE, [
        msgspec.structs.replace(row, target=target, clock="virtual") for row in ONE.index.rows
        for target in ("guest:one", "guest:other")
    ]),
    "more probes": of(*UNKNOWN[: FEW_PROBES + 1]),
    "a study without rows of its own": msgspec.structs.replace(ONE, suite=study_run.study().suite),
    "two points that were compared": example_runs.with_index(ONE, opposed=(PAIR,)),
    "several such pairs": example_runs.with_index(ONE, opposed=(PAIR, PAIR)),
    "runs differ by more than was asked for, at all points": with_run(ONE, limited=2, points=2, precision=0.01),
    "at half of the points": with_run(ONE, limited=1, points=2, precision=0.01),
    "at a third of the points": with_run(ONE, limited=1, points=3, precision=0.01),
    "no point": with_run(ONE, limited=0, points=0, precision=0.01),
}  # fmt: skip


def test_what_a_run_begins_with() -> None:
    below = {title: [f"below it: {said}" for said in below_the_headline(run)] for title, run in RUNS.items()}
    blocks = [said for title, run in RUNS.items() for said in (f"{title}: {headline(run)}", *below[title])]
    approve("headlines", of_blocks(blocks))


def charts_of(page: str) -> list[str]:
    return re.findall(r'<(?:figure id="chart-|h2 id=")([\w-]+)', page)


def test_a_page_of_one_probe_opens_with_its_chart_and_shows_it_once() -> None:
    page = render(of("memory.parallelism", points=5))
    assert charts_of(page)[0] == "parallelism" and charts_of(page).count("parallelism") == 1
    assert page.index('id="chart-parallelism"') < page.index('id="findings"') < page.index('id="families"')
    assert 'id="chart-parallelism"' not in render(of(*UNKNOWN, points=5)).partition('id="findings"')[0]


def test_a_page_of_one_point_opens_with_its_samples() -> None:
    results = of("alignment.access")
    (row,) = results.index.rows
    point = Point(probe=row.probe, abi=row.abi, target=row.target, parameters=tuple(row.parameters.items()))
    visits = tuple(msgspec.structs.replace(told, point=point) for told in results.outcomes[:4])
    results = msgspec.structs.replace(results, outcomes=visits)
    assert charts_of(render(results))[0] == "distribution"
    assert "distribution" not in charts_of(render(example_runs.with_rows(results, [row] * 4)))


def test_a_run_whose_question_has_no_answer_says_so_first_on_terminal_page_and_in_markdown() -> None:
    why = "1 of the 5 layouts that a ratio needs; --budget 40s would suffice"
    results = with_run(of(UNKNOWN[0]), unanswered=why)
    said = f"This run did not produce the requested numbers: {why}."
    assert headline(results).startswith(said)
    terminal, text, page = screens(results)
    assert terminal.startswith(said) and said in text and f'<p class="lead">{said}' in page
