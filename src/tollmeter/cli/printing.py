# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error, as every verb uses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tollmeter.catalog import unknown
from tollmeter.files import write_whole
from tollmeter.model import Failure, json_document
from tollmeter.protocol import clean

if TYPE_CHECKING:
    from rich.console import Console

    from tollmeter.report.blocks import Block

STANDARD_OUTPUT = Path("-")
"""Path that means standard output."""


def print_notice(sentence: str) -> None:
    """Prints one line for the user on standard error."""
    print(f"toll: {clean(sentence)}", file=sys.stderr)


def print_columns(
    names: Sequence[str], rows: Sequence[Sequence[str]], form: str, *, narrow: int = 3,
    whole: Sequence[str] | None = None, below: Sequence[tuple[str, str]] = (),
) -> None:  # fmt: skip
    """Prints rows as a table, or as JSON. names: names of the columns. narrow: number of first columns that a table
    has; JSON has all. whole: columns that are never folded, by default the first. below: names and their commands,
    printed under the table, since a folded command cannot be copied."""
    if form == "json":
        write_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    if form != "table":
        raise unknown("format", form, ("table", "json"))
    from rich.text import Text

    from tollmeter.report.blocks import Column, Line, Table
    from tollmeter.report.text_layout import print_table

    unfolded = names[:1] if whole is None else whole
    shown = [Column(name, is_whole=name in unfolded) for name in names[:narrow]]
    table = Table(shown, [Line(tuple(row[:narrow])) for row in rows])
    console = terminal()
    if console.is_terminal:
        print_table(table, console)
    else:
        print_unfolded([table])
    for name, typed in below:
        console.print(Text(f"{clean(name)}:\n    {clean(typed)}"), soft_wrap=True)


def print_unfolded(blocks: Iterable[Block]) -> None:
    """Prints sentences and tables at their full width, for a pipe: a folded line would be two lines for grep."""
    from tollmeter.report.blocks import Table
    from tollmeter.report.text_layout import table_lines

    for block in blocks:
        lines = (
            [line.plain for line in table_lines(block, sys.maxsize)]
            if isinstance(block, Table)
            else [clean(str(block))]
        )
        sys.stdout.writelines(f"{line}\n" for line in lines)


def terminal() -> Console:
    """Returns a console on standard output, for sentences and tables."""
    from rich.console import Console

    return Console(highlight=False)


def print_view(blocks: Iterable[Block]) -> Console:
    """Prints a view to standard output, and returns the console."""
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
        if out.exists() and not out.is_file():  # a device such as /dev/stdout is written, not replaced
            with out.open("wb") as file:
                file.writelines(pieces)
        else:
            write_whole(out, pieces)
    except OSError as error:
        raise Failure(f"cannot write {out}: {error.strerror}", exit_code=5) from error
