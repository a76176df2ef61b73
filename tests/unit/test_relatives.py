# SPDX-License-Identifier: Apache-2.0
"""A study's tables of programs: two ABIs are compared in one place, time by its own clock alone; and is it worth it?"""

from __future__ import annotations

from collections import Counter
from math import exp
from random import Random
from typing import Any

import msgspec
import pytest

from support.builders import metric, outcome, probe, row, sample
from support.example_runs import of_probes, with_index
from support.rendered import of_blocks
from support.snapshots import approve, approve_variations
from tollmeter.judgement.verdict import unanswered
from tollmeter.model import Outcome, Program, Published, Relative, Results, Row, RowOf, Select, State, StateName, Suite
from tollmeter.numbers.rows import rows
from tollmeter.report.blocks import Block, Table
from tollmeter.report.headline import headline
from tollmeter.report.page import render as render_page
from tollmeter.report.programs import program_remarks, program_tables
from tollmeter.studies.relatives import gains, relatives
from tollmeter.studies.study import study

PROBE = probe(
    metric("solve"),
    metric("cpu_time", means="cpu-time", source="gauge"),
    metric("resident_peak", "B", means="resident-peak", source="gauge"),
    metric("asked", "B", means="asked", source="gauge"),
    name="any.program",
)
MEND = "Another kernel would tell."
SUITE = Suite(
    name="old-paper", question="?", select=(Select(probe="*"),), source="A paper", worth="x32", mend=MEND,
    published=(Published(what="a", figure="b", missing="c"),),
    program=(Program(what="flow", probe="any.program", memory="-20 %", time="-40 %"),
             Program(what="list", probe="any.program", parameters={"way": "list"}, primitive=True)),
)  # fmt: skip


def needs(abi: str, memory: float, time: float, **more: Any) -> list[Row]:
    where = {"of": "any.program", "abi": abi, **more}
    times = [row(time, 0.01, name=name, **where) for name in ("solve", "cpu_time")]
    return [row(memory, 0.0, name="resident_peak", unit="B", **where), *times]


def results(*rows: Row, suite: Suite = SUITE) -> Results:
    return of_probes(rows, PROBE, suite=suite)


def judged(made: Results) -> Results:
    return with_index(made, study=study(made))


def found(made: Results, measure: str, abi: str = "x32") -> Relative:
    return next(one for one in relatives(made) if (one.what, one.measure, one.abi) == ("flow", measure, abi))


GUEST = {"target": "guest:x32", "clock": "virtual"}
BOARD = {"target": "guest:virt", "clock": "virtual"}
OWN = needs("x86_64", 100, 50)
WIDE = needs("x86_64", 90, 9, **GUEST)
NARROW = needs("x32", 69, 40)


def counted(abi: str, asked: float, instructions: float) -> list[Row]:
    where: dict[str, Any] = {"of": "any.program", "abi": abi, "target": f"qemu-user:{abi}", "clock": "instructions"}
    gap = row(None, name="resident_peak", unit="B", status="unsupported", **where)
    return [row(asked, 0.0, name="asked", unit="B", **where), row(instructions, 0.0, name="solve", **where), gap]


def of_visits(rows: list[Row], visits: int) -> list[Row]:
    return [msgspec.structs.replace(one, visits=visits) for one in rows]


def in_state(rows: list[Row], state: StateName) -> list[Row]:
    return [msgspec.structs.replace(one, state=state) for one in rows]


def gap(name: str) -> Row:
    return row(None, name=name, unit="B" if name == "resident_peak" else "ns", of="any.program", abi="x32",
               status="unsupported")  # fmt: skip


def ways(abi: str, first: tuple[float, float], second: tuple[float, float]) -> list[Row]:
    return [*needs(abi, *first), *needs(abi, *second, parameters={"way": "list"})]


