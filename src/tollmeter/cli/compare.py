# SPDX-License-Identifier: Apache-2.0
"""Verbs that compare: `toll compare` shows changes between runs, machines, or the rows of one run; `toll gate` fails a
build that made a row slower by more than its limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli import completing
from tollmeter.cli import shared_options as shared
from tollmeter.cli.printing import add_summary, print_notice, print_view, write
from tollmeter.cli.time import takes_timing
from tollmeter.exit_codes import INCOMPLETE, INCONCLUSIVE, TRIPPED
from tollmeter.files import plain_name
from tollmeter.library.options import TimeOptions, share
from tollmeter.model import LEAST_CHANGE, Failure, first_few, json_document

if TYPE_CHECKING:
    from tollmeter.judgement.gate import Decision
    from tollmeter.model import Opposed
    from tollmeter.report.compared_rows import Compared
    from tollmeter.report.gated import Gated

_FORMATS = ("table", "md", "json", "html", "benchfmt", "junit", "github")


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            help=f"the reference, then the others: folders, names, LAST or LAST~1; then {completing.SELECTED}",
            autocompletion=completing.run_and_probes,
        ),
    ],
    *,
    by: Annotated[str | None, typer.Option(help="compare the rows of one run: abi, target, or a parameter")] = None,
    every: Annotated[bool, shared.every("every row, and why it was judged changed or not")] = False,
    machines: Annotated[bool, typer.Option(help="compare machines by times, memory and tolls, without causes")] = False,
    least: Annotated[str, typer.Option(help="the smallest change to report")] = f"{100 * LEAST_CHANGE:g}%",
    form: Annotated[str, shared.formats(_FORMATS)] = "table",
    out: Annotated[Path | None, shared.out()] = None,
) -> None:
    check_known("format", form, _FORMATS)
    if form == "benchfmt" and by:
        raise Failure("--format benchfmt prints runs: benchstat compares by a parameter itself, with -col /NAME")
    if machines and by:
        raise Failure("--machines compares runs, and --by the rows of one run")
    from tollmeter.library import places
    from tollmeter.library.comparing import compared as compared_runs

    runs, rows = places.runs_and_words(words)
    comparison = compared_runs(runs, by, rows, machines=machines, least=share(least, "--least"))
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
        return ci_formats.annotated(comparison).encode()
    return ci_formats.as_markdown(comparison, whole=whole).encode()


def _print(comparison: Compared, *, whole: bool) -> None:
    from tollmeter.report.compared import blocks

    console = print_view(blocks(comparison, whole=whole))
    if comparison.machines:
        try:
            console.print(f"Page  {_page(comparison, None)}", soft_wrap=True, markup=False)
        except Failure as failure:
            print_notice(f"the page is not written: {failure.sentence}")


def _page(comparison: Compared, out: Path | None) -> Path:
    """Writes the page of a comparison and returns its path: for two runs the page of `toll report A B`; for more
    machines, or two without a common chart, a gallery. Raises Failure: 2 unless there are two runs of one machine, 4
    if they have no common chart, 5 if it cannot be written."""
    from tollmeter.report import overlay
    from tollmeter.report.page import put

    if comparison.by or (len(comparison.runs) != 2 and not comparison.machines):
        raise Failure("--format html compares two runs, or several with --machines")
    folders = [Path(results.index.run.folder) for results in comparison.runs]
    if len(folders) == 2:
        path = out or folders[0] / f"beside-{plain_name(folders[1].resolve().name)}.html"
        try:
            put(overlay.render(overlay.two((comparison.runs[0], comparison.runs[1]))), path)
        except Failure as failure:
            if not comparison.machines or failure.exit_code != INCONCLUSIVE:
                raise
        else:
            return path
    return _page_of_machines(comparison, folders, out)


def _page_of_machines(comparison: Compared, folders: Sequence[Path], out: Path | None) -> Path:
    from tollmeter.fleet.gallery import single_page
    from tollmeter.fleet.publishing import publish
    from tollmeter.report.page import put

    path = out or folders[0] / "machines.html"
    names = [folder.resolve().name for folder in folders]
    put(single_page([publish(results) for results in comparison.runs], names), path)
    return path


# ---- gate -----------------------------------------------------------------------------------------------------------

GATE_FORMATS = ("table", "json", "github", "junit", "ktap")


@takes_timing
def gate(
    commands: Annotated[list[str] | None, typer.Argument(help="-- BASE -- NEW: two commands in place of runs")] = None,
    *,
    base: Annotated[str | None, typer.Option(help="the reference: a folder, a run's name, LAST or LAST~1")] = None,
    new: Annotated[str, typer.Option(help="the run of the build")] = "LAST",
    limit: shared.Limit = None,
    limits: shared.Limits = None,
    how: TimeOptions,
    strict: Annotated[bool, typer.Option("--strict", help="exit with 4 if the result is inconclusive")] = False,
    ignore_missing: Annotated[
        bool, typer.Option("--ignore-missing", help="pass although rows of the reference have no number in the new run")
    ] = False,
    form: Annotated[str, shared.formats(GATE_FORMATS)] = "table",
    out: Annotated[Path | None, shared.out()] = None,
) -> None:
    check_known("format", form, GATE_FORMATS)
    from tollmeter.library.gating import gated, gated_commands, two_commands
    from tollmeter.library.limits import read_limits

    if commands and (base or limits):
        raise Failure(
            "--base and --limits are for runs: for two commands, --limit is how much slower the second may be"
        )
    if commands:
        most = read_limits(limit, None).usual
        base_line, new_line = two_commands(commands)
        decision, measured = gated_commands(base_line, new_line, how._replace(precision=most))
        _write_commands(decision, measured, base_line, form, out)
        _end_commands(decision, measured, strict)
        return
    if base is None:
        raise Failure("a reference is missing: --base RUN, or two commands: `toll gate -- BASE -- NEW`")
    if how != TimeOptions():
        raise Failure("options of `toll time` are for two commands: stored runs are not measured again")
    gated_runs = gated(base, new, read_limits(limit, limits))
    if form == "table" and out is None:
        _print_gate(gated_runs)
    else:
        write(_gate_written(gated_runs, form).encode(), out)
    _end_runs(gated_runs, strict, ignore_missing)


def _end_runs(gated_runs: Gated, strict: bool, ignore_missing: bool) -> None:
    """Raises Failure by the outcome of a gate on two runs: 3 if a row is slower or beyond its limit, 7 if rows are
    missing, 4 with --strict if no decision is possible."""
    slower, missing = gated_runs.decision.of("slower"), gated_runs.missing
    if gated_runs.broken:
        raise Failure(f"beyond its limit: {first_few(gated_runs.broken, 1)}", TRIPPED)
    if slower and not gated_runs.unlike:
        raise Failure(f"slower by more than the limit: {first_few([row.judged.name for row in slower], 1)}", TRIPPED)
    if missing and not ignore_missing:
        raise Failure(f"no number in the new run: {first_few(missing, 1)} (--ignore-missing passes)", INCOMPLETE)
    if gated_runs.unlike and strict:
        raise Failure(f"inconclusive: {'; '.join(gated_runs.unlike)}", INCONCLUSIVE)


def _write_commands(decision: Decision, measured: Sequence[Opposed], base: str, form: str, out: Path | None) -> None:
    from tollmeter.report.gated import sentences_of_commands

    text = "".join(f"{sentence}\n" for sentence in sentences_of_commands(decision, measured, base))
    if form == "github":
        add_summary(f"## toll gate\n\n{text}\n")
    if form == "json":
        text = json_document(decision).decode()
    write((text if form in ("table", "json") else _ci_report(decision, (), form)).encode(), out)


def _end_commands(decision: Decision, measured: Sequence[Opposed], strict: bool) -> None:
    """Raises Failure by the outcome of a gate on two commands: 3 if the new command is slower by more than the limit, 4
    with --strict if the interval contains the limit."""
    from tollmeter.report.gated import more_of

    (row,) = decision.rows
    if row.outcome == "slower":
        raise Failure(f"{more_of(measured)} by more than the limit: {row.judged.name}", TRIPPED)
    if row.outcome == "inconclusive" and strict:
        raise Failure(f"inconclusive: {row.judged.name}", INCONCLUSIVE)


def _ci_report(decision: Decision, unlike: Sequence[str], form: str) -> str:
    """Returns the gate's result in a CI format: github, ktap or junit."""
    from tollmeter.report import ci_formats
    from tollmeter.report.gated import annotated, cases

    if form == "github":
        return annotated(decision, unlike)
    if form == "ktap":
        return ci_formats.ktap(cases(decision, unlike))
    return ci_formats.junit("toll gate", cases(decision, unlike))


def _gate_written(gated_runs: Gated, form: str) -> str:
    from tollmeter.report import gated as words
    from tollmeter.report.blocks import heading
    from tollmeter.report.ci_formats import as_markdown
    from tollmeter.report.markdown import of_blocks

    if form == "json":
        return words.as_json(gated_runs).decode()
    if form == "table":
        return "".join(f"{sentence}\n" for sentence in words.sentences(gated_runs))
    if form == "github":
        decided = "\n\n".join(of_blocks([heading("toll gate"), *words.blocks(gated_runs)]))
        add_summary(f"{decided}\n\n{as_markdown(gated_runs.compared, whole=False)}")
    return _ci_report(gated_runs.decision, gated_runs.unlike, form)


def _print_gate(gated_runs: Gated) -> None:
    from tollmeter.report.gated import blocks

    print_view(blocks(gated_runs))
