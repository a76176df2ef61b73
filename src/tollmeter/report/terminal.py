# SPDX-License-Identifier: Apache-2.0
"""The end of a run on a terminal: the answer in columns, at most 100 wide and readable at 60.

Nothing rests on colour alone, and a control character in a name from a machine never reaches the terminal.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from tollmeter.judgement import opposed
from tollmeter.judgement.attribution import Attribution
from tollmeter.model import Book, Finding, Suite
from tollmeter.report import groups, tables, ways_out, worth
from tollmeter.report.attempts import listings
from tollmeter.report.clocks import clocks_table
from tollmeter.report.inferred import inferred_table
from tollmeter.report.lengths import Section, sections
from tollmeter.report.listing import listing
from tollmeter.report.numbers import Figure, duration
from tollmeter.report.profiles import Block
from tollmeter.report.programs import attribution_table, in_words, largest, program_remarks, program_tables, why_not
from tollmeter.report.studies import claims_table, remarks, told
from tollmeter.report.tables import Cell, Line, Table
from tollmeter.root import COMMAND

WIDEST, NARROWEST = 100, 40
INDENT = 2
LEAST_LABEL = 12
FEW_ROWS, FEW_FINDINGS, FEW_REASONS, MORE_REASONS = 12, 4, 1, 5
SIGN_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


def summary(book: Book, console: Console, *, whole: bool = False) -> None:
    """Prints the answer in a screen and a half of 80 x 24: sentence, verdict, a study's own answer, memory, the best
    known tolls or a small run's rows, findings, what to do next. whole: every line of every table instead.
    """
    width = _width(console)
    _opening(book, console, width)
    if book.suite is not None and book.suite.published:
        study(book, book.suite, console)
    for pair in book.index.opposed:
        _wrapped(console, opposed.sentence(pair), width, hanging=INDENT)
        console.print()
    _heading(book, console, width)
    shown = _all_tables(book) if whole else _few_tables(book)
    for table in shown:
        _print_table(table, console, width)
        console.print()
    if not whole:
        _left_out(book, console, width)
    _findings(book, console, width, whole)
    (_closing if whole else _ending)(book, console, width)


def _opening(book: Book, console: Console, width: int) -> None:
    """What it is, how much that is worth, and whether it is an answer."""
    for line, style in (
        (tables.answer(book), "bold"),
        (worth.verdict(book), ""),
        (worth.unanswered(book), ""),
        (book.index.run.reused, "dim"),
    ):
        if line:
            _wrapped(console, line, width, style=style)
    console.print()


def _all_tables(book: Book) -> list[Table]:
    every = (
        tables.memory_table(book), inferred_table(book), tables.toll_table(book), listing(book), clocks_table(book),
    )  # fmt: skip
    return [table for table in every if table is not None]


def _few_tables(book: Book) -> list[Table]:
    """A few rows are all shown as they are; a study has had its table already."""
    few = listing(book, FEW_ROWS)
    if book.suite is not None and book.suite.published:
        chosen = None
    else:
        chosen = few or _brief(tables.toll_table(book, groups.best_known(book))) or listing(book)
    return [table for table in (tables.memory_table(book), chosen, clocks_table(book)) if table is not None]


def _brief(table: Table | None) -> Table | None:
    """Without the notes: they are in the whole table."""
    return replace(table, rows=tuple(replace(row, note="") for row in table.rows)) if table else None


def _left_out(book: Book, console: Console, width: int) -> None:
    """How much more there is, and what has no number."""
    command = f"{shlex.quote(COMMAND)} show {shlex.quote(book.index.run.folder)} --all"
    numbered = sum(row.status == "ok" for row in book.index.rows)
    if numbered:
        _wrapped(console, f"All {numbered} numbers: {command}", width, first=INDENT, hanging=INDENT * 2)
    if tables.missing(book):
        _wrapped(console, f"{tables.missing(book)}.", width, first=INDENT, hanging=INDENT * 2)
    lost = [row for row in book.index.rows if row.status != "unsupported" or not numbered]
    for _, reason, number in tables.gaps(lost)[: FEW_REASONS if numbered else MORE_REASONS]:
        _wrapped(console, f"{number}: {reason}", width, first=INDENT * 2, hanging=INDENT * 3)


def study(book: Book, suite: Suite, console: Console) -> None:
    """Prints a study's question, what it published, what this machine says, a sentence for each gap, and its curves."""
    width = _width(console)
    console.print()
    _wrapped(console, suite.question, width, style="bold")
    if suite.source:
        _wrapped(console, f"Source: {suite.source}", width, style="dim")
    found = told(book, suite)
    for sentence in (found.tally, *found.common) if found.answers else ():
        _wrapped(console, sentence, width)
    if found.answers:
        console.print()
        _print_table(claims_table(found.answers), console, width)
        console.print()
    for number, said in remarks(found.answers):
        _wrapped(console, f"{number:<4} {said}", width, hanging=5)
    _attempts(book, console, width)
    _programs(book, console, width)
    blocks(ways_out.answer(book, suite), console)
    _lengths(book, console, width)


