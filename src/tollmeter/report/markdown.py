# SPDX-License-Identifier: Apache-2.0
"""The answer as Markdown: for an issue, a merge request, a wiki. The same words as on the terminal and the page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import inf

from tollmeter.model import Finding, Results, Row
from tollmeter.report import programs, run_verdict, tables
from tollmeter.report.headline import below_the_headline, headline, problems
from tollmeter.report.length_sections import Section, sections
from tollmeter.report.machine_tables import all_tables, of_kinds
from tollmeter.report.numbers import count, of_row
from tollmeter.report.probe_sections import command
from tollmeter.report.programs import attribution_table, in_words, program_remarks, program_tables, why_not
from tollmeter.report.studies import answers_of, claims_table, listings, remarks
from tollmeter.report.tables import Block, Cell, Table
from tollmeter.report.text_layout import clean, parts
from tollmeter.root import typed
from tollmeter.studies.attribution import Attribution, largest

_BAR = "\\|"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&$])")


MOST_CHARACTERS = 60_000
"""GitHub takes 65,536 in a comment."""


def render(results: Results) -> str:
    """Head, memory, tolls, findings, rows, gaps and command. Beyond MOST_CHARACTERS rows are left out."""
    parts = [_head(results), _listed(below_the_headline(results)), *_study(results)]
    parts += map(grid_of, all_tables(results))
    parts += [*map(text, (*of_kinds(results), *tables.unread(results))), _findings(results), _sure(results)]
    parts += [part for section in sections(results) for part in _section(section)]
    last = [_gaps(results), _again(results)]
    taken = sum(len(part) + 2 for part in (*parts, *last))
    return "\n\n".join(part for part in (*parts, _rows(results, MOST_CHARACTERS - taken), *last) if part) + "\n"


def text(value: str) -> str:
    """Words that stay words: nothing in them is markup but a command, and nothing ends the line."""
    return "".join(  # a bar would end a table's cell, in a command too
        f"`{piece.replace('|', _BAR)}`" if command else SPECIAL.sub(r"\\\1", piece)
        for piece, command in parts(clean(value))
    )


def _head(results: Results) -> str:
    facts = tables.facts_of(results.index.machine)
    lines = [
        f"# {text(facts[0])}",
        text(" · ".join(facts[1:])),
        text(f"{tables.when(results)}: {tables.extent(results)}"),
    ]
    seen_problems = problems(results)
    problem_line = f"**{text(seen_problems.lead)}**{text(str(seen_problems).removeprefix(seen_problems.lead))}"
    worthy = (text(headline(results)), problem_line, text(tables.upper(run_verdict.verdict(results))))
    return "\n\n".join([*lines, *filter(None, worthy)])


def _study(results: Results) -> list[str]:
    """The question, what was published beside what is here, and the remarks."""
    suite = results.suite
    if suite is None or not suite.published:
        return []
    answered = answers_of(results, suite)
    asked = [f"## {text(suite.question)}", *([text(f"Source: {suite.source}")] if suite.source else [])]
    common = [text(sentence) for sentence in answered.sentences]
    remarks_text = [text(f"{number} {sentence}") for number, sentence in remarks(answered.answers)]
    return [
        *asked,
        *common,
        grid_of(claims_table(answered.answers)),
        *remarks_text,
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


def _section(section: Section) -> list[str]:
    block = section.block(f"{section.title} ({section.place})" if section.place else section.title)
    sentences = [_listed(block.sentences)] if block.sentences else []
    return [*(f"## {text(title)}" for title in block.titles), *map(grid_of, block.tables), *sentences]


def _listed(sentences: Sequence[str]) -> str:
    return "\n".join(f"* {text(sentence)}" for sentence in sentences)


def grid_of(table: Table) -> str:
    names = [column.name for column in table.columns]
    lines = [(_with_note(row.cells[0], row.note), *map(_cell, row.cells[1:])) for row in table.rows]
    return _grid([text(name) for name in names], lines, [column.right for column in table.columns])


def _with_note(cell: Cell, note: str) -> str:
    return f"{_cell(cell)} ({text(note)})" if note else _cell(cell)


def _cell(cell: Cell) -> str:
    return text(str(cell))


def _grid(names: Sequence[str], lines: Iterable[Sequence[str]], right: Sequence[bool]) -> str:
    rule = "|".join("---:" if numbers else "---" for numbers in right)
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"| {' | '.join(names)} |\n|{rule}|\n{rows}"


def _findings(results: Results) -> str:
    findings = [_finding(results, finding) for finding in tables.findings(results)]
    return "\n".join(["## Findings", "", *findings]) if findings else ""


def _finding(results: Results, finding: Finding) -> str:
    rests_on = "; ".join(tables.evidence(item, results) for item in finding.evidence)
    return f"* **{text(finding.claim)}** ({text(rests_on)}) {text(finding.remedy)}"


def _sure(results: Results) -> str:
    sentences = (
        run_verdict.held_back(results),
        tables.unfinished(results),
        results.index.run.summary,
        tables.sureness(results),
        tables.missing(results),
    )
    return "\n\n".join(text(tables.upper(sentence)) for sentence in sentences if sentence)


_ALWAYS, _AROUND_ROWS = ("probe", "parameters", "ABI", "metric", "median", "samples"), 400
"""Columns that tell rows apart; and characters of the heading, the columns' names and the sentence."""
_ROW_NAMES = ("probe", "parameters", "ABI", "target", "clock", "metric", "median", "samples")


