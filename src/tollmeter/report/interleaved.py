# SPDX-License-Identifier: Apache-2.0
"""Results of interleaved comparisons, a sentence each."""

from __future__ import annotations

from tollmeter.model import Book, Opposed, Uncompared
from tollmeter.report.numbers import plain
from tollmeter.report.tables import with_sizes

LEAST_TIMES = 2
"""From twice as much on a change is printed as a multiple: 301 times, and not +30066 %."""


def sentences(book: Book) -> list[str]:
    """One sentence for each pair with a ratio, then one for each pair without, in the order of the request."""
    compared = [_sentence(pair, book) for pair in book.index.opposed]
    return compared + [_gap(pair, book) for pair in book.index.run.uncompared]


def of_one_ratio(book: Book) -> str:
    """The sentence of the only ratio; empty where there are several, or none."""
    all_sentences = sentences(book)
    return all_sentences[0] if book.index.opposed and len(all_sentences) == 1 else ""


def below_the_headline(book: Book) -> list[str]:
    """The headline has the only ratio."""
    return [] if of_one_ratio(book) else sentences(book)


def _gap(pair: Uncompared, book: Book) -> str:
    point, against = (with_sizes(name, book) for name in (pair.point, pair.against))
    return f"{point} against {against}: not compared, {pair.reason}"


def _sentence(pair: Opposed, book: Book) -> str:
    """The ratio of a pair, with its interval."""
    verdict = "no difference is resolved" if pair.verdict == "cannot tell" else pair.verdict
    point, against = (with_sizes(name, book) for name in (pair.point, pair.against))
    return f"{point}, {pair.metric}, against {against}: {verdict}, {_by(pair)}, from {pair.blocks} interleaved layouts"


def _by(pair: Opposed) -> str:
    if pair.ratio >= LEAST_TIMES:
        return f"{plain(pair.ratio)} × ({plain(pair.low)} to {plain(pair.high)} ×)"
    change, low, high = (f"{100 * (end - 1):+.2f}" for end in (pair.ratio, pair.low, pair.high))
    return f"{change} % ({low} to {high} %)"
