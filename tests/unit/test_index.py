# SPDX-License-Identifier: Apache-2.0
"""The derived index: equal to what it was made from, made again when that changed, and never trusted."""

from __future__ import annotations

import shutil
import sqlite3
from functools import cache
from pathlib import Path

import msgspec
import pytest

from support.waiting import in_time
from tollmeter.model import (
    Cache,
    Evidence,
    Fall,
    Finding,
    Index,
    Lengths,
    Level,
    Machine,
    Opposed,
    Profile,
    Row,
    RunInfo,
    State,
)
from tollmeter.protocol import clean, reading
from tollmeter.store import index
from tollmeter.store.index import NAME, index_fingerprint, load_index, save_index

INDEX = Index(
    format=3,
    run=RunInfo(
        id="r", suite="default", started="2026-01-02T03:04:05Z", seconds=1.5, seed=2**63, status="settled",
        tollmeter="0.1.0", folder="runs/r",
    ),
    machine=Machine(
        host="h", cpu="c", kernel="k", hypervisor=None, cpus=2, memory_bytes=1 << 34, core_clock_hz=4.1e9,
        caches=(Cache(level=1, kind="data", size_bytes=49152),), facts={"swap_total": "0 kB"},
    ),
    rows=(
        Row(
            probe="memory.latency", revision=1, abi="x86_64", target="local", clock="hardware",
            parameters={"size": 4096, "pages": "huge"}, metric="load", unit="ns", better="less", status="ok",
            median=1.0, low=0.9, high=1.1, minimum=0.9, quartiles=(0.9, 1.0, 1.1), modes=(1.0,), visits=3, samples=21,
            state="uncontended", states=(State(state="uncontended", share=0.9, median=1.0, low=0.9, high=1.1),),
            unadjusted=1.02, clock_hz=4.1e9, converged=True,
        ),
        Row(
            probe="kernel.loop", revision=1, abi="ia32", target="local", clock="none", parameters={}, metric="turn",
            unit="ns", better="less", status="failed", reason="killed by SIGSEGV",
        ),
    ),
    hierarchy=(
        Level(
            level="L1d", size_bytes=49000.0, size_low=48000.0, size_high=50000.0, os_size_bytes=49152, latency_ns=1.0,
            latency_cycles=4.1, read_bytes_per_second=4e11, parallelism=None,
        ),
    ),
    findings=(
        Finding(name="memory.x", severity="note", claim="It is", evidence=(Evidence(what="a", value=1.0),), remedy=""),
    ),
    lengths=(
        Lengths(
            probe="float.dot", abi="x86_64", target="local", clock="hardware", metric="rate",
            parameters={"way": "hardware"}, first_n=16, last_n=65536, usual_ns=0.06,
            falls=(
                Fall(
                    after_n=3072, by_n=4096, after_bytes=49152, by_bytes=65536, slower=1.3, lost_ns=0.02, least_ns=0.08,
                    cause="memory", levels=("L1d",),
                ),
            ),
        ),
    ),
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "journal.jsonl").write_text("x")
    (tmp_path / "run.toml").write_text("y")
    return tmp_path


def test_it_is_read_back_as_it_was(run: Path) -> None:
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) == INDEX


def test_nothing_of_an_index_is_left_out(run: Path) -> None:
    pair = Opposed(
        metric="time", unit="ns", point="a.b x86_64", against="a.c x86_64", ratio=1.0, low=0.9, high=1.1, blocks=7,
        verdict="cannot tell",
    )  # fmt: skip
    profile = Profile(probe="a.b", abi="x86_64", target="local", parameters={}, source="SIGPROF")
    whole = msgspec.structs.replace(INDEX, opposed=(pair,), profiles=(profile,), withheld=("memory.x",))
    save_index(run, index_fingerprint(run), whole)
    assert load_index(run) == whole


def test_another_profile_is_another_index(run: Path) -> None:
    before = index_fingerprint(run)
    (run / "profiles.json").write_text("[]")
    assert index_fingerprint(run) != before


@pytest.mark.parametrize("name", ["journal.jsonl", "run.toml", "profiles.json"])
def test_the_index_of_another_run_is_not_read(run: Path, name: str) -> None:
    assert load_index(run) is None
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) == INDEX
    (run / name).write_text("z")
    assert load_index(run) is None


