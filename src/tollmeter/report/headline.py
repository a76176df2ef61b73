# SPDX-License-Identifier: Apache-2.0
"""The sentence that stands first, before any table: what was asked, answered."""

from __future__ import annotations

from tollmeter.model import Book
from tollmeter.report import tables
from tollmeter.report.ways_out import ways_out


def headline(book: Book) -> str:
    """Of a study that ends in advice, that advice for this machine; of any other run the ends of the hierarchy and of
    the toll table. Empty where there is neither."""
    study = book.index.study
    if study is not None and study.worth:
        return study.worth
    found = ways_out(book, book.suite) if book.suite is not None else []
    return found[0].best if found else tables.answer(book)
