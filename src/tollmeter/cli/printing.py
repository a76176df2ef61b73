# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error, as every verb uses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tollmeter.catalog import unknown
from tollmeter.files import write_whole
from tollmeter.model import Failure, json_document
from tollmeter.protocol import clean

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from tollmeter.report.blocks import Block

STANDARD_OUTPUT = Path("-")
"""Path that means standard output."""


class TableColumns(NamedTuple):
    """The columns of a printed table. narrow: columns that fit a terminal; the others are for programs. whole: columns
    that are never folded, by default the first. below: names and their commands, printed under the table, since a
    folded command cannot be copied."""

    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    narrow: int = 3
    whole: Sequence[str] | None = None
    below: Sequence[tuple[str, str]] = ()


def print_notice(sentence: str) -> None:
    """Prints one line for the user on standard error."""
    print(f"toll: {clean(sentence)}", file=sys.stderr)


def print_columns(columns: TableColumns, form: str) -> None:
    if form == "json":
        write_json([dict(zip(columns.names, row, strict=True)) for row in columns.rows])
    elif form == "table":
        _print_table(columns)
    else:
        raise unknown("format", form, ("table", "json"))


def _print_table(columns: TableColumns) -> None:
    from rich.text import Text

    from tollmeter.report.text_layout import out, width_of

    console = terminal()
    if console.is_terminal:
        for line in _lines(columns, width_of(console)):
            out(console, line)
    else:  # what is piped has no width: a folded line would be two lines for grep
        _write_lines(_lines(columns, sys.maxsize))
    for name, typed in columns.below:
        console.print(Text(f"{clean(name)}:\n    {clean(typed)}"), soft_wrap=True)


def print_aligned(columns: TableColumns) -> None:
    """Prints all columns, each as wide as needed, at any terminal width."""
    _write_lines(_lines(columns._replace(narrow=len(columns.names)), sys.maxsize))


def _write_lines(lines: Iterable[Text]) -> None:
    sys.stdout.writelines(f"{line.plain}\n" for line in lines)


def _lines(columns: TableColumns, width: int) -> list[Text]:
    from tollmeter.report.blocks import Column, Line, Table
    from tollmeter.report.text_layout import table_lines

    whole = columns.names[:1] if columns.whole is None else columns.whole
    shown = [Column(name, is_whole=name in whole) for name in columns.names[: columns.narrow]]
    return table_lines(Table(shown, [Line(tuple(row[: columns.narrow])) for row in columns.rows]), width)


def terminal() -> Console:
    """Returns standard output, for sentences and tables."""
    from rich.console import Console

    return Console(highlight=False)


def print_view(blocks: Iterable[Block]) -> Console:
    """Prints a view to standard output."""
    from tollmeter.report import text_layout

    console = terminal()
    text_layout.print_blocks(blocks, console)
    return console


def add_summary(text: str) -> None:
    """Adds text to the page of a GitHub job, if this runs in one. Raises Failure (5)."""
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path:
        return
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", exit_code=5) from error


def first_of(names: Sequence[str], noun: str = "") -> str:
    """Returns the first name, and how many more there are: `NAME and 3 more rows`."""
    more = len(names) - 1
    nouns = f" {noun}{'s' if more > 1 else ''}" if noun else ""
    return f"{names[0]} and {more} more{nouns}" if more else names[0]


def write_json(record: object) -> None:
    """Writes a record to standard output as JSON, for people and programs."""
    write(json_document(record))


def write(content: bytes | Iterable[bytes], out: Path | None = None) -> None:
    """Writes to a file, completely or not at all, or to standard output. content: one text or its pieces. Raises
    Failure (5)."""
    pieces = [content] if isinstance(content, bytes) else content
    if out in (None, STANDARD_OUTPUT):
        sys.stdout.flush()
        sys.stdout.buffer.writelines(pieces)
        sys.stdout.buffer.flush()
        return
    try:
        if out.exists() and not out.is_file():  # such as /dev/stdout, which is meant as it is
            with out.open("wb") as file:
                file.writelines(pieces)
        else:
            write_whole(out, pieces)
    except OSError as error:
        raise Failure(f"cannot write {out}: {error.strerror}", exit_code=5) from error
