# SPDX-License-Identifier: Apache-2.0
"""Sentences and tables on a terminal, 40 to 100 wide: a number stays with its unit, and a command is never broken.

A command inside a sentence is between backticks, and is written `toll ...` where it is Tollmeter's own: it is replaced
by the command that the user types here when the sentence is printed."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from math import log

from rich.console import Console
from rich.text import Text

from tollmeter.model import printable
from tollmeter.report.blocks import Block, Figure, Listing, Table, without_column
from tollmeter.root import typed

UNBROKEN = "\N{NO-BREAK SPACE}"
NUMBER = re.compile(r"(?<![\w/.-])([+-]?\d[\d.,]*) (?=[\w%])")
"""A number, and the blank before its unit. A number in a path does not match."""
CODE = re.compile(r"`([^`]+)`")
UNDIVIDED = re.compile(r"`[^`]+`|(?<!\w)'[^']*'(?!\w)")
"""A command, or a quoted word of one. An apostrophe after a letter begins no quotation."""


def bound(text: str) -> str:
    """Returns text with no-break spaces between numbers and units. It must not be copied into a shell, which does not
    split words at them."""
    return NUMBER.sub(rf"\1{UNBROKEN}", text)


def wrap(text: str, width: int, *, first: int = 0, hanging: int = 0) -> list[str]:
    """Returns wrapped lines. first, hanging: indents of the first and of other lines. A longer word or command is not
    broken."""
    joined = UNDIVIDED.sub(lambda match: match[0].replace(" ", UNBROKEN), bound(spoken(text)))
    broken = textwrap.wrap(joined, width, initial_indent=" " * first, subsequent_indent=" " * hanging,
                           break_long_words=False, break_on_hyphens=False)  # fmt: skip
    return [line.replace(UNBROKEN, " ") for line in broken]


def parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yields the text in pieces, each with whether it is a command."""
    return ((piece, place % 2 == 1) for place, piece in enumerate(CODE.split(spoken(text))) if piece)


def spoken(text: str) -> str:
    """Returns text in which Tollmeter's own commands have the form in which they are typed here."""
    return re.sub(r"`(?:\./)?toll ", lambda _: f"`{typed()} ", text)


# ---- columns --------------------------------------------------------------------------------------------------------

WIDEST, NARROWEST = 100, 40
INDENT = 2
LEAST_LABEL = 12


def width_of(console: Console) -> int:
    return max(NARROWEST, min(WIDEST, console.width))


def wrapped(console: Console, text: str, *, style: str = "", hanging: int = 0, first: int = 0) -> None:
    """Prints a text wrapped at the console's width. A path longer than a line is not broken, so that it can be copied.
    first, hanging: indents of the first and of other lines."""
    for line in wrap(printable(text), width_of(console), first=first, hanging=hanging):
        print_line(console, Text(line, style=style))


def with_command(console: Console, words: str, command: str, *, first: int = 0, hanging: int = 4) -> None:
    """Prints words, then a command; on its own line if both do not fit into one. The command is never broken."""
    line = f"{'':{first}}{words} {printable(command)}"
    fits = len(line) <= width_of(console)
    for printed in [line] if fits else [f"{'':{first}}{words}", f"{'':{hanging}}{printable(command)}"]:
        print_line(console, Text(printed))


def print_line(console: Console, line: Text) -> None:
    console.print(line, soft_wrap=True, highlight=False)


# ---- tables -----------------------------------------------------------------------------------------------------


def print_blocks(blocks: Iterable[Block], console: Console) -> None:
    """Prints the blocks of a view. An empty line is above a heading and on both sides of a table, but not between
    them."""
    before: Block | None = None
    for block in blocks:
        is_below = isinstance(before, Table) or (isinstance(before, Listing) and not before.indent)
        if isinstance(block, str):
            wrapped(console, block, hanging=INDENT)
        elif isinstance(block, Table):
            if not is_below:
                console.print()
            print_table(block, console)
            console.print()
        elif block.indent:
            for line in block.lines:
                print_line(console, Text(f"{'':{block.indent}}{printable(line)}"))
        else:
            if not is_below:
                console.print()
            for line in block.lines:
                wrapped(console, line, style="bold", hanging=INDENT)
        before = block


def print_table(table: Table, console: Console) -> None:
    for line in table_lines(table, width_of(console)):
        print_line(console, line)


