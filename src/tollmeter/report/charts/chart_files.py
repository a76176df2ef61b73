# SPDX-License-Identifier: Apache-2.0
"""Charts as picture files: light, on a white ground, with their title and their machine."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path

from tollmeter.extras import CHARTS, bring
from tollmeter.files import write_whole
from tollmeter.model import Book, Failure
from tollmeter.report.charts.chart import Chart, Spec
from tollmeter.report.look import PICTURE_FONT, by_value, config, stacked
from tollmeter.root import ROOT

WIDTH = 760
PNG_SCALE = 2.0


def pictures(drawn: Iterable[Chart], books: Sequence[Book], folder: Path) -> tuple[Path, ...]:
    """Writes NAME.svg and NAME.png of each chart of the books; their paths. Raises Failure (5)."""
    bring(ROOT, CHARTS)
    written: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in drawn:
            written += _pictures(chart, map(_source, books), folder)
    except OSError as error:
        raise Failure(f"cannot write charts to {folder}: {error.strerror or error}", 5) from error
    return tuple(written)


def _source(book: Book) -> str:
    machine, run = book.index.machine, book.index.run
    return f"{machine.cpu} · {machine.kernel} · {run.started[:10]} · tollmeter {run.tollmeter}"


def _pictures(chart: Chart, sources: Iterable[str], folder: Path) -> Iterable[Path]:
    import vl_convert

    spec = with_source(chart, *sources)
    vector, raster = folder / f"{chart.name}.svg", folder / f"{chart.name}.png"
    write_whole(vector, vl_convert.vegalite_to_svg(spec).encode())
    write_whole(raster, vl_convert.vegalite_to_png(spec, scale=PNG_SCALE))
    return vector, raster


def with_source(chart: Chart, *sources: str) -> Spec:
    """The specification with its look, its width and its title: what any Vega-Lite renderer can draw."""
    spec = copy.deepcopy(chart.spec)
    look = stacked(config(by_value, PICTURE_FONT))
    spec["config"] = {**look, "background": "#ffffff", "padding": 20}
    spec["title"] = {"text": chart.title, "subtitle": [chart.question, *sources]}
    if "facet" in spec:
        panels = spec["usermeta"]["panels"]
        spec["columns"] = min((2, 3), key=lambda columns: (-panels % columns, -columns))
        spec["spec"]["width"] = (WIDTH - 40) // spec["columns"]
    else:
        spec["width"] = WIDTH
    return spec
