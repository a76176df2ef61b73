# SPDX-License-Identifier: Apache-2.0
"""`toll report`: the page and the charts of a run, or of two runs in the same charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from tollmeter.files import plain
from tollmeter.library import places
from tollmeter.library.derive import open_run, open_two

PAGE = "report.html"


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="a folder, a run's name, LAST or LAST~1; two runs are drawn in the same charts"),
    ] = None,
    charts: Annotated[Path | None, typer.Option(help="also write every chart as SVG and PNG into this folder")] = None,
    out: Annotated[
        Path | None, typer.Option(help="the page's file; by default report.html, or beside-B.html, in the first run")
    ] = None,
) -> None:
    """Write the page of a run, or of two runs A and B, and print where it is."""
    folders = [places.find_run(name) for name in runs or [places.LAST]]
    for path in _of_one(folders[0], charts, out) if len(folders) == 1 else _of_two(folders, charts, out):
        print(path)


def _of_one(folder: Path, charts: Path | None, out: Path | None) -> Iterator[Path]:
    from tollmeter.report import page

    book, path = open_run(folder), out or folder / PAGE
    page.write(book, path)
    yield path
    if charts:
        from tollmeter.report.charts import save

        yield from save(book, charts)


def _of_two(folders: Sequence[Path], charts: Path | None, out: Path | None) -> Iterator[Path]:
    from tollmeter.report import overlay

    books = open_two(folders)
    pair, path = overlay.two(books), out or folders[0] / f"beside-{plain(folders[1].resolve().name)}.html"
    overlay.write(pair, path)
    yield path
    if charts:
        yield from overlay.save(pair, charts)
