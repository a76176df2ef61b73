# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error, as every verb uses them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tollmeter.catalog import unknown
from tollmeter.files import write_whole
from tollmeter.model import Failure
from tollmeter.protocol import clean

if TYPE_CHECKING:
    from rich.console import Console

    from tollmeter.report.tables import Block

MOST_FOLDED = 500
"""Lines of a table that are folded to the terminal's width."""
STANDARD_OUTPUT = Path("-")
"""As a file to write."""


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
    from rich import box
    from rich.table import Table
    from rich.text import Text

    console = terminal()
    if not console.is_terminal or len(columns.rows) > MOST_FOLDED:
        # What is piped has no width: a folded line would be two lines for grep. To fold 10,000 lines takes 7 s.
        console.file.writelines(_aligned(columns))
    else:
        whole = columns.names[:1] if columns.whole is None else columns.whole
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in columns.names[: columns.narrow]:
            table.add_column(name, no_wrap=name in whole, overflow="fold")
        for row in columns.rows:
            table.add_row(*(Text(clean(cell)) for cell in row[: columns.narrow]))
        console.print(table)
    for name, typed in columns.below:
        console.print(Text(f"{clean(name)}:\n    {clean(typed)}"), soft_wrap=True)


def print_aligned(columns: TableColumns) -> None:
    """Prints all columns, each as wide as needed, at any terminal width."""
    sys.stdout.writelines(_aligned(columns._replace(narrow=len(columns.names))))


def _aligned(columns: TableColumns) -> Iterator[str]:
    """Lines as wide as their cells need."""
    rows = [columns.names[: columns.narrow], *([clean(cell) for cell in row[: columns.narrow]] for row in columns.rows)]
    widths = [max(map(_width, cells)) for cells in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        cells = [cell + " " * (width - _width(cell)) for cell, width in zip(row[:-1], widths[:-1], strict=True)]
        yield f"{'' if number else chr(10)} {'   '.join([*cells, row[-1]])}".rstrip(" ") + "\n"
        if not number:
            yield f" {'─' * (sum(widths) + 3 * len(widths) - 3)}\n"
    yield "\n"


def _width(cell: str) -> int:
    """Returns the width in terminal columns. Most cells are ASCII, for which examining each character would take a
    fifth of the time of a long list."""
    if cell.isascii():
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def terminal() -> Console:
    """Standard output, for sentences and tables."""
    from rich.console import Console

    return Console(highlight=False)


def print_blocks(blocks: Iterable[Block]) -> Console:
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


def write_json(record: object) -> None:
    """Writes a record to standard output as JSON, for people and programs."""
    write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")


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
