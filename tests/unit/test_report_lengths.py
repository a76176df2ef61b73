# SPDX-License-Identifier: Apache-2.0
"""Rates over length in words: clocks apart, pairs that differ in one thing, falls in sentences, in every output."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from support import builders, example_runs
from support.rendered import of_blocks, screens, words
from support.snapshots import approve
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
from tollmeter.report.blocks import Block, heading
from tollmeter.report.length_sections import fallen, sections, table_lengths

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


def in_study(made: Results) -> Results:
    """A way has the name there that the study gives it in its place, where an FPU is emulated by the guest's kernel."""
    row = RowOf(probe="float.dot", abi="mipsel", target=MALTA[0], parameters={"way": "hardware"})
    line = FigureLine(name="dot product, as the kernel emulates it", row=row)
    drawn = StudyFigure(name="it", what="?", shows="?", drawn="curve", line=(line,))
    suite = results((), study=True).suite
    assert suite
    return msgspec.structs.replace(made, suite=msgspec.structs.replace(suite, figure=(drawn,)))


MALTA: tuple[str, Clock] = ("guest:malta", "virtual")
VIRTUAL = [rate("arm-soft", "emulated", n, 1.9e7, ("guest:board", "virtual")) for n in (16, 64)]
OF_MALTA = results([rate("mipsel", "hardware", n, 4e4, MALTA) for n in (16, 64)])
RUNS = {
    "pairs differ in one thing, the faster over the slower way": results(native()),
    "ABIs that are as fast as each other stand in one sentence": results(
        [*native(), *(rate("ia32-old", "emulated", n, 0.99e8) for n in (16, 1024))]
    ),
    "no table has two clocks or two places": results(
        [*counted(), *VIRTUAL, *native()[:2], *counted("qemu-user:other")[:2]]
    ),
    "a way without another name": OF_MALTA,
    "a way that the study names": in_study(OF_MALTA),
    "a length that one of two lacks": results(
        [row for row in native()[:6] if row.parameters["way"] != "trapped" or row.parameters["n"] == 16]
    ),
}


def test_rates_over_length_in_tables_and_sentences() -> None:
    made = ((title, section) for title, run in RUNS.items() for section in sections(run))
    blocks: list[Block] = []
    for title, section in made:
        blocks += [heading(f"{title}: {section.place or 'here'}"), *section.blocks]
    approve("lengths", of_blocks(blocks))


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
    assert table_lengths(lengths) == kept


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


FALLS = {
    "of two ABIs": [curve("arm-soft", OF_MEMORY), curve("arm-hard", OF_MEMORY)],
    "near no cache": [curve("arm-soft", msgspec.structs.replace(OF_MEMORY, cause="unknown", levels=()))],
    "without evidence": [curve("arm-soft", msgspec.structs.replace(OF_LENGTH, cause="unknown", least_ns=0))],
    "not of memory": [curve("arm-soft", OF_LENGTH)],
    "none": [curve("arm-soft"), curve("arm-hard", usual_ns=7.0)],
}


def test_falls_in_words() -> None:
    told = ((title, abis, said) for title, several in FALLS.items() for abis, said in fallen(several))
    approve("falls", of_blocks(f"{title}: {abis}: {said}" for title, abis, said in told))


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
