# SPDX-License-Identifier: Apache-2.0
"""Rates over length in words: clocks apart, pairs that differ in one thing, falls in sentences, in every output."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from support import builders, example_runs
from support.rendered import screens, words
from tollmeter.model import (
    Clock,
    Fall,
    FigureLine,
    Lengths,
    Parameter,
    Published,
    Results,
    Row,
    RowOf,
    Select,
    StudyFigure,
    Suite,
)
from tollmeter.report import markdown, page
from tollmeter.report.length_sections import Section, fallen, picked, sections

WAYS = ("hardware", "emulated", "trapped")
PROBE = builders.probe(
    builders.metric("rate", "flop/s", means="flops-of-n"),
    name="float.dot",
    parameters=[Parameter(name="way", kind="choice", summary="how", choices=WAYS)],
)


def rate(abi: str, way: str, n: int, value: float, place: tuple[str, Clock] = ("local", "hardware")) -> Row:
    target, clock = place
    parameters: dict[str, int | str] = {"n": n, "precision": "double", "way": way}
    row = builders.row(value, of="float.dot", name="rate", unit="flop/s", parameters=parameters, abi=abi, clock=clock)
    counted = clock == "instructions"
    return msgspec.structs.replace(
        row, target=target, unit="instruction" if counted else "flop/s", better="less" if counted else "more"
    )


def results(rows: Iterable[Row], lengths: tuple[Lengths, ...] = (), *, study: bool = False) -> Results:
    bare = example_runs.empty()
    index = msgspec.structs.replace(bare.index, rows=tuple(rows), lengths=lengths)
    suite = Suite(
        name="s", question="Which?", select=(Select(probe="*"),), published=(Published(what="w", figure="f"),)
    )
    return msgspec.structs.replace(bare, index=index, probes={"float.dot": PROBE}, suite=suite if study else None)


def native() -> list[Row]:
    speeds = {("x86_64", "hardware"): 8e9, ("x86_64", "emulated"): 2e8, ("x86_64", "trapped"): 1e5,
              ("ia32", "hardware"): 4e9, ("ia32", "emulated"): 1e8, ("ia32-x87", "emulated"): 1.01e8}  # fmt: skip
    return [rate(abi, way, n, speed) for (abi, way), speed in speeds.items() for n in (16, 1024)]


def counted(target: str = "qemu-user:arm") -> list[Row]:
    costs = {("arm-hard", "hardware"): 2.0, ("arm-hard", "emulated"): 50.0, ("arm-hard", "trapped"): 90.0}
    return [
        rate("arm-hard", way, n, cost, (target, "instructions")) for (_, way), cost in costs.items() for n in (16, 64)
    ]


def cells(section: Section) -> dict[str, tuple[str, ...]]:
    assert section.gains
    return {str(line.cells[0]): tuple(map(str, line.cells[1:])) for line in section.gains.rows}


def test_pairs_differ_in_one_thing_and_are_the_faster_over_the_slower_way() -> None:
    (section,) = sections(results(native()))
    told = cells(section)
    assert told["x86_64: hardware over emulated"] == ("40.0", "40.0")
    assert told["x86_64: emulated over trapped"] == ("2000", "2000")
    assert told["hardware: x86_64 over ia32"] == ("2.00", "2.00")
    assert not any("hardware over trapped" in name for name in told)


def test_abis_that_are_as_fast_as_each_other_stand_in_a_sentence_and_once_in_the_table() -> None:
    (section,) = sections(results(native()))
    assert section.sentences[0] == "The same within 3 % at every N: emulated: ia32 and ia32-x87."
    assert [name for name in cells(section) if name.startswith("emulated:")] == ["emulated: x86_64 over ia32"]


def test_three_equal_abis_are_stated_in_one_sentence() -> None:
    more = [rate("ia32-old", "emulated", n, 0.99e8) for n in (16, 1024)]
    (section,) = sections(results([*native(), *more]))
    assert section.sentences[0] == "The same within 3 % at every N: emulated: ia32, ia32-old and ia32-x87."


def test_no_table_holds_two_clocks_or_two_places() -> None:
    virtual = [rate("arm-soft", "emulated", n, 1.9e7, ("guest:board", "virtual")) for n in (16, 64)]
    found = sections(results([*counted(), *virtual, *native(), *counted("qemu-user:other")]))
    assert [section.place for section in found] == [
        "",
        "guest:board, virtual time",
        "qemu-user:arm, counted instructions",
        "qemu-user:other, counted instructions",
    ]
    names = [{str(line.cells[0]) for line in section.rates.rows} for section in found]
    assert sum(map(len, names)) == 6 + 2 + 2 + 1


def test_a_way_has_the_name_that_the_study_gives_it_in_its_place() -> None:
    """The instructions of an FPU that a guest's kernel emulates stood as the hardware's."""
    there: tuple[str, Clock] = ("guest:malta", "virtual")
    made = results([rate("mipsel", "hardware", n, 4e4, there) for n in (16, 64)], study=True)
    row = RowOf(probe="float.dot", abi="mipsel", target=there[0], parameters={"way": "hardware"})
    line = FigureLine(name="dot product, as the kernel emulates it", row=row)
    drawn = StudyFigure(name="it", what="?", shows="?", drawn="curve", line=(line,))
    suite = msgspec.structs.replace(made.suite, figure=(drawn,))
    (section,) = sections(msgspec.structs.replace(made, suite=suite))
    assert [line.note for line in section.rates.rows] == ["as the kernel emulates it"]
    (bare,) = sections(made)
    assert [line.note for line in bare.rates.rows] == [""]


def test_counted_instructions_are_fewer_and_leave_the_trap_out() -> None:
    (section,) = sections(results(counted()))
    assert cells(section) == {"arm-hard: hardware over emulated": ("25.0", "25.0")}
    assert section.gains and "times as few" in section.gains.title
    assert not any("trapped" in str(line.cells[0]) for line in section.rates.rows)
    assert "what a kernel does for a trap is not among them" in section.sentences[-1]


def test_a_length_that_one_of_two_lacks_is_a_dash() -> None:
    rows = [row for row in native() if row.parameters["way"] != "trapped" or row.parameters["n"] == 16]
    (section,) = sections(results(rows))
    assert cells(section)["x86_64: emulated over trapped"] == ("2000", "–")


@pytest.mark.parametrize(
    ("lengths", "kept"),
    [
        ([16, 64], [16, 64]),
        ([1 << power for power in range(4, 21)], [16, 256, 4096, 65536, 1 << 20]),
        ([16, 24, 32, 48, 64, 96, 128, 256], [16, 32, 64, 128, 256]),
        ([10, 20, 30], [10, 20, 30]),
    ],
)
def test_a_table_has_five_lengths_at_most_and_both_ends(lengths: list[int], kept: list[int]) -> None:
    assert picked(lengths) == kept


# ---- falls ------------------------------------------------------------------------------------------------------


def curve(abi: str, *falls: Fall, usual_ns: float = 5.0) -> Lengths:
    return Lengths(
        probe="float.dot", abi=abi, target="local", clock="hardware", metric="rate", first_n=16, last_n=65536,
        parameters={"precision": "double", "way": "emulated"}, usual_ns=usual_ns, falls=falls,
    )  # fmt: skip


OF_MEMORY = Fall(
    after_n=4096, by_n=8192, after_bytes=32768, by_bytes=65536, slower=1.5, lost_ns=2.5, least_ns=9.0,
    cause="memory", levels=("L1d",),
)  # fmt: skip
OF_LENGTH = msgspec.structs.replace(OF_MEMORY, cause="length", levels=(), least_ns=0.06)


def test_a_fall_is_named_with_its_vectors_and_its_cache() -> None:
    ((abis, said),) = fallen([curve("arm-soft", OF_MEMORY), curve("arm-hard", OF_MEMORY)])
    assert abis == "arm-soft, arm-hard"
    assert said == "the rate falls past N = 4,096, 32 KiB of vectors: L1d (1.50 times the time by N = 8,192)"


def test_a_fall_near_no_cache_says_so() -> None:
    ((_, said),) = fallen([curve("arm-soft", msgspec.structs.replace(OF_MEMORY, cause="unknown", levels=()))])
    assert "near the end of no cache" in said and "L1d" not in said


def test_a_fall_without_evidence_says_what_is_missing_and_names_nothing() -> None:
    bare = msgspec.structs.replace(OF_LENGTH, cause="unknown", least_ns=0)
    ((_, said),) = fallen([curve("arm-soft", bare)])
    assert "the hardware's own way was not timed over the same vectors" in said
    assert "L1" not in said and "branches" not in said


def test_a_fall_that_is_not_of_memory_says_why_and_names_no_cache() -> None:
    ((_, said),) = fallen([curve("arm-soft", OF_LENGTH)])
    assert "not for memory: an operation loses 2.50 ns" in said and "takes 0.0600 ns in all" in said
    assert "L1" not in said


def test_no_fall_says_what_an_operation_takes_and_guesses_at_nothing() -> None:
    ((_, said),) = fallen([curve("arm-soft"), curve("arm-hard", usual_ns=7.0)])
    assert said == "no knee from N = 16 to 65,536: an operation takes 5.00 ns to 7.00 ns"


# ---- every output -----------------------------------------------------------------------------------------------


def test_every_output_holds_the_tables_the_falls_and_where_an_emulator_counted() -> None:
    of = results([*native(), *counted()], (curve("ia32", OF_MEMORY),), study=True)
    for text in screens(of, 100):
        assert "Which?" in text
        assert "x86_64: hardware over emulated" in text
        assert "ia32 emulated: the rate falls past N = 4,096, 32 KiB of vectors: L1d" in text
        assert "qemu-user:arm, counted instructions" in text
        assert "counts the program's own instructions: no time, and no caches" in text
    assert words(of, 100).index("Which?") < words(of, 100).index("x86_64: hardware over emulated")


def test_a_run_that_is_no_study_keeps_its_terminal_short() -> None:
    assert "hardware over emulated" not in words(results(native()), 100)
    assert "hardware over emulated" in markdown.render(results(native()))


def test_the_page_shows_the_machine_before_rates_that_no_study_has() -> None:
    of = example_runs.healthy()
    asked = msgspec.structs.replace(of, suite=results((), study=True).suite)
    study, other = page.render(asked), page.render(of)
    assert study.index('id="lengths"') < study.index('id="memory-title"')
    assert other.index('id="tolls-title"') < other.index('id="lengths"')
    assert study.count('id="lengths"') == other.count('id="lengths"') == 1
