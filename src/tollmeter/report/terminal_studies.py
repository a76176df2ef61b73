# SPDX-License-Identifier: Apache-2.0
"""A study's own answer on a terminal: its claims, its listing, its programs, its curves."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from tollmeter.model import Book, Suite
from tollmeter.report import ways_out
from tollmeter.report.attempts import listings
from tollmeter.report.columns import INDENT, print_table, width_of, wrapped
from tollmeter.report.lengths import Section, sections
from tollmeter.report.profiles import Block
from tollmeter.report.programs import attribution_table, in_words, program_remarks, program_tables, why_not
from tollmeter.report.studies import answers_of, claims_table, remarks
from tollmeter.studies.attribution import Attribution, largest


def study(book: Book, suite: Suite, console: Console) -> None:
    """Prints a study's question, what it published, what this machine says, a sentence for each gap, and its curves."""
    width = width_of(console)
    wrapped(console, suite.question, width, style="bold")
    if suite.source:
        wrapped(console, f"Source: {suite.source}", width, style="dim")
    answered = answers_of(book, suite)
    for sentence in answered.sentences:
        wrapped(console, sentence, width)
    if answered.answers:
        console.print()
        print_table(claims_table(answered.answers), console, width)
        console.print()
    for number, remark in remarks(answered.answers):
        wrapped(console, f"{number:<4} {remark}", width, hanging=5)
    _attempts(book, console, width)
    _programs(book, console, width)
    blocks(ways_out.answer(book, suite), console)
    _lengths(book, console, width)


def _attempts(book: Book, console: Console, width: int) -> None:
    """A study's listing, place by place."""
    for table, sentences in listings(book):
        console.print()
        print_table(table, console, width)
        for sentence in sentences:
            wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)


def _programs(book: Book, console: Console, width: int) -> None:
    """The study's own tables, what its largest differences are made of, and whether it is worth it."""
    for table in program_tables(book):
        console.print()
        print_table(table, console, width)
    attribution(largest(book), console, width)
    for sentence in program_remarks(book):
        wrapped(console, sentence, width, hanging=INDENT)


def attribution(attributions: Sequence[Attribution], console: Console, width: int | None = None) -> None:
    """Prints what differences are made of; nothing where there is none."""
    if not attributions:
        return
    width = width or width_of(console)
    console.print()
    print_table(attribution_table(attributions), console, width)
    for sentence in (*map(in_words, attributions), *why_not(attributions)):
        wrapped(console, sentence, width, hanging=INDENT)
    console.print()


def _lengths(book: Book, console: Console, width: int) -> None:
    """Of each place where there is something to compare the kernel that was swept most; the others by name."""
    every = sections(book)
    shown = [section for section in every if section.first and section.several]
    for section in shown:
        console.print()
        if section.place:
            wrapped(console, f"In {section.place}", width, style="bold")
        for table in (section.rates, section.gains, section.modelled):
            if table is not None:
                print_table(table, console, width)
        for sentence in section.sentences:
            wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)
    more = [name for part in ("title", "place") for name in _unseen(every, shown, part)]
    if shown and more:
        console.print()
        wrapped(console, f"More of these on the page and with --format md: {'; '.join(more)}.", width, hanging=INDENT)


def _unseen(every: Sequence[Section], shown: Sequence[Section], part: str) -> list[str]:
    """Titles or places of which nothing was shown."""
    seen = {getattr(section, part) for section in shown}
    return [name for name in dict.fromkeys(getattr(section, part) for section in every) if name and name not in seen]


def blocks(parts: Sequence[Block], console: Console) -> None:
    """Prints titles, tables and sentences that belong together."""
    width = width_of(console)
    for block in parts:
        console.print()
        for title in block.titles:
            wrapped(console, title, width, style="bold")
        for table in block.tables:
            print_table(table, console, width)
        for sentence in block.sentences:
            wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)
