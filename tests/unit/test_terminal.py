# SPDX-License-Identifier: Apache-2.0
"""The end of a run on a terminal: it fits, it is aligned, it says what the page says, and nothing hostile acts."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Literal

import msgspec
import pytest
from rich.console import Console

from support import builders, example_runs
from tollmeter.model import Published, Results, RowOf, Select, Suite
from tollmeter.report import tables
from tollmeter.report.blocks import Block, Column, Line, Listing, Table, heading
from tollmeter.report.markdown import of_blocks
from tollmeter.report.markdown import render as markdown
from tollmeter.report.numbers import cycles_of_toll
from tollmeter.report.page import render as page
from tollmeter.report.terminal import study, summary
from tollmeter.report.text_layout import print_blocks, table_lines
from tollmeter.root import typed


def printed(results: Results, width: int, *, colour: bool = False, whole: bool = True) -> str:
    stream = io.StringIO()
    system: Literal["truecolor"] | None = "truecolor" if colour else None
    summary(results, Console(file=stream, width=width, force_terminal=colour, color_system=system), whole=whole)
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize(
    "make", [example_runs.healthy, example_runs.failed, example_runs.empty, example_runs.many_cpus]
)
def test_no_line_is_wider_than_the_terminal_or_a_hundred(make: Callable[[], Results], width: int) -> None:
    text = printed(make(), width)
    assert text.strip()
    assert max(len(line) for line in text.splitlines()) <= min(width, 100)


def test_numbers_stand_below_each_other() -> None:
    lines = [line for line in printed(example_runs.small(), 100).splitlines() if re.match(r"  (L\dd?|memory) ", line)]
    assert len(lines) == 4
    ends = {re.search(r"[\d.]+ ns", line).end() for line in lines}  # type: ignore[union-attr]
    assert len(ends) == 1
    assert len({line.index("±", line.index(" ns")) for line in lines}) == 1


def test_every_toll_has_its_median_cycles_and_how_many_fit() -> None:
    results = example_runs.small()
    text = printed(results, 100)
    paid = [toll for toll in results.index.tolls if toll.value]
    assert paid
    for toll in paid:
        line = next(line for line in text.splitlines() if line.strip().startswith(toll.toll))
        assert str(tables.time(toll.value)).split()[1] in line
        assert cycles_of_toll(toll) in line and tables.per_ms(toll.value or 0) in line


def test_a_suite_with_groups_has_a_table_of_tolls_for_each_in_its_order() -> None:
    selects = (Select(probe="kernel.switch", group="scheduling"), Select(probe="kernel.*", group="the rest"))
    suite = Suite(name="kernel", question="?", select=selects)
    text = printed(msgspec.structs.replace(example_runs.small(), suite=suite), 100, whole=False)
    first, rest = text.index("Scheduling"), text.index("The rest")
    assert first < text.index("switch between 2 processes") < rest < text.rindex("system call ")


def test_mitigations_stand_below_the_group_of_the_entry_that_pays_for_them() -> None:
    """Those alone that this CPU needs; a suite without groups has its own first screen."""
    facts = {"vulnerability_spectre_v2": "Mitigation: Retpolines", "vulnerability_mds": "Not affected"}
    results = example_runs.small()
    results = example_runs.with_index(results, machine=msgspec.structs.replace(results.index.machine, facts=facts))
    suite = Suite(name="kernel", question="?", select=(Select(probe="kernel.enter*", group="entry"),))
    grouped = msgspec.structs.replace(results, suite=suite)
    _, _, below = printed(grouped, 100, whole=False).partition("Entry")
    assert below.index("system call ") < below.index("Mitigations") < below.index("Computing")
    assert re.search(r"spectre v2 +Mitigation: Retpolines", below) and "mds" not in below
    assert re.search(r'(?s)id="mitigations".*spectre v2.*Retpolines', page(grouped)) is not None
    assert "Mitigations" not in printed(results, 100, whole=False)


def test_a_toll_without_its_number_is_a_gap_with_its_reason_and_no_headline() -> None:
    results = example_runs.small()
    told = example_runs.with_entry(results, status="interrupted", reason="the budget ended it", median=None)
    line = next(line for line in tables.toll_table(told).rows if line.cells[0] == "system call")  # type: ignore[union-attr]
    assert (line.cells[1], line.note) == ("–", "no number: the budget ended it")
    assert "entry" in tables.answer(results) and "entry" not in tables.answer(told)


def _without_hypervisor(results: Results) -> Results:
    machine = msgspec.structs.replace(results.index.machine, hypervisor=None)
    return example_runs.with_index(results, machine=machine)


def test_what_disagrees_is_marked_without_colour() -> None:
    bare = _without_hypervisor(example_runs.small())
    lines = {line.split()[0]: line for line in printed(bare, 100).splitlines() if re.match(r"  L\d", line)}
    assert ["≠" in lines[level] for level in ("L1d", "L2", "L3")] == [False, False, True]
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", printed(bare, 100, colour=True))
    assert coloured == printed(bare, 100)


def test_a_size_of_too_few_visits_does_not_disagree() -> None:
    bare = _without_hypervisor(example_runs.small())
    few = tuple(msgspec.structs.replace(level, few_samples=8) for level in bare.index.hierarchy)
    text = printed(example_runs.with_index(bare, hierarchy=few), 100)
    assert re.search(r"  L3 +~ \d", text) and "≠" not in text


def test_a_memory_table_has_the_column_of_that_mark_only_where_a_level_has_it() -> None:
    guest, bare = (
        tables.memory_table(results) for results in (example_runs.small(), _without_hypervisor(example_runs.small()))
    )
    assert guest and bare
    assert "" not in [column.name for column in guest.columns]
    assert len(bare.columns) == len(guest.columns) + 1 and bare.columns[2].name == ""


def test_a_cache_that_the_system_reports_and_no_size_shows_is_named() -> None:
    results = example_runs.small()
    without = tuple(level for level in results.index.hierarchy if level.level != "L3")
    table = tables.memory_table(example_runs.with_index(results, hierarchy=without))
    assert table and [line.cells[0] for line in table.rows] == ["L1d", "L2", "L3", "memory"]
    assert str(table.rows[2].cells[-5]) == "32 MiB" and table.rows[2].note
    short = tables.memory_table(example_runs.with_index(results, hierarchy=without[:2]))
    assert short and [line.cells[0] for line in short.rows] == ["L1d", "L2"], "memory was not reached"


def test_a_guest_reads_how_much_of_the_shared_cache_it_has() -> None:
    left = "at least 5.2 MiB of it is available to this machine now; CPUs outside it may use the rest"
    guest = printed(example_runs.small(), 100)
    assert left in guest and "≠" not in guest
    assert left not in printed(_without_hypervisor(example_runs.small()), 100)


def test_a_level_that_the_system_does_not_report_may_be_the_shared_cache_in_a_guest() -> None:
    """Two of five runs of a guest had an L4 of 32 to 345 MiB, where the host has an L3 of 480 MiB."""
    results = example_runs.small()
    *caches, last, memory = results.index.hierarchy
    fourth = msgspec.structs.replace(last, level="L4", os_size_bytes=None, not_apart_from="")
    levels = (*caches, last, fourth, memory)
    more = example_runs.with_index(results, hierarchy=levels)
    sentence = "the system reports no such cache: it may be L3"
    assert printed(more, 120).count(sentence) == 1
    assert sentence not in printed(_without_hypervisor(more), 120)
    assert sentence not in printed(results, 120)
    ended = msgspec.structs.replace(last, level="L3 or memory", os_size_bytes=None, not_apart_from="")
    short = printed(example_runs.with_index(results, hierarchy=(*caches, ended)), 120)
    assert sentence not in short and "may be that cache or memory" in short


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_label_that_does_not_fit_is_wrapped_and_not_cut(width: int) -> None:
    words = " ".join(printed(example_runs.small(), width).split())
    for word in ["ask", "an", "object", "over", "shared", "memory,", "two", "CPUs"]:
        assert word in words


def test_findings_come_gravest_first_with_their_remedy() -> None:
    results = example_runs.small()
    found = list(reversed(results.index.findings))
    told = example_runs.with_index(results, findings=tuple(found))
    text = printed(told, 100)
    claims = [text.index(finding.claim) for finding in tables.findings(told)]
    assert claims == sorted(claims)
    assert text.index("2 MiB pages") > text.index("waking a process")
    assert all(finding.remedy in text for finding in found)


def test_gaps_are_sentences() -> None:
    text = " ".join(printed(example_runs.failed(), 100).split())
    for reason in ("no answer within 20,000 ms", "error 3.1e-2 is beyond the bound", "needs two CPUs"):
        assert reason in text


@pytest.mark.parametrize("width", [80, 100])
def test_markup_and_escape_sequences_in_names_stay_words(width: int) -> None:
    results = example_runs.hostile()
    machine = msgspec.structs.replace(results.index.machine, cpu="\x1b[2J\x07[bold]evil[/bold]\r\n")
    text = printed(example_runs.with_index(results, machine=machine), width)
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text
    assert "[bold]evil[/bold]" in text and "[/nonsense]" in text


def test_markdown_says_the_same_and_nothing_in_it_is_markup() -> None:
    results = example_runs.small()
    text = markdown(results)
    for toll in results.index.tolls:
        assert toll.toll in text
    assert all(finding.claim in text for finding in results.index.findings)
    hostile = markdown(example_runs.hostile())
    assert not re.search(r"(?<!\\)<", hostile.split("## Again")[0])
    rows = [line for line in hostile.splitlines() if line.startswith("| memory.latency")]
    assert rows and {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}, (
        "no target or clock, of which there is one"
    )


# ---- studies ----------------------------------------------------------------------------------------------------


def suite(*published: Published) -> Suite:
    return Suite(
        name="old-paper",
        question="Does it hold here?",
        select=(Select(probe="*"),),
        source="A paper, 1999",
        published=published,
    )


def told(results: Results, *published: Published, width: int = 100) -> str:
    stream = io.StringIO()
    study(results, suite(*published), Console(file=stream, width=width))
    return " ".join(stream.getvalue().split())


def test_a_study_shows_the_published_figure_beside_the_machines_own() -> None:
    row = RowOf(means="entry", abi="native")
    text = told(example_runs.healthy(), Published(what="kernel entry", figure="1.84 M/s", row=row))
    assert "Does it hold here? Source: A paper, 1999" in text
    assert re.search(r"kernel entry 1\.84 M/s 12\d ns ±", text)


def test_a_ratio_is_of_one_row_over_another() -> None:
    place = {"n": 1024, "precision": "float"}
    top, bottom = (RowOf(probe="float.dot", abi=abi, parameters=place) for abi in ("x86_64", "ia32"))
    text = told(example_runs.healthy(), Published(what="speed-up", figure="10 times", row=top, over=bottom))
    assert re.search(r"speed-up 10 times 2\.2\d ×", text)


def test_what_cannot_be_filled_is_a_sentence() -> None:
    text = told(
        example_runs.failed(),
        Published(what="serial time", figure="418 k/s", missing="No serial line is measured yet."),
        Published(what="line", figure="27 ns", row=RowOf(means="core-to-core")),
        Published(what="wide", figure="3", row=RowOf(probe="float.dot", abi="arm-soft")),
    )
    assert "(1) No serial line is measured yet." in text
    assert "memory.ping_pong gave no number: needs two CPUs" in text
    assert "This run has no row of float.dot for arm-soft." in text


def test_a_correction_stands_by_its_claim() -> None:
    row = RowOf(means="entry", abi="native")
    text = told(example_runs.healthy(), Published(what="entry", figure="x", row=row, correction="On 64-bit only."))
    assert "(1) On 64-bit only." in text


def test_a_rows_own_reason_stands_before_the_claims() -> None:
    results = example_runs.healthy()
    stopped = [
        msgspec.structs.replace(row, status="interrupted", reason="the run was stopped", median=None)
        for row in results.index.rows
        if row.probe == "kernel.enter_syscall"
    ]
    claim = Published(what="entry", figure="x", row=RowOf(means="entry"), missing="Not asked for in this run.")
    text = told(example_runs.with_rows(results, stopped), claim)
    assert "kernel.enter_syscall gave no number: the run was stopped." in text and "Not asked for" not in text
    assert "Not asked for in this run." in told(example_runs.with_rows(results, []), claim)


def test_another_choices_reason_is_none_of_a_claims() -> None:
    """That one way is unsupported says nothing of the other; of another length of the same way it does."""
    bare = builders.row(None, of="float.dot", name="rate", unit="flop/s", status="unsupported", abi="arm-soft")
    gap = msgspec.structs.replace(bare, parameters={"n": 16, "way": "hardware"}, reason="no FPU")
    claims = {
        way: RowOf(probe="float.dot", abi="arm-soft", parameters={"n": 64, "way": way})
        for way in ("hardware", "emulated")
    }
    texts = {
        way: told(example_runs.with_rows(example_runs.healthy(), [gap]), Published(what="w", figure="x", row=row))
        for way, row in claims.items()
    }
    assert "no FPU" in texts["hardware"] and "no FPU" not in texts["emulated"]


def test_a_note_on_a_row_goes_only_where_its_number_is() -> None:
    row = RowOf(means="entry", abi="arm-soft")
    silent = [builders.row(None, of="kernel.enter_syscall", name="round_trip", abi="arm-soft", status="unsupported")]
    claim = Published(what="entry", figure="x", row=row, correction="On ARM only.")
    assert "On ARM only." not in told(example_runs.with_rows(example_runs.healthy(), silent), claim)
    text = told(example_runs.healthy(), claim)
    assert "This run has no row of entry for arm-soft." in text and "On ARM only." not in text
    assert "On ARM only." in told(
        example_runs.healthy(), Published(what="entry", figure="x", correction="On ARM only.")
    )


def test_a_count_of_instructions_answers_no_claim_of_a_time() -> None:
    """The kernel's share of a trap, and memory's of a load, are not in it."""
    results = example_runs.healthy(("x86_64",))
    counted = [
        msgspec.structs.replace(row, clock="instructions", target="qemu-user:arm", abi="arm-soft", unit="instruction")
        for row in results.index.rows
        if row.probe == "kernel.enter_syscall"
    ]
    text = told(example_runs.with_rows(results, counted), Published(what="entry", figure="x", row=RowOf(means="entry")))
    assert "entry x –" in text and "qemu-user:arm counts the program's own instructions" in text


def test_of_several_rows_the_least_and_the_most_are_shown() -> None:
    text = told(
        example_runs.healthy(), Published(what="faults", figure="?", row=RowOf(means="price-of-fault", abi="native"))
    )
    assert re.search(r"faults \? 4\d\d to 6\d\d ns", text)


def test_a_claim_may_name_the_place_of_its_rows() -> None:
    here, away = (RowOf(means="entry", abi="native", target=place) for place in ("loc*", "bare:*"))
    assert re.search(r"entry x 12\d ns ±", told(example_runs.healthy(), Published(what="entry", figure="x", row=here)))
    assert "This run has no row of entry." in told(
        example_runs.healthy(), Published(what="entry", figure="x", row=away)
    )


@pytest.mark.parametrize("width", [80, 100])
def test_a_study_fits(width: int) -> None:
    stream = io.StringIO()
    claims = [
        Published(
            what=f"a claim of some length, number {n}",
            figure="about 10 times slower than the other",
            row=RowOf(means="entry"),
        )
        for n in range(3)
    ]
    study(example_runs.healthy(), suite(*claims), Console(file=stream, width=width))
    assert max(len(line) for line in stream.getvalue().splitlines()) <= width


def elsewhere(results: Results, target: str, factor: float) -> Results:
    """The results with each rate over length once more, from an emulator in another place."""
    rows = [
        msgspec.structs.replace(row, target=target, clock="virtual", median=row.median * factor)
        for row in results.index.rows
        if row.probe == "float.dot" and row.median
    ]
    return example_runs.with_rows(results, [*rows, *results.index.rows])


def test_a_ratio_is_of_one_clock_in_one_place() -> None:
    place: dict[str, int | str] = {"n": 1024, "precision": "float"}
    top, bottom = (RowOf(probe="float.dot", abi=abi, parameters=place) for abi in ("x86_64", "ia32"))
    claim = Published(what="speed-up", figure="10 times", row=top, over=bottom)
    assert re.search(r"speed-up 10 times 2\.2\d ×", told(elsewhere(example_runs.healthy(), "guest:x32", 1e-3), claim))
    there = elsewhere(example_runs.healthy(("x86_64",)), "guest:x32", 1e-3)
    ia32 = [row for row in example_runs.healthy(("ia32",)).index.rows if row.probe == "float.dot"]
    moved = [msgspec.structs.replace(row, abi="ia32", target="guest:arm", clock="virtual") for row in ia32]
    text = told(example_runs.with_rows(there, [*there.index.rows, *moved]), claim)
    assert "speed-up 10 times –" in text and "No two of these rows were timed by one clock in one place." in text


def test_what_an_emulator_gave_says_so() -> None:
    place: dict[str, int | str] = {"n": 1024, "precision": "float"}
    claim = Published(what="rate", figure="10", row=RowOf(probe="float.dot", abi="x86_64", parameters=place))
    both = elsewhere(example_runs.healthy(), "guest:x32", 1e-3)
    away = example_runs.with_rows(both, [row for row in both.index.rows if row.target == "guest:x32"])
    assert "In virtual time of guest:x32." in told(away, claim)
    assert "In virtual time" not in told(both, claim)


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
        msgspec.structs.replace(row, parameters={"size": 64 * place}, low=row.median - place, high=row.median + place)
        for place in range(1, 2000)
    ]
    text = markdown(example_runs.with_index(small, rows=tuple(many)))
    assert 50_000 < len(text) < 60_000
    sizes = [int(found) for found in re.findall(r"size (\d+)", text.partition("## Rows")[2])]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] == 64 * 1999, "the widest intervals come first"
    assert f"{len(many) - len(sizes)} more rows" in text and "export" in text


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
    stream = io.StringIO()
    print_blocks(view, Console(file=stream, width=40))
    printed = ["a     b", "  x   1"]
    assert stream.getvalue().splitlines() == [
        "said", "", *printed, "", *printed, "", "one", "two", *printed, "", "code", "    y = 2", "end",
    ]  # fmt: skip


def test_each_block_has_its_form_in_markdown() -> None:
    table = Table([Column("a"), Column("b", right=True)], [Line(("x", "1"), "a note")])
    view: list[Block] = [heading("a | b"), "see `toll run`", table, Listing(("*p", "q"), 2)]
    command = typed("run")
    assert of_blocks(view) == [
        "## a \\| b", f"see `{command}`", "| a | b |\n|---|---:|\n| x (a note) | 1 |", "    *p\n    q",
    ]  # fmt: skip
