# SPDX-License-Identifier: Apache-2.0
"""Two runs in the same charts: each run's own numbers, told apart without colour, and nothing compared that differs in
revision or clock."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from support import example_runs, vega_lite
from support.rendered import of_blocks
from support.snapshots import approve, approve_variations
from tollmeter.judgement.compare import ratio_of
from tollmeter.model import Failure, Results, Row, State, Toll
from tollmeter.report import chart_style, overlay
from tollmeter.report.blocks import Line
from tollmeter.report.charts import SIDES, Chart, Overlay, charts, overlaid
from tollmeter.report.compared import tolls_table
from tollmeter.report.numbers import quantity

LABELS = ("A · one", "B · two")


@functools.cache
def pair() -> Overlay:
    return overlay.two((example_runs.small(), example_runs.another_machine()))


def by_name(drawn: Sequence[Chart]) -> dict[str, Chart]:
    return {chart.name: chart for chart in drawn}


def points(chart: Chart, **wanted: object) -> list[tuple[object, ...]]:
    """What each mark of a row says."""
    marks = [d for d in chart.drawing.data if "samples" in d and d.items() >= wanted.items()]
    return sorted((str(d.get("label", d.get("series"))), str(d.get("at")), d["y"], d["lo"], d["hi"]) for d in marks)


def with_rows(results: Results, change: Callable[[Row], Row]) -> Results:
    return example_runs.with_rows(results, map(change, results.index.rows))


# ---- charts ---------------------------------------------------------------------------------------------------------


def test_a_chart_of_two_runs_holds_what_each_runs_own_chart_holds() -> None:
    own = [by_name(charts(results)) for results in pair().runs]
    both = [group[0] for group in pair().groups if len(group) == 1]
    assert {"latency", "bandwidth", "parallelism", "ladder", "flops", "switches"} <= {chart.name for chart in both}
    for chart in both:
        for label, drawn in zip(pair().labels, own, strict=True):
            assert points(chart, run=label) == points(drawn[chart.name]) != [], (chart.name, label)


def test_every_chart_of_both_runs_is_there_once() -> None:
    first, second = ({chart.title for chart in charts(results)} for results in pair().runs)
    titles = {group[0].title.removesuffix(f": {pair().labels[0]}") for group in pair().groups}
    assert titles == first & second == first | second
    names = [chart.name for chart in pair().charts]
    assert len(names) == len(set(names)) and pair().only == ((), ())


def test_runs_differ_in_colour_and_in_shape() -> None:
    """The colours are the same in every chart; marks are filled or hollow, lines solid or dashed."""
    assert set(chart_style.places(pair().labels)) == {0, 1} and chart_style.places(pair().labels) == chart_style.places(
        ("A · x", "B · y")
    )
    for group in pair().groups:
        if len(group) == 1:
            ranges = {channel: encoding["scale"]["range"] for channel, encoding in _of_runs(group[0].spec)}
            assert ranges["color"] == [chart_style.LIGHT["series-1"], chart_style.LIGHT["series-2"]], group[0].name
            assert ranges["fill"] == [chart_style.LIGHT["series-1"], "transparent"], group[0].name
            assert "strokeDash" not in ranges or ranges["strokeDash"][0] != ranges["strokeDash"][1]


def _of_runs(node: Any) -> list[tuple[str, dict[str, Any]]]:
    """Each channel that tells runs apart."""
    if isinstance(node, list):
        return [found for item in node for found in _of_runs(item)]
    if not isinstance(node, dict):
        return []
    own = [(name, told) for name, told in node.get("encoding", {}).items()
           if isinstance(told, dict) and told.get("field") == "run"]  # fmt: skip
    return own + [found for key, item in node.items() if key != "datasets" for found in _of_runs(item)]


def test_every_specification_is_valid_vega_lite() -> None:
    for chart in pair().charts:
        vega_lite.check(chart.spec)


def test_what_two_runs_cannot_share_stands_side_by_side_and_a_colour_means_the_same_in_both() -> None:
    drawn = overlaid((example_runs.many_cpus(6), example_runs.many_cpus(8)), LABELS)
    group = next(group for group in drawn.groups if group[0].name.startswith("core-to-core"))
    assert [chart.title for chart in group] == [f"From core to core: {label}" for label in LABELS]
    own = by_name(charts(example_runs.many_cpus(6)))["core-to-core"]
    dearer = overlaid((example_runs.many_cpus(6), _dearer(example_runs.many_cpus(6))), LABELS)
    sides = next(group for group in dearer.groups if group[0].name.startswith("core-to-core"))
    assert _steps(sides[0].spec) == _steps(sides[1].spec) != _steps(own.spec)


def _dearer(results: Results) -> Results:
    """Its visits take ten times as many nanoseconds."""
    outcomes = [
        msgspec.structs.replace(one, samples=type(one.samples).of([
            msgspec.structs.replace(sample, body=tuple(10 * ns for ns in sample.body)) for sample in one.samples
        ]))
        if one.point.probe == "memory.ping_pong" else one
        for one in results.outcomes
    ]  # fmt: skip
    return msgspec.structs.replace(results, outcomes=tuple(outcomes))


def _steps(node: Any) -> list[str]:
    """What the steps of colour of a heat map stand for."""
    if isinstance(node, dict):
        colour = node.get("encoding", {}).get("color", {})
        if colour.get("field") == "step":
            return list(colour["scale"]["domain"])
        node = [item for key, item in node.items() if key != "datasets"]
    return next(filter(None, map(_steps, node)), []) if isinstance(node, list) else []


def test_a_series_has_one_name_in_both_runs() -> None:
    """One of them has a second ABI, which its own page tells from the first in each series."""
    narrow = example_runs.healthy(("x86_64",))
    assert {d["series"] for d in by_name(charts(narrow))["flops"].drawing.data} == {"rate"}
    drawn = by_name(overlaid((example_runs.healthy(), narrow), LABELS).charts)["flops"]
    series = {label: {d["series"] for d in drawn.drawing.data if d["run"] == label} for label in LABELS}
    assert series == {LABELS[0]: {"x86_64", "ia32"}, LABELS[1]: {"x86_64"}}


def test_clocks_of_different_kinds_share_no_chart() -> None:
    """The emulator's counts of one run are drawn with those of the other, and its times with times."""
    drawn = overlaid((example_runs.emulated(), example_runs.emulated()), LABELS)
    for chart in drawn.charts:
        abis = {d["abi"] for d in chart.drawing.data if "abi" in d}
        assert abis <= {"arm-soft"} or abis <= {"x86_64"}, chart.name
        assert ("arm-soft" in abis) == ("counted instructions" in chart.title)
    drawn = overlaid((example_runs.emulated(), example_runs.small()), LABELS)
    assert not any("arm-soft" in str(chart.drawing.data) for chart in drawn.charts)
    assert "all that was measured on qemu_user, counted instructions" in drawn.only[0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda row: msgspec.structs.replace(row, clock="virtual"), "clocks"),
        (lambda row: msgspec.structs.replace(row, revision=row.revision + 1), "revisions"),
        (lambda row: msgspec.structs.replace(row, status="failed", median=None), "no probe"),
    ],
)
def test_two_runs_without_a_chart_of_both_are_one_sentence(change: Callable[[Row], Row], reason: str) -> None:
    results = example_runs.small()
    other = msgspec.structs.replace(results, outcomes=(), index=msgspec.structs.replace(
        results.index, rows=tuple(map(change, results.index.rows)), hierarchy=(), tolls=()))  # fmt: skip
    with pytest.raises(Failure) as failure:
        overlay.two((results, other))
    assert failure.value.exit_code == 4
    assert reason in failure.value.sentence and "\n" not in failure.value.sentence


