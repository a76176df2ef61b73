# SPDX-License-Identifier: Apache-2.0
"""How the kernel scales: efficiency, slope, table, chart and finding, from rows whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
import vl_convert

import vega_lite
from example_runs import derived, empty, with_rows
from made import metric, probe, row
from tollmeter.findings import all_findings
from tollmeter.inference.worker_scaling import worker_scaling
from tollmeter.maths.fits import line_slope
from tollmeter.model import Inference, Parameter, Results, Row
from tollmeter.report.charts import Chart, charts
from tollmeter.report.charts.chart import with_source
from tollmeter.report.worker_scaling import scaling_tables

OF, MAPS = "any.scaling", "any.release"
SIZE = Parameter(name="size", kind="size", summary="of the map")
PROBES = {
    OF: probe(
        metric("together", "op/s", means="throughput-of-workers", source="together"),
        metric("own", means="operation-of-workers"),
        name=OF,
    ),
    MAPS: probe(metric(means="release-of-threads"), name=MAPS, parameters=(SIZE,)),
}
DUP = {"threads": {1: 10e6, 2: 6e6, 4: 8e6}, "processes": {1: 10e6, 2: 19e6, 4: 38e6}}
STAT = {"threads": {1: 1e6, 2: 2e6, 4: 4e6}, "processes": {1: 1e6, 2: 2e6, 4: 4e6}}


def rows(of: str, rates: Mapping[str, Mapping[int, float]], spread: float = 0.01) -> list[Row]:
    """What workers do together a second, and what one operation of each takes then."""
    made = []
    for share, by_workers in rates.items():
        for workers, rate in by_workers.items():
            point = {"of": of, "share": share, "workers": workers}
            made += [
                row(rate, spread, of=OF, name="together", unit="op/s", parameters=point),
                row(1e9 * workers / rate, spread, of=OF, name="own", parameters=point),
            ]
    return made


def releases(costs: Sequence[float]) -> list[Row]:
    """costs: by the number of threads, from one on."""
    return [
        row(cost, of=MAPS, parameters={"act": "unmap", "size": 65536, "threads": threads})
        for threads, cost in enumerate(costs, 1)
    ]


def of_run(several: Sequence[Row]) -> Results:
    results = with_rows(empty(), several)
    results.probes.update(PROBES)
    return derived(results)


def inferred(several: Sequence[Row]) -> dict[tuple[str, object], Inference]:
    return {(one.kind, one.parameters.get("share")): one for one in worker_scaling(several, PROBES)}


def test_a_line_of_two_points_has_their_errors_and_one_of_more_the_misfit() -> None:
    assert line_slope([1, 2], [10, 14], [1, 1]) == pytest.approx((4, 1.96 * 2**0.5), rel=1e-3)
    # The second derivative of a parabola: residuals 1/3, -2/3, 1/3; Student's t of one degree of freedom is 12.71.
    rise, exact = line_slope([1, 2, 3], [1, 2, 5], [10, 10, 10])
    assert (rise, exact) == pytest.approx((2, 12.706 * 10 / 2**0.5), rel=1e-3)
    misfit = 12.706 * (2 / 3) ** 0.5 / 2**0.5
    assert line_slope([1, 2, 3], [1, 2, 5], [0.1, 0.1, 0.1])[1] == pytest.approx(misfit, rel=1e-3)
    # The third value weighs next to nothing.
    assert line_slope([1, 2, 3], [1, 2, 9], [1, 1, 1e6])[0] == pytest.approx(1, rel=1e-3)


def test_efficiency_is_of_the_most_workers_and_of_their_own_kind() -> None:
    found = inferred(rows("dup", DUP))
    threads, processes = (found["worker_efficiency", share] for share in DUP)
    assert (threads.value, processes.value) == pytest.approx((0.2, 0.95))
    assert threads.parameters["workers"] == 4
    assert threads.low and threads.high and threads.low < 0.2 < threads.high


def test_the_slope_is_what_a_worker_adds_to_one_operation() -> None:
    rates = {"threads": {n: n * 1e9 / (100 + 40 * n) for n in (1, 2, 4)}}
    added = inferred(rows("dup", rates))["cost_of_worker", "threads"]
    assert (added.value, added.unit) == (pytest.approx(40), "ns")
    assert added.low and added.high and added.low < 40 < added.high


def test_an_interrupt_to_each_cpu_adds_its_cost() -> None:
    (added,) = worker_scaling(releases([3000, 3900, 4800, 5700]), PROBES)
    assert (added.kind, added.value) == ("cost_of_worker", pytest.approx(900))
    assert "unmap, 64 KiB" in added.name


def test_one_worker_alone_has_a_reason_and_no_number() -> None:
    alone = {share: {1: rate[1]} for share, rate in DUP.items()}
    for one in worker_scaling([*rows("dup", alone), *releases([3000])], PROBES):
        assert one.value is None
        assert "second CPU" in (one.reason or "")


def test_several_workers_without_one_have_a_reason_and_no_table() -> None:
    several = [one for one in rows("dup", DUP) if one.parameters["workers"] == 4] + releases([3e3, 4e3])[1:]
    assert {one.reason for one in worker_scaling(several, PROBES)} == {"one worker alone was not timed"}
    assert scaling_tables(of_run(several)) == []


def test_few_visits_have_no_efficiency_and_no_slope() -> None:
    few = [msgspec.structs.replace(one, visits=2) for one in rows("dup", DUP)]
    assert all(one.value is None and "visits" in (one.reason or "") for one in worker_scaling(few, PROBES))
    assert chart(few) is None


def test_the_table_has_the_worst_operation_first_and_says_what_a_thread_adds() -> None:
    waiting = {"threads": {1: 10e6, 2: 10e6, 4: 10e6}, "processes": DUP["processes"]}
    workers, maps = scaling_tables(of_run([*rows("stat_same", STAT), *rows("dup", waiting), *releases([3e3, 4e3])]))
    assert [line.cells[0] for line in workers.rows] == ["dup", "stat same"]
    assert [column.name for column in workers.columns][1:4] == ["1 thread", "4 threads", "efficiency"]
    dup, stat = (" | ".join(map(str, line.cells)) for line in workers.rows)
    assert "0.25" in dup and "0.95" in dup and dup.endswith("100 ns ±8 %")
    assert stat.rpartition("| ")[2].startswith("under ")
    assert str(maps.rows[0].cells[0]) == "unmap 64 KiB"
    assert str(maps.rows[0].cells[-1]).startswith("1.0")


def test_one_cpu_has_throughput_and_one_sentence() -> None:
    alone = [one for one in rows("dup", DUP) + rows("stat_same", STAT) if one.parameters["workers"] == 1]
    (table,) = scaling_tables(of_run(alone))
    assert [column.name for column in table.columns] == ["Kernel scaling", "1 thread"]
    assert [bool(line.note) for line in table.rows] == [False, True]
    assert scaling_tables(empty()) == []


def chart(several: Sequence[Row]) -> Chart | None:
    return next((one for one in charts(of_run(several)) if one.name == "scaling"), None)


def test_the_chart_has_a_line_an_operation_and_the_diagonal() -> None:
    drawn = chart([*rows("dup", DUP), *rows("stat_same", STAT)])
    assert drawn is not None
    ends = {(d["panel"], d["series"]): d["y"] for d in drawn.drawing.data if d["x"] == 4}
    assert ends["threads of one process", "dup"] == pytest.approx(0.8)
    assert ends["processes", "stat same"] == pytest.approx(4)
    assert "dup 0.80" in drawn.caption
    vega_lite.check(drawn.spec)
    drawing = vl_convert.vegalite_to_svg(with_source(drawn))
    assert drawing.count('aria-roledescription="point"') > 0
    assert "threads of one process" in drawing
    assert chart([one for one in rows("dup", DUP) if one.parameters["workers"] == 1]) is None


def test_threads_that_do_less_than_processes_are_a_finding() -> None:
    def found(dup: Mapping[str, Mapping[int, float]]) -> list[str]:
        results = of_run([*rows("dup", dup), *rows("stat_same", STAT)])
        return [one.claim for one in all_findings(results) if one.name == "kernel.threads_wait_for_each_other"]

    said = "4 threads of a process wait for each other, and do of what one does, times: dup 0.8 (processes 3.8)"
    assert found(DUP) == [said]
    assert found({**DUP, "threads": {1: 10e6, 4: 30e6}}) == []
    assert found({**DUP, "processes": {1: 10e6, 4: 9e6}}) == []