def _attempts(book: Book, console: Console, width: int) -> None:
    """A study's listing, place by place."""
    for table, said in listings(book):
        console.print()
        _print_table(table, console, width)
        for sentence in said:
            _wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)


def _programs(book: Book, console: Console, width: int) -> None:
    """The study's own tables, what its largest differences are made of, and whether it is worth it."""
    for found in program_tables(book):
        console.print()
        _print_table(found, console, width)
    attribution(largest(book), console, width)
    for sentence in program_remarks(book):
        _wrapped(console, sentence, width, hanging=INDENT)


def attribution(told: Sequence[Attribution], console: Console, width: int | None = None) -> None:
    """Prints what differences are made of; nothing where there is none."""
    if not told:
        return
    width = width or _width(console)
    console.print()
    _print_table(attribution_table(told), console, width)
    for sentence in (*map(in_words, told), *why_not(told)):
        _wrapped(console, sentence, width, hanging=INDENT)
    console.print()


def _lengths(book: Book, console: Console, width: int) -> None:
    """Of each place where there is something to compare the kernel that was swept most; the others by name."""
    found = sections(book)
    shown = [section for section in found if section.first and section.several]
    for section in shown:
        console.print()
        if section.place:
            _wrapped(console, f"In {section.place}", width, style="bold")
        for table in (section.rates, section.gains, section.modelled):
            if table is not None:
                _print_table(table, console, width)
        for sentence in section.said:
            _wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)
    more = [name for part in ("title", "place") for name in _unseen(found, shown, part)]
    if shown and more:
        console.print()
        _wrapped(console, f"More of these on the page and with --format md: {'; '.join(more)}.", width, hanging=INDENT)


def _unseen(found: Sequence[Section], shown: Sequence[Section], part: str) -> list[str]:
    """Titles or places of which nothing was shown."""
    seen = {getattr(section, part) for section in shown}
    return [name for name in dict.fromkeys(getattr(section, part) for section in found) if name and name not in seen]


def blocks(told: Sequence[Block], console: Console) -> None:
    """Prints titles, tables and sentences that belong together."""
    width = _width(console)
    for block in told:
        console.print()
        for title in block.titles:
            _wrapped(console, title, width, style="bold")
        for table in block.tables:
            _print_table(table, console, width)
        for sentence in block.said:
            _wrapped(console, sentence, width, first=INDENT, hanging=INDENT * 2)


