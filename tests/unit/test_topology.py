# SPDX-License-Identifier: Apache-2.0
"""What follows from a machine's topology: the relation of a row's workers, and the drawing."""

from __future__ import annotations

import io
import json

import msgspec
import pytest
from rich.console import Console

from support import example_runs
from support.builders import metric, outcome, probe, row
from support.fake_catalog import MACHINE, two_packages
from support.rendered import screens
from tollmeter.inference.core_kinds import core_kinds, slowest_remote
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import CoreKind, Machine, MemoryNode, Row, Topology
from tollmeter.model.topology import farthest, in_order, listed, numbers
from tollmeter.numbers.rows import with_relations
from tollmeter.numbers.tolls import tolls
from tollmeter.report import page
from tollmeter.report.charts import charts
from tollmeter.report.machine_tables import machine_blocks, node_tables, parts_of
from tollmeter.report.numbers import DASH
from tollmeter.report.tables import memory_table
from tollmeter.report.text_layout import print_blocks


def drawn(machine: Machine, width: int = 100) -> list[str]:
    told = io.StringIO()
    print_blocks(machine_blocks(machine), Console(file=told, width=width, highlight=False))
    return told.getvalue().splitlines()


def of(topology: Topology) -> Machine:
    return msgspec.structs.replace(MACHINE, cpus=len(numbers(topology.online)), topology=topology)


@pytest.mark.parametrize("text", ["0-3,8-14/2", "5", "", "(null)", "3-", "x,4", "9-2"])
def test_a_list_that_a_target_sent_is_read_as_far_as_it_is_one(text: str) -> None:
    expected = {"0-3,8-14/2": (0, 1, 2, 3, 8, 10, 12, 14), "5": (5,), "x,4": (4,), "3-": (3,)}
    assert numbers(text) == expected.get(text, ())
    assert numbers(listed(numbers(text))) == numbers(text)


def test_a_hostile_list_is_bounded() -> None:
    assert numbers("9" * 5000) == ()
    assert len(numbers(",".join(f"{at}-999999999/{at + 1}" for at in range(3000)))) <= 1 << 16


def test_cpus_that_are_listed_many_times_are_drawn_once() -> None:
    again = ("0-63",) * 12
    topology = Topology(online="0-63", packages=again, dies=again, last_caches=again, cores=again)
    assert len(drawn(of(topology))) < 16


def test_of_several_workers_the_farthest_from_the_timed_one_counts() -> None:
    topology = two_packages().topology
    assert topology is not None
    assert farthest(topology, (7, 6)) == "sibling thread"
    assert farthest(topology, (7, 6, 5, 3)) == "other node"
    assert farthest(topology, (7,)) is None


def test_a_row_of_several_workers_has_the_relation_of_their_cpus() -> None:
    topology, visit = two_packages().topology, outcome()
    pair = msgspec.structs.replace(visit, workers=(7, 3))
    own = row(20.0)
    assert with_relations([own], [pair], topology)[0].relation == "other node"
    assert with_relations([own], [visit], topology)[0].relation is None
    assert with_relations([own], [pair], None)[0].relation is None


def test_parts_are_within_parts_and_equal_ones_are_one_line() -> None:
    lines = drawn(two_packages())
    at = next(place for place, line in enumerate(lines) if "package" in line)
    assert lines[at].startswith("2 x package, memory node, L2 cache 2 MiB") and "0-3 | 4-7" in lines[at]
    assert lines[at + 1].startswith("  2 x core of 2 threads") and "0-1 | 2-3" in lines[at + 1]
    assert any("16 GiB" in line and "21 10" in line for line in lines)


def test_unequal_parts_are_drawn_separately() -> None:
    hybrid = Topology(
        online="0-5", packages=("0-5",), cores=("0-1", "2-3", "4", "5"),
        kinds=(CoreKind(name="cpu_core", cpus="0-3"), CoreKind(name="cpu_atom", cpus="4-5")),
    )  # fmt: skip
    (package,) = parts_of(of(hybrid))
    assert [(part.what, part.cpus, part.parts[0].title) for part in package.parts] == [
        ("cpu_core", ("0-3",), "2 x core of 2 threads"), ("cpu_atom", ("4-5",), "2 x core"),
    ]  # fmt: skip


@pytest.mark.parametrize("cpus", [1, 512])
def test_any_number_of_cpus_is_drawn_in_a_few_lines(cpus: int) -> None:
    spans = [listed(range(first, min(first + 8, cpus))) for first in range(0, cpus, 8)]
    many = Topology(online=listed(range(cpus)), packages=(listed(range(cpus)),), last_caches=tuple(spans),
                    cores=tuple(map(str, range(cpus))))  # fmt: skip
    lines = drawn(of(many), 80)
    assert len(lines) < 16 and max(map(len, lines)) <= 80


def test_a_machine_without_a_topology_says_so() -> None:
    assert any("does not report" in line for line in drawn(MACHINE))


