# SPDX-License-Identifier: Apache-2.0
"""`toll report`: the page and the charts of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tollmeter.library import places
from tollmeter.library.derive import open_run

PAGE = "report.html"


def report(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, or LAST")] = places.LAST,
    charts: Annotated[Path | None, typer.Option(help="also every chart as SVG and PNG into this folder")] = None,
    out: Annotated[Path | None, typer.Option(help="the page's file; by default report.html in the run")] = None,
) -> None:
    """Write a run's page, and print where it is."""
    from tollmeter.report import page

    folder = places.find_run(run)
    book = open_run(folder)
    path = out or folder / PAGE
    page.write(book, path)
    print(path)
    if charts:
        from tollmeter.report.charts import save

        for drawn in save(book, charts) or ():
            print(drawn)