def test_rows_of_another_revision_are_named_and_in_no_chart_nor_ratio() -> None:
    moved = ("memory.latency", "kernel.enter_syscall")
    newer = with_rows(
        example_runs.small(), lambda row: msgspec.structs.replace(row, revision=7) if row.probe in moved else row
    )
    two = overlay.two((example_runs.small(), newer))
    assert not {probe for chart in two.charts for probe in chart.probes} & {*moved}
    assert not any("load from" in str(d.get("label")) for chart in two.charts for d in chart.drawing.data)
    assert "system call" not in tolls(two.runs)
    (said,) = overlay.not_compared(two.runs)
    assert all(f"{name} (1 and 7)" in said for name in moved)


# ---- words ----------------------------------------------------------------------------------------------------------


def tolls(two: tuple[Results, Results]) -> dict[str, Line]:
    table = tolls_table(two, SIDES, whole=True)
    return {str(line.cells[0]): line for line in table.rows} if table else {}


def test_a_toll_has_its_ratio_with_the_interval_that_comparing_gives() -> None:
    first, second = (
        next(row for row in results.index.rows if row.probe == "kernel.enter_syscall") for results in pair().runs
    )
    found = ratio_of(first, second)
    assert found.value == pytest.approx(example_runs.SLOWER)
    line = tolls(pair().runs)["system call"]
    assert line.cells[3] == quantity(found.value, "ratio", found.low, found.high) and not line.note


