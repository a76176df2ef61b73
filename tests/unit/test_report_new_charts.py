# SPDX-License-Identifier: Apache-2.0
"""Charts of what a run rests on: each sample by its state, the machine over the run, other ABIs, a study's figures."""

from __future__ import annotations

import json
from functools import cache

import msgspec
import pytest

from support import example_runs
from tollmeter.model import Claim, Outcome, Point, Published, Results, Row, Study, Suite, Tally
from tollmeter.report.chart_style import SERIES, places
from tollmeter.report.charts import Chart, charts, points
from tollmeter.report.charts.cores import core_clusters
from tollmeter.report.charts.memory import dashed_rules

ENTRY = Point(probe="kernel.enter_syscall", abi="x86_64", target="local")


@cache
def drawn() -> dict[str, Chart]:
    return {chart.name: chart for chart in charts(example_runs.healthy(("x86_64",)))}


def test_the_control_loop_is_in_ghz_with_the_discarded_samples() -> None:
    results = example_runs.healthy(("x86_64",), visits=80)
    chart = _of(
        msgspec.structs.replace(results, outcomes=(*map(_switched, results.outcomes[:2]), *results.outcomes[2:])),
        "steadiness",
    )
    rates = [d for rows in chart.spec["datasets"].values() for d in rows if "GHz" in str(d.get("value"))]
    assert rates and all(3.9 < float(d["y"]) < 4.3 for d in rates)
    aside = [d for d in rates if d.get("aside")]
    assert 14 <= len(aside) < len(rates) / 10
    assert "GHz, within" in chart.caption


def _switched(told: Outcome) -> Outcome:
    """Every sample of it lost its CPU for a moment."""
    lost = [msgspec.structs.replace(sample.witness, involuntary=3) for sample in told.samples]
    samples = [msgspec.structs.replace(one, witness=seen) for one, seen in zip(told.samples, lost, strict=True)]
    return msgspec.structs.replace(told, samples=tuple(samples), point=ENTRY)


def test_a_long_run_is_thinned_and_not_cut() -> None:
    results = example_runs.healthy(("x86_64",), visits=2000)
    timed = [msgspec.structs.replace(told, at_ns=told.visit * 10**8) for told in results.outcomes]
    chart = _of(msgspec.structs.replace(results, outcomes=tuple(timed)), "steadiness")
    seconds = [float(d["x"]) for rows in chart.spec["datasets"].values() for d in rows if "GHz" in str(d.get("value"))]
    assert len(seconds) < 1500 and max(seconds) == pytest.approx(200, abs=5)


def _of(results: Results, name: str) -> Chart:
    return next(chart for chart in charts(results) if chart.name == name)


def test_each_sample_of_one_number_stands_at_its_visit() -> None:
    results = example_runs.healthy(("x86_64",))
    others = tuple(told for told in results.outcomes if told.point != ENTRY)
    visits = [msgspec.structs.replace(others[turn], visit=9000 + turn, point=ENTRY) for turn in range(4)]
    chart = _of(msgspec.structs.replace(results, outcomes=(*others, *visits)), "distribution")
    assert {int(d["x"]) for d in points(chart)} == {1, 2, 3, 4}
    assert len(points(chart)) >= sum(_usable(told) for told in visits) > 20
    assert "system call" in chart.title and "median" in chart.caption


def _usable(told: Outcome) -> int:
    return sum(sample.witness.involuntary == 0 for sample in told.samples)


def test_another_abi_is_a_ratio_to_the_machines_own() -> None:
    results = example_runs.healthy()
    chart = _of(results, "abi-ratios")
    assert {d["series"] for d in points(chart)} == {"ia32"}
    call = next(d for d in points(chart) if str(d["label"]).startswith("virtual call"))
    assert call["y"] == pytest.approx(0.7, rel=0.1) and call["lo"] < call["y"] < call["hi"]
    assert "abi-ratios" not in drawn()


def studied(results: Results, told: Study) -> Results:
    published = tuple(Published(what=claim.what, figure=claim.figure, value=claim.value, unit="ratio", missing="?")
                      for claim in told.claims)  # fmt: skip
    suite = Suite(name="paper", question="?", published=published)
    return msgspec.structs.replace(example_runs.with_index(results, study=told), suite=suite)