def clean(text: str) -> str:
    """Control characters, escape sequences among them, become a visible mark."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _width(console: Console) -> int:
    return max(NARROWEST, min(WIDEST, console.width))


def _heading(book: Book, console: Console, width: int) -> None:
    _wrapped(console, " · ".join([*tables.machine_facts(book), duration(book.index.run.seconds)]), width, style="dim")
    console.print()


def _findings(book: Book, console: Console, width: int, whole: bool) -> None:
    """Each with its remedy where all is shown; else the gravest in a line or two."""
    found, held = tables.findings(book), worth.held_back(book)
    if found or held:
        _out(console, Text("Findings", style="bold"))
    for finding in found if whole else found[:FEW_FINDINGS]:
        _finding(finding, console, width, whole)
    if len(found) > FEW_FINDINGS and not whole:
        _indented(console, [f"and {len(found) - FEW_FINDINGS} more"], "dim")
    if held:
        _wrapped(console, held, width, first=INDENT, hanging=INDENT * 2, style="dim")
    if found or held:
        console.print()


def _finding(finding: Finding, console: Console, width: int, whole: bool) -> None:
    sign = tables.SIGNS[finding.severity]
    body = textwrap.wrap(clean(finding.claim), width - INDENT - 3) or [""]
    _out(
        console,
        Text(f"{'':{INDENT}}{sign:<3}", style=SIGN_STYLES[finding.severity]).append(body[0], style="not bold default"),
    )
    _indented(console, body[1:], "")
    if whole:
        _indented(console, textwrap.wrap(clean(finding.remedy), width - INDENT - 3), "dim")


def _indented(console: Console, lines: Sequence[str], style: str) -> None:
    for line in lines:
        _out(console, Text(f"{'':{INDENT + 3}}{line}", style=style))


def _closing(book: Book, console: Console, width: int) -> None:
    """All that is known of the run as a whole, and every reason for a gap."""
    for sentence in (tables.unfinished(book), book.index.run.summary, tables.sureness(book), tables.missing(book)):
        if sentence:
            _wrapped(console, tables.upper(sentence), width)
    for status, reason, number in tables.gaps(book.index.rows):
        _wrapped(console, f"{status.replace('_', ' ')} ({number}): {reason}", width, hanging=INDENT * 2, first=INDENT)
    _ending(book, console, width)


def _ending(book: Book, console: Console, width: int) -> None:
    """Where the page is, and what to do next."""
    folder = shlex.quote(book.index.run.folder)
    where = tables.report_path(book) or f"not written yet: {shlex.quote(COMMAND)} report {folder}"
    for line in (f"Page  {where}", f"Next  {worth.next_step(book)}"):
        _wrapped(console, line, width, hanging=6)


def _wrapped(console: Console, text: str, width: int, *, style: str = "", hanging: int = 0, first: int = 0) -> None:
    """Words wrapped at the width; a path longer than a line is left whole, so that it can be copied."""
    lines = textwrap.wrap(clean(text), width, initial_indent=" " * first, subsequent_indent=" " * hanging,
                          break_long_words=False, break_on_hyphens=False)  # fmt: skip
    for line in lines:
        _out(console, Text(line, style=style))


def _out(console: Console, line: Text) -> None:
    console.print(line, soft_wrap=True, highlight=False)


# ---- tables -----------------------------------------------------------------------------------------------------


def _print_table(table: Table, console: Console, width: int) -> None:
    for line in table_lines(table, width):
        _out(console, line)


def table_lines(table: Table, width: int) -> list[Text]:
    """Columns three blanks apart, fewer where it is narrow; then columns that can be spared go, the most spare first,
    and columns of words give way and are wrapped. A number is never broken."""
    while _least_width(table, width * 2 // 5) > width and any(column.spare for column in table.columns):
        table = _without_spare(table)
    columns = [_column(table, place) for place in range(len(table.columns))]
    widths = [max(map(len, column)) for column in columns]
    gap = next((gap for gap in (3, 2) if _total(widths, gap) <= width), 1)
    _give_way(widths, [place for place in range(len(widths)) if _is_words(table, place)], width - _total([], gap), gap)
    lines = [_head(table, widths, gap)]
    for place, row in enumerate(table.rows):
        lines += _row(row, [column[place + 1] for column in columns], widths, gap, width)
    return lines


def _least_width(table: Table, words: int) -> int:
    """With its words no wider than told, and one blank between columns."""
    whole = [max(map(len, _column(table, place))) for place in range(len(table.columns))]
    least = [min(wide, words) if _is_words(table, place) else wide for place, wide in enumerate(whole)]
    return _total(least, 1)


def _without_spare(table: Table) -> Table:
    gone = max(range(len(table.columns)), key=lambda place: table.columns[place].spare)
    rows = [replace(row, cells=(*row.cells[:gone], *row.cells[gone + 1 :])) for row in table.rows]
    return replace(table, columns=(*table.columns[:gone], *table.columns[gone + 1 :]), rows=tuple(rows))


def _is_words(table: Table, place: int) -> bool:
    return not table.columns[place].right and all(isinstance(row.cells[place], str) for row in table.rows)


def _give_way(widths: list[int], words: Sequence[int], room: int, gap: int) -> None:
    """Takes from the widest column of words, one letter after the other, until all fit."""
    while sum(widths) + gap * len(widths) > room:
        widest = max(words, key=lambda place: widths[place])
        if widths[widest] <= LEAST_LABEL:
            return
        widths[widest] -= 1


def _total(widths: Sequence[int], gap: int) -> int:
    return INDENT + sum(widths) + gap * (len(widths) - 1)


def _column(table: Table, place: int) -> list[str]:
    """Heading and cells as text of one width: numbers, units and intervals each below each other."""
    cells = [row.cells[place] for row in table.rows]
    parts = [_parts(cell) for cell in cells]
    wide = [max((len(part[index]) for part in parts if len(part) > 1), default=0) for index in range(3)]
    right = table.columns[place].right
    texts = [_aligned(part, wide) for part in parts]
    most = max([len(text) for text in texts] + [len(table.columns[place].name)])
    figures = any(isinstance(cell, Figure) for cell in cells)
    return [
        _pad(table.columns[place].name, most, right and not wide[2]),
        *(_pad(text, most, right and not (figures and wide[2])) for text in texts),
    ]


def _parts(cell: Cell) -> tuple[str, ...]:
    if isinstance(cell, Figure):
        return cell.number, cell.unit, cell.sure
    return (clean(cell),)


def _aligned(part: tuple[str, ...], wide: Sequence[int]) -> str:
    if len(part) == 1:
        return part[0]
    number, unit, sure = part
    return f"{number:>{wide[0]}} {unit:<{wide[1]}}" + (f" {sure:<{wide[2]}}" if wide[2] else "")


def _pad(text: str, width: int, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _head(table: Table, widths: Sequence[int], gap: int) -> Text:
    line = Text(table.title.ljust(widths[0] + INDENT), style="bold")
    for place, column in enumerate(table.columns[1:], start=1):
        name = _column(table, place)[0].rstrip()
        line.append(" " * gap).append(
            name.ljust(widths[place]) if column.name else " " * widths[place], style="not bold dim"
        )
    return _trimmed(line)


def _row(row: Line, cells: Sequence[str], widths: Sequence[int], gap: int, width: int) -> list[Text]:
    """One line, more where words are wrapped; a note stands behind it, or below where it does not fit."""
    wrapped = [_in_column(cell, wide) for cell, wide in zip(cells, widths, strict=True)]
    lines = [_line([cell[turn] if turn < len(cell) else "" for cell in wrapped], widths, gap, turn)
             for turn in range(max(map(len, wrapped)))]  # fmt: skip
    note = clean(row.note)
    if note and len(lines) == 1 and len(lines[0]) + gap + len(note) <= width:
        lines[0].append(" " * gap).append(note, style="dim")
        note = ""
    return [*lines, *(Text(" " * (INDENT * 2) + more, style="dim") for more in textwrap.wrap(note, width - INDENT * 2))]


def _in_column(cell: str, wide: int) -> list[str]:
    """The further lines of words are set in, so that they are no row of their own."""
    if len(cell.rstrip()) <= wide:
        return [cell.rstrip()]
    return textwrap.wrap(cell.rstrip(), wide, subsequent_indent=" " * INDENT) or [""]


def _line(cells: Sequence[str], widths: Sequence[int], gap: int, turn: int) -> Text:
    line = Text(" " * INDENT)
    for place, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        line.append(" " * gap if place else "")
        line.append(cell.ljust(wide), style="bold yellow" if cell.strip() == "!" and not turn else "")
    return _trimmed(line)


def _trimmed(line: Text) -> Text:
    line.rstrip()
    return line
