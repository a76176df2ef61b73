# SPDX-License-Identifier: Apache-2.0
"""What a difference between two ABIs is made of, in models where the truth is known."""

from __future__ import annotations

import random
from typing import NamedTuple

import msgspec
import pytest

from support.builders import metric, probe, program, row
from support.example_runs import empty, with_rows
from support.rendered import of_blocks
from support.snapshots import approve
from tollmeter.model import Program, Results, Row, Select, Suite
from tollmeter.report import page
from tollmeter.report.blocks import Block, heading
from tollmeter.report.charts import charts
from tollmeter.report.programs import attribution_in_words, attribution_name, attribution_table, why_not
from tollmeter.studies.attribution import AttributedPart, Attribution, PartName, attributed, largest

KIB, MIB = 1 << 10, 1 << 20
PROGRAM = program("solve")
WALK = probe(metric("load", means="latency-of-size"), name="any.walk")
FAULT = probe(metric("fault", means="price-of-fault"), name="any.fault")
SIZES = [(4 + step) * 4 * KIB << octave for octave in range(14) for step in range(4)]
PRICE_NS = 500.0


class Model(NamedTuple):
    """A program in numbers. each_ns: of an instruction that waits for nothing; loads: waiting ones in each."""

    each_ns: float
    loads: float
    faults: float
    word_bytes: float
    instructions: float = 100.0


LEVELS = ((48 * KIB, 1.0), (MIB, 3.5), (32 * MIB, 13.0), (float("inf"), 140.0))


def walked(size: float) -> float:
    """A walk comes back to a line after all the others: the level that holds them all answers. Of one that just fills a
    level half is found there, since that holds the program and its stack besides."""
    costs = [cost for held, cost in LEVELS if size <= held]
    return (costs[0] + costs[1]) / 2 if size in dict(LEVELS) else costs[0]


def latency(footprint: float) -> float:
    """A load anywhere is answered by the level that holds its line: of each so many as the level has room for."""
    told, below = 0.0, 0.0
    for size, cost in LEVELS:
        share = min(1.0, size / footprint) - below
        told, below = told + share * cost, below + share
    return told


def time_of(model: Model, size: int) -> float:
    instructions, footprint = model.instructions * size, model.word_bytes * size
    return instructions * (model.each_ns + model.loads * latency(footprint)) + model.faults * size * PRICE_NS


def rows_of(model: Model, abi: str, size: int, noise: random.Random, clocks: tuple[str, str]) -> list[Row]:
    where = {"of": "any.program", "abi": abi, "parameters": {"size": size}}
    hardware, counted = clocks
    values = {
        "solve": ("ns", time_of(model, size) * noise.gauss(1, 0.02)),
        "cpu_time": ("ns", time_of(model, size) * noise.gauss(1, 0.02)),
        "resident_peak": ("B", model.word_bytes * size + 512 * KIB),
        "faults_each": ("fault", model.faults * size),
        "footprint": ("B", model.word_bytes * size),
    }
    made = [row(value, 0.02, name=name, unit=unit, clock=hardware, **where) for name, (unit, value) in values.items()]
    count = model.instructions * size
    return [*made, row(count, 0.0, name="solve", unit="instruction", clock=counted, target="qemu-user:any", **where)]


def results(
    wide: Model,
    narrow: Model,
    sizes: list[int],
    *,
    priced: bool = True,
    clocks: tuple[str, str] = ("hardware", "instructions"),
) -> Results:
    noise = random.Random(7)
    rows = [one for size in sizes for model, abi in ((wide, "x86_64"), (narrow, "x32"))
            for one in rows_of(model, abi, size, noise, clocks)]  # fmt: skip
    if priced:
        rows += [row(walked(size), 0.02, of="any.walk", name="load", parameters={"size": size, "pages": "small"})
                 for size in SIZES]  # fmt: skip
        rows.append(row(PRICE_NS, 0.02, of="any.fault", name="fault", parameters={"kind": "anonymous_write"}))
    probes = {one.probe: one for one in (PROGRAM, WALK, FAULT)}
    return msgspec.structs.replace(with_rows(empty(), rows), probes=probes)


def at(told: tuple[Attribution, ...], size: int) -> Attribution:
    return next(one for one in told if one.parameters["size"] == size)


def part(one: Attribution, name: str) -> float:
    found = next(part.ns for part in one.parts if part.name == name)
    assert found is not None
    return found


# A step along a list of three pointers and a number; a simplex that scans arcs and misses now and then.
CHASE = Model(0.05, 0.1, 0, 32, 10), Model(0.05, 0.1, 0, 16, 10)
SIMPLEX = Model(0.12, 0.02, 0.0005, 93), Model(0.12, 0.02, 0.0003, 64, 104)


