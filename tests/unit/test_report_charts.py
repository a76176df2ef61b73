# SPDX-License-Identifier: Apache-2.0
"""Charts as data: drawn by what rows mean, from the rows' own numbers, clocks apart, and valid Vega-Lite."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import vl_convert

from support import example_runs, vega_lite
from support.snapshots import approve, approve_variations
from tollmeter.model import Failure, Metric, Parameter, Probe, Results, Row
from tollmeter.numbers.readings import RATES
from tollmeter.report import chart_style
from tollmeter.report.charts import Chart, charts, save
from tollmeter.report.charts.chart import picture, with_source

ALL_BOOKS = (
    example_runs.healthy,
    example_runs.failed,
    example_runs.hostile,
    example_runs.empty,
    example_runs.emulated,
    example_runs.many_cpus,
)


@functools.cache
def drawn(make: Callable[..., Results], *arguments: Any) -> tuple[Chart, ...]:
    return charts(make(*arguments))


def by_name(make: Callable[..., Results], *arguments: Any) -> dict[str, Chart]:
    return {chart.name: chart for chart in drawn(make, *arguments)}


def data_of(chart: Chart) -> list[dict[str, Any]]:
    return list(itertools.chain.from_iterable(chart.spec["datasets"].values()))


def points_of(chart: Chart) -> list[dict[str, Any]]:
    """The data that stand for rows: those that say how sure they are."""
    return [datum for datum in data_of(chart) if "samples" in datum]


@pytest.mark.parametrize("make", ALL_BOOKS)
def test_every_specification_is_valid_vega_lite(make: Callable[[], Results]) -> None:
    for chart in drawn(make):
        vega_lite.check(chart.spec)


def test_the_configuration_of_all_charts_is_valid_vega_lite() -> None:
    config = chart_style.config(chart_style.by_value, chart_style.PICTURE_FONT)
    vega_lite.check({**drawn(example_runs.healthy)[0].spec, "config": config})


def test_what_the_schema_refuses_is_named_with_its_place() -> None:
    spec = copy.deepcopy(by_name(example_runs.healthy)["latency"].spec)
    spec["layer"][0]["encoding"]["x"]["tpye"] = "quantitative"
    with pytest.raises(AssertionError, match=r"\$\.layer\[0\]\.encoding\.x: .*tpye"):
        vega_lite.check(spec)


@pytest.mark.parametrize("make", ALL_BOOKS)
def test_every_specification_is_json_without_a_number_that_is_none(make: Callable[[], Results]) -> None:
    for chart in drawn(make):
        json.dumps(chart.spec, allow_nan=False)


@pytest.mark.parametrize("make", ALL_BOOKS)
def test_names_are_unique_and_safe_as_files(make: Callable[[], Results]) -> None:
    names = [chart.name for chart in drawn(make)]
    assert len(set(names)) == len(names)
    assert all(name and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for name in names)


# ---- what is drawn of which run -------------------------------------------------------------------------------------

NATIVE = example_runs.healthy(("x86_64",))
TITLE = re.compile(r'"title": "([^"]+)"')


def summarised(results: Results) -> Iterator[str]:
    """Each chart: its title and caption, the titles of its axes, and what is told apart in it, with its marks."""
    for chart in charts(results):
        yield f"{chart.name}{' (general)' if chart.general else ''}: {chart.title}"
        yield f"  {chart.caption}"
        yield f"  axes: {'; '.join(dict.fromkeys(TITLE.findall(json.dumps(chart.spec))))}"
        yield from ["  each panel has axes of its own"] if "resolve" in chart.spec else []
        for field in ("series", "panel", "label", "text", "level"):
            told = Counter(str(datum[field]) for datum in data_of(chart) if field in datum)
            listed = [f"{name} ({number})" for name, number in told.items()]
            more = f", and {len(listed) - MOST_LISTED} more" if len(listed) > MOST_LISTED else ""
            yield from [f"  {field}: {', '.join(listed[:MOST_LISTED])}{more}"] if listed else []


MOST_LISTED = 6


def rows_where(chosen: Callable[[Row], bool]) -> Results:
    return example_runs.with_rows(NATIVE, [row for row in NATIVE.index.rows if chosen(row)])


def with_more_channels() -> Results:
    rows = [row for row in NATIVE.index.rows if row.probe == "kernel.call_object"]
    return example_runs.with_rows(NATIVE, [
        msgspec.structs.replace(row, parameters={**row.parameters, "channel": f"{row.parameters['channel']}_{again}"})
        for row in rows for again in range(4)
    ])  # fmt: skip


def counted() -> Results:
    """The run's times as instructions."""
    timed = {"clock": "instructions", "target": "qemu-user:x", "unit": "instruction", "better": "less"}
    rows = [msgspec.structs.replace(row, **timed) for row in NATIVE.index.rows if row.unit in ("ns", *RATES)]  # type: ignore[arg-type]
    return example_runs.with_rows(NATIVE, rows)


