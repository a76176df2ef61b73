# SPDX-License-Identifier: Apache-2.0
"""`toll fleet`: many machines at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tollmeter.catalog import unknown
from tollmeter.cli import fleet_jobs
from tollmeter.cli.printing import print_blocks, write

if TYPE_CHECKING:
    from tollmeter.judgement.fleet import Judged

FORMATS = ("table", "json", "html")


def report(
    runs: Annotated[
        list[str], typer.Argument(help="a dataset of `toll export --dataset`, or runs of several machines")
    ],
    *,
    every: Annotated[bool, typer.Option("--all", help="the distribution of every row")] = False,
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; by default standard output")] = None,
) -> None:
    """Name the machines that differ from their peers, and how rows are distributed over machines."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    from tollmeter.library.fleet import report as found

    models = found(runs)
    if form == "table" and out is None:
        _print(models, whole=every)
    elif form == "table":
        raise unknown("format of a file", form, FORMATS[1:])
    else:
        from tollmeter.report import fleet

        write(fleet.as_json(models) if form == "json" else fleet.page(models).encode(), out)


def _print(models: list[Judged], *, whole: bool) -> None:
    from tollmeter.report.fleet import blocks

    print_blocks(blocks(models, whole=whole))


VERBS: dict[str, Callable[..., Any]] = {
    "submit": fleet_jobs.submit,
    "status": fleet_jobs.status,
    "collect": fleet_jobs.collect,
    "report": report,
}
"""Of the group `toll fleet`."""
