# SPDX-License-Identifier: Apache-2.0
"""A small run shows its rows, each told from its neighbours, and says where they come from."""

from __future__ import annotations

import msgspec

import books
from tollmeter.model import Book, Row
from tollmeter.report.listing import MOST_ROWS, listing


def dots(*abis: str, most: int = 6) -> list[Row]:
    rows = [row for row in books.healthy(abis).index.rows if row.probe == "float.dot" and row.status == "ok"]
    return [row for abi in abis for row in [r for r in rows if r.abi == abi][:most]]


def of(rows: list[Row]) -> Book:
    return books.with_rows(books.healthy(("x86_64",)), rows)


def test_each_row_is_there_once_and_told_from_the_others() -> None:
    rows = dots("x86_64", "ia32")
    found = listing(of(rows))
    assert found and len(found.rows) == len(rows)
    assert len({tuple(map(str, line.cells[:-1])) for line in found.rows}) == len(rows)
    assert [column.name for column in found.columns] == ["Rows", "metric", "ABI", "median"]


def test_what_all_rows_share_is_not_said_again_and_again() -> None:
    (row,) = dots("x86_64", most=1)
    found = listing(of([row]))
    assert found and [str(cell) for cell in found.rows[0].cells[:-1]] == [row.probe, row.metric]


def test_an_emulated_place_is_named() -> None:
    rows = [msgspec.structs.replace(row, target="bare:vexpress-a9", clock="virtual") for row in dots("x86_64")]
    alone, both = listing(of(rows)), listing(of([*rows, *dots("x86_64")]))
    assert alone and "bare:vexpress-a9, virtual" in alone.title
    assert both and {str(line.cells[2]) for line in both.rows} == {"bare:vexpress-a9, virtual", "local, hardware"}


def test_a_large_run_is_not_listed_nor_one_without_numbers() -> None:
    (row,) = dots("x86_64", most=1)
    assert listing(of([row] * MOST_ROWS)) and not listing(of([row] * (MOST_ROWS + 1)))
    assert not listing(of([msgspec.structs.replace(row, status="failed", median=None)]))


def test_a_large_run_without_a_machine_s_own_clock_shows_what_is_typical_and_where_the_rest_is() -> None:
    """No other table has such rows: a person who asked for them would see none."""
    (row,) = dots("x86_64", most=1)
    counted = msgspec.structs.replace(row, target="qemu-user:arm", clock="instructions", unit="instruction")
    many = [msgspec.structs.replace(counted, parameters={**row.parameters, "n": n}) for n in range(3 * MOST_ROWS)]
    found = listing(of(many))
    assert found and 0 < len(found.rows) <= MOST_ROWS
    assert f"and {len(many) - len(found.rows)} rows more: " in found.rows[-1].note and "show" in found.rows[-1].note
    assert all("instruction" in str(line.cells[-1]) for line in found.rows)
    assert not listing(of([*many, row]))
