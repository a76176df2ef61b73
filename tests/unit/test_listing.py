# SPDX-License-Identifier: Apache-2.0
"""A small run shows its rows, each told from its neighbours, and says where they come from."""

from __future__ import annotations

import msgspec

from support import example_runs
from tollmeter.model import Results, Row, Select, Suite
from tollmeter.report.listing import MOST_ROWS, listing


def dots(*abis: str, most: int = 6) -> list[Row]:
    rows = [row for row in example_runs.healthy(abis).index.rows if row.probe == "float.dot" and row.status == "ok"]
    return [row for abi in abis for row in [r for r in rows if r.abi == abi][:most]]


def of(rows: list[Row]) -> Results:
    return example_runs.with_rows(example_runs.healthy(("x86_64",)), rows)


def test_each_row_is_listed_once_and_distinguishable() -> None:
    rows = dots("x86_64", "ia32")
    found = listing(of(rows))
    assert found and len(found.rows) == len(rows)
    assert len({tuple(map(str, line.cells[:-1])) for line in found.rows}) == len(rows)
    assert [found.columns[0].name, *(column.name for column in found.columns[-2:])] == ["float.dot", "ABI", "median"]


def test_what_all_rows_share_is_not_said_again_and_again() -> None:
    (row,) = dots("x86_64", most=1)
    found = listing(of([row]))
    assert found and [str(cell) for cell in found.rows[0].cells[:-1]] == [row.metric]


def test_an_emulated_place_is_named() -> None:
    rows = [msgspec.structs.replace(row, target="bare:vexpress-a9", clock="virtual") for row in dots("x86_64")]
    alone, both = listing(of(rows)), listing(of([*rows, *dots("x86_64")]))
    assert alone and "bare:vexpress-a9, virtual" in alone.title
    assert both and {str(line.cells[-2]) for line in both.rows} == {"bare:vexpress-a9, virtual", "local"}


def test_what_was_asked_for_is_said_though_all_rows_share_it() -> None:
    (row,) = dots("x86_64", most=1)
    results = of([row])
    asked = Suite(name="s", question="?", select=(Select(probe="float.*", parameters={"precision": "double"}),))
    found = listing(msgspec.structs.replace(results, suite=asked))
    assert found and str(row.parameters["precision"]) in found.rows[0].cells


def test_a_parameter_that_one_row_lacks_is_empty_there() -> None:
    (row,) = dots("x86_64", most=1)
    found = listing(of([row, msgspec.structs.replace(row, parameters={**row.parameters, "way": 7})]))
    assert found and [line.cells[1] for line in found.rows] == ["", "7"]


def test_what_has_no_number_is_not_listed_nor_a_large_run_where_few_rows_are_wanted() -> None:
    (row,) = dots("x86_64", most=1)
    assert not listing(of([msgspec.structs.replace(row, status="failed", median=None)]))
    assert listing(of([row] * 3), 3) and not listing(of([row] * 4), 3)


def test_of_a_large_run_the_typical_rows_are_listed_and_where_the_rest_is() -> None:
    (row,) = dots("x86_64", most=1)
    many = [msgspec.structs.replace(row, parameters={**row.parameters, "n": n}) for n in range(1000, 1100)]
    results = of(many)
    found = listing(results)
    assert found and len(found.rows) == MOST_ROWS
    probe = results.probes[row.probe]
    usual = [msgspec.structs.replace(one, typical="1024" if one.name == "n" else None) for one in probe.parameters]
    known = {row.probe: msgspec.structs.replace(probe, parameters=tuple(usual))}
    found = listing(msgspec.structs.replace(results, probes=known))
    assert found and [line.cells[:-1] for line in found.rows] == [(row.metric,)]
    assert f"and {len(many) - 1} rows more: " in found.rows[-1].note and "show" in found.rows[-1].note
    whole = listing(msgspec.structs.replace(results, probes=known), whole=True)
    assert whole and len(whole.rows) == len(many)
