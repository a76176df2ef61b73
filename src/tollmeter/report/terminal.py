# SPDX-License-Identifier: Apache-2.0
"""The end of a run on a terminal: the answer in columns, in a screen and a half.

Colour alone carries no information."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tollmeter.model import Results, Suite, printable
from tollmeter.report import machine_tables, run_verdict, tables
from tollmeter.report.bills import bill_tables
from tollmeter.report.blocks import Block, Table, heading
from tollmeter.report.headline import below_the_headline, headline, problems
from tollmeter.report.length_sections import sections
from tollmeter.report.listing import listing
from tollmeter.report.machine_tables import of_kinds
from tollmeter.report.numbers import count, duration
from tollmeter.report.shown import best_known
from tollmeter.report.studies import study_blocks
from tollmeter.report.text_layout import (
    INDENT,
    print_blocks,
    print_line,
    print_table,
    width_of,
    with_command,
    wrap,
    wrapped,
)
from tollmeter.report.tolls import group_tables
from tollmeter.report.worker_scaling import scaling_tables
from tollmeter.root import typed

FEW_ROWS, FEW_FINDINGS, FEW_REASONS, MORE_REASONS = 12, 3, 1, 5
"""Highest numbers of rows, of findings, and of reasons for missing numbers on a first screen; of reasons in a run
without a number."""
WORTH_A_REASON = 0.05
"""Share of the rows without a number from which the first screen has a line about the reason."""
SIGN_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}


def summary(results: Results, console: Console, *, whole: bool = False, page: str | None = None) -> None:
    """Prints the answer in a screen and a half of 80 x 24: sentence, verdict, a study's own answer, memory, the best
    known tolls or a small run's rows, findings, the next step. whole: every line of every table instead. page: path
    of a page that is about to be written."""
    _opening(results, console)
    for sentence in below_the_headline(results):
        wrapped(console, sentence, hanging=INDENT)
        console.print()
    facts = (*tables.facts_of(results.index.machine), duration(results.index.run.seconds))
    wrapped(console, " · ".join(facts), style="dim")
    console.print()
    if no_levels := tables.no_levels(results):
        wrapped(console, no_levels)
        console.print()
    for sentence in of_kinds(results):
        wrapped(console, sentence, hanging=INDENT)
    if results.index.kinds:
        console.print()
    listed, few = (listing(results, whole=True), None) if whole else (None, _few_tolls(results))
    for table in machine_tables.all_tables(results, listed, few):
        print_table(table, console)
        console.print()
    if not whole:
        _left_out(results, console)
    _findings(results, console, whole)
    if whole:
        _closing(results, console)
    _ending(results, console, page or tables.report_path(results))


def _opening(results: Results, console: Console) -> None:
    """Prints the headline, the problems, the verdict of the run, remarks on it, and a study's own answer."""
    wrapped(console, headline(results), style="bold")
    for line in (
        str(problems(results)),
        run_verdict.verdict_sentence(results),
        *tables.run_remarks(results.index.run).values(),
    ):
        wrapped(console, line)
    if results.suite is not None and results.suite.published:
        print_study(results, results.suite, console)
    console.print()


def _few_tolls(results: Results) -> Sequence[Table | None]:
    """Returns the toll tables of a first screen: one for each group, or the best known tolls. Returns all rows of a run
    that has few, and nothing for a study or a bill, which have their own tables."""
    if groups := group_tables(results):
        return groups
    is_study = results.suite is not None and bool(results.suite.published)
    if is_study or bill_tables(results.index.rows, results.probes):
        return ()
    few = tables.brief(tables.toll_table(results, best_known(results)))
    return [listing(results, FEW_ROWS) or few or (None if scaling_tables(results) else listing(results))]


