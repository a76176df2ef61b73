# SPDX-License-Identifier: Apache-2.0
"""`toll export`: a run's rows, samples, tolls, findings or machine as a table that other programs open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import write
from tollmeter.library import places
from tollmeter.library.derive import TABLES, derived_table, open_index, open_run, raw_samples
from tollmeter.store.export import FORMATS, metadata, written


def export(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, LAST or LAST~1")] = places.LAST,
    form: Annotated[str, typer.Option("--format", help="csv, json, jsonl, md or parquet")] = "csv",
    what: Annotated[str, typer.Option(help=", ".join(TABLES))] = "rows",
    out: Annotated[Path | None, typer.Option(help="file to write; by default standard output")] = None,
) -> None:
    """Write a run's rows, samples, tolls, findings or machine as a table."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    if what not in TABLES:
        raise unknown("table", what, TABLES)
    folder = places.find_run(run)
    if what != "samples":
        index = open_index(folder)
        table = derived_table(what, index)
    else:
        book = open_run(folder)
        index, table = book.index, raw_samples(book)
    write(written(table, form, metadata(index)), out)
