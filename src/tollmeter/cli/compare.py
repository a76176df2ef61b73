# SPDX-License-Identifier: Apache-2.0
"""`toll compare`: what changed between runs, machines, or the rows of one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import add_summary, print_blocks, print_notice, write
from tollmeter.files import plain
from tollmeter.library.options import share
from tollmeter.model import Failure

if TYPE_CHECKING:
    from tollmeter.report.compared_rows import Compared

FORMATS = ("table", "md", "json", "html", "benchfmt", "junit", "github")


def compare(
    runs: Annotated[list[str], typer.Argument(help="the reference, then the others: folders, names, LAST or LAST~1")],
    *,
    by: Annotated[str | None, typer.Option(help="compare the rows of one run: abi, target, or a parameter")] = None,
    every: Annotated[bool, typer.Option("--all", help="every row and every reason, not only what changed")] = False,
    machines: Annotated[bool, typer.Option(help="compare machines: times, memory and tolls, without causes")] = False,
    least: Annotated[str, typer.Option(help="the least change that matters")] = "1%",
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; by default standard output")] = None,
) -> None:
    """Compare runs with the first of them."""
    check_known("format", form, FORMATS)
    if form == "benchfmt" and by:
        raise Failure("--format benchfmt prints runs: benchstat compares by a parameter itself, with -col /NAME")
    if machines and by:
        raise Failure("--machines compares runs, and --by the rows of one run")
    from tollmeter.library.comparing import compared as compared_runs

    comparison = compared_runs(runs, by, machines=machines, least=share(least, "--least"))
    if form == "html":
        print(_page(comparison, out))
    elif form == "table" and out is None:
        _print(comparison, whole=every)
    else:
        write(_written(comparison, form, whole=every), out)


def _written(comparison: Compared, form: str, *, whole: bool) -> bytes:
    from tollmeter.library.comparing import visit_lines
    from tollmeter.report import ci_formats

    if form == "json":
        return ci_formats.as_json(comparison)
    if form == "benchfmt":
        return "".join(ci_formats.as_benchmarks(comparison, map(visit_lines, comparison.runs))).encode()
    if form == "junit":
        return ci_formats.junit("toll compare", ci_formats.cases(comparison)).encode()
    if form == "github":
        add_summary(ci_formats.as_markdown(comparison, whole=False))
        return ci_formats.github(ci_formats.annotated(comparison)).encode()
    return ci_formats.as_markdown(comparison, whole=whole).encode()


def _print(comparison: Compared, *, whole: bool) -> None:
    from tollmeter.report.compared import blocks

    console = print_blocks(blocks(comparison, whole=whole))
    if comparison.machines:
        try:
            console.print(f"Page  {_page(comparison, None)}", soft_wrap=True, markup=False)
        except Failure as failure:
            print_notice(f"the page is not written: {failure.sentence}")


def _page(comparison: Compared, out: Path | None) -> Path:
    """Of machines that of a gallery. Raises Failure: 2 for other than two runs of one machine, 4 where they have no
    chart in common, 5 where it cannot be written."""
    from tollmeter.library.publishing import publish
    from tollmeter.report import overlay
    from tollmeter.report.gallery import single_page
    from tollmeter.report.page import put

    folders = [Path(results.index.run.folder) for results in comparison.runs]
    if comparison.machines:
        path = out or folders[0] / "machines.html"
        names = [folder.resolve().name for folder in folders]
        put(single_page([publish(results) for results in comparison.runs], names), path)
        return path
    if len(comparison.runs) != 2 or comparison.by:
        raise Failure("--format html takes two runs, or several with --machines")
    path = out or folders[0] / f"beside-{plain(folders[1].resolve().name)}.html"
    overlay.write(overlay.two((comparison.runs[0], comparison.runs[1])), path)
    return path
