# SPDX-License-Identifier: Apache-2.0
"""A run of few probes begins with their numbers, though no line of any table is known to the report."""

from __future__ import annotations

import re

import msgspec
import pytest

from support import example_runs, study_run
from support.example_runs import with_run
from support.rendered import screens
from tollmeter.model import Opposed, Point, Results
from tollmeter.report.headline import FEW_PROBES, below_the_headline, headline, sentences
from tollmeter.report.numbers import in_a_sentence, of_row
from tollmeter.report.page import render

UNKNOWN = ("alignment.access", "alignment.copy", "float.dot", "memory.line", "memory.parallelism")


def of(*probes: str, points: int = 1) -> Results:
    """Results of these probes' first metrics at so many points, without levels."""
    results = example_runs.healthy(("x86_64",))
    bare = example_runs.with_index(results, hierarchy=())
    first = {name: results.probes[name].metrics[0].name for name in probes}
    rows = [[row for row in results.index.rows if (row.probe, row.metric) == found] for found in first.items()]
    return example_runs.with_rows(bare, [row for found in rows for row in found[:points]])


@pytest.mark.parametrize("probe", UNKNOWN)
def test_a_run_of_one_point_begins_with_its_number_in_the_metrics_words(probe: str) -> None:
    results = of(probe)
    (row,) = results.index.rows
    assert in_a_sentence(of_row(row)) in headline(results)
    assert results.probes[probe].metrics[0].summary in headline(results)


def test_a_run_of_several_points_begins_with_the_least_and_the_greatest() -> None:
    results = of("memory.parallelism", points=5)
    rows = sorted(results.index.rows, key=lambda row: row.median or 0.0)
    assert all(in_a_sentence(of_row(end)) in headline(results) for end in (rows[0], rows[-1]))


def test_beside_a_system_call_an_unknown_probe_has_its_number_too() -> None:
    results = of(UNKNOWN[0])
    known = example_runs.healthy(("x86_64",))
    (toll,) = [toll for toll in known.index.tolls if toll.typical and toll.probe == "kernel.enter_syscall"][:1]
    both = example_runs.with_index(results, tolls=(toll,))
    assert headline(both).startswith("A system call takes ") and headline(both).endswith(headline(results))
    entry = next(row for row in known.index.rows if row.probe == toll.probe)
    alone = example_runs.with_rows(example_runs.with_index(results, tolls=(toll,)), [entry])
    assert toll.probe not in headline(alone)


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


def test_many_probes_compared_points_and_studies_have_other_sentences() -> None:
    assert headline(of(*UNKNOWN[:FEW_PROBES])) and not headline(of(*UNKNOWN[: FEW_PROBES + 1]))
    one = of(UNKNOWN[0])
    pair = Opposed(metric="m", unit="ns", point="a", against="b", ratio=1, low=1, high=1, blocks=7, verdict="slower")
    assert not headline(msgspec.structs.replace(one, suite=study_run.study().suite))
    compared = example_runs.with_index(one, opposed=(pair,))
    assert headline(compared) == f"{sentences(compared)[0]}."
    several = example_runs.with_index(one, opposed=(pair, pair))
    assert not headline(several) and below_the_headline(several) == sentences(several)


def test_a_run_whose_question_has_no_answer_says_so_first_on_terminal_page_and_in_markdown() -> None:
    why = "1 of the 5 layouts that a ratio needs; --budget 40s would do"
    results = with_run(of(UNKNOWN[0]), unanswered=why)
    said = f"This run did not produce the requested numbers: {why}."
    assert headline(results).startswith(said)
    terminal, text, page = screens(results)
    assert terminal.startswith(said) and said in text and f'<p class="lead">{said}' in page


@pytest.mark.parametrize(("limited", "points", "said"), [(2, 2, True), (1, 2, True), (1, 3, False), (0, 0, False)])
def test_that_runs_differ_by_more_than_was_asked_for_is_said_with_the_answer(
    limited: int, points: int, said: bool
) -> None:
    results = with_run(of(UNKNOWN[0]), limited=limited, points=points, precision=0.01)
    assert ("Runs of this machine differ by more than 1 %" in headline(results)) is said
    assert headline(results).startswith(headline(of(UNKNOWN[0]))), "behind the answer"