def test_a_quota_is_in_cpus() -> None:
    for told, said in (("50000 100000", "0.5 CPUs"), ("max 100000", ""), ("1 0", "")):
        lines = drawn(msgspec.structs.replace(two_packages(), facts={"cpu_quota": told}))
        assert any("quota" in line for line in lines) == bool(said)
        assert any(said and said in line for line in lines) == bool(said)


def test_the_page_draws_the_machine_and_names_each_rows_relation() -> None:
    results = example_runs.small()
    machine = two_packages()
    (first, *rest) = results.index.rows
    first = msgspec.structs.replace(first, relation="other node")
    index = msgspec.structs.replace(results.index, machine=machine, rows=(first, *rest))
    text = page.render(msgspec.structs.replace(results, index=index))
    assert "2 x package" in text and "2 x core of 2 threads" in text
    assert "<td>other node</td>" in text
    assert 'id="topology"' not in page.render(results)


def of_nodes(node: int, home: int, ns: float) -> Row:
    return row(ns, of="memory.far", parameters={"node": node, "home": home})


def test_the_slowest_remote_memory_is_found_and_stands_below_the_levels() -> None:
    rows = [of_nodes(0, 0, 90.0), of_nodes(0, 1, 140.0), of_nodes(1, 1, 90.0), of_nodes(1, 0, 180.0)]
    slowest = slowest_remote(rows)
    assert slowest and slowest.far.parameters == {"node": 1, "home": 0} and 1.9 < slowest.ratio.value < 2.1
    assert slowest_remote(rows[:1]) is None
    far = probe(metric(means="latency-of-node"), name="memory.far")
    results = example_runs.healthy()
    shown = msgspec.structs.replace(
        results, probes={**results.probes, far.probe: far},
        index=msgspec.structs.replace(results.index, rows=(*results.index.rows, *rows)),
    )  # fmt: skip
    table = memory_table(shown)
    assert table and table.rows[-1].cells[0] == "node 0 from 1" and table.rows[-1].note.startswith("2.0 times")


def test_memory_nodes_are_a_matrix_of_each_quantity_on_the_page_and_in_text() -> None:
    """The walk beside readers is no idle memory: it is neither the remote ratio nor in the first matrix."""
    far = probe(
        metric("load", means="latency-of-node"), metric("traffic", "B/s", means="traffic-of-node"), name="memory.far"
    )
    move = probe(metric("move", means="move-of-page"), name="memory.move")
    pairs = [(node, home) for node in (0, 8) for home in (0, 8, 9)]

    def made(of: str, metric: str, value: float, node: int, home: int, **more: str) -> Row:
        return row(value, of=of, name=metric, parameters={"node": node, "home": home, **more})

    rows = [made("memory.move", "move", 2000.0, *pair) for pair in pairs if len(set(pair)) > 1]
    for pair in pairs:
        ns = 100.0 if len(set(pair)) == 1 else 170.0
        for beside, times, rate in (("nothing", 1, 6e8), ("reads", 4, 9e10)):
            rows.append(made("memory.far", "load", ns * times, *pair, beside=beside))
            traffic = made("memory.far", "traffic", rate, *pair, beside=beside)
            rows.append(msgspec.structs.replace(traffic, unit="B/s"))
    slowest = slowest_remote([one for one in rows if one.metric == "load"])
    assert slowest and 1.6 < slowest.ratio.value < 1.8
    results = example_runs.small()
    shown = msgspec.structs.replace(
        results, probes={**results.probes, far.probe: far, move.probe: move},
        index=msgspec.structs.replace(results.index, rows=(*results.index.rows, *rows)),
    )  # fmt: skip
    idle, loaded, traffic, moved = node_tables(shown)
    assert [str(line.cells[0]) for line in idle.rows] == ["from node 0", "from node 8"]
    assert [str(cell).split(" ±")[0] for cell in idle.rows[1].cells[1:]] == ["170 ns", "100 ns", "170 ns"]
    assert str(loaded.rows[0].cells[1]).startswith("400 ns") and str(traffic.rows[0].cells[1]).startswith("90")
    assert moved.rows[0].cells[1] == DASH and str(moved.rows[0].cells[2]).startswith("2.00 µs")
    drawn = {chart.name: chart for chart in charts(shown)}
    assert len(drawn["node-latency"].drawing.data) == 12 and len(drawn["node-bandwidth"].drawing.data) == 6
    assert len(drawn["page-move"].drawing.data) == 4
    for title in ("from node 8", "Latency, all CPUs reading", "A page moved"):
        assert all(title in screen for screen in screens(shown, whole=True))


