# SPDX-License-Identifier: Apache-2.0
"""The visits that the index of a large journal keeps are those of the journal, which is then not read again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from support.recordings import copied
from tollmeter.library import derive
from tollmeter.report.markdown import render
from tollmeter.store import kept_visits
from tollmeter.store.export import written
from tollmeter.store.journal import read_journal


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return copied("repeated/01", tmp_path)


def test_visits_come_back_as_they_were(run: Path) -> None:
    visits = read_journal(run).outcomes
    with sqlite3.connect(":memory:") as db:
        for table in kept_visits.TABLES:
            db.execute(f"CREATE TABLE {table} (content)")
        for table, content in kept_visits.cells(visits):
            db.execute(f"INSERT INTO {table} VALUES (?)", (content,))
        assert kept_visits.visits_kept(db) == visits


def test_of_a_large_journal_the_index_suffices(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    derived = derive.open_run(run)
    (run / "index.sqlite").unlink()
    monkeypatch.setattr(kept_visits, "LEAST_BYTES", 0)
    derive.open_run(run)
    monkeypatch.setattr(derive, "read_journal", lambda _: pytest.fail("the journal was read"))
    again = derive.open_run(run)
    assert tuple(again.outcomes) == tuple(derived.outcomes) and render(again) == render(derived)
    lines = [b"".join(written(derive.raw_samples(each), "csv")) for each in (again, derived)]
    assert lines[0] == lines[1]


def test_a_small_journal_keeps_none(run: Path) -> None:
    derive.open_run(run)
    with sqlite3.connect(run / "index.sqlite") as db:
        assert [db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] for table in kept_visits.TABLES] == [0, 0, 0]
    assert len(derive.open_run(run).outcomes) == len(read_journal(run).outcomes)


def of(content: bytes, **changed: object) -> bytes:
    """A block with other fields than it was written with."""
    block = msgspec.msgpack.decode(content, type=kept_visits._Block)
    return msgspec.msgpack.encode(msgspec.structs.replace(block, **changed))


def test_a_block_that_is_not_its_columns_is_refused(run: Path) -> None:
    """What follows the columns is read by `marshal`, which is not made for what others wrote."""
    cells = [(table, content) for table, content in kept_visits.cells(read_journal(run).outcomes)]
    block = msgspec.msgpack.decode(next(c for t, c in cells if t == "visit_blocks"), type=kept_visits._Block)
    objects = (("|O", True), *block.kinds[1:])
    for changed in (
        {"columns": block.columns + b"X"}, {"columns": block.columns[:-1]}, {"samples": 1 << 40}, {"samples": -1},
        {"samples": 0}, {"kinds": objects}, {"kinds": block.kinds[:-1]}, {"lanes": (((1, 2),),)},
    ):  # fmt: skip
        with sqlite3.connect(":memory:") as db:
            for table in kept_visits.TABLES:
                db.execute(f"CREATE TABLE {table} (content)")
            for table, content in cells:
                broken = of(content, **changed) if table == "visit_blocks" else content
                db.execute(f"INSERT INTO {table} VALUES (?)", (broken,))
            with pytest.raises(ValueError, match=r"column|lanes|samples"):
                kept_visits.visits_kept(db)
