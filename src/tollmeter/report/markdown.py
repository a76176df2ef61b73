# SPDX-License-Identifier: Apache-2.0
"""The answer as Markdown: for an issue, a merge request, a wiki. The wording is that of terminal and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf

from tollmeter.model import Results, Row
from tollmeter.report import programs, run_verdict, tables
from tollmeter.report.headline import below_the_headline, headline, problems
from tollmeter.report.length_sections import sections
from tollmeter.report.listing import by_probe
from tollmeter.report.machine_tables import all_tables, of_kinds
from tollmeter.report.numbers import count, of_row
from tollmeter.report.probe_sections import command
from tollmeter.report.programs import attribution_table, in_words, program_remarks, program_tables, why_not
from tollmeter.report.studies import answers_of, claims_table, listings, remarks
from tollmeter.report.tables import Block, Table
from tollmeter.report.text_layout import clean, parts
from tollmeter.root import typed
from tollmeter.studies.attribution import Attribution, largest

_BAR = "\\|"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")
MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 in a comment."""


def render(results: Results) -> str:
    """Returns head, memory, tolls, findings, rows, gaps and command. Rows beyond MOST_CHARACTERS are left out."""
    parts = [_joined(_head(results)), _listed(below_the_headline(results)), *_study(results)]
    parts += map(grid_of, all_tables(results))
    parts += [*map(text, (*of_kinds(results), *tables.unread(results))), _findings(results)]
    sentences = (
        run_verdict.withheld(results),
        tables.unfinished(results),
        results.index.run.summary,
        tables.sureness(results),
        tables.missing(results),
    )
    parts.append(_joined(text(tables.upper(sentence)) for sentence in sentences))
    for section in sections(results):
        block = section.block(f"{section.title} ({section.place})" if section.place else section.title)
        parts += [*(f"## {text(title)}" for title in block.titles), *map(grid_of, block.tables)]
        parts += [_listed(block.sentences)] if block.sentences else []
    last = [_gaps(results), f"## Again\n\n    {clean(command(results))}"]
    taken = sum(len(part) + 2 for part in (*parts, *last))
    return _joined((*parts, _rows(results, MOST_CHARACTERS - taken), *last)) + "\n"


def _joined(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, parts))


def text(value: str) -> str:
    """Returns text without markup except for a command, and without a line end."""
    return "".join(  # a bar would end a table's cell, in a command too
        f"`{piece.replace('|', _BAR)}`" if command else SPECIAL.sub(r"\\\1", piece)
        for piece, command in parts(clean(value))
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
    """The selected rows of a run under the questions of their probes, and the reason of each gap."""
    parts = [part for heading, table in by_probe(results) for part in (f"## {text(heading)}", grid_of(table))]
    gaps = [f"{count(number)} rows: {reason}" for _, reason, number in tables.gaps(results.index.rows)]
    return "\n\n".join([*_head(results)[:3], *parts, *map(text, gaps)]) + "\n"


def _study(results: Results) -> list[str]:
    """Returns the question, the published values with the measured ones, and the remarks."""
    suite = results.suite
    if suite is None or not suite.published:
        return []
    answered = answers_of(results, suite)
    return [
        f"## {text(suite.question)}",
        *([text(f"Source: {suite.source}")] if suite.source else []),
        *map(text, answered.sentences),
        grid_of(claims_table(answered.answers)),
        *(text(f"{number} {sentence}") for number, sentence in remarks(answered.answers)),
        *_blocks(listings(results)),
        *map(grid_of, program_tables(results)),
        *attribution(largest(results)),
        *map(text, program_remarks(results)),
        *_blocks(programs.answer(results, suite)),
    ]


def _blocks(blocks: Iterable[Block]) -> list[str]:
    return [
        part
        for block in blocks
        for part in (*(f"**{text(title)}**" for title in block.titles), *map(grid_of, block.tables),
                     *map(text, block.sentences))
    ]  # fmt: skip


def attribution(attributions: Sequence[Attribution]) -> list[str]:
    if not attributions:
        return []
    return [grid_of(attribution_table(attributions)), _listed([*map(in_words, attributions), *why_not(attributions)])]


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"* {text(sentence)}" for sentence in sentences)


def grid_of(table: Table) -> str:
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
"""Columns that tell rows apart; and characters of the heading, the columns' names and the sentence."""
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