def _rows(results: Results, most: int) -> str:
    """All rows with a number; where these take more than `most` characters, those with the widest intervals first and
    the rest left out. A column that says the same of all rows is left out too."""
    rows = [row for row in results.index.rows if row.status == "ok"]
    if not rows:
        return ""
    whole = {id(row): _row(row) for row in rows}
    used = [
        place
        for place, name in enumerate(_ROW_NAMES)
        if name in _ALWAYS or len({line[place] for line in whole.values()}) > 1
    ]
    lines = [[whole[id(row)][place] for place in used] for row in rows]
    if sum(map(_length, lines)) > most - _AROUND_ROWS:
        worst_first = sorted(rows, key=_width, reverse=True)
        lines = _first_that_fit([[whole[id(row)][place] for place in used] for row in worst_first], most - _AROUND_ROWS)
    names = [_ROW_NAMES[place] for place in used]
    grid = _grid(names, lines, [name in ("median", "samples") for name in names])
    return "\n\n".join(filter(None, ("## Rows", text(_left_out(len(rows) - len(lines))), grid)))


def _left_out(rows: int) -> str:
    command = typed("export", "--format", "md")
    return f"The widest intervals come first; {rows} more rows are in the table of `{command}`." if rows else ""


def _first_that_fit(lines: Iterable[list[str]], most: int) -> list[list[str]]:
    fitting: list[list[str]] = []
    for line in lines:
        most -= _length(line)
        if most < 0:
            break
        fitting.append(line)
    return fitting


def _length(line: Sequence[str]) -> int:
    """Characters of a table's line."""
    return sum(map(len, line)) + 3 * len(line) + 2


def _width(row: Row) -> float:
    """Of the interval, as a share of the median: infinite without one."""
    known = row.median and row.low is not None and row.high is not None
    return (row.high - row.low) / abs(row.median) if known else inf  # type: ignore[operator, arg-type]


def _row(row: Row) -> tuple[str, ...]:
    parameters = ", ".join(f"{name} {value}" for name, value in row.parameters.items())
    median = str(of_row(row))
    words = (row.probe, parameters, row.abi, row.target, row.clock, row.metric, median, count(row.samples))
    return tuple(text(word) for word in words)


def _gaps(results: Results) -> str:
    gaps = tables.gaps(results.index.rows)
    if not gaps:
        return ""
    lines = [(text(status.replace("_", " ")), text(reason), str(number)) for status, reason, number in gaps]
    return "## Without a number\n\n" + _grid(["status", "reason", "rows"], lines, [False, False, True])


def _again(results: Results) -> str:
    return f"## Again\n\n    {clean(command(results))}"
