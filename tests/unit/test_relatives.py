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
from support.example_runs import empty, with_index, with_rows
from tollmeter.judgement.verdict import unanswered
from tollmeter.model import Outcome, Program, Published, Relative, Results, Row, RowOf, Select, State, Suite
from tollmeter.numbers.rows import rows
from tollmeter.report.blocks import Table
from tollmeter.report.headline import headline
from tollmeter.report.markdown import render
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
    made = with_rows(empty(), rows)
    machine = msgspec.structs.replace(made.index.machine, architecture="x86_64")
    index = msgspec.structs.replace(made.index, machine=machine)
    return msgspec.structs.replace(made, index=index, probes={PROBE.probe: PROBE}, suite=suite)


def judged(made: Results) -> Results:
    return with_index(made, study=study(made))


def found(made: Results, measure: str, abi: str = "x32") -> Relative:
    return next(one for one in relatives(made) if (one.what, one.measure, one.abi) == ("flow", measure, abi))


def test_a_program_is_compared_with_the_machines_own_abi() -> None:
    made = results(*needs("x86_64", 100, 50), *needs("x32", 69, 40))
    assert found(made, "memory").value == pytest.approx(0.69)
    assert found(made, "time").value == pytest.approx(0.8)
    assert (found(made, "memory").published, found(made, "time").published) == ("-20 %", "-40 %")


def test_an_emulated_guest_gives_memory_and_no_time() -> None:
    guest = {"target": "guest:x32", "clock": "virtual"}
    made = results(*needs("x86_64", 100, 50), *needs("x86_64", 90, 9, **guest), *needs("x32", 63, 8, **guest))
    assert found(made, "memory").value == pytest.approx(0.7)
    assert found(made, "memory").target == "guest:x32"
    assert found(made, "time").value is None
    assert found(made, "time").reason == MEND
    memory, time = program_tables(judged(made))
    assert [column.name for column in memory.columns[1:]] == ["x32 in guest:x32", "published, x32"]
    assert time.columns[1].name == "x32"


def test_abis_that_only_an_emulated_guest_runs_are_compared_by_instructions() -> None:
    """The answer is about them, since the run has no row of the study's ABI."""
    guest = {"target": "guest:virt", "clock": "virtual"}
    made = judged(results(*needs("aarch64", 100, 50, **guest), *needs("arm-hard", 75, 60, **guest)))
    assert found(made, "instructions", "arm-hard").value == pytest.approx(1.2)
    _, instructions = program_tables(made)
    assert instructions.columns[0].name == "Instructions of program and kernel, against aarch64"
    assert str(instructions.rows[0].cells[1]).startswith("+20 %")
    said = headline(made)
    assert said.startswith("arm-hard is worth it here where memory is short. It needs 25 % less memory (flow).")
    assert "20 % more instructions" in said and "whose time is not the target's" in said
    short = msgspec.structs.replace(made.index.run, verdict="too short")
    assert not unanswered(short, made.index.rows, made.index.study)


def counted(abi: str, asked: float, instructions: float) -> list[Row]:
    where: dict[str, Any] = {"of": "any.program", "abi": abi, "target": f"qemu-user:{abi}", "clock": "instructions"}
    gap = row(None, name="resident_peak", unit="B", status="unsupported", **where)
    return [row(asked, 0.0, name="asked", unit="B", **where), row(instructions, 0.0, name="solve", **where), gap]


def test_abis_that_only_a_user_mode_emulator_runs_are_compared_by_what_it_counts() -> None:
    """Each ABI has an emulator of its own, and both count instructions. The list asks nothing of malloc."""
    made = judged(results(*counted("riscv64", 200, 50), *counted("riscv32", 110, 60)))
    assert {one.measure for one in relatives(made)} == {"asked", "counted"}
    assert found(made, "asked", "riscv32").value == pytest.approx(0.55)
    assert found(made, "counted", "riscv32").value == pytest.approx(1.2)
    asked, instructions = (table.columns[0].name for table in program_tables(made))
    assert asked == "Bytes asked of malloc, against riscv64"
    assert instructions == "Instructions of the program, against riscv64"
    assert "It needs 45 % less memory of malloc (flow). It needs 20 % more instructions (flow)." in headline(made)
    short = msgspec.structs.replace(made.index.run, verdict="too short")
    assert not unanswered(short, made.index.rows, made.index.study)


def test_a_program_whose_blocks_are_not_counted_says_so() -> None:
    rows = [one for abi in ("riscv64", "riscv32") for one in counted(abi, 100, 50) if one.metric != "asked"]
    assert found(results(*rows), "asked", "riscv32").reason == "any.program does not count what it asks of malloc."


def test_a_guest_with_the_hardwares_clock_gives_both() -> None:
    guest = {"target": "guest:x32"}
    made = results(*needs("x86_64", 100, 50), *needs("x86_64", 90, 60, **guest), *needs("x32", 63, 48, **guest))
    assert (found(made, "time").value, found(made, "time").target) == (pytest.approx(0.8), "guest:x32")


def test_different_places_are_not_compared() -> None:
    made = results(*needs("x86_64", 100, 50), *needs("x32", 60, 40, target="guest:x32"))
    assert found(made, "memory").value is None
    assert found(made, "memory").reason


def test_a_row_without_a_number_gives_its_own_reason() -> None:
    gap = row(None, name="resident_peak", unit="B", of="any.program", abi="x32", status="unsupported")
    made = results(*needs("x86_64", 100, 50), gap)
    assert "because" in (found(made, "memory").reason or "")