def _left_out(results: Results, console: Console) -> None:
    """Prints the command that shows all numbers, how many rows have none, and the most frequent reasons."""
    numbered = sum(row.status == "ok" for row in results.index.rows)
    if numbered:
        all_numbers = f"All numbers ({numbered})" if numbered > 1 else "Details of the number"
        with_command(console, f"{all_numbers}:", typed("show", results.index.run.folder, "--all"), first=INDENT)
    if missing := tables.numbers_missing(results):
        wrapped(console, f"{missing}.", first=INDENT, hanging=INDENT * 2)
    gaps = tables.gaps(results.index.rows)
    few = FEW_REASONS if sum(number for *_, number in gaps) >= WORTH_A_REASON * len(results.index.rows) else 0
    for _, reason, number in gaps[: few if numbered else MORE_REASONS]:
        wrapped(console, f"{count(number, 'row')}: {reason}", first=INDENT * 2, hanging=INDENT * 3)


def _findings(results: Results, console: Console, whole: bool) -> None:
    """Prints the gravest findings; with `whole` all findings, with their remedies."""
    findings, held = tables.findings(results), run_verdict.withheld(results)
    indent, dim = " " * (INDENT + 3), "dim"
    room = width_of(console) - len(indent)
    if findings or held:
        print_line(console, Text("Findings", style="bold"))
    for finding in findings if whole else findings[:FEW_FINDINGS]:
        sign = f"{'':{INDENT}}{tables.SIGNS[finding.severity]:<3}"
        first, *others = wrap(printable(finding.claim), room) or [""]
        print_line(console, Text(sign, style=SIGN_STYLES[finding.severity]).append(first, style="not bold default"))
        for line in others:
            print_line(console, Text(f"{indent}{line}"))
        for line in wrap(printable(finding.remedy), room) if whole else ():
            print_line(console, Text(f"{indent}{line}", style=dim))
    if len(findings) > FEW_FINDINGS and not whole:
        print_line(console, Text(f"{indent}and {len(findings) - FEW_FINDINGS} more findings with --all", style=dim))
    if held:
        wrapped(console, held, first=INDENT, hanging=INDENT * 2, style=dim)
    if findings or held:
        console.print()


def _closing(results: Results, console: Console) -> None:
    """Prints the properties of the run as a whole, and every reason for a gap."""
    for sentence in (*tables.unread_levels(results), *tables.of_the_run(results).values()):
        wrapped(console, tables.upper(sentence))
    for status, reason, number in tables.gaps(results.index.rows):
        wrapped(console, f"{status.replace('_', ' ')} ({number}): {reason}", hanging=INDENT * 2, first=INDENT)


def _ending(results: Results, console: Console, page: str | None) -> None:
    """Prints the path of the page, or the command that writes it (into the run's folder, or into the current one if the
    run's is another user's), and the next step."""
    folder = results.index.run.folder
    if page:
        print_line(console, Text(f"Page  {printable(shlex.quote(page))}"))
    else:
        foreign = Path(folder).is_dir() and not os.access(folder, os.W_OK)
        command = typed("report", folder, *(("--out", tables.PAGE) if foreign else ()))
        with_command(console, "Page  not written yet:", command, hanging=6)
    step = run_verdict.next_step(results)
    if step.command:
        print_line(console, Text(f"Next  {printable(step.command)}"))
        wrapped(console, step.when, first=6, hanging=6)
    elif step.when:
        wrapped(console, f"Next  {step.when}", hanging=6)


# ---- terminal studies -----------------------------------------------------------------------------------------------


def print_study(results: Results, suite: Suite, console: Console) -> None:
    """Prints a study's answer, and the rates of its kernels over length."""
    print_blocks(study_blocks(results, suite), console)
    print_blocks(_lengths(results), console)


def _lengths(results: Results) -> Iterator[Block]:
    """Yields for each target the kernel with most lengths, if there is something to compare; the other kernels
    by name."""
    every = sections(results)
    shown = [section for section in every if section.first and section.several]
    for section in shown:
        if section.place:
            yield heading(f"In {section.place}")
        yield from section.blocks
    more: dict[str, None] = {}
    for part in ("title", "place"):
        shown_names = {getattr(section, part) for section in shown}
        more |= dict.fromkeys(name for section in every if (name := getattr(section, part)) and name not in shown_names)
    if shown and more:
        yield f"More of these on the page and with --format md: {'; '.join(more)}."
