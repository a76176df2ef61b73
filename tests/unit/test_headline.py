# SPDX-License-Identifier: Apache-2.0
"""A run of few probes begins with their numbers, though no line of any table is known to the report."""

from __future__ import annotations

import msgspec
import pytest

import answers
import books
from tollmeter.model import Book, Opposed
from tollmeter.report.doubt import in_a_sentence, of_row
from tollmeter.report.headline import FEW_PROBES, headline

UNKNOWN = ("alignment.access", "alignment.copy", "float.dot", "memory.line", "memory.parallelism")


def of(*probes: str, points: int = 1) -> Book:
    """A book of these probes' first metrics at so many points, without levels."""
    book = books.healthy(("x86_64",))
    bare = msgspec.structs.replace(book, index=msgspec.structs.replace(book.index, hierarchy=()))
    first = {name: book.probes[name].metrics[0].name for name in probes}
    rows = [[row for row in book.index.rows if (row.probe, row.metric) == found] for found in first.items()]
    return books.with_rows(bare, [row for found in rows for row in found[:points]])


@pytest.mark.parametrize("probe", UNKNOWN)
def test_a_run_of_one_point_begins_with_its_number_in_the_metrics_words(probe: str) -> None:
    book = of(probe)
    (row,) = book.index.rows
    assert in_a_sentence(of_row(row)) in headline(book)
    assert book.probes[probe].metrics[0].summary in headline(book)


def test_a_run_of_several_points_begins_with_the_least_and_the_greatest() -> None:
    book = of("memory.parallelism", points=5)
    rows = sorted(book.index.rows, key=lambda row: row.median or 0.0)
    assert all(in_a_sentence(of_row(end)) in headline(book) for end in (rows[0], rows[-1]))


def test_many_probes_compared_points_and_studies_have_other_sentences() -> None:
    assert headline(of(*UNKNOWN[:FEW_PROBES])) and not headline(of(*UNKNOWN[: FEW_PROBES + 1]))
    one = of(UNKNOWN[0])
    pair = Opposed(metric="m", unit="ns", point="a", against="b", ratio=1, low=1, high=1, blocks=7, verdict="slower")
    compared = msgspec.structs.replace(one.index, opposed=(pair,))
    for other in ({"suite": answers.study().suite}, {"index": compared}):
        assert not headline(msgspec.structs.replace(one, **other))