RUNS: dict[str, Callable[[], Results]] = {
    "two ABIs": example_runs.healthy,
    "rows without a number are in no chart": example_runs.failed,
    "an emulator's charts are its own": example_runs.emulated,
    "many CPUs": lambda: example_runs.many_cpus(6),
    "each place of the other end has a ladder of its own": with_more_channels,
    "a size beyond the axis is not drawn beside it": lambda: rows_where(
        lambda row: int(row.parameters.get("size", 0) or 0) <= 1 << 20
    ),
    "too few offsets for a square make dots": lambda: rows_where(
        lambda row: row.probe == "alignment.copy" and (row.parameters["source"], row.parameters["target"]) in OFFSETS
    ),
    "one length alone makes dots": lambda: rows_where(lambda row: row.parameters.get("n") == 1024),
    "no axis of counted instructions is in seconds": counted,
    "an empty run": example_runs.empty,
}
OFFSETS = ((0, 0), (2, 0))


def test_what_is_drawn_of_each_run() -> None:
    first = "\n".join(summarised(NATIVE))
    approve("charts", first)
    approve_variations("charts-variations", first, {title: "\n".join(summarised(run())) for title, run in RUNS.items()})


def test_a_chart_asks_for_meanings_and_never_for_names() -> None:
    results = example_runs.healthy()
    renamed = {f"other.p{place}": name for place, name in enumerate(results.probes)}
    back = {old: new for new, old in renamed.items()}
    probes = {back[n]: msgspec.structs.replace(p, probe=back[n]) for n, p in results.probes.items()}
    rows = [msgspec.structs.replace(row, probe=back[row.probe]) for row in results.index.rows]
    told = msgspec.structs.replace(example_runs.with_rows(results, rows), probes=probes, outcomes=())
    general = {chart.name for chart in drawn(example_runs.healthy) if chart.general} - {"steadiness"}
    assert {chart.name for chart in charts(told) if chart.general} == general


def test_latency_holds_each_row_with_its_own_interval() -> None:
    results = example_runs.healthy(("x86_64",))
    rows = [row for row in results.index.rows if row.probe == "memory.latency"]
    points = points_of(by_name(example_runs.healthy, ("x86_64",))["latency"])
    assert len(points) == len(rows)
    found = {(p["x"], p["series"]): (p["y"], p["lo"], p["hi"]) for p in points}
    for row in rows:
        name = {"small": "small pages", "huge": "huge pages"}.get(str(row.parameters["pages"]))
        if name:
            assert found[row.parameters["size"], name] == pytest.approx((row.median, row.low, row.high), rel=1e-5)


def test_bandwidth_shows_the_best_kernel_of_each_operation_all_along() -> None:
    results = example_runs.healthy(("x86_64",))
    points = points_of(by_name(example_runs.healthy, ("x86_64",))["bandwidth"])
    assert {p["series"] for p in points} == {f"{name}, avx512" for name in ("read", "write", "copy", "update")}
    kept = [row for row in results.index.rows if row.parameters.get("kernel") == "avx512"]
    assert sorted(p["y"] for p in points) == pytest.approx(sorted(row.median or 0.0 for row in kept), rel=1e-5)


def test_no_rate_of_a_level_is_above_the_bandwidth_curve() -> None:
    """The fastest kernel was measured at some sizes only: it has a line beside that of the kernel measured at most."""
    best = (16 << 10, 512 << 10, 8 << 20)
    results = example_runs.healthy(("x86_64",))
    rows = [row for row in results.index.rows if row.parameters.get("kernel", "avx2") == "avx2"
            or (row.parameters["kernel"] == "avx512" and row.parameters["size"] in best)]  # fmt: skip
    read = {kernel: {row.parameters["size"]: row.median for row in rows if row.probe == "memory.read"
                     and row.parameters["kernel"] == kernel} for kernel in ("avx512", "avx2")}  # fmt: skip
    made = {chart.name: chart for chart in charts(example_runs.with_rows(results, rows))}
    points = points_of(made["bandwidth"])
    for kernel, measured in read.items():
        drawn = {point["x"]: point["y"] for point in points if point["series"] == f"read, {kernel}"}
        assert len(drawn) > 2 and drawn == pytest.approx(measured, rel=1e-5)