@pytest.mark.parametrize(("wide", "narrow"), [CHASE, SIMPLEX], ids=["chase", "simplex"])
@pytest.mark.parametrize("size", [16384, 262144])
def test_the_named_parts_cover_most_of_the_difference(wide: Model, narrow: Model, size: int) -> None:
    one = at(attributed(results(wide, narrow, [1024, 16384, 65536, 262144]), "x86_64", "x32"), size)
    truth = time_of(wide, size) - time_of(narrow, size)
    named = sum(part(one, name) for name in ("instructions", "faults", "caches"))
    assert abs(named - truth) < 0.2 * abs(truth)
    assert part(one, "unexplained") == pytest.approx(one.saved_ns - named)
    waits = [model.instructions * size * model.loads * latency(model.word_bytes * size) for model in (wide, narrow)]
    assert part(one, "caches") == pytest.approx(waits[0] - waits[1], rel=0.2)
    assert part(one, "faults") == pytest.approx((wide.faults - narrow.faults) * size * PRICE_NS)


def test_each_part_has_the_interval_that_those_of_the_times_give_it() -> None:
    """The unexplained part's is that of a difference of two times; times without one leave none."""
    made = results(*SIMPLEX, [1024, 16384, 65536, 262144])
    one = at(attributed(made, "x86_64", "x32"), 65536)
    within = {part.name: part.within_ns for part in one.parts}
    rows = [row for row in made.index.rows if row.metric == "cpu_time" and row.parameters["size"] == 65536]
    of_difference = sum(((row.high or 0) - (row.low or 0)) ** 2 / 4 for row in rows) ** 0.5
    assert 0.2 * of_difference < within["unexplained"] < 2 * of_difference
    assert within["caches"] > 0 and within["instructions"] > 0 and within["faults"] < 1e-6
    assert "±" in " ".join(map(str, attribution_table([one]).rows[0].cells))
    exact = [msgspec.structs.replace(row, low=None, high=None) for row in made.index.rows]
    assert all(part.within_ns < 1e-6 for part in at(attributed(with_rows(made, exact), "x86_64", "x32"), 65536).parts)


def test_what_no_model_has_is_left_unexplained() -> None:
    """The narrow ABI computes each thing by slower code: neither counts nor memory tell of that."""
    wide, narrow = Model(0.2, 0.0, 0, 8), Model(0.2, 0.0, 0, 8)
    made = results(wide, narrow, [1024, 16384, 65536])
    slower = [
        msgspec.structs.replace(one, median=2 * (one.median or 0))
        if (one.abi, one.metric, one.parameters.get("size")) == ("x32", "cpu_time", 65536) else one
        for one in made.index.rows
    ]  # fmt: skip
    one = at(attributed(with_rows(made, slower), "x86_64", "x32"), 65536)
    assert one.saved_ns < 0
    assert part(one, "unexplained") < 0.8 * one.saved_ns


def test_each_part_without_a_number_has_a_reason() -> None:
    bare = attributed(results(*SIMPLEX, [1024, 16384, 65536], priced=False), "x86_64", "x32")
    told = {found.name: (found.ns, found.reason) for found in bare[0].parts}
    assert told["caches"] == (None, "this run measured no latency over size")
    assert told["faults"] == (None, "this run did not measure the cost of a page fault")
    assert told["unexplained"][0] == pytest.approx(bare[0].saved_ns)
    assert any("cost of a page fault" in sentence for sentence in why_not(bare))
    single = attributed(results(*SIMPLEX, [65536]), "x86_64", "x32")
    assert "two sizes" in next(found.reason for found in single[0].parts if found.name == "instructions")


def test_sizes_that_were_counted_are_attributed_beside_one_that_was_not() -> None:
    made = results(*SIMPLEX, [1024, 4096, 16384, 65536])
    rows = [row for row in made.index.rows
            if not (row.clock == "instructions" and row.abi == "x32" and row.parameters["size"] == 4096)]  # fmt: skip
    told = attributed(with_rows(made, rows), "x86_64", "x32")
    without = {one.parameters["size"] for one in told if one.parts[0].ns is None}
    assert without == {4096}
    assert any("--target local,qemu-user" in sentence for sentence in why_not(told))


def test_an_emulators_time_is_attributed_to_nothing() -> None:
    assert attributed(results(*CHASE, [1024, 65536], clocks=("virtual", "instructions")), "x86_64", "x32") == ()