def table_lines(table: Table, width: int) -> list[Text]:
    """Returns columns three blanks apart, or fewer in a narrow terminal. If that is too wide, columns are dropped by
    their `spare` value, highest first, and columns of words are wrapped. A number is never broken."""
    while any(column.spare for column in table.columns) and _least_width(table, width * 2 // 5) > width:
        table = without_column(table, max(range(len(table.columns)), key=lambda place: table.columns[place].spare))
    columns = [_column(table, place) for place in range(len(table.columns))]
    widths = [max(map(len, column)) for column in columns]
    gap = next((gap for gap in (3, 2) if _total(widths, gap) <= width), 1)
    least = {place: _longest_word(columns[place]) for place in range(len(widths)) if _is_words(table, place)}
    _give_way(widths, least, width - _total([], gap), gap)
    head = Text(table.title.ljust(widths[0] + INDENT), style="bold")
    for column, (name, *_), wide in zip(table.columns[1:], columns[1:], widths[1:], strict=True):
        head.append(" " * gap)
        head.append(name.rstrip().ljust(wide) if column.name else " " * wide, style="not bold dim")
    head.rstrip()
    lines = [head]
    for row, *cells in zip(table.rows, *(column[1:] for column in columns), strict=True):
        lines += _row([cell.rstrip() for cell in cells], printable(row.note), widths, gap, width)
    return lines


def _least_width(table: Table, words: int) -> int:
    """Returns the width of the table with words of at most the stated widths, and one blank between columns."""
    widths = [max(map(len, _column(table, place))) for place in range(len(table.columns))]
    return _total([min(wide, words) if _is_words(table, place) else wide for place, wide in enumerate(widths)], 1)


def _is_words(table: Table, place: int) -> bool:
    column = table.columns[place]
    return not (column.right or column.is_whole) and all(isinstance(row.cells[place], str) for row in table.rows)


def _longest_word(column: Sequence[str]) -> int:
    """Returns the width of a column's longest word, with the indent of further lines: a narrower column would break a
    word or number."""
    words = (word for text in column for word in re.split(r"[\s-]+", text))
    return max(LEAST_LABEL, INDENT + max(map(len, words), default=0))


def _give_way(widths: list[int], least: Mapping[int, int], room: int, gap: int) -> None:
    """Narrows columns until all fit: first the widest column of words that exceeds its minimum, one character at a
    time; then the widest columns to their labels, which breaks words."""
    for floor in (least, dict.fromkeys(least, LEAST_LABEL)):
        while sum(widths) + gap * len(widths) > room:
            wide = [place for place in least if widths[place] > floor[place]]
            if not wide:
                break
            widths[max(wide, key=lambda place: widths[place])] -= 1


def _total(widths: Sequence[int], gap: int) -> int:
    return INDENT + sum(widths) + gap * (len(widths) - 1)


def _column(table: Table, place: int) -> list[str]:
    """Returns heading and cells as text of one width, with numbers, units and intervals aligned."""
    cells = [row.cells[place] for row in table.rows]
    figures = [cell for cell in cells if isinstance(cell, Figure)]
    number, unit, sure = (max((len(getattr(figure, part)) for figure in figures), default=0)
                          for part in ("number", "unit", "sure"))  # fmt: skip
    texts = [table.columns[place].name]
    for cell in cells:
        if isinstance(cell, Figure):
            interval = f" {cell.sure:<{sure}}" if sure else ""
            texts.append(f"{cell.number:>{number}} {cell.unit:<{unit}}{interval}")
        else:
            texts.append(printable(cell))
    most = max(map(len, texts))
    is_right = table.columns[place].right and not sure
    return [text.rjust(most) if is_right else text.ljust(most) for text in texts]


def _row(cells: Sequence[str], note: str, widths: Sequence[int], gap: int, width: int) -> list[Text]:
    """Returns one line, or more if words are wrapped, with an indent that distinguishes them from a row; a note is at
    its end, or below if it does not fit."""
    wrapped = [
        [cell] if len(cell) <= wide else textwrap.wrap(cell, wide, subsequent_indent=" " * INDENT)
        for cell, wide in zip(cells, widths, strict=True)
    ]
    lines = []
    for turn, pieces in enumerate(zip_longest(*wrapped, fillvalue="")):
        line = Text(" " * INDENT)
        for place, (piece, wide) in enumerate(zip(pieces, widths, strict=True)):
            line.append(" " * gap if place else "")
            line.append(piece.ljust(wide), style="bold yellow" if piece.strip() == "≠" and not turn else "")
        line.rstrip()
        lines.append(line)
    if note and len(lines) == 1 and len(lines[0]) + gap + len(note) <= width:
        lines[0].append(" " * gap).append(note, style="dim")
        note = ""
    return [*lines, *(Text(" " * (INDENT * 2) + more, style="dim") for more in wrap(note, width - INDENT * 2))]


# ---- intervals ------------------------------------------------------------------------------------------------------

SCALE = 26
"""Width of a drawing beside six columns of numbers, in 80 columns."""


def interval(
    low: float | None, value: float | None, high: float | None, ends: tuple[float, float], signs: str = "├─●┤"
) -> str:
    """Draws an interval and its value as text. The scale is logarithmic if both of its ends are positive. ends: ends of
    the scale. signs: four characters, for the lower end, the line, the value and the upper end."""
    if value is None:
        return ""
    first, place, last = (position_on_scale(at if at is not None else value, ends) for at in (low, value, high))
    drawn = ["·"] * SCALE
    drawn[first : last + 1] = signs[1] * (last + 1 - first)
    drawn[first], drawn[last] = signs[0], signs[3]
    drawn[place] = signs[2]
    return "".join(drawn)


def position_on_scale(value: float, ends: tuple[float, float], places: int = SCALE) -> int:
    """Returns the position of a value on a scale. places: characters of the scale."""
    low, high = ends
    if low > 0 and value > 0:
        low, value, high = log(low), log(value), log(high)
    share = (value - low) / (high - low) if high > low else 0.5
    return min(places - 1, max(0, int(share * places)))
