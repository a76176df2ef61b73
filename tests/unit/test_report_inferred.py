# SPDX-License-Identifier: Apache-2.0
"""What follows from the rows stands with its interval, or with the reason why it cannot be told."""

from __future__ import annotations

import msgspec

from example_runs import derived, empty, healthy, with_rows
from made import metric, probe, row
from tollmeter.model import Results, Row
from tollmeter.report.charts import charts
from tollmeter.report.machine_tables import CANNOT, inferred_table

AT = ("load", "store")
LINE = probe(metric("second", means="line-pair-of-distance"), name="any.pair")
BOTH = probe(metric("together", unit="B/s", means="bandwidth-of-instances"), name="any.crowd")


def results(rows: list[Row]) -> Results:
    bare = with_rows(empty(), rows)
    return derived(msgspec.structs.replace(bare, probes={LINE.probe: LINE, BOTH.probe: BOTH}))


def said(found: Results) -> dict[str, tuple[str, str]]:
    table = inferred_table(found)
    assert table is not None
    return {str(line.cells[0]): (str(line.cells[1]), line.note) for line in table.rows}


def pair(distance: int, cost: float) -> Row:
    return row(cost, of="any.pair", name="second", parameters={"distance": distance})


def crowd(instances: int, rate: float) -> Row:
    at = {"instances": instances, "size": 32768, "operation": "read"}
    return row(rate, of="any.crowd", name="together", unit="B/s", parameters=at)


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
