# SPDX-License-Identifier: Apache-2.0
"""How the kernel scales: efficiency, slope, table, chart and finding, from rows whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
import vl_convert

from support import vega_lite
from support.builders import metric, probe, row
from support.example_runs import derived, empty, of_probes, with_index
from support.rendered import of_blocks
from support.snapshots import approve
from tollmeter.findings import all_findings
from tollmeter.inference.worker_scaling import worker_scaling
from tollmeter.maths.fits import line_slope
from tollmeter.model import Inference, Parameter, Results, Row
from tollmeter.report.blocks import Block, heading
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
REFUSED = {"threads": {1: 5e6, 2: 5e6}, "processes": {1: 5e6, 2: 10e6}}
"""Four workers were refused."""
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
    return of_probes(several, *PROBES.values())


def inferred(several: Sequence[Row], cpus: int = 4) -> dict[tuple[str, object], Inference]:
    return {(one.kind, one.parameters.get("share")): one for one in worker_scaling(several, PROBES, cpus)}


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
    assert threads.name == "dup: efficiency at workers=4 (threads)"


def test_the_slope_is_what_a_worker_adds_to_one_operation() -> None:
    rates = {"threads": {n: n * 1e9 / (100 + 40 * n) for n in (1, 2, 4)}}
    added = inferred(rows("dup", rates))["cost_of_worker", "threads"]
    assert (added.value, added.unit) == (pytest.approx(40), "ns")
    assert added.low and added.high and added.low < 40 < added.high
    assert added.name == "dup: cost per further worker (threads)"


def test_an_interrupt_to_each_cpu_adds_its_cost() -> None:
    (added,) = worker_scaling(releases([3000, 3900, 4800, 5700]), PROBES, 4)
    assert (added.kind, added.value) == ("cost_of_worker", pytest.approx(900))
    assert added.name == "unmap, 64 KiB: cost per further thread"


def test_one_worker_alone_has_no_number_and_the_reason_that_is_true_of_the_run() -> None:
    alone = {share: {1: rate[1]} for share, rate in DUP.items()}
    measured = [*rows("dup", alone), *releases([3000])]
    assert all(one.value is None for cpus in (1, 2) for one in worker_scaling(measured, PROBES, cpus))
    reasons = {cpus: {one.reason for one in worker_scaling(measured, PROBES, cpus)} for cpus in (1, 2)}
    alone_here = "only one worker was timed: this machine allows the run one CPU, and each worker needs its own"
    needs = "only one worker was timed: scaling needs {}=2 or more, and as many CPUs (--cpus)"
    assert reasons == {1: {alone_here}, 2: {needs.format("workers"), needs.format("threads")}}


def test_few_visits_have_no_efficiency_and_no_slope() -> None:
    few = [msgspec.structs.replace(one, visits=2) for one in rows("dup", DUP)]
    assert all(one.value is None and "visits" in (one.reason or "") for one in worker_scaling(few, PROBES, 4))
    assert chart(few) is None


ALONE = [one for one in rows("dup", DUP) + rows("stat_same", STAT) if one.parameters["workers"] == 1]
WAITING = {"threads": {1: 10e6, 2: 10e6, 4: 10e6}, "processes": DUP["processes"]}


def on_cpus(results: Results, *cpus: int) -> Results:
    machine = msgspec.structs.replace(results.index.machine, allowed_cpus=cpus)
    return derived(with_index(results, machine=machine))


RUNS = {
    "the worst operation first, and what a thread adds": of_run(
        [*rows("stat_same", STAT), *rows("dup", WAITING), *releases([3e3, 4e3])]
    ),
    "four workers of one operation were refused": of_run([*rows("dup", DUP), *rows("fork", REFUSED)]),
    "threads do less than processes": of_run([*rows("dup", DUP), *rows("stat_same", STAT)]),
    "threads do nearly as much": of_run(rows("dup", {**DUP, "threads": {1: 10e6, 4: 30e6}})),
    "processes do no more": of_run(rows("dup", {**DUP, "processes": {1: 10e6, 4: 9e6}})),
    "an operation that interrupts other threads is no finding": of_run(rows("membarrier", DUP)),
    "one worker where the run has two CPUs": on_cpus(of_run(ALONE), 0, 1),
    "one worker where the run has one CPU": on_cpus(of_run(ALONE), 1),
    "several workers without one alone": of_run(
        [one for one in rows("dup", DUP) if one.parameters["workers"] == 4] + releases([3e3, 4e3])[1:]
    ),
    "nothing of it": empty(),
}  # fmt: skip


def test_tables_captions_and_findings_of_scaling() -> None:
    blocks: list[Block] = []
    for title, run in RUNS.items():
        blocks += [heading(title), *scaling_tables(run)]
        blocks += [f"chart: {one.caption}" for one in charts(run) if one.name == "scaling"]
        blocks += [f"finding: {one.claim}" for one in all_findings(run) if one.name == WAITS]
    approve("scaling", of_blocks(blocks))


WAITS = "kernel.threads_wait_for_each_other"


def chart(several: Sequence[Row]) -> Chart | None:
    return next((one for one in charts(of_run(several)) if one.name == "scaling"), None)


def test_the_chart_has_a_line_an_operation_and_the_diagonal() -> None:
    drawn = chart([*rows("dup", DUP), *rows("stat_same", STAT)])
    assert drawn is not None
    ends = {(d["panel"], d["series"]): d["y"] for d in drawn.drawing.data if d["x"] == 4}
    assert ends["threads of one process", "dup"] == pytest.approx(0.8)
    assert ends["processes", "stat same"] == pytest.approx(4)
    vega_lite.check(drawn.spec)
    drawing = vl_convert.vegalite_to_svg(with_source(drawn))
    assert drawing.count('aria-roledescription="point"') > 0
    assert "threads of one process" in drawing
    assert chart([one for one in rows("dup", DUP) if one.parameters["workers"] == 1]) is None