def test_one_disturbed_point_does_not_press_the_others_flat() -> None:
    results = example_runs.healthy(("x86_64",))
    rows = [
        msgspec.structs.replace(r, low=1e-9, high=1e9) if r.parameters.get("size") == 49152 else r
        for r in results.index.rows
    ]
    made = {chart.name: chart for chart in charts(example_runs.with_rows(results, rows))}
    domains = [
        e["y"]["scale"]["domain"]
        for e in _encodings(made["latency"].spec)
        if "domain" in e.get("y", {}).get("scale", {})
    ]
    assert domains and all(low >= 0.1 and high <= 1000 for low, high in domains)
    whole = by_name(example_runs.healthy, ("x86_64",))["latency"]
    assert parts_of_lines(made["latency"]) == 2 * parts_of_lines(whole) > 0, "no line crosses the point"


def parts_of_lines(chart: Chart) -> int:
    """Of the lines as drawn: a line that is interrupted has several."""
    drawing = vl_convert.vegalite_to_svg(with_source(chart, ""))
    return sum(tag.count("M") for tag in re.findall(r'roledescription="line mark"[^>]* d="([^"]*)"', drawing))


def test_cells_are_in_the_step_that_their_number_is_in() -> None:
    points = points_of(by_name(example_runs.many_cpus, 6)["core-to-core"])
    near, far = ({p["step"] for p in points if low < p["y"] < high} for low, high in ((40, 50), (150, 170)))
    assert len(near) == len(far) == 1
    assert near.pop().startswith("below") and far.pop().endswith("and more")
    assert {p["far"] for p in points if p["y"] > 150} == {True}


def test_clocks_never_share_a_chart() -> None:
    results = example_runs.emulated()
    emulated = {row.probe for row in results.index.rows if row.clock == "instructions"}
    assert emulated
    for chart in drawn(example_runs.emulated):
        abis = {datum["abi"] for datum in data_of(chart) if "abi" in datum}
        assert len(abis & {"x86_64"}) + len(abis & {"arm-soft"}) <= 1, chart.name
        assert ("arm-soft" in abis) == chart.name.endswith("-qemu_user-instructions")
        assert ("arm-soft" in abis) == ("counted instructions" in chart.title)


def test_any_line_can_be_chosen_for_the_others_to_be_over() -> None:
    """The specification is drawn, and its marks say their ratios: for the line that it begins with and for another."""
    chart = by_name(example_runs.healthy)["speed-up"]
    (chosen,) = chart.spec["params"]
    assert (chosen["name"], chosen["bind"]["options"]) == ("over", ["x86_64", "ia32"])
    for over, other in (("ia32", "x86_64"), ("x86_64", "ia32")):
        spec = {**chart.spec, "params": [{**chosen, "value": over}]}
        drawing = vl_convert.vegalite_to_svg(with_source(dataclasses.replace(chart, drawing=picture(spec)), ""))
        said = re.findall(rf'"elements: 1024; times as fast: ([^;]+); series: {other}"', drawing)
        assert any(float(ratio) == pytest.approx(_speed(other) / _speed(over), rel=1e-4) for ratio in said)
        still = re.findall(rf'"elements: \d+; times as fast: ([^;]+); series: {over}"', drawing)
        assert {float(ratio) for ratio in still} == {1.0}


def _speed(abi: str) -> float:
    place = {"n": 1024, "precision": "float"}
    rows = example_runs.healthy().index.rows
    return next(r.median or 0.0 for r in rows if (r.probe, r.abi, r.parameters) == ("float.dot", abi, place))


def test_the_ladder_climbs() -> None:
    points = points_of(by_name(example_runs.healthy)["ladder"])
    costs = [point["y"] for point in sorted(points, key=lambda point: point["place"])]
    assert costs == sorted(costs)
    labels = {point["label"] for point in points}
    assert {"load from L1d", "load from memory", "system call"} <= labels


def test_many_cpus_make_a_matrix_from_the_visits_own_cpus() -> None:
    points = points_of(by_name(example_runs.many_cpus, 6)["core-to-core"])
    cells = {(p["a"], p["b"], p["panel"]): p["y"] for p in points}
    assert len(cells) == 6 * 5 * 2
    assert cells[0, 1, "swap"] == cells[1, 0, "swap"] == pytest.approx(48.0, rel=1e-3)
    assert cells[0, 5, "flag"] == pytest.approx(160.0, rel=1e-3)
    assert {p["said"] for p in points if (p["a"], p["b"], p["panel"]) == (0, 1, "swap")} == {"48.0"}


