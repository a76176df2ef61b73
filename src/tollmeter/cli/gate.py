# SPDX-License-Identifier: Apache-2.0
"""`toll gate`: fails a build that made a row slower by more than its limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import unknown
from tollmeter.cli.printing import add_summary, write
from tollmeter.model import Failure

if TYPE_CHECKING:
    from tollmeter.report.gated import Gated

FORMATS = ("table", "json", "github", "junit", "ktap")
TRIPPED, CANNOT_TELL = 3, 4


def gate(
    *,
    base: Annotated[str, typer.Option(help="the reference: a folder, a run's name, LAST or LAST~1")],
    new: Annotated[str, typer.Option(help="the run of the build")] = "LAST",
    limit: Annotated[str | None, typer.Option(help="how much slower a row may be; 5% unless the file says")] = None,
    limits: Annotated[Path | None, typer.Option(help="a TOML file with limits by globs of rows")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="end with 4 where the runs cannot decide")] = False,
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; by default standard output")] = None,
) -> None:
    """End with 3 if a row of a run is slower than in the reference by more than its limit."""
    if form not in FORMATS:
        raise unknown("format", form, FORMATS)
    from tollmeter.library.gating import gated, read_limits

    found = gated(base, new, read_limits(limit, limits))
    if form == "table" and out is None:
        _print(found)
    else:
        write(_written(found, form).encode(), out)
    _end(found, strict)


def _end(found: Gated, strict: bool) -> None:
    """Raises Failure: 3 where a row is slower, 4 with --strict where the runs cannot decide."""
    if found.unlike:
        if strict:
            raise Failure(f"inconclusive: {'; '.join(found.unlike)}", CANNOT_TELL)
        return
    failed = found.decision.of("slower")
    if failed:
        more = f" and {len(failed) - 1} more rows" if len(failed) > 1 else ""
        raise Failure(f"slower by more than the limit: {failed[0].judged.name}{more}", TRIPPED)


def _written(found: Gated, form: str) -> str:
    from tollmeter.report import ci_cases
    from tollmeter.report import gated as words
    from tollmeter.report.compared_formats import as_markdown

    if form == "json":
        return words.document(found)
    if form == "github":
        whole = words.markdown(found)
        add_summary(whole + as_markdown(found.compared, whole=False))
        return ci_cases.github(words.annotated(found.decision, found.unlike))
    if form in ("junit", "ktap"):
        several = words.cases(found.decision, found.unlike)
        return ci_cases.ktap(several) if form == "ktap" else ci_cases.junit("toll gate", several)
    return "".join(f"{sentence}\n" for sentence in words.sentences(found))


def _print(found: Gated) -> None:
    from rich.console import Console

    from tollmeter.report.columns import print_table, width_of, wrapped
    from tollmeter.report.gated import failures, sentences

    console = Console(highlight=False)
    width = width_of(console)
    for sentence in sentences(found):
        wrapped(console, sentence, width, hanging=2)
    table = None if found.unlike else failures(found.decision)
    if table:
        console.print()
        print_table(table, console, width)
