# SPDX-License-Identifier: Apache-2.0
"""`toll show`: a run's answer again, and everything that it rests on."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import write
from tollmeter.library import places
from tollmeter.library.derive import open_index, open_run, raw_samples
from tollmeter.model import Book, Index
from tollmeter.store.export import rows_table, written

FORMATS = ("table", "json", "csv", "md", "lmbench")


def show(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, or LAST")] = places.LAST,
    form: Annotated[str, typer.Option("--format", help="table, json, csv, md or lmbench")] = "table",
    raw: Annotated[bool, typer.Option("--raw", help="every sample with its witness, instead of the rows")] = False,
) -> None:
    """Print a run's answer."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    folder = places.find_run(run)
    if raw:
        write(written(raw_samples(folder), "csv" if form == "table" else form))
    elif form in ("json", "csv"):
        print_index(open_index(folder), form)
    else:
        print_book(open_run(folder), form)


def print_index(index: Index, form: str) -> None:
    if form == "json":
        write(msgspec.json.format(msgspec.json.encode(index)) + b"\n")
    else:
        write(written(rows_table(index.rows), form))


def print_book(book: Book, form: str) -> None:
    """What `toll run` ends with, too."""
    if form == "table":
        _print_table(book)
    elif form == "md":
        from tollmeter.report.markdown import render

        write(render(book).encode())
    elif form == "lmbench":
        from tollmeter.report.lmbench import summary

        write(summary(book.index).encode())
    else:
        print_index(book.index, form)


def _print_table(book: Book) -> None:
    from rich.console import Console

    from tollmeter.report.terminal import summary

    summary(book, Console(highlight=False))