def foretold(sizes: list[int]) -> Results:
    """The narrow ABI ran in an emulated guest alone, beside the wide one."""
    wide, narrow = SIMPLEX
    made = results(wide, narrow, sizes)
    here = [one for one in made.index.rows if one.abi != "x32"]
    noise = random.Random(3)
    there = [msgspec.structs.replace(one, target="guest:x32") for size in sizes
             for model, abi in ((wide, "x86_64"), (narrow, "x32"))
             for one in rows_of(model, abi, size, noise, ("virtual", "none"))]  # fmt: skip
    counts = [msgspec.structs.replace(one, median=one.parameters["size"] * (100 if one.abi == "x86_64" else 104))
              if one.metric == "solve" else one for one in there if one.clock == "virtual"]  # fmt: skip
    return with_rows(made, [*here, *counts])


def test_what_a_guest_counted_foretells_what_no_clock_timed() -> None:
    wide, narrow = SIMPLEX
    one = at(attributed(foretold([1024, 16384, 65536, 262144]), "x86_64", "x32"), 262144)
    truth = time_of(wide, 262144) - time_of(narrow, 262144)
    assert one.second_ns is None
    assert one.saved_ns == pytest.approx(truth, rel=0.2)
    # More instructions, and a cache holds both.
    assert "it would take " in attribution_in_words(one) and "more than the " in attribution_in_words(one)
    assert next(found.ns for found in one.parts if found.name == "unexplained") is None


def test_of_what_is_known_in_part_nothing_is_said_to_be_saved() -> None:
    """At one size instructions cannot be told from waiting: faults alone are no foretelling of the time."""
    suite = Suite(name="old-paper", question="?", select=(Select(probe="*"),), worth="x32",
                  program=(Program(what="program", probe="any.program"),))  # fmt: skip
    made = msgspec.structs.replace(foretold([262144]), suite=suite)
    (one,) = attributed(made, "x86_64", "x32")
    assert "is unknown, beyond" in attribution_in_words(one)
    assert "it would" not in attribution_in_words(one).replace("what it would save of", "")
    assert largest(made) == ()


def of_parts(*parts: float | None) -> Attribution:
    names: tuple[PartName, ...] = ("instructions", "caches", "faults", "unexplained")
    whole = None not in parts
    told = [AttributedPart(name=name, ns=ns) for name, ns in zip(names, (*parts, 0.0 if whole else None), strict=True)]
    return Attribution(probe="any.program", parameters={}, abis=("x86_64", "x32"), target="local", first_ns=34_900.0,
                       second_ns=34_900.0 - sum(ns or 0.0 for ns in parts) if whole else None, memory=0.67,
                       levels=(), parts=tuple(told))  # fmt: skip


def test_attributions_as_sentences_and_as_a_table() -> None:
    """Each part says which way it goes, with the digits that are known; a reason that two share is said once."""
    sizes = [1024, 16384, 65536, 262144]
    runs = {
        "as many instructions": attributed(results(*CHASE, sizes), "x86_64", "x32"),
        "one size": attributed(results(*SIMPLEX, [65536]), "x86_64", "x32"),
        "cost of a page fault": attributed(results(*SIMPLEX, sizes[:3], priced=False), "x86_64", "x32")[:1],
        "foretold": attributed(foretold(sizes), "x86_64", "x32"),
        "parts that gain and lose": (of_parts(-267.4, 3841.0, 0.001), of_parts(267.4, -3841.0, 300.0)),
        "parts that are not known": (of_parts(None, None, -3168.0),),
    }
    blocks: list[Block] = []
    for title, told in runs.items():
        blocks += [heading(title), attribution_table(told), *map(attribution_in_words, told), *why_not(told)]
    approve("attribution", of_blocks(blocks))


def test_the_largest_differences_are_a_stacked_bar() -> None:
    suite = Suite(name="old-paper", question="?", select=(Select(probe="*"),), worth="x32",
                  program=(Program(what="program", probe="any.program"),))  # fmt: skip
    made = msgspec.structs.replace(results(*CHASE, [1024, 16384, 65536, 262144]), suite=suite)
    drawn = next(chart for chart in charts(made) if chart.name == "attribution")
    (bars,) = drawn.spec["datasets"].values()
    one = largest(made)[0]
    shares = [bar["share"] for bar in bars if bar["label"] == attribution_name(one)]
    assert sum(shares) == pytest.approx(100 * one.saved_ns / one.first_ns)
    assert drawn.spec["encoding"]["x"]["stack"] == "zero"


def test_the_page_has_an_attribution_without_a_table_of_programs() -> None:
    suite = Suite(name="s", question="?", worth="x32", program=(Program(what="a", probe="any.program"),))
    made = msgspec.structs.replace(results(*SIMPLEX, [1024, 16384, 65536, 262144]), suite=suite)
    assert largest(made) and "What is saved" in page.render(made)