RUNS: dict[str, list[Row]] = {
    "an emulated guest gives memory and no time": [*OWN, *WIDE, *needs("x32", 63, 8, **GUEST)],
    "an emulated guest in which it needs more": [*OWN, *WIDE, *needs("x32", 99, 8, **GUEST)],
    "a guest with the hardware's clock gives both": [
        *OWN, *needs("x86_64", 90, 60, target="guest:x32"), *needs("x32", 63, 48, target="guest:x32")
    ],
    "ABIs that only an emulated guest runs": [*needs("aarch64", 100, 50, **BOARD), *needs("arm-hard", 75, 60, **BOARD)],
    "ABIs that only a user-mode emulator runs": [*counted("riscv64", 200, 50), *counted("riscv32", 110, 60)],
    "a program whose blocks are not counted": [
        one for abi in ("riscv64", "riscv32") for one in counted(abi, 100, 50) if one.metric != "asked"
    ],
    "different places are not compared": [*OWN, *needs("x32", 60, 40, target="guest:x32")],
    "a row without a number gives its own reason": [*OWN, gap("resident_peak")],
    "a time left out here gives its reason before any advice": [
        *OWN, *WIDE, *needs("x32", 63, 8, **GUEST), gap("cpu_time")
    ],
    "less memory and as much time": [*OWN, *needs("x32", 69, 50)],
    "as much memory and more time": [*OWN, *needs("x32", 100, 60)],
    "two programs and another ABI": [
        *ways("x86_64", (100, 50), (8, 5)), *ways("ia32", (70, 55), (4, 3)), gap("cpu_time")
    ],
    "single visits decide nothing": [*OWN, *of_visits(NARROW, 1)],
    "single visits of a time": [*OWN, *NARROW[:1], *of_visits(NARROW[1:], 1)],
    "a large ratio": [*OWN, *needs("ia32", 120, 50 * 301.66)],
    "a busy sibling beside one of two": [*in_state(OWN, "uncontended"), *in_state(needs("x32", 69, 82), "contended")],
}  # fmt: skip


def said(several: list[Row]) -> str:
    made = judged(results(*several))
    blocks: list[Block] = [headline(made), *program_tables(made), *program_remarks(made)]
    return of_blocks(blocks)


def test_what_is_said_of_programs() -> None:
    first = said([*OWN, *NARROW])
    approve("programs", first)
    approve_variations("programs-variations", first, {title: said(several) for title, several in RUNS.items()})


@pytest.mark.parametrize("title", ["ABIs that only an emulated guest runs", "ABIs that only a user-mode emulator runs"])
def test_a_short_run_of_such_abis_is_answered(title: str) -> None:
    made = judged(results(*RUNS[title]))
    short = msgspec.structs.replace(made.index.run, verdict="too short")
    assert not unanswered(short, made.index.rows, made.index.study)


def test_on_the_page_each_of_the_two_tables_says_what_it_is_of() -> None:
    """The first column's name is not seen there."""
    page = render_page(judged(results(*OWN, *NARROW)))
    for table in ("Memory", "Time"):
        assert f"<h3>{table}, against x86_64</h3>" in page


def needed(what: str, value: float, measure: str = "memory") -> Relative:
    made = {"what": what, "primitive": False, "measure": measure, "abi": "x32", "over": "x86_64", "target": "guest:x32",
            "value": value, "low": value * 0.99, "high": value * 1.01}  # fmt: skip
    return msgspec.convert(made, Relative)


def test_what_was_counted_is_said_where_the_time_was_not_measured() -> None:
    """The first line said that no saving in time could be told, above a table that told 830 µs."""
    said = gains("x32", "Another kernel runs it.", [needed("flow", 0.7)], [("flow", 0.105), ("queue", 0.044)])
    assert "By counts it would save 10 % of the time (flow) to 4 % of the time (queue)" in said
    assert "its time was not measured: another kernel runs it." in said and "is unknown" not in said


def test_one_program_of_many_does_not_make_an_abi_worth_it() -> None:
    most = gains("x32", "", [needed("a", 0.7), needed("b", 0.8), needed("c", 1.0)])
    assert most.startswith("x32 is worth it here where memory is short: 2 of 3 programs need less.")
    one = gains("x32", "", [needed("a", 0.7), needed("b", 1.0), needed("c", 1.0)])
    assert one.startswith("x32 is not worth it here: it saves memory for a alone.")


