# SPDX-License-Identifier: Apache-2.0
"""A run of few probes begins with their numbers, though no line of any table is known to the report."""

from __future__ import annotations

import msgspec
import pytest

import answers
import example_runs
from example_runs import with_run
from screens import screens
from tollmeter.model import Opposed, Results
from tollmeter.report.headline import FEW_PROBES, below_the_headline, headline, sentences
from tollmeter.report.numbers import in_a_sentence, of_row

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


def test_many_probes_compared_points_and_studies_have_other_sentences() -> None:
    assert headline(of(*UNKNOWN[:FEW_PROBES])) and not headline(of(*UNKNOWN[: FEW_PROBES + 1]))
    one = of(UNKNOWN[0])
    pair = Opposed(metric="m", unit="ns", point="a", against="b", ratio=1, low=1, high=1, blocks=7, verdict="slower")
    assert not headline(msgspec.structs.replace(one, suite=answers.study().suite))
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
