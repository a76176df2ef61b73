# SPDX-License-Identifier: Apache-2.0
"""Blocks on a terminal and in Markdown: nothing hostile acts, no word is broken, and what is left out is named."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
from rich.console import Console

from support import example_runs
from support.rendered import on_console, printed
from tollmeter.report import tables
from tollmeter.report.blocks import Block, Column, Line, Listing, Table, heading
from tollmeter.report.markdown import of_blocks
from tollmeter.report.markdown import render as markdown
from tollmeter.report.terminal import summary
from tollmeter.report.text_layout import print_blocks, table_lines
from tollmeter.root import typed


def test_colour_adds_no_word_and_no_mark() -> None:
    stream = io.StringIO()
    summary(example_runs.small(), Console(file=stream, width=80, force_terminal=True, color_system="truecolor"))
    assert "\x1b[" in stream.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue()) == printed(example_runs.small())


@pytest.mark.parametrize("width", [80, 100])
def test_markup_and_escape_sequences_in_names_stay_words(width: int) -> None:
    results = example_runs.hostile()
    machine = msgspec.structs.replace(results.index.machine, cpu="\x1b[2J\x07[bold]evil[/bold]\r\n")
    text = printed(example_runs.with_index(results, machine=machine), width, whole=True)
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text
    assert "[bold]evil[/bold]" in text and "[/nonsense]" in text


def test_nothing_in_markdown_is_markup() -> None:
    hostile = markdown(example_runs.hostile())
    assert not re.search(r"(?<!\\)<", hostile.split("## Again")[0])
    rows = [line for line in hostile.splitlines() if line.startswith("| memory.latency")]
    assert rows and {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {4}


def test_a_narrow_table_breaks_no_word_while_there_is_room() -> None:
    """Of two columns of words the one whose words are long keeps its room, however wide the other's text is."""
    long, short = "two-instruction 1,246,723,760 operations", "a b c d e f g h i j k l m n o p q"
    told = tables.Table([tables.Column("What"), tables.Column("published")], [tables.Line((short, long))])
    for width in (60, 40, 30):
        text = "\n".join(line.plain for line in table_lines(told, width))
        assert all(word in text for word in ("1,246,723,760", "instruction", "operations")), text


def test_markdown_of_many_rows_fits_into_a_comment_and_names_the_command_for_the_rest() -> None:
    small = example_runs.small()
    (row, *_) = (row for row in small.index.rows if row.status == "ok")
    many = [
        msgspec.structs.replace(row, parameters={"place": place}, low=row.median - place, high=row.median + place)
        for place in range(1, 4000)
    ]
    text = markdown(example_runs.with_index(small, rows=tuple(many)))
    assert 50_000 < len(text) < 60_000
    places = [int(found) for found in re.findall(r"^\| [^|]+ \| (\d+) ", text.partition("## Rows")[2], re.MULTILINE)]
    assert places == [*range(3999, 3999 - len(places), -1)], "the widest intervals come first"
    assert f"{len(many) - len(places)} more rows" in text and "export" in text


# ---- blocks ---------------------------------------------------------------------------------------------------------


def test_one_empty_line_sets_tables_and_headings_apart() -> None:
    table = Table([Column("a"), Column("b", right=True)], [Line(("x", "1"))])
    view: list[Block] = [
        "said",
        table,
        table,
        heading("one"),
        heading("two"),
        table,
        heading("code"),
        Listing(("  y = 2",), 2),
        "end",
    ]
    text = on_console(lambda console: print_blocks(view, console), 40)
    lines = ["a     b", "  x   1"]
    assert text.splitlines() == [
        "said", "", *lines, "", *lines, "", "one", "two", *lines, "", "code", "    y = 2", "end",
    ]  # fmt: skip


def test_each_block_has_its_form_in_markdown() -> None:
    table = Table([Column("a"), Column("b", right=True)], [Line(("x", "1"), "a note")])
    view: list[Block] = [heading("a | b"), "see `toll run`", table, Listing(("*p", "q"), 2)]
    command = typed("run")
    assert of_blocks(view) == [
        "## a \\| b", f"see `{command}`", "| a | b |\n|---|---:|\n| x (a note) | 1 |", "    *p\n    q",
    ]  # fmt: skip