def _with_tolls(results: Results, **changes: object) -> Results:
    """changes: to the system call's."""
    told: tuple[Toll, ...] = tuple(
        msgspec.structs.replace(toll, **changes) if toll.probe == "kernel.enter_syscall" else toll
        for toll in results.index.tolls
    )
    return example_runs.with_index(results, tolls=told)


def in_states(**ns: float) -> tuple[State, ...]:
    return tuple(State(state=name, share=0.5, median=one, low=one, high=one) for name, one in ns.items())  # type: ignore[arg-type]


def of_few(results: Results) -> Results:
    kept = ("kernel.enter_syscall", "kernel.page_fault", "memory.line")
    return example_runs.with_rows(results, [row for row in results.index.rows if row.probe in kept])


def pairs() -> dict[str, tuple[Results, Results]]:
    one, other = (of_few(results) for results in pair().runs)
    calls = [row for row in one.index.rows if row.probe != "kernel.enter_syscall"]
    return {
        "a system call of two visits has a ratio without an interval": (_with_tolls(one, visits=2), other),
        "one of two costs by turns makes no ratio": (_with_tolls(one, states=in_states(first=9.0, second=20.0)), other),
        "different states of the core": (
            _with_tolls(one, states=in_states(uncontended=9.0)), _with_tolls(one, states=in_states(contended=9.0))
        ),
        "the same state of the core": (_with_tolls(one, states=in_states(uncontended=9.0)),) * 2,
        "no system call in the other": (one, example_runs.with_rows(one, calls)),
        "one system, and the rows that changed": (one, example_runs.slowed(one, 1.5)),
        "the same run": (one, one),
    }  # fmt: skip


def said(two: tuple[Results, Results]) -> str:
    differ, facts, same = overlay.run_differences(two, ("A", "B"))
    tables = (differ, tolls_table(two, SIDES, whole=True), overlay.changed_rows(two))
    return of_blocks([*filter(None, tables), *([facts] if facts else []), f"the same: {same}"])


def test_what_a_page_of_two_runs_says() -> None:
    first = said((of_few(pair().runs[0]), of_few(pair().runs[1])))
    approve("two-runs", first)
    approve_variations("two-runs-variations", first, {title: said(two) for title, two in pairs().items()})
    few = tolls_table(pairs()["no system call in the other"], SIDES, whole=False)
    assert few and "system call" not in {line.cells[0] for line in few.rows}


@pytest.mark.parametrize(
    ("machine", "named"),
    [({"cpu": "Other"}, "Other"), ({"kernel": "Linux 6.1"}, "Linux 6.1"), ({}, "2026-11-21-default")],
)
def test_a_run_is_labelled_by_what_differs_from_the_other(machine: dict[str, str], named: str) -> None:
    results = example_runs.small()
    run = msgspec.structs.replace(results.index.run, folder="runs/2026-11-21-default")
    index = msgspec.structs.replace(
        results.index, run=run, machine=msgspec.structs.replace(results.index.machine, **machine)
    )
    assert overlay.labels((results, msgspec.structs.replace(results, index=index)))[1] == f"B · {named}"