def test_bandwidth_of_nodes_is_by_mix_and_a_share_of_what_the_modules_transfer() -> None:
    moved = probe(metric("traffic", "B/s", means="bandwidth-of-node"), name="memory.moved")
    mixes = {"1:0": 200e9, "3:1": 180e9, "nt": 150e9}
    rows = [
        msgspec.structs.replace(
            row(rate / (1 + (node != home)), of="memory.moved", name="traffic", unit="B/s",
                parameters={"node": node, "home": home, "cpus": "all", "mix": mix})
        )
        for mix, rate in mixes.items() for node in (0, 1) for home in (0, 1)
    ]  # fmt: skip
    results = example_runs.small()
    nodes = tuple(MemoryNode(node=node, cpus=str(node), memory_bytes=1 << 33) for node in (0, 1))
    topology = Topology(nodes=nodes, allowed_nodes="0-1")

    def tables_with(facts: dict[str, str]) -> list[str]:
        machine = msgspec.structs.replace(results.index.machine, topology=topology, facts=facts)
        index = msgspec.structs.replace(results.index, rows=(*results.index.rows, *rows), machine=machine)
        shown = msgspec.structs.replace(results, probes={**results.probes, moved.probe: moved}, index=index)
        (drawn,) = (chart for chart in charts(shown) if chart.name == "node-bandwidth")
        assert len({str(one["panel"]) for one in drawn.drawing.data}) == 3
        return [" ".join(map(str, (table.columns[0].name, *table.rows[0].cells))) for table in node_tables(shown)]

    told = tables_with({"memory_modules": "16", "memory_configured_mts": "4800"})
    assert [one.split(" from")[0] for one in told[:-1]] == [
        "Read by all CPUs", "All CPUs, 3 reads to 1 write", "All CPUs, non-temporal writes"
    ]  # fmt: skip
    assert told[-1].startswith("Share of 307 GB/s (peak of 8 modules per node at 4,800 MT/s")
    assert told[-1].endswith("65 %")
    assert "readable by root alone" in tables_with({})[-1]


def test_each_kind_of_core_has_a_hierarchy_and_tolls_and_one_that_was_left_out_is_named() -> None:
    """A core of another kind is a place of its own: the run's own levels and tolls are as if it were not there."""
    topology = Topology(
        online="0-3", cores=("0", "1", "2", "3"),
        kinds=(CoreKind(cpus="0-1", capacity=1024), CoreKind(cpus="2", capacity=512), CoreKind(cpus="3", capacity=250)),
    )  # fmt: skip
    results = example_runs.small()
    twice = [
        row(2 * one.median, of=one.probe, name=one.metric, parameters=one.parameters, target="core:capacity-512")
        for one in results.index.rows
        if one.median and one.unit == "ns"
    ]
    machine = msgspec.structs.replace(results.index.machine, topology=topology, allowed_cpus=(0, 1, 2, 3))
    kept = hierarchy(results.index.rows, results.probes, machine)
    rows = (*results.index.rows, *twice)
    index = msgspec.structs.replace(
        results.index, machine=machine, rows=rows, hierarchy=kept, tolls=tolls(rows, results.probes, 4e9)
    )
    assert hierarchy(rows, results.probes, machine) == kept and index.tolls == tolls(
        results.index.rows, results.probes, 4e9
    )
    local = msgspec.structs.replace(outcome(), cpus=(1,))
    other = msgspec.structs.replace(local, cpus=(2,))
    other = msgspec.structs.replace(other, point=msgspec.structs.replace(other.point, target="core:capacity-512"))
    clocks = {"local": 4e9, "core:capacity-512": 2e9}
    assert core_kinds(index, results.probes, [local], clocks) == ()
    big, middle, little = core_kinds(index, results.probes, [local, other], clocks)
    assert (big.kind, big.hierarchy, middle.core_clock_hz) == ("capacity-1024", kept, 2e9)
    assert middle.hierarchy[0].latency_ns == pytest.approx(2 * (kept[0].latency_ns or 0.0), rel=0.05)
    calls = [[toll for toll in kind.tolls if toll.toll == "system call"] for kind in (big, middle)]
    assert calls[1][0].value == pytest.approx(2 * (calls[0][0].value or 0.0))
    assert not little.hierarchy and not little.tolls and "CPU" in little.reason
    shown = msgspec.structs.replace(results, index=msgspec.structs.replace(index, kinds=(big, middle, little)))
    for whole in (False, True):
        text, *others = screens(shown, whole=whole)
        assert "Memory, capacity-512" in text and "Tolls, capacity-512" in text
        assert "capacity-250 (CPU 3) was left out" in text
        assert all("Tolls, capacity" in other and "was left out" in other for other in others)


def test_the_matrix_of_cpus_stands_in_the_order_of_their_cores() -> None:
    topology = Topology(online="0-5", packages=("0-4/2", "1-5/2"), cores=("0,4", "2", "1,5", "3"))
    assert in_order(topology, range(6)) == (0, 4, 2, 1, 5, 3)
    results = example_runs.many_cpus(6)
    machine = msgspec.structs.replace(results.index.machine, topology=topology)
    results = example_runs.with_index(results, machine=machine)
    chart = next(chart for chart in charts(results) if chart.name == "core-to-core")
    assert '"sort": [0, 4, 2, 1, 5, 3]' in json.dumps(chart.drawing.spec)