def test_an_index_is_known_by_its_inodes_and_a_copied_one_by_what_is_in_it(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read 10,000 journals takes longer than everything else in a list of their runs."""
    save_index(run, index_fingerprint(run), INDEX, inodes_before=in_time(lambda: index.inodes(run)))
    copied = tmp_path / "copied"
    shutil.copytree(run, copied, ignore=shutil.ignore_patterns("copied"))
    read: list[Path] = []
    monkeypatch.setattr(index, "index_fingerprint", lambda folder: read.append(folder) or index_fingerprint(folder))  # type: ignore[func-returns-value]
    assert load_index(run) == INDEX and read == []
    assert load_index(copied) == INDEX and read == [copied]


def test_what_was_derived_while_the_journal_grew_is_another_index(run: Path) -> None:
    before, seen = index_fingerprint(run), in_time(lambda: index.inodes(run))
    (run / "journal.jsonl").write_text("x and more")
    save_index(run, before, INDEX, inodes_before=seen)
    assert load_index(run) is None


def test_a_journal_that_may_have_changed_while_it_was_read_is_not_known_by_its_inodes(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_time(lambda: index.inodes(run))
    monkeypatch.setattr(index, "_TICK_NS", 1 << 62)
    assert index.inodes(run) == ""


@pytest.mark.parametrize("name", ["journal.jsonl", "run.toml"])
def test_the_fingerprint_follows_the_run(run: Path, name: str) -> None:
    before = index_fingerprint(run)
    assert before == index_fingerprint(run)
    (run / name).write_text("z")
    assert before != index_fingerprint(run)


def test_the_fingerprint_follows_the_code(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A better analysis reads old journals anew. The code of one process is looked at once, not for each of its runs:
    a third of what 10,000 took."""
    source, asked = tmp_path / "analysis.py", []
    source.write_text("a = 1\n", encoding="utf-8")
    monkeypatch.setattr(index, "_sources", lambda: asked.append(1) or iter([source]))  # type: ignore[func-returns-value]
    before = index._code.__wrapped__()
    source.write_text("a = 10\n", encoding="utf-8")
    assert index._code.__wrapped__() != before
    monkeypatch.setattr(index, "_code", cache(index._code.__wrapped__))
    asked.clear()
    assert index_fingerprint(run) == index_fingerprint(run) and len(asked) == 1
    known = index_fingerprint(run)
    monkeypatch.setattr(index, "_code", lambda: before)
    assert index_fingerprint(run) != known


def test_only_text_that_could_do_more_than_be_read_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    gone_through: list[object] = []
    monkeypatch.setattr(reading, "clean", lambda *of: gone_through.append(of) or clean(*of))  # type: ignore[func-returns-value]
    assert reading.clean_json('{"a": [1, "b"]}') == {"a": [1, "b"]} and not gone_through
    for text in ('{"a": "\\u001b[31m"}', '["\u202e"]'):
        assert reading.clean_json(text) == clean(msgspec.json.decode(text)) != msgspec.json.decode(text)


def test_saving_again_replaces(run: Path) -> None:
    save_index(run, index_fingerprint(run), msgspec.structs.replace(INDEX, rows=()))
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) == INDEX


def test_it_answers_sql(run: Path) -> None:
    save_index(run, index_fingerprint(run), INDEX)
    with sqlite3.connect(run / NAME) as db:
        asked = "SELECT probe, median, json_extract(parameters, '$.size') FROM rows WHERE status = 'ok'"
        assert db.execute(asked).fetchall() == [("memory.latency", 1.0, 4096)]
    db.close()


def test_what_is_no_database_is_replaced(run: Path) -> None:
    (run / NAME).write_bytes(b"not a database" * 1000)
    assert load_index(run) is None
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) == INDEX


@pytest.mark.parametrize("table", ["rows", "about"])
def test_a_view_without_end_in_place_of_a_table_is_not_read(run: Path, table: str) -> None:
    save_index(run, index_fingerprint(run), INDEX)
    with sqlite3.connect(run / NAME) as db:
        columns = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
        db.execute(f"DROP TABLE {table}")
        cells = ", ".join(f"'x' AS \"{name}\"" for name in columns)
        endless = f"WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT {cells} FROM n"
        db.execute(f"CREATE VIEW {table} AS {endless}")
    assert load_index(run) is None
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) is not None


def test_a_link_out_of_the_folder_is_not_followed(run: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "mine.sqlite"
    with sqlite3.connect(elsewhere) as db:
        db.execute("CREATE TABLE rows (precious)")
    db.close()
    (run / NAME).symlink_to(elsewhere)
    save_index(run, index_fingerprint(run), INDEX)
    with sqlite3.connect(elsewhere) as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("rows",)]
    db.close()
    assert load_index(run) == INDEX


def test_text_from_the_index_is_made_harmless(run: Path) -> None:
    save_index(run, index_fingerprint(run), INDEX)
    with sqlite3.connect(run / NAME) as db:
        db.execute("UPDATE rows SET reason = 'a' || char(27) || '[2J'")
    db.close()
    told = load_index(run)
    assert told
    assert told.rows[1].reason == "a\ufffd[2J"


def test_a_folder_that_cannot_be_written_keeps_none(run: Path) -> None:
    (run / NAME).mkdir()
    save_index(run, index_fingerprint(run), INDEX)
    assert load_index(run) is None
