# SPDX-License-Identifier: Apache-2.0
"""`toll export`: rows, samples, tolls, findings or machines as a table, or of several runs as a Parquet dataset."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import print_notice, write
from tollmeter.library import places
from tollmeter.library.derive import TABLES, derived_table, open_index, open_run, raw_samples
from tollmeter.model import Failure
from tollmeter.store.export import FORMATS, metadata, written


def export(
    runs: Annotated[list[str] | None, typer.Argument(help="a folder, a run's name, LAST or LAST~1")] = None,
    *,
    form: Annotated[
        str | None,
        typer.Option("--format", help="csv (the default), json, jsonl, md, parquet or lmbench (a result file)"),
    ] = None,
    what: Annotated[str | None, typer.Option(help=f"{', '.join(TABLES)}; by default rows")] = None,
    out: Annotated[Path | None, typer.Option(help="file to write; by default standard output")] = None,
    dataset: Annotated[
        Path | None, typer.Option(help="folder of a Parquet dataset: every table of several runs (docs/dataset.md)")
    ] = None,
) -> int:
    """Write a run's rows, samples, tolls, findings or machine as a table, or several runs into a dataset."""
    names = runs or [places.LAST]
    if dataset is not None:
        if form or what or out:
            raise Failure("--dataset writes every table as Parquet: --format, --what and --out are of one table")
        return _write_dataset(names, dataset)
    if len(names) > 1:
        raise Failure(f"one run is meant, and {len(names)} are given: --dataset DIR takes several")
    if form == "lmbench":
        return _write_result(names[0], what, out)
    form, what = form or "csv", what or "rows"
    check_known("format", form, FORMATS)
    check_known("table", what, TABLES)
    folder = places.find_run(names[0])
    if what != "samples":
        index = open_index(folder)
        table = derived_table(what, index)
    else:
        book = open_run(folder)
        index, table = book.index, raw_samples(book)
    write(written(table, form, metadata(index)), out)
    return 0


def _write_result(name: str, what: str | None, out: Path | None) -> int:
    from tollmeter.report.lmbench_results import result_text

    if what is not None:
        raise Failure("a result file of lmbench has one form: --what is of the other formats")
    write(result_text(open_index(places.find_run(name))).encode(), out)
    return 0


def _write_dataset(names: Sequence[str], dataset: Path) -> int:
    """A run that cannot be read is named, and the others are written."""
    from tollmeter.library.derive import add_to_dataset

    code = lost = 0
    for name in names:
        try:
            add_to_dataset(places.find_run(name), dataset)
        except Failure as failure:
            print_notice(f"{name} is not in the dataset: {failure.sentence}")
            code, lost = failure.exit_code, lost + 1
    print(f"{dataset}: {len(names) - lost} of {len(names)} runs are written")
    return code
