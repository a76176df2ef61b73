# SPDX-License-Identifier: Apache-2.0
"""The first sentence, before any table: the answer to the question of the run."""

from __future__ import annotations

from tollmeter.model import Book, Probe, Row
from tollmeter.numbers.meanings import native
from tollmeter.report import interleaved, tables
from tollmeter.report.doubt import in_a_sentence, of_row
from tollmeter.report.ways_out import ways_out
from tollmeter.report.worth import limit, unanswered

FEW_PROBES = 3


def headline(book: Book) -> str:
    """That the question has no answer, where it has none; the answer; and that no longer run makes it more precise."""
    return " ".join(filter(None, (unanswered(book), _answer(book), limit(book))))


def _answer(book: Book) -> str:
    """The advice of a study that has one; the difference of one interleaved pair; else the ends of the hierarchy and of
    the toll table, or the numbers of a few probes. Empty without any."""
    study = book.index.study
    if study is not None and study.worth:
        return study.worth
    if interleaved.of_one_ratio(book):
        return f"{interleaved.of_one_ratio(book)}."
    advice = ways_out(book, book.suite) if book.suite is not None else []
    return advice[0].best if advice else tables.answer(book) or of_few_probes(book)


def of_few_probes(book: Book) -> str:
    """The first metric of each of a few probes. Empty for a study or a comparison, which have their own."""
    is_compared = book.index.opposed or book.index.run.uncompared or (book.suite is not None and book.suite.published)
    own = native(book.index.rows, book.index.machine.architecture) or book.index.rows
    rows = [row for row in own if row.status == "ok" and row.median is not None]
    probes = {row.probe: book.probes[row.probe] for row in rows if row.probe in book.probes}
    if is_compared or len(probes) > FEW_PROBES or len({(row.abi, row.target) for row in rows}) > 1:
        return ""
    parts = [_of_probe(name, probe, [row for row in rows if row.probe == name]) for name, probe in probes.items()]
    return f"{'; '.join(parts)}." if parts else ""


def _of_probe(name: str, probe: Probe, rows: list[Row]) -> str:
    metric = next(metric for metric in probe.metrics if any(row.metric == metric.name for row in rows))
    ordered = sorted((row for row in rows if row.metric == metric.name), key=lambda row: row.median or 0.0)
    ends = dict.fromkeys(in_a_sentence(of_row(row)) for row in (ordered[0], ordered[-1]))
    points = f" at {len(ordered)} points" if len(ordered) > 1 else ""
    return f"{name} measures {' to '.join(ends)}{points}: {metric.summary}"
