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
