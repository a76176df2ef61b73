# SPDX-License-Identifier: Apache-2.0
"""`toll gate`: fails a build that made a row slower by more than its limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import add_summary, terminal, write
from tollmeter.model import Failure

if TYPE_CHECKING:
    from tollmeter.judgement.gate import Decision
    from tollmeter.report.gated import Gated, GatedCommands

FORMATS = ("table", "json", "github", "junit", "ktap")
TRIPPED, CANNOT_TELL = 3, 4


def gate(
    commands: Annotated[list[str] | None, typer.Argument(help="-- BASE -- NEW: two commands in place of runs")] = None,
    *,
    base: Annotated[str | None, typer.Option(help="the reference: a folder, a run's name, LAST or LAST~1")] = None,
    new: Annotated[str, typer.Option(help="the run of the build")] = "LAST",
    limit: Annotated[str | None, typer.Option(help="how much slower a row may be [5%, or the file's]")] = None,
    limits: Annotated[Path | None, typer.Option(help="a TOML file with limits by globs of rows")] = None,
    budget: Annotated[str | None, typer.Option(help="wall time for two commands [20s]")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 4 if the result is inconclusive")] = False,
    form: Annotated[str, typer.Option("--format", help=", ".join(FORMATS))] = "table",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="file to write; by default standard output")] = None,
) -> None:
    """Exit with 3 if a row of a run, or a command, is slower than the reference by more than its limit."""
    check_known("format", form, FORMATS)
    from tollmeter.library.gating import gated, read_limits

    if commands and (base or limits):
        raise Failure(
            "--base and --limits are for runs: for two commands, --limit is how much slower the second may be"
        )
    if commands:
        _gate_commands(_measured(commands, read_limits(limit, None).usual, budget), strict, form, out)
        return
    if base is None:
        raise Failure("a reference is missing: --base RUN, or two commands: `toll gate -- BASE -- NEW`")
    if budget:
        raise Failure("--budget is for two commands: stored runs are not measured again")
    gated_runs = gated(base, new, read_limits(limit, limits))
    if form == "table" and out is None:
        _print(gated_runs)
    else:
        write(_written(gated_runs, form).encode(), out)
    _end(gated_runs, strict)


def _measured(words: list[str], limit: float, budget: str | None) -> GatedCommands:
    from tollmeter.library.gating import gated_commands, two_commands
    from tollmeter.library.options import seconds

    return gated_commands(*two_commands(words), limit, seconds(budget) if budget else None)


def _gate_commands(gated: GatedCommands, strict: bool, form: str, out: Path | None) -> None:
    """Raises Failure: 3 where the new command is slower, 4 with --strict where its interval holds the limit."""
    from tollmeter.report.gated import sentences_of_commands

    text = "".join(f"{sentence}\n" for sentence in sentences_of_commands(gated))
    if form == "github":
        add_summary(f"## toll gate\n\n{text}\n")
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(gated.decision)).decode() + "\n"
    write((text if form in ("table", "json") else _cases(gated.decision, (), form)).encode(), out)
    if gated.outcome == "slower":
        raise Failure(f"slower by more than the limit: {gated.new}", TRIPPED)
    if gated.outcome == "inconclusive" and strict:
        raise Failure(f"inconclusive: {gated.new}", CANNOT_TELL)


def _cases(decision: Decision, unlike: Sequence[str], form: str) -> str:
    from tollmeter.report import ci_formats
    from tollmeter.report.gated import annotated, cases

    if form == "github":
        return ci_formats.github(annotated(decision, unlike))
    several = cases(decision, unlike)
    return ci_formats.ktap(several) if form == "ktap" else ci_formats.junit("toll gate", several)


def _end(gated_runs: Gated, strict: bool) -> None:
    """Raises Failure: 3 where a row is slower, 4 with --strict where the runs cannot decide."""
    if gated_runs.unlike:
        if strict:
            raise Failure(f"inconclusive: {'; '.join(gated_runs.unlike)}", CANNOT_TELL)
        return
    failed = gated_runs.decision.of("slower")
    if failed:
        more = f" and {len(failed) - 1} more rows" if len(failed) > 1 else ""
        raise Failure(f"slower by more than the limit: {failed[0].judged.name}{more}", TRIPPED)


def _written(gated_runs: Gated, form: str) -> str:
    from tollmeter.report import gated as words
    from tollmeter.report.ci_formats import as_markdown

    if form == "json":
        return words.document(gated_runs)
    if form == "table":
        return "".join(f"{sentence}\n" for sentence in words.sentences(gated_runs))
    if form == "github":
        add_summary(words.markdown(gated_runs) + as_markdown(gated_runs.compared, whole=False))
    return _cases(gated_runs.decision, gated_runs.unlike, form)


def _print(gated_runs: Gated) -> None:
    from tollmeter.report.gated import failures
    from tollmeter.report.gated import sentences as of_runs
    from tollmeter.report.text_layout import print_table, width_of, wrapped

    console = terminal()
    width = width_of(console)
    for sentence in of_runs(gated_runs):
        wrapped(console, sentence, width, hanging=2)
    table = None if gated_runs.unlike else failures(gated_runs.decision)
    if table:
        console.print()
        print_table(table, console, width)
