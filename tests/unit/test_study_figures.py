# SPDX-License-Identifier: Apache-2.0
"""A study's own figures drawn anew: each in a unit that carries, with what was published beside it, or a reason."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support import vega_lite
from support.builders import metric, outcome, probe, quiet, row, sample
from support.example_runs import of_probes, with_index
from tollmeter.library.places import suites
from tollmeter.model import (
    Beside,
    Claim,
    FigureLine,
    FigureMark,
    Listed,
    Profile,
    Program,
    Published,
    PublishedShare,
    Results,
    Row,
    RowOf,
    Select,
    Share,
    StudyFigure,
    Suite,
)
from tollmeter.report.charts import Chart, charts
from tollmeter.report.studies import both_in_words, not_redrawn
from tollmeter.studies.study import study

PROBE = probe(
    metric("operation"), metric("cpu_time", means="cpu-time", source="gauge"), metric("turn", means="control-loop"),
    name="any.probe",
)  # fmt: skip


def figure(**changes: Any) -> StudyFigure:
    return StudyFigure(**{"name": "it", "what": "A figure", "shows": "What?", "title": "times", **changes})


def results(rows: list[Row], *figures: StudyFigure, **more: Any) -> Results:
    asked = {"name": "paper", "question": "?", "select": (Select(probe="*"),),
             "published": (Published(what="a", figure="b", missing="c"),), "figure": figures, **more}  # fmt: skip
    made = of_probes(rows, PROBE, suite=Suite(**asked))
    return with_index(made, study=study(made))


def drawn(made: Results) -> Chart:
    """The only one that stands for a figure, and is whole."""
    (chart,) = [chart for chart in charts(made) if chart.name == "published-it"]
    vega_lite.check(chart.spec)
    return chart


def points(chart: Chart) -> dict[tuple[Any, ...], float]:
    data = [datum for rows in chart.spec["datasets"].values() for datum in rows if "value" in datum]
    return {(datum["series"], datum.get("x", datum.get("label"))): datum["y"] for datum in data}


def timed(way: str, costs: dict[int, float]) -> list[Row]:
    return [row(cost, name="operation", parameters={"n": n, "way": way}) for n, cost in costs.items()]


def line(name: str, way: str, over: str = "") -> FigureLine:
    ways = (RowOf(metric="operation", parameters={"way": one}) for one in (way, over))
    of, other = ways
    return FigureLine(name=name, row=of, over=other if over else None)


FLAT, FALLING = {8: 100.0, 16: 100.0, 32: 100.0}, {8: 5.0, 16: 5.0, 32: 20.0}


@pytest.mark.parametrize(("faster", "at_the_end"), [(True, 0.25), (False, 4.0)])
def test_a_line_is_held_against_itself_at_the_base(faster: bool, at_the_end: float) -> None:
    marks = (FigureMark(what="published: falls past 16", at=16), FigureMark(what="published: one", height=1))
    lines = (line("a", "flat"), line("b", "falling"))
    asked = figure(drawn="curve", axis="n", base=9, faster=faster, line=lines, mark=marks)
    chart = drawn(results([*timed("flat", FLAT), *timed("falling", FALLING)], asked))
    found = points(chart)
    assert [found["a", n] for n in FLAT] == [1, 1, 1]
    assert [found["b", n] for n in FALLING] == pytest.approx([1, 1, at_the_end])
    assert "Published: falls past 16." in chart.caption and "at 32" in chart.caption


def test_a_line_may_be_held_against_another_at_each_place() -> None:
    asked = figure(drawn="curve", axis="n", faster=True, line=(line("gain", "falling", over="flat"),))
    rows = [*timed("flat", FLAT), *timed("falling", {**FALLING, 64: 20.0, 4: 5.0})]
    found = points(drawn(results([*rows, *timed("flat", {4: 100.0})], asked)))
    assert found == {("gain", 4): 20, ("gain", 8): 20, ("gain", 16): 20, ("gain", 32): 5}


def test_lines_of_two_abis_are_two_lines_that_name_them() -> None:
    """On a board the library's gain under one ABI had been drawn for the other's."""
    asked = figure(drawn="curve", axis="n", faster=True, line=(line("gain", "falling", over="flat"),))
    slow = {n: 4 * cost for n, cost in FLAT.items()}
    other = [msgspec.structs.replace(one, abi="arm-fpa") for one in (*timed("flat", slow), *timed("falling", FALLING))]
    found = points(drawn(results([*timed("flat", FLAT), *timed("falling", FALLING), *other], asked)))
    assert (found["gain, x86_64", 8], found["gain, arm-fpa", 8]) == (20, 80)


def test_one_line_stands_for_abis_that_are_the_same_everywhere() -> None:
    line = FigureLine(name="dot", row=RowOf(probe="any.probe", metric="operation"))
    made = [
        row(100.0 * n * factor, of="any.probe", name="operation", abi=abi, parameters={"n": n})
        for abi, factor in (("x86_64", 1.0), ("x32", 1.02), ("ia32", 1.5)) for n in (1, 2)
    ]  # fmt: skip
    chart = drawn(results(made, figure(drawn="curve", axis="n", line=(line,))))
    named = {d["series"] for data in chart.spec["datasets"].values() for d in data if "series" in d}
    assert {frozenset(name.split(", ")[1:]) for name in named} == {frozenset({"x86_64", "x32"}), frozenset({"ia32"})}


@pytest.mark.parametrize(("claim", "said"), [
    ({"relation": "change", "value": 0.8, "here": 0.68}, "−32 %, published −20 %"),
    ({"relation": "about", "value": 2.0, "here": 1.8}, "1.80 ×, published 2 ×"),
    ({"relation": "more", "value": None, "here": 1.5}, "1.50 ×"),
    ({"relation": "about", "value": 2.0, "here": None}, "published 2 ×"),
])  # fmt: skip
def test_both_numbers_of_a_claim_are_in_one_unit(claim: dict[str, Any], said: str) -> None:
    made = Claim(what="?", figure="?", value=claim["value"], verdict="holds", here=claim["here"], low=None, high=None,
                 unit="ratio", holds_at="", reason=None)  # fmt: skip
    assert both_in_words(made, claim["relation"]) == said


def test_a_listing_is_converted_to_turns_of_its_own_loop() -> None:
    """A loop makes 100 M turns a second, and an entry takes 1 µs: 100 turns, in the chart as in the claim. The listed
    attempts, of 1.1 µs, are raw and are another number."""
    loop = Listed(test="A", what="loop", row=RowOf(means="control-loop"), published=(200.0, 300.0))
    entry = Listed(test="B", what="entry", row=RowOf(metric="operation"), published=(2.0, 1.0))
    lacking = Listed(test="C", what="other", row=RowOf(metric="none"), published=(0.0, 3.0))
    seen = quiet(control_hz=4e9, control_before_hz=4e9)
    visits = [
        outcome([sample(ns, start=0, witness=seen)], visit=number, parameters={"way": way})
        for number in range(5) for ns, way in ((10, "loop"), (1100, "entry"))
    ]  # fmt: skip
    rows = [
        row(1e8, name="turn", unit="op/s", parameters={"way": "loop"}),
        row(1000.0, name="operation", parameters={"way": "entry"}),
    ]
    claim = Published(what="b", figure="100", value=100.0, unit="turns", row=RowOf(metric="operation"))
    made = results(rows, figure(drawn="listing"), listing=(loop, entry, lacking), published=(claim,))
    assert made.index.study and made.index.study.claims[0].here == pytest.approx(100)
    chart = drawn(msgspec.structs.replace(made, outcomes=tuple(visits)))
    assert points(chart) == pytest.approx({
        ("published", "B entry"): 100, ("published, rebuilt", "B entry"): 300, ("published, rebuilt", "C other"): 100,
        ("here", "B entry"): 100,
    })  # fmt: skip
    assert "B entry: 100 turns (published)" in chart.caption


def profile(way: str, **hits: int) -> Profile:
    return Profile(probe="any.probe", abi="x86_64", target="local", parameters={"way": way}, source="SIGPROF",
                   shares=tuple(Share(function=name, hits=number) for name, number in hits.items()))  # fmt: skip


def test_shares_are_of_the_busy_time_there_as_here() -> None:
    beside = Beside(
        left=RowOf(probe="any.probe", parameters={"way": "a"}), right=RowOf(probe="any.probe", parameters={"way": "b"}),
        titles=("a", "b"),
        shares=(PublishedShare(function="idle", left=50, right=60),
                PublishedShare(function="memcpy", left=25, right=10, here=("copy_*",))),
    )  # fmt: skip
    made = results([row(10.0)], figure(drawn="profiles"), beside=beside)
    both = (profile("a", copy_words=30, sum=70), profile("b", copy_words=1, copy_bytes=1, sum=98))
    found = points(drawn(with_index(made, profiles=both)))
    assert found == pytest.approx({
        ("published, a", "memcpy"): 50, ("published, b", "memcpy"): 25,
        ("here, a", "memcpy"): 30, ("here, b", "memcpy"): 2,
    })  # fmt: skip


def test_programs_stand_beside_the_studys_change_in_per_cent() -> None:
    programs = tuple(Program(what=way, probe="any.probe", parameters={"way": way}, time=time)
                     for way, time in (("one", "about -40 %"), ("two", "+1.5 %"), ("three", "a picture")))  # fmt: skip
    rows = [row(cost, name="operation", abi=abi, parameters={"way": way})
            for way in ("one", "two", "three") for abi, cost in (("x86_64", 100.0), ("x32", 80.0))]  # fmt: skip
    asked = figure(drawn="programs", axis="time")
    found = points(drawn(results(rows, asked, program=programs, worth="x32")))
    assert found == pytest.approx({
        ("published, x32", "one"): 0.6, ("published, x32", "two"): 1.015,
        ("x32", "one"): 0.8, ("x32", "two"): 0.8, ("x32", "three"): 0.8,
    })  # fmt: skip


def test_without_the_abi_that_it_is_about_the_chart_says_so() -> None:
    programs = tuple(Program(what=way, probe="any.probe", parameters={"way": way}) for way in ("1", "2", "3", "4"))
    rows = [row(cost, name="operation", abi=abi, parameters={"way": program.what})
            for program in programs for abi, cost in (("x86_64", 100.0), ("ia32", 80.0))]  # fmt: skip
    made = results(rows, figure(drawn="programs", axis="time"), program=programs, worth="x32", mend="Another kernel.")
    assert drawn(made).caption.endswith("No x32 here: Another kernel.")


def test_a_figure_that_is_not_drawn_says_why() -> None:
    lost = row(None, name="operation", status="unsupported", parameters={"way": "gone"})
    asked = (figure(name="picture", missing="A picture."), figure(name="gone", line=(line("a", "gone"),)))
    made = results([lost], *asked)
    assert made.suite is not None
    picture, gone = not_redrawn(made, made.suite, ["published-other"])
    assert picture.endswith("A picture.") and "because" in gone
    assert not_redrawn(made, made.suite, ["published-picture", "published-gone"]) == []


def test_each_of_the_studies_has_a_figure_of_its_own_to_draw() -> None:
    for name, suite in suites().items():
        assert not suite.published or any(one.drawn for one in suite.figure), name
        assert all(one.drawn or one.missing for one in suite.figure), name
