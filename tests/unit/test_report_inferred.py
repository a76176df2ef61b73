# SPDX-License-Identifier: Apache-2.0
"""What follows from the rows stands with its interval, or with the reason why it cannot be told."""

from __future__ import annotations

import msgspec

from support.builders import metric, probe, row
from support.example_runs import derived, empty, healthy, with_rows
from tollmeter.model import Results, Row
from tollmeter.report.charts import charts
from tollmeter.report.machine_tables import CANNOT, inferred_table, load_table

AT = ("load", "store")
LINE = probe(metric("second", means="line-pair-of-distance"), name="any.pair")
LOADED = probe(
    metric("load", means="latency-of-traffic"), metric("beside", "B/s", means="traffic-beside"), name="any.load"
)
BOTH = probe(metric("together", unit="B/s", means="bandwidth-of-instances"), name="any.crowd")


def results(rows: list[Row]) -> Results:
    bare = with_rows(empty(), rows)
    return derived(msgspec.structs.replace(bare, probes={one.probe: one for one in (LINE, BOTH, LOADED)}))


def said(found: Results) -> dict[str, tuple[str, str]]:
    table = inferred_table(found)
    assert table is not None
    return {str(line.cells[0]): (str(line.cells[1]), line.note) for line in table.rows}


def pair(distance: int, cost: float) -> Row:
    return row(cost, of="any.pair", name="second", parameters={"distance": distance})


def crowd(instances: int, rate: float) -> Row:
    at = {"instances": instances, "size": 32768, "operation": "read"}
    return row(rate, of="any.crowd", name="together", unit="B/s", parameters=at)


def curve(node: int, mix: str, *points: tuple[int, float, float]) -> list[Row]:
    return [
        row(value, of="any.load", name=name, unit=unit, parameters={"node": node, "delay": delay, "mix": mix})
        for delay, ns, rate in points for name, unit, value in (("load", "ns", ns), ("beside", "B/s", rate))
    ]  # fmt: skip


def test_a_load_curve_has_a_line_for_each_share_of_writes_and_node() -> None:
    steep, flat = [(64, 260.0, 10e9), (512, 100.0, 5e9), (4096, 100.0, 1e9)], [(64, 110.0, 9e9), (512, 100.0, 1e9)]
    rows = [*curve(0, "nt", *steep), *curve(0, "3:1", *flat, (256, 104.0, 5e9)), *curve(0, "1:0", *steep)]
    table = load_table(results([*rows, *curve(1, "1:0", *steep)]))
    assert table is not None
    shares = ["0 % writes, node 0", "0 % writes, node 1", "25 % writes, node 0", "100 % writes, non-temporal, node 0"]
    assert [line.cells[0] for line in table.rows] == shares
    cells = [str(cell).split(" ±")[0] for cell in table.rows[0].cells[1:]]
    assert cells == ["100 ns", "100 ns", "196 ns", "260 ns", "10.0 GB/s", "8.12 GB/s"]
    assert table.rows[2].cells[-1] == CANNOT and "1.10 times as long" in table.rows[2].note
    one = load_table(results(curve(0, "1:0", *steep)))
    assert one is not None and one.rows[0].cells[0] == "0 % writes"
    assert load_table(empty()) is None


def test_a_run_without_such_rows_has_no_table() -> None:
    assert inferred_table(empty()) is None


def test_the_line_size_is_stated_where_pairs_differ() -> None:
    near = [pair(distance, 0.5) for distance in (16, 32, 48)]
    far = [pair(distance, 9.0) for distance in (64, 96, 128)]
    assert said(results(near + far))["line"][0].startswith("64 B")


def test_what_cannot_be_told_says_why() -> None:
    value, why = said(results([pair(16, 0.5)]))["line"]
    assert value == CANNOT
    assert why


def test_two_that_share_a_memory_get_half_each() -> None:
    told = said(results([crowd(1, 40e9), crowd(2, 40e9)]))
    (found,) = [value for name, (value, _) in told.items() if "each of 2" in name]
    assert found.startswith("0.50")


def test_emulated_rows_infer_nothing_of_the_machine() -> None:
    foreign = row(0.5, of="any.pair", name="second", parameters={"distance": 16}, clock="instructions")
    assert inferred_table(results([foreign])) is None


def test_the_whole_page_of_a_healthy_machine_has_room_for_it() -> None:
    assert inferred_table(healthy(visits=4)) is not None


def held(state: str, access: str, cost: float) -> Row:
    return row(cost, of="any.transfer", name="access", parameters={"state": state, "access": access, "home": "timed"})


def drawn(rows: list[Row]) -> list[str]:
    of_state = probe(metric("access", means="transfer-of-state"), name="any.transfer")
    found = msgspec.structs.replace(with_rows(empty(), rows), probes={of_state.probe: of_state})
    return [chart.name for chart in charts(found)]


def test_lines_of_another_core_are_drawn_by_state_and_access() -> None:
    square = [held(state, access, 30.0 + place) for place, state in enumerate(("modified", "shared")) for access in AT]
    assert "transfer" in drawn(square)
    assert "transfer" not in drawn([held("modified", "load", 30.0)])
