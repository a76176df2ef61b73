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

FORMATS = ("table", "json", "csv", "md")


def show(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, or LAST")] = places.LAST,
    form: Annotated[str, typer.Option("--format", help="table, json, csv or md")] = "table",
    every: Annotated[bool, typer.Option("--all", help="every line of every table, and every reason")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="first watch a run that is measured, until it ends")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="every sample with its witness, instead of the rows")] = False,
) -> None:
    """Print a run's answer."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    folder = places.find_run(run)
    if follow:
        from tollmeter.cli import watching

        watching.follow(folder)
    if raw:
        write(written(raw_samples(folder), "csv" if form == "table" else form))
    elif form in ("json", "csv"):
        print_index(open_index(folder), form)
    else:
        print_book(open_run(folder), form, whole=every)


def print_index(index: Index, form: str) -> None:
    if form == "json":
        write(msgspec.json.format(msgspec.json.encode(index)) + b"\n")
    else:
        write(written(rows_table(index.rows), form))


def print_book(book: Book, form: str, *, whole: bool = False) -> None:
    """What `toll run` ends with, too. whole: of the table, every line."""
    if form == "table":
        _print_table(book, whole)
    elif form == "md":
        from tollmeter.report.markdown import render

        write(render(book).encode())
    else:
        print_index(book.index, form)


def _print_table(book: Book, whole: bool) -> None:
    from rich.console import Console

    from tollmeter.report.terminal import summary

    summary(book, Console(highlight=False), whole=whole)