def test_a_studys_claims_stand_beside_this_machines_with_the_range_in_which_each_holds() -> None:
    def claim(what: str, value: float, here: float | None) -> Claim:
        low, high = (here * 0.9, here * 1.1) if here else (None, None)
        return Claim(what=what, figure=f"{value} times", value=value, here=here, low=low, high=high, unit="ratio",
                     verdict="holds" if here else "cannot tell", counted=bool(here))  # fmt: skip

    results = example_runs.healthy(("x86_64",))
    claims = (claim("a", 10.0, 4.1), claim("b", 2.0, 1.9), claim("c", 3.0, None))
    told = Study(source="A paper", claims=claims, tally=Tally(holds=2, cannot_tell=4))
    chart = _of(studied(results, told), "published-claims")
    pairs = [(d["label"], d["series"], d["y"]) for d in points(chart)]
    assert pairs == [("a", "published", 10.0), ("a", "here", 4.1), ("b", "published", 2.0), ("b", "here", 1.9),
                     ("c", "published", 3.0)]  # fmt: skip
    assert chart.caption == "Of 6 published figures: 2 hold, 4 cannot be judged here."
    ranges = {d["label"]: d for rows in chart.spec["datasets"].values() for d in rows if "word" in d}
    assert [(d["word"], d["lo"], d["hi"]) for d in ranges.values()] == [
        ("holds", 8.0, 12.5),
        ("holds", 1.6, 2.5),
        ("not measured, not counted", pytest.approx(2.4), 3.75),
    ]


def test_the_names_of_a_studys_figures_do_not_overlap() -> None:
    """A name of four lines ran into the next where each had the room of three."""
    results = example_runs.healthy(("x86_64",))

    def height(what: str) -> float:
        claims = [Claim(what=f"{what} {turn}", figure="2", value=2.0, here=2.0, low=1.9, high=2.1, unit="ratio",
                        verdict="holds") for turn in range(2)]  # fmt: skip
        told = Study(source="A paper", claims=tuple(claims), tally=Tally(holds=2))
        spec = _of(studied(results, told), "published-claims").spec
        return float(spec["height"]) / len(claims)

    assert height("short") >= 40
    assert height("instructions of a program " * 4) > 5 * 12


@pytest.mark.parametrize(("at", "end", "late"), [(4096, 262144, True), (64, 262144, False)])
def test_a_long_label_of_a_rule_takes_several_lines_on_the_side_with_room(at: int, end: int, late: bool) -> None:
    _, *labels = dashed_rules([(at, "published: the library's dot product falls past N = 4,096")], end)
    assert labels
    for label in labels:
        assert [datum["late"] for datum in label["data"]["values"]] == [late]
        assert "split" in label["transform"][0]["calculate"]


def test_a_data_set_of_several_layers_is_in_a_specification_once() -> None:
    spec = drawn()["latency"].spec
    named = [part["data"]["name"] for part in (spec, *spec["layer"]) if "data" in part]
    assert {*named} == {*spec["datasets"]} and len(named) > len(spec["datasets"])
    assert len({json.dumps(rows) for rows in spec["datasets"].values()}) == len(spec["datasets"])


def test_fewer_than_four_points_are_no_chart() -> None:
    results = example_runs.healthy(("x86_64",))
    rows = [row for row in results.index.rows if row.probe == "kernel.page_fault"]
    assert len(rows) == 2
    few = msgspec.structs.replace(results, index=msgspec.structs.replace(results.index, hierarchy=()), outcomes=())
    assert charts(example_runs.with_rows(few, rows)) == ()


def test_a_line_leaves_out_what_is_not_one_number() -> None:
    results = example_runs.healthy(("x86_64",))

    def parted(row: Row) -> Row:
        wide = row.probe == "memory.latency" and row.parameters["size"] == 4096
        return msgspec.structs.replace(row, low=(row.median or 0) / 3, high=(row.median or 0) * 3) if wide else row

    chart = _of(example_runs.with_rows(results, map(parted, results.index.rows)), "latency")
    assert {d["x"] for d in points(chart) if d.get("firm") is False} == {4096}


def test_a_colour_belongs_to_its_thing_whatever_stands_beside_it() -> None:
    assert places(["huge pages", "small pages"]) == [1, 0] and places(["small pages"]) == [0]
    assert places(["write, libc", "read, avx512"])[::-1] == places(["read, avx512", "write, libc"])
    other = places(["something", "read"])[0]
    assert places(["something"]) == [other] or other != 0
    many = [f"series {number}" for number in range(14)]
    assert len(set(places(many))) == 14
    assert len({place % len(SERIES) for place in places(many[:6])}) == 6


def test_cpus_that_are_near_make_a_cluster() -> None:
    pairs = {(0, 1): 50.0, (2, 3): 52.0, (0, 2): 150.0, (0, 3): 151.0, (1, 2): 149.0, (1, 3): 160.0}
    like = next(row for row in example_runs.healthy(("x86_64",)).index.rows if row.probe == "memory.ping_pong")

    def rows(costs: dict[tuple[int, int], float]) -> list[Row]:
        return [msgspec.structs.replace(like, parameters={"pair": f"{a}-{b}"}, median=cost)
                for (a, b), cost in costs.items()]  # fmt: skip

    assert core_clusters(rows(pairs)) == [[0, 1], [2, 3]]
    assert core_clusters(rows(dict.fromkeys(pairs, 50.0))) == [[0, 1, 2, 3]]
