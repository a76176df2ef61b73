# SPDX-License-Identifier: Apache-2.0
"""The answer as Markdown: for an issue, a merge request, a wiki. The wording is that of terminal and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import inf
from operator import itemgetter

from tollmeter.model import Results, Row, printable
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Block, Column, Line, Listing, Table, heading
from tollmeter.report.headline import below_the_headline, headline, problems
from tollmeter.report.length_sections import sections
from tollmeter.report.listing import listing, rows_by_probe
from tollmeter.report.machine_tables import all_tables, of_kinds
from tollmeter.report.probe_sections import command
from tollmeter.report.studies import study_blocks
from tollmeter.report.text_layout import parts
from tollmeter.root import typed

_BAR = "\\|"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
MOST_CHARACTERS = 60_000
"""Longest text: GitHub accepts 65,536 characters in a comment."""


def render(results: Results) -> str:
    """Returns head, memory, tolls, findings, rows, gaps and command. Rows beyond MOST_CHARACTERS are left out."""
    suite = results.suite if results.suite and results.suite.published else None
    parts = [_joined(_head(results)), _listed(below_the_headline(results))]
    parts += of_blocks(study_blocks(results, suite)) if suite else []
    parts += of_blocks(all_tables(results))
    parts += [*of_blocks((*of_kinds(results), *tables.unread_levels(results))), _findings(results)]
    sentences = (run_verdict.withheld(results), *tables.of_the_run(results).values())
    parts.append(_joined(text(tables.upper(sentence)) for sentence in sentences))
    for section in sections(results):
        title = f"{section.title} ({section.place})" if section.place else section.title
        parts += of_blocks([heading(title), *section.blocks])
    last = of_blocks((*_gaps(results), heading("Again"), Listing((command(results),), indent=4)))
    taken = sum(len(part) + 2 for part in (*parts, *last))
    return _joined((*parts, *of_blocks(_rows(results, MOST_CHARACTERS - taken)), *last)) + "\n"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, parts))


def text(value: str) -> str:
    """Returns text without markup except for a command, and without a line end."""
    return "".join(  # a bar would end a table's cell, in a command too
        f"`{piece.replace('|', _BAR)}`" if command else SPECIAL.sub(r"\\\1", piece)
        for piece, command in parts(printable(value))
    )


def _head(results: Results) -> list[str]:
    cpu, *facts = tables.facts_of(results.index.machine)
    problems_found = problems(results)
    return [
        f"# {text(cpu)}",
        text(" · ".join(facts)),
        text(f"{tables.when(results)}: {tables.extent(results)}"),
        text(headline(results)),
        f"**{text(problems_found.lead)}**{text(str(problems_found).removeprefix(problems_found.lead))}",
        text(tables.upper(run_verdict.verdict_sentence(results))),
        *map(text, tables.run_remarks(results.index.run).values()),
    ]


def some_rows(results: Results) -> str:
    """Returns the selected rows of a run under the machine and the run."""
    return _joined([*_head(results)[:3], *of_blocks(rows_by_probe(results))]) + "\n"


def of_blocks(blocks: Iterable[Block]) -> list[str]:
    """Returns the text of each block."""
    return [_of_block(block) for block in blocks]


def _of_block(block: Block) -> str:
    if isinstance(block, str):
        return text(block)
    if isinstance(block, Table):
        return _grid_of(block)
    mark = "    " if block.indent else "## "
    return "\n".join(f"{mark}{printable(line) if block.indent else text(line)}" for line in block.lines)


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"* {text(sentence)}" for sentence in sentences)


def _grid_of(table: Table) -> str:
    lines = [[text(column.name) for column in table.columns]]
    for row in table.rows:
        first, *others = (text(str(cell)) for cell in row.cells)
        lines.append([f"{first} ({text(row.note)})" if row.note else first, *others])
    names, *rows = (f"| {' | '.join(line)} |" for line in lines)
    rule = "|".join("---:" if column.right else "---" for column in table.columns)
    return "\n".join([names, f"|{rule}|", *rows])


def first_rows(table: Table, most: int) -> Table:
    """Returns the table with its first rows, as many as fit into `most` characters."""
    ends = accumulate(len(line) + 1 for line in _grid_of(table).splitlines()[2:])
    return replace(table, rows=table.rows[: sum(end <= most for end in ends)])


def _findings(results: Results) -> str:
    lines = []
    for finding in tables.findings(results):
        rests_on = "; ".join(tables.evidence(item, results) for item in finding.evidence)
        lines.append(f"* **{text(finding.claim)}** ({text(rests_on)}) {text(finding.remedy)}")
    return "\n".join(["## Findings", "", *lines]) if lines else ""


AROUND_ROWS = 400
"""Characters reserved for the heading, the columns' names and the sentence of the rows."""


def _rows(results: Results, most: int) -> list[Block]:
    """Returns all rows with a number; if these take more than `most` characters, the rows with the widest intervals,
    the widest first."""
    table = listing(results, whole=True)
    if table is None:
        return []
    rows = [row for row in results.index.rows if row.status == "ok"]
    widest = sorted(zip(map(_width, rows), table.rows, strict=True), key=itemgetter(0), reverse=True)
    shown = first_rows(replace(table, rows=[line for _, line in widest]), most - AROUND_ROWS)
    left_out = len(rows) - len(shown.rows)
    if not left_out:
        return [heading("Rows"), table]
    export = typed("export", "--format", "md")
    note = f"The widest intervals come first; {left_out} more rows are in the table of `{export}`."
    return [heading("Rows"), note, shown]


def _width(row: Row) -> float:
    """Returns the width of the interval as a share of the median; infinite without an interval."""
    known = row.median and row.low is not None and row.high is not None
    return (row.high - row.low) / abs(row.median) if known else inf  # type: ignore[operator, arg-type]


def _gaps(results: Results) -> list[Block]:
    lines = [Line((status.replace("_", " "), reason, str(number))) for status, reason, number in
             tables.gaps(results.index.rows)]  # fmt: skip
    table = Table([Column("status"), Column("reason"), Column("rows", True)], lines)
    return [heading("Without a number, and remarks"), table] if lines else []