def test_what_rests_on_two_visits_is_drawn_and_said_without_an_interval() -> None:
    results = example_runs.healthy(("x86_64",), visits=4)
    thin = {name: tuple(msgspec.structs.replace(one, visits=2) for one in getattr(results.index, name))
            for name in ("rows", "tolls")}  # fmt: skip
    results = example_runs.with_index(results, **thin)
    points = [point for chart in charts(results) for point in points_of(chart) if "visits" in point["samples"]]
    assert points
    for point in points:
        assert point["lo"] == point["y"] == point["hi"] and " to " not in point["interval"], point
        assert "±" not in f"{point['value']} {point.get('said')} {point.get('brief')}", point


def test_a_probe_without_a_chart_of_its_own_is_drawn() -> None:
    probe = Probe(
        probe="memory.newcomer",
        question="What is new?",
        revision=1,
        metrics=(Metric(name="cost", unit="ns", better="less", summary="one of them"),),
        parameters=(Parameter(name="depth", kind="count", summary="how deep", values=(1, 2, 4, 8)),),
    )
    results = example_runs.healthy(("x86_64",))
    like = next(row for row in results.index.rows if row.unit == "ns")
    rows = [
        msgspec.structs.replace(
            like, probe=probe.probe, metric="cost", parameters={"depth": depth}, median=float(depth)
        )
        for depth in (1, 2, 4, 8)
    ]
    told = msgspec.structs.replace(example_runs.with_rows(results, rows), probes={probe.probe: probe}, outcomes=())
    told = example_runs.with_index(told, hierarchy=())
    made = charts(told)
    assert [(chart.probes, chart.general) for chart in made] == [((probe.probe,), False)]
    assert [(point["x"], point["y"]) for point in points_of(made[0])] == [(1, 1.0), (2, 2.0), (4, 4.0), (8, 8.0)]
    counted = msgspec.structs.replace(probe, metrics=(msgspec.structs.replace(probe.metrics[0], means="account"),))
    beside = msgspec.structs.replace(told, probes={probe.probe: counted})
    assert not charts(beside), "what a kernel accounts is in the table: of 203 charts of x32-2013 133 are left"


def test_no_difference_rests_on_colour_alone() -> None:
    for chart in drawn(example_runs.healthy):
        encodings = list(_encodings(chart.spec))
        coloured = [e for e in encodings if e.get("color", {}).get("field") == "series"]
        if coloured:
            assert any(e.get("shape", {}).get("field") == "series" for e in encodings), chart.name
            lines = '"type": "line"' in json.dumps(chart.spec)
            assert not lines or any(e.get("strokeDash", {}).get("field") == "series" for e in encodings), chart.name


def _encodings(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield from (node[key] for key in node if key == "encoding")
        for key, value in node.items():
            if key != "datasets":
                yield from _encodings(value)
    elif isinstance(node, list):
        for item in node:
            yield from _encodings(item)


def test_every_style_that_a_mark_names_exists() -> None:
    known = set(chart_style.config(chart_style.by_value, chart_style.PICTURE_FONT)["style"])
    for chart in drawn(example_runs.healthy):
        named = {mark["style"] for mark in _marks(chart.spec) if "style" in mark}
        assert named and named <= known, chart.name


def _marks(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if isinstance(node.get("mark"), dict):
            yield node["mark"]
        for key, value in node.items():
            if key != "datasets":
                yield from _marks(value)
    elif isinstance(node, list):
        for item in node:
            yield from _marks(item)


def test_pictures_are_written_whole(tmp_path: Path) -> None:
    results = example_runs.healthy(("x86_64",))
    few = example_runs.with_rows(
        results, [r for r in results.index.rows if r.probe in ("memory.latency", "memory.parallelism")]
    )
    few = msgspec.structs.replace(few, outcomes=())
    written = save(few, tmp_path / "a" / "b")
    assert {path.name for path in written} == {f"{c.name}.{kind}" for c in charts(few) for kind in ("svg", "png")}
    for path in written:
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG\r\n" if path.suffix == ".png" else b"<svg"), path
    svg = (tmp_path / "a/b/latency.svg").read_text(encoding="utf-8")
    assert "Memory latency over size" in svg and "OS: L2 1 MiB" in svg and "var(" not in svg


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Failure) as failure:
        save(example_runs.healthy(("x86_64",)), tmp_path / "file")
    assert failure.value.exit_code == 5
