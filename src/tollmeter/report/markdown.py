# SPDX-License-Identifier: Apache-2.0
"""The answer as Markdown: for an issue, a merge request, a wiki. The wording is that of terminal and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

from tollmeter.model import Results, Row, printable
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Block, Table, heading
from tollmeter.report.headline import below_the_headline, headline, problems
from tollmeter.report.length_sections import sections
from tollmeter.report.listing import rows_by_probe
from tollmeter.report.machine_tables import all_tables, of_kinds
from tollmeter.report.numbers import count, of_row
from tollmeter.report.probe_sections import command
from tollmeter.report.study_view import study_blocks
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
    sentences = (run_verdict.withheld(results), *tables.of_the_run(results))
    parts.append(_joined(text(tables.upper(sentence)) for sentence in sentences))
    for section in sections(results):
        title = f"{section.title} ({section.place})" if section.place else section.title
        parts += of_blocks([heading(title), *section.blocks])
    last = [_gaps(results), f"## Again\n\n    {printable(command(results))}"]
    taken = sum(len(part) + 2 for part in (*parts, *last))
    return _joined((*parts, _rows(results, MOST_CHARACTERS - taken), *last)) + "\n"


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
    seen = problems(results)
    return [
        f"# {text(cpu)}",
        text(" · ".join(facts)),
        text(f"{tables.when(results)}: {tables.extent(results)}"),
        text(headline(results)),
        f"**{text(seen.lead)}**{text(str(seen).removeprefix(seen.lead))}",
        text(tables.upper(run_verdict.verdict(results))),
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
    lines = []
    for row in table.rows:
        first, *others = (text(str(cell)) for cell in row.cells)
        lines.append([f"{first} ({text(row.note)})" if row.note else first, *others])
    return _grid([text(column.name) for column in table.columns], lines, [column.right for column in table.columns])


def _grid(names: Sequence[str], lines: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    rule = "|".join("---:" if numbers else "---" for numbers in right)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"| {' | '.join(names)} |\n|{rule}|\n{rows}"


def _findings(results: Results) -> str:
    lines = []
    for finding in tables.findings(results):
        rests_on = "; ".join(tables.evidence(item, results) for item in finding.evidence)
        lines.append(f"* **{text(finding.claim)}** ({text(rests_on)}) {text(finding.remedy)}")
    return "\n".join(["## Findings", "", *lines]) if lines else ""


_ALWAYS, _AROUND_ROWS = ("probe", "parameters", "ABI", "metric", "median", "samples"), 400
"""Columns that identify rows; and characters of the heading, the columns' names and the sentence."""
_ROW_NAMES = ("probe", "parameters", "ABI", "target", "clock", "metric", "median", "samples")


def _rows(results: Results, most: int) -> str:
    """Returns all rows with a number; if these take more than `most` characters, the rows with the widest intervals are
    left out. A column with one value in all rows is left out too."""
    rows = [(row, _row(row)) for row in results.index.rows if row.status == "ok"]
    if not rows:
        return ""
    used = [
        place
        for place, name in enumerate(_ROW_NAMES)
        if name in _ALWAYS or len({cells[place] for _, cells in rows}) > 1
    ]
    lines = [[cells[place] for place in used] for _, cells in rows]
    lengths = [sum(map(len, line)) + 3 * len(line) + 2 for line in lines]
    note = ""
    if sum(lengths) > most - _AROUND_ROWS:
        worst_first = sorted(range(len(rows)), key=lambda place: _width(rows[place][0]), reverse=True)
        ends = accumulate(lengths[place] for place in worst_first)
        fitting = sum(end <= most - _AROUND_ROWS for end in ends)
        lines = [lines[place] for place in worst_first[:fitting]]
        export = typed("export", "--format", "md")
        note = f"The widest intervals come first; {len(rows) - fitting} more rows are in the table of `{export}`."
    names = [_ROW_NAMES[place] for place in used]
    grid = _grid(names, lines, [name in ("median", "samples") for name in names])
    return _joined(("## Rows", text(note), grid))


def _width(row: Row) -> float:
    """Returns the width of the interval as a share of the median; infinite without an interval."""
    known = row.median and row.low is not None and row.high is not None
    return (row.high - row.low) / abs(row.median) if known else inf  # type: ignore[operator, arg-type]


def _row(row: Row) -> list[str]:
    parameters = ", ".join(f"{name} {value}" for name, value in row.parameters.items())
    median = str(of_row(row))
    words = (row.probe, parameters, row.abi, row.target, row.clock, row.metric, median, count(row.samples))
    return [text(word) for word in words]


def _gaps(results: Results) -> str:
    gaps = tables.gaps(results.index.rows)
    lines = [(text(status.replace("_", " ")), text(reason), str(number)) for status, reason, number in gaps]
    grid = _grid(["status", "reason", "rows"], lines, [False, False, True])
    return f"## Without a number, and remarks\n\n{grid}" if lines else ""
