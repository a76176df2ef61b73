# SPDX-License-Identifier: Apache-2.0
"""CPUs that are slower than the others of their kind are named, equal ones are not, and contended ones are not slow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from support.builders import row
from support.example_runs import healthy, with_index
from tollmeter.findings import all_findings
from tollmeter.fleet.health import health
from tollmeter.judgement.unlike_cpus import costs_of_loops, unlike_cpus
from tollmeter.library.limits import read_limits
from tollmeter.model import CoreKind, MemoryNode, Metric, Outcome, Point, Probe, Results, Sample, Topology, Value, Work
from tollmeter.numbers.each_cpu import EachCpu, each_cpu
from tollmeter.report.charts import charts

CLOCK_NS, WIDE_NS, MEMORY_NS = 0.29, 0.07, 95.0
BETWEEN, NOISE, DRIFT = 0.004, 0.005, 0.03
"""Standard deviations: of CPUs of one kind, of a visit of one CPU, and of all CPUs of a visit together."""
STEPS = {"clock": CLOCK_NS, "width": WIDE_NS, "second_cache": 4.1, "memory": MEMORY_NS, "copy": 9.0}


def logs(random: np.random.Generator, count: int, step_ns: float = CLOCK_NS, visits: int = 3) -> EachCpu:
    scattered = random.normal(0, BETWEEN, count) + random.normal(0, NOISE, (visits, count))
    return EachCpu(tuple(range(count)), np.log(step_ns) + scattered + random.normal(0, DRIFT, (visits, 1)))


def slower(each: EachCpu, cpus: Sequence[int], share: float) -> EachCpu:
    each.logs[:, list(cpus)] -= np.log(1 - share)
    return each


def sweep(random: np.random.Generator, count: int) -> dict[tuple[str, str], EachCpu]:
    return {(loop, beside): logs(random, count, ns) for loop, ns in STEPS.items() for beside in ("nothing", "all")}


@pytest.mark.parametrize("count", [8, 64])
def test_of_equal_cpus_one_in_a_thousand_is_named_at_most_and_a_core_5_percent_slower_in_19_of_20(count: int) -> None:
    random = np.random.default_rng(count)
    machines = 1000 // count
    false = [unlike_cpus(sweep(random, count), None) for _ in range(machines)]
    assert sum(len(slow) + len(contended) for slow, contended in false) <= 1
    found = 0
    for _ in range(20):
        costs = sweep(random, count)
        slower(costs["clock", "nothing"], [3], 0.05)
        found += [one.where for one in unlike_cpus(costs, None)[0]] == ["CPU 3"]
    assert found >= 19


def test_a_throttled_core_is_named_once_by_its_clock() -> None:
    costs = sweep(np.random.default_rng(1), 32)
    for (loop, _), each in costs.items():
        slower(each, [17], 0.0 if loop == "memory" else 0.38)
    (named,), contended = unlike_cpus(costs, None)
    assert (named.where, named.loop, named.beside) == ("CPU 17", "clock", "nothing")
    assert 1 / named.cost == pytest.approx(2.1, abs=0.1)
    assert named.low == pytest.approx(CLOCK_NS, rel=0.1) and named.times == pytest.approx(1 / 0.62, rel=0.03)
    assert not contended


def test_a_core_whose_sibling_is_busy_is_contended_and_not_slow() -> None:
    costs = sweep(np.random.default_rng(2), 8)
    for loop in ("width", "second_cache", "copy"):
        slower(costs[loop, "nothing"], [5], 0.3)
    slow, (named,) = unlike_cpus(costs, None)
    assert named.where == "CPU 5" and not slow


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_slow_node_is_named_and_none_of_its_cpus(nodes: int) -> None:
    cpus = [f"{8 * node}-{8 * node + 7}" for node in range(nodes)]
    topology = Topology(nodes=tuple(MemoryNode(node=node, cpus=own) for node, own in enumerate(cpus)),
                        last_caches=tuple(cpus), packages=tuple(cpus))  # fmt: skip
    costs = sweep(np.random.default_rng(3), 8 * nodes)
    slower(costs["memory", "nothing"], range(8, 16), 0.12)
    (named,), _ = unlike_cpus(costs, topology)
    assert (named.where, named.cpus, named.loop) == ("memory node 1", tuple(range(8, 16)), "memory")


def test_cores_of_another_kind_are_not_slow_and_one_of_them_can_be() -> None:
    kinds = CoreKind(cpus="0-7", capacity=1024), CoreKind(cpus="8-15", capacity=500)
    topology, costs = Topology(kinds=kinds), sweep(np.random.default_rng(4), 16)
    for each in costs.values():
        slower(each, range(8, 16), 0.4)
    assert unlike_cpus(costs, topology) == ([], [])
    slower(costs["clock", "nothing"], [12], 0.08)
    assert [one.where for one in unlike_cpus(costs, topology)[0]] == ["CPU 12"]


def test_a_core_without_a_sibling_among_busy_cores_makes_the_others_no_slow_ones() -> None:
    topology = Topology(cores=(*(f"{core},{core + 8}" for core in range(7)), "7"))
    costs = sweep(np.random.default_rng(5), 15)
    slower(costs["copy", "all"], [cpu for cpu in range(15) if cpu != 7], 0.4)
    assert unlike_cpus(costs, topology)[0] == []


def test_one_disturbed_visit_and_too_few_visits_name_nothing() -> None:
    random = np.random.default_rng(6)
    once = {("clock", "nothing"): logs(random, 16)}
    once["clock", "nothing"].logs[1, 4] += 0.4
    assert unlike_cpus(once, None) == ([], [])
    assert unlike_cpus({("clock", "nothing"): slower(logs(random, 16, visits=2), [4], 0.3)}, None) == ([], [])


# ---- from visits -----------------------------------------------------------------------------------------------------

PROBE = Probe(
    probe="memory.each_cpu", question="?", revision=1,
    metrics=(Metric(name="step", unit="ns", better="less", summary="s", means="step-of-cpu"),),
)  # fmt: skip


def visits(costs: Mapping[int, float], workers: Sequence[int], seed: int = 0, **parameters: Value) -> list[Outcome]:
    """costs: of each CPU in ns."""
    random, made = np.random.default_rng(seed), []
    for visit in range(4):
        drift = 1 + 0.02 * (visit - 1.5)
        samples = []
        for _ in range(8):
            took = {cpu: ns * drift * 2000 * 2048 * random.normal(1, 0.002) for cpu, ns in costs.items()}
            own, *others = (round(took[cpu]) for cpu in workers)
            samples.append(Sample(iterations=1000, body=(own // 2, own), lanes=tuple((2000, ns) for ns in others)))
        point = Point(PROBE.probe, "x86_64", "local", tuple(parameters.items()))
        made.append(Outcome(visit=visit, round=visit, point=point, status="ok", samples=samples,
                            cpus=tuple(workers), workers=tuple(workers), work=Work(operations=2048)))  # fmt: skip
    return made


def test_the_time_of_each_cpu_is_that_of_its_lane_whatever_their_order() -> None:
    costs = {0: 0.3, 1: 0.4, 2: 0.5}
    each = each_cpu(visits(costs, (2, 0, 1), loop="clock", beside="nothing"))
    assert each.cpus == (0, 1, 2) and len(each.logs) == 4
    assert np.exp(each.logs.mean(axis=0)) == pytest.approx([0.3, 0.4, 0.5], rel=0.01)
    assert each_cpu([]).cpus == ()


def planted_run() -> Results:
    """CPU 4 has a lower clock."""
    costs = dict.fromkeys(range(6), 1 / 3.45) | {4: 1 / 2.1}
    outcomes = visits(costs, (5, 1, 2, 3, 4, 0), loop="clock", beside="nothing")
    run = healthy(("x86_64",), visits=4, samples=3)
    of_first = row(0.29, of=PROBE.probe, name="step", parameters={"loop": "clock", "beside": "nothing"})
    results = with_index(run, rows=(*run.index.rows, of_first))
    return replace(results, probes={**run.probes, PROBE.probe: PROBE}, outcomes=(*run.outcomes, *outcomes))


def test_a_run_names_its_slow_cpu_in_words_that_drain() -> None:
    planted = planted_run()
    claims = {finding.name: finding.claim for finding in all_findings(planted)}
    assert re.fullmatch(r"CPU 4: clock 2\.1\d GHz, others 3\.4\d( to 3\.4\d)?", claims["machine.a_cpu_is_slow"])
    assert "machine.a_cpu_is_contended" not in claims
    width = dict.fromkeys(range(6), 0.07) | {2: 0.1}
    wide = visits(width, (5, 1, 2, 3, 4, 0), loop="width", beside="nothing")
    both = replace(planted, outcomes=(*planted.outcomes, *wide))
    claims = {finding.name: finding.claim for finding in all_findings(both)}
    assert claims["machine.a_cpu_is_contended"].startswith("CPU 2 is contended: ")
    assert costs_of_loops(wide).keys() == {("width", "nothing")}


def test_the_chart_each_cpu_has_the_cpus_side_by_side_in_the_order_of_their_caches() -> None:
    planted = planted_run()
    topology = Topology(last_caches=("0,2,4", "1,3,5"), packages=("0-5",))
    placed = with_index(planted, machine=replace(planted.index.machine, topology=topology))
    (chart,) = (chart for chart in charts(placed) if chart.name == "each-cpu")
    points = {f"CPU {one['cpu']}": one for one in chart.drawing.data}
    assert [name for name, _ in sorted(points.items(), key=lambda item: item[1]["x"])] == [
        f"CPU {cpu}" for cpu in (0, 2, 4, 1, 3, 5)
    ]
    assert points["CPU 4"]["y"] == pytest.approx(3.45 / 2.1, rel=0.02) and points["CPU 1"]["y"] < 1.01
    assert points["CPU 2"]["band"] != points["CPU 1"]["band"] and "CPU 4" in chart.caption
    assert [one["label"] for one in chart.drawing.data if one["label"]] == ["CPU 4"]


def test_a_slow_cpu_drains_and_rows_of_the_sweep_need_no_interval() -> None:
    planted = planted_run()
    found = tuple(finding for finding in all_findings(planted) if finding.name == "machine.a_cpu_is_slow")
    slower, unmeasured = health(with_index(planted, findings=found), None, read_limits(None, None))
    assert slower[0].startswith("CPU 4: clock 2.1")
    assert not any("each_cpu" in line for line in unmeasured)
    withheld = with_index(planted, findings=(), withheld=("machine.a_cpu_is_slow",))
    slower, unmeasured = health(withheld, None, read_limits(None, None))
    assert not slower and any("CPUs differ" in line for line in unmeasured)
