# SPDX-License-Identifier: Apache-2.0
"""`toll show`: a run's answer again, and everything that it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tollmeter.catalog import check_known
from tollmeter.cli.printing import print_notice, terminal, write, write_json
from tollmeter.library import places
from tollmeter.library.derive import derived_table, open_index, open_run, raw_samples
from tollmeter.model import Failure, Index, Results
from tollmeter.store.export import written

if TYPE_CHECKING:
    from tollmeter.studies.attribution import Attribution

FORMATS = ("table", "json", "csv", "md", "lmbench")


def show(
    run: Annotated[str, typer.Argument(help="a folder, a run's name, LAST or LAST~1")] = places.LAST,
    *,
    form: Annotated[str, typer.Option("--format", help="table, json, csv, md or lmbench")] = "table",
    every: Annotated[bool, typer.Option("--all", help="every line of every table, and every reason")] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="follow a run in progress to its end, then print it")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="print every sample with its evidence, not the rows")] = False,
    machine: Annotated[
        bool, typer.Option("--machine", help="draw the machine's CPUs, caches and memory nodes")
    ] = False,
    result: Annotated[
        list[Path] | None, typer.Option("--with", help="with --format lmbench: add a result file of lmbench")
    ] = None,
    attribute: Annotated[str | None, typer.Option(help="explain the difference of two ABIs: x86_64,x32")] = None,
) -> None:
    """Print a run's results."""
    check_known("format", form, FORMATS)
    if result and form != "lmbench":
        raise Failure("--with adds a result file of lmbench to --format lmbench")
    folder = places.find_run(run)
    if follow:
        from tollmeter.cli import watching

        watching.follow(folder)
    if machine:
        print_machine(open_index(folder), form)
    elif attribute is not None:
        print_attribution(open_run(folder), attribute, form)
    elif raw:
        write(written(raw_samples(open_run(folder)), "csv" if form == "table" else form))
    elif form in ("json", "csv"):
        print_index(open_index(folder), form)
    elif form == "lmbench":
        print_lmbench(open_index(folder), result or [])
    else:
        print_results(open_run(folder), form, whole=every)


def print_machine(index: Index, form: str) -> None:
    if form == "json":
        write_json(index.machine)
        return
    if form != "table":
        raise Failure("a machine is printed as table or json")
    from tollmeter.report.terminal import machine

    machine(index.machine, terminal())


def print_attribution(results: Results, words: str, form: str) -> None:
    """Raises Failure: 2 for what names no two ABIs of the run, 4 where it timed no program under both in one place."""
    from tollmeter.studies.attribution import attributed

    abis = [word.strip() for word in words.split(",")]
    known = sorted({row.abi for row in results.index.rows})
    if len(abis) != 2 or abis[0] == abis[1]:
        raise Failure(f"--attribute {words}: expected two ABIs of the run, which has {', '.join(known)}")
    for abi in abis:
        check_known("ABI of this run", abi, known)
    attributions = attributed(results, *abis)
    if not attributions:
        raise Failure(_untimed(results, abis), exit_code=4)
    if form == "json":
        write_json(attributions)
    elif form == "csv":
        raise Failure("an attribution is printed as table, md or json")
    else:
        _print_attribution(attributions, form)


def _untimed(results: Results, abis: Sequence[str]) -> str:
    sentence = f"no program was timed under both {abis[0]} and {abis[1]} in one place by its own clock"
    about = results.suite is not None and results.suite.worth in abis
    return f"{sentence}. {results.suite.mend}" if results.suite and about else sentence


def _print_attribution(attributions: Sequence[Attribution], form: str) -> None:
    if form == "md":
        from tollmeter.report.markdown import attribution as as_markdown

        write(("\n\n".join(as_markdown(attributions)) + "\n").encode())
        return
    from tollmeter.report.terminal import attribution

    attribution(attributions, terminal())


def print_index(index: Index, form: str) -> None:
    if form == "json":
        write_json(index)
    else:
        write(written(derived_table("rows", index), form))


def print_lmbench(index: Index, results: Sequence[Path] = ()) -> None:
    """getsummary's warnings go where it writes them, to standard error."""
    from tollmeter.report.lmbench import read_result, result_text, summary, warnings

    write(summary(index, [read_result(path) for path in results]).encode())
    for warning in warnings(result_text(index)):
        print_notice(f"{index.machine.host}: {warning}")


def print_results(results: Results, form: str, *, whole: bool = False, page: str | None = None) -> None:
    """What `toll run` ends with, too. whole: of the table, every line. page: where one is about to be written."""
    if form == "table":
        _print_table(results, whole, page)
    elif form == "md":
        from tollmeter.report.markdown import render

        write(render(results).encode())
    elif form == "lmbench":
        print_lmbench(results.index)
    else:
        print_index(results.index, form)


def _print_table(results: Results, whole: bool, page: str | None) -> None:
    from tollmeter.report.terminal import summary

    summary(results, terminal(), whole=whole, page=page)
