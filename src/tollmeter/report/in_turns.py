# SPDX-License-Identifier: Apache-2.0
"""What points that were visited in turns differ by, in a sentence each."""

from __future__ import annotations

from tollmeter.model import Book, Opposed, Uncompared
from tollmeter.report.numbers import plain
from tollmeter.report.tables import with_sizes

LEAST_TIMES = 2
"""From twice as much on a change is told as how many times: 301 times, and not +30066 %."""


def sentences(book: Book) -> list[str]:
    """Of each pair that has a ratio, and then of each that has none, in the order in which they were asked for."""
    compared = [_sentence(told, book) for told in book.index.opposed]
    return compared + [_gap(told, book) for told in book.index.run.uncompared]


def of_one_ratio(book: Book) -> str:
    """What the only ratio says; empty where there are several, or none."""
    told = sentences(book)
    return told[0] if book.index.opposed and len(told) == 1 else ""


def below_the_headline(book: Book) -> list[str]:
    """The headline has the only ratio."""
    return [] if of_one_ratio(book) else sentences(book)


def _gap(told: Uncompared, book: Book) -> str:
    point, against = (with_sizes(name, book) for name in (told.point, told.against))
    return f"{point} against {against}: not compared, {told.reason}"


def _sentence(told: Opposed, book: Book) -> str:
    """What a pair says, with its interval."""
    verdict = "no difference is resolved" if told.verdict == "cannot tell" else told.verdict
    point, against = (with_sizes(name, book) for name in (told.point, told.against))
    return f"{point}, {told.metric}, against {against}: {verdict}, {_by(told)}, from {told.blocks} interleaved layouts"


def _by(told: Opposed) -> str:
    if told.ratio >= LEAST_TIMES:
        return f"{plain(told.ratio)} × ({plain(told.low)} to {plain(told.high)} ×)"
    change, low, high = (f"{100 * (end - 1):+.2f}" for end in (told.ratio, told.low, told.high))
    return f"{change} % ({low} to {high} %)"