def test_programs_are_compared_in_one_state_of_the_core() -> None:
    """x32 met a busy sibling throughout, and x86-64 an idle one: 64 % more was the sibling's, and no ABI's."""
    memory, time, _ = in_state(needs("x32", 69, 82), "contended")
    seen = State(state="uncontended", share=0.5, median=51.0, low=50.5, high=51.5)
    alike = msgspec.structs.replace(time, states=(seen,))
    one = found(results(*in_state(OWN, "uncontended"), memory, alike), "time")
    assert (one.value, one.thin) == (pytest.approx(1.02), False)


def test_the_first_sentence_agrees_with_tables_and_claims_in_a_hundred_resampled_runs() -> None:
    """Visits of one recorded machine, drawn again: what is called faster or slower is so by its whole interval, in the
    table and in the claim beside it, and what is called neither is not known to be."""
    random, ways, true = Random("resampled"), ("less", "like", "more", "edge"), (0.8, 1.0, 1.1, 0.985)
    programs = tuple(Program(what=f"program {way}", probe="any.program", parameters={"way": way}) for way in ways)
    recorded = {
        (abi, way): [timed(abi, way, 100 * ratio * exp(random.gauss(0, 0.02)), number) for number in range(9)]
        for way, factor in zip(ways, true, strict=True) for abi, ratio in (("x86_64", 1.0), ("x32", factor))
    }  # fmt: skip
    rows_of = {
        way: [RowOf(abi=abi, parameters={"way": way}, metric="solve") for abi in ("x32", "x86_64")] for way in ways
    }
    claims = tuple(Published(what=way, figure="?", value=0.9, unit="ratio", relation="change", row=row_, over=over)
                   for way, (row_, over) in rows_of.items())  # fmt: skip
    suite = msgspec.structs.replace(SUITE, program=programs, published=claims)
    named: Counter[str] = Counter()
    for _ in range(100):
        drawn = [visit for visits in recorded.values() for visit in random.choices(visits, k=len(visits))]
        made = results(*(one for one in rows(drawn, {PROBE.probe: PROBE}) if one.metric == "solve"), suite=suite)
        told = study(made)
        assert told
        for claim, time in zip(told.claims, (one for one in told.relatives if one.measure == "time"), strict=True):
            assert (claim.low, claim.high) == (time.low, time.high)
            assert time.low and time.high
            is_faster, is_slower = (f"for program {claim.what}" in told.worth.partition(" and is not for ")[0],
                                    f"is not for program {claim.what}" in told.worth)  # fmt: skip
            assert is_faster == (time.high < 1 - 0.005)
            assert is_slower <= (time.low > 1)
            named[claim.what] += is_faster
    assert named["less"] == 100 and not named["like"] and not named["more"]


def timed(abi: str, way: str, cost: float, number: int) -> Outcome:
    samples = [sample(cost) for _ in range(4)]
    return outcome(samples, name="any.program", abi=abi, parameters={"way": way}, visit=number, seed=number)


def test_a_column_names_another_place_only_if_all_of_it_was_measured_there() -> None:
    def measured(what: str, target: str | None) -> Relative:
        return Relative(what=what, primitive=False, measure="memory", abi="x32", over="x86_64", target=target,
                        value=0.7, low=0.69, high=0.71, published="")  # fmt: skip

    def table(*several: Relative) -> Table:
        made = with_index(results(*needs("x86_64", 100, 50)), study=None)
        study_ = msgspec.structs.replace(study(results(*needs("x86_64", 100, 50))), relatives=several)
        (only,) = program_tables(with_index(made, study=study_))
        return only

    whole = table(measured("flow", "guest:x32"), measured("list", None))
    assert whole.columns[1].name == "x32 in guest:x32" and not any(line.note for line in whole.rows)
    mixed = table(measured("flow", "local"), measured("list", "guest:x32"))
    assert mixed.columns[1].name == "x32"
    assert [line.note for line in mixed.rows] == ["", "x32 in guest:x32"]