@pytest.mark.parametrize(
    ("memory", "time", "verdict"),
    [(69, 40, "x32 is worth it here, for flow."), (69, 50, "where memory is short"), (100, 60, "not worth it here")],
)
def test_the_sentence_says_whether_it_is_worth_it(memory: float, time: float, verdict: str) -> None:
    made = judged(results(*needs("x86_64", 100, 50), *needs("x32", memory, time)))
    assert made.index.study
    assert verdict in made.index.study.worth


def test_without_a_time_the_sentence_says_how_to_measure_it() -> None:
    guest = {"target": "guest:x32", "clock": "virtual"}
    made = judged(results(*needs("x86_64", 100, 50), *needs("x86_64", 90, 9, **guest), *needs("x32", 63, 8, **guest)))
    assert made.index.study
    said = made.index.study.worth
    assert said.startswith("x32 is worth it here where memory is short. It needs 30 % less memory (flow).")
    assert "another kernel would tell" in said
    assert headline(made) == said
    more = judged(results(*needs("x86_64", 100, 50), *needs("x86_64", 90, 9, **guest), *needs("x32", 99, 8, **guest)))
    assert headline(more).startswith("x32 saves no memory here. It needs 10 % more memory (flow).")


def test_a_time_that_was_left_out_here_names_its_reason_before_any_advice() -> None:
    guest = {"target": "guest:x32", "clock": "virtual"}
    gap = row(None, name="cpu_time", of="any.program", abi="x32", status="unsupported")
    counted_there = (*needs("x86_64", 90, 9, **guest), *needs("x32", 63, 8, **guest))
    made = judged(results(*needs("x86_64", 100, 50), *counted_there, gap))
    assert "because" in (found(made, "time").reason or "")
    assert made.index.study
    assert "because" in made.index.study.worth
    assert MEND.rstrip(".").lower() not in made.index.study.worth.lower()


def test_tables_have_programs_first_and_a_dash_with_its_reason() -> None:
    way = {"parameters": {"way": "list"}}
    rows = [
        *needs("x86_64", 100, 50),
        *needs("ia32", 70, 55),
        *needs("x86_64", 8, 5, **way),
        *needs("ia32", 4, 3, **way),
    ]
    made = judged(results(*rows, row(None, name="cpu_time", of="any.program", abi="x32", status="unsupported")))
    memory, time = program_tables(made)
    assert [line.cells[0] for line in memory.rows] == ["flow", "list"]
    assert str(memory.rows[0].cells[2]).startswith("−30 %")
    assert str(time.rows[0].cells[2]).startswith("+10 %")
    assert memory.rows[0].cells[1] == "–"
    assert any("any.program gave no number: because" in said for said in program_remarks(made))
    assert "−30 %" in render(made)


def test_a_number_of_one_visit_is_marked_as_a_guess() -> None:
    rows = [*needs("x86_64", 100, 50), *needs("x32", 69, 40)]
    single = judged(results(*rows[:2], *(msgspec.structs.replace(one, visits=1) for one in rows[2:])))
    memory, _ = program_tables(single)
    assert str(memory.rows[0].cells[1]) == "~ −31 %"
    memory, _ = program_tables(judged(results(*rows)))
    assert str(memory.rows[0].cells[1]).startswith("−31 %")


def test_what_rests_on_single_visits_does_not_decide_whether_it_is_worth_it() -> None:
    rows = [*needs("x86_64", 100, 50), *needs("x32", 69, 40)]
    thin = [msgspec.structs.replace(one, visits=1) if one.abi == "x32" else one for one in rows]
    said = judged(results(*thin)).index.study
    assert said
    assert said.worth.startswith("Whether x32 is worth it here is unknown.")
    assert "%" not in said.worth
    timed_once = [msgspec.structs.replace(one, visits=1) if one.unit == "ns" else one for one in rows]
    said = judged(results(*timed_once)).index.study
    assert said
    assert "31 % less" in said.worth
    assert "20 %" not in said.worth


def test_a_large_ratio_is_printed_as_a_multiple() -> None:
    made = judged(results(*needs("x86_64", 100, 50), *needs("ia32", 120, 50 * 301.66)))
    memory, time = program_tables(made)
    assert str(time.rows[0].cells[1]).startswith("302 ×")
    assert str(memory.rows[0].cells[1]).startswith("+20 %")


def test_on_the_page_each_of_the_two_tables_says_what_it_is_of() -> None:
    """The first column's name is not seen there."""
    page = render_page(judged(results(*needs("x86_64", 100, 50), *needs("x32", 69, 40))))
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


def test_programs_are_compared_in_one_state_of_the_core_and_decide_nothing_otherwise() -> None:
    """x32 met a busy sibling throughout, and x86-64 an idle one: 64 % more was the sibling's, and no ABI's."""
    contended = [msgspec.structs.replace(one, state="contended") for one in needs("x32", 69, 82)]
    memory, time, _ = contended
    seen = State(state="uncontended", share=0.5, median=51.0, low=50.5, high=51.5)
    own = [msgspec.structs.replace(one, state="uncontended") for one in needs("x86_64", 100, 50)]
    alike = found(results(*own, memory, msgspec.structs.replace(time, states=(seen,))), "time")
    assert (alike.value, alike.thin) == (pytest.approx(1.02), False)
    unlike = found(results(*own, *contended), "time")
    assert unlike.thin
    assert "64 %" not in gains("x32", MEND, (unlike,))


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
