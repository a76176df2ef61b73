# SPDX-License-Identifier: Apache-2.0
"""What follows from the rows stands with its interval, or with the reason why it cannot be told."""

from __future__ import annotations

import msgspec

from support.builders import metric, probe, row
from support.example_runs import empty, healthy, of_probes, with_rows
from support.rendered import of_blocks
from support.snapshots import approve
from tollmeter.model import Results, Row
from tollmeter.report.blocks import Block, heading
from tollmeter.report.charts import charts
from tollmeter.report.machine_tables import inferred_table, load_table

AT = ("load", "store")
LINE = probe(metric("second", means="line-pair-of-distance"), name="any.pair")
LOADED = probe(
    metric("load", means="latency-of-traffic"), metric("beside", "B/s", means="traffic-beside"), name="any.load"
)
BOTH = probe(metric("together", unit="B/s", means="bandwidth-of-instances"), name="any.crowd")


def results(rows: list[Row]) -> Results:
    return of_probes(rows, LINE, BOTH, LOADED)


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


STEEP, FLAT = [(64, 260.0, 10e9), (512, 100.0, 5e9), (4096, 100.0, 1e9)], [(64, 110.0, 9e9), (512, 100.0, 1e9)]
LOADS = [*curve(0, "nt", *STEEP), *curve(0, "3:1", *FLAT, (256, 104.0, 5e9)), *curve(0, "1:0", *STEEP)]
FOREIGN = row(0.5, of="any.pair", name="second", parameters={"distance": 16}, clock="instructions")
RUNS = {
    "a load curve for each share of writes and node": [*LOADS, *curve(1, "1:0", *STEEP)],
    "a load curve of one share and node": curve(0, "1:0", *STEEP),
    "a line where pairs differ": [
        *(pair(distance, 0.5) for distance in (16, 32, 48)), *(pair(distance, 9.0) for distance in (64, 96, 128))
    ],
    "one distance alone tells nothing": [pair(16, 0.5)],
    "two that share a memory get half each": [crowd(1, 40e9), crowd(2, 40e9)],
    "rows of an emulator": [FOREIGN],
    "nothing of it": [],
}  # fmt: skip


def test_tables_of_what_follows_from_rows() -> None:
    blocks: list[Block] = []
    for title, rows in RUNS.items():
        tables = (table(results(rows)) for table in (inferred_table, load_table))
        blocks += [heading(title), *filter(None, tables)]
    approve("inferred", of_blocks(blocks))


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
