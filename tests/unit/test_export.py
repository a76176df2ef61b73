# SPDX-License-Identifier: Apache-2.0
"""Exports: every format holds the same values, and text stays text in whatever opens it."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from support.example_runs import healthy
from support.fake_catalog import MACHINE
from support.probe_streams import whole
from tollmeter.model import INDEX_FORMAT, Build, Failure, Index, Row, RunInfo, State
from tollmeter.protocol import outcome
from tollmeter.store import export, parquet
from tollmeter.store.export import (
    TABLE_FORMAT,
    derived_tables,
    metadata,
    samples_table,
    with_run_columns,
    written,
)
from tollmeter.store.parquet import ParquetTable, column_types

ROW = Row(
    probe="memory.latency", revision=1, abi="x86_64", target="local", clock="hardware",
    parameters={"size": 4096, "pages": "huge"}, metric="load", unit="ns", better="less", status="ok",
    median=1.5, low=1.0, high=2.0, minimum=1.0, quartiles=(1.0, 1.5, 2.0), visits=3, samples=21,
    state="uncontended", unadjusted=1.45, clock_hz=4.1e9, converged=True, states=(
        State(state="uncontended", share=0.75, median=1.5, low=1.0, high=2.0),
        State(state="contended", share=0.25, median=1.9, low=1.7, high=2.25),
    ),
)  # fmt: skip
ROWS = (ROW, replace(ROW, status="failed", reason='=HYPERLINK("x")|<b>', median=None))

INDEX = Index(
    format=INDEX_FORMAT, machine=replace(MACHINE, host="it's"), rows=ROWS,
    run=RunInfo(
        id="r7", suite="s", started="2026-01-31T12:00:00+00:00", seconds=1, seed=7, status="settled", tollmeter="0.3",
        folder="runs/r7", verdict="busy",
    ),
)  # fmt: skip


def whole_of(table: ParquetTable, form: str, *about: Mapping[str, str]) -> bytes:
    return b"".join(written(table, form, *about))


def rows() -> ParquetTable:
    return derived_tables(INDEX)["rows"]


def samples() -> ParquetTable:
    taken = outcome(whole())
    seen = [replace(one.witness, control_before_hz=3.9e9 + 0.5, width_hz=1.5e10 + 0.25) for one in taken.samples]
    taken = replace(
        taken, samples=tuple(replace(one, witness=found) for one, found in zip(taken.samples, seen, strict=True))
    )
    ours, other = (Build(taken.point.probe, abi, "gcc", "-O2", sha256=abi * 2) for abi in (taken.point.abi, "other"))
    reasons: list[str | None] = [None, "switched"]
    return samples_table([taken], [other, ours], lambda taken, _: np.array(reasons[: len(taken)], object))


def no_samples() -> ParquetTable:
    return samples_table([], [], lambda *_: np.array([], object))


def samples_without_a_control() -> ParquetTable:
    """Times that float64 does not hold, of a system that does not tell its steal time."""
    taken = outcome(whole())
    seen = replace(taken.samples[1], control=None, at_ns=(1 << 60) + 1)
    silent = replace(seen, witness=replace(seen.witness, steal_ticks=None))
    taken = replace(taken, samples=(taken.samples[0], silent))
    other = replace(taken, visit=9, samples=taken.samples[::-1])
    return samples_table([taken, other], [], lambda taken, _: np.full(len(taken), None))


def test_csv_has_a_line_a_row_and_no_formula() -> None:
    lines = list(csv.DictReader(io.StringIO(whole_of(rows(), "csv").decode())))
    assert [line["median"] for line in lines] == ["1.5", ""]
    assert json.loads(lines[0]["parameters"]) == {"size": 4096, "pages": "huge"}
    assert lines[1]["reason"] == '\'=HYPERLINK("x")|<b>'


def test_json_and_jsonl_hold_the_same() -> None:
    table = json.loads(whole_of(rows(), "json"))
    assert table == [json.loads(line) for line in whole_of(rows(), "jsonl").splitlines()]
    assert msgspec.convert(table[0], Row) == ROW


def test_markdown_keeps_its_columns_whatever_the_text() -> None:
    lines = whole_of(rows(), "md").decode().splitlines()
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(Row.__struct_fields__) + 1}
    assert "\\<b\\>" in lines[3]


def test_samples_are_one_line_each() -> None:
    table = json.loads(whole_of(samples(), "json"))
    assert [(line["sample"], line["body_n_ns"], line["body_2n_ns"], line["control_n_ns"]) for line in table] == [
        (0, 1000, 2000, 10),
        (1, 1001, 2000, 10),
    ]
    assert table[1]["involuntary"] == 1
    assert [line["reason"] for line in table] == [None, "switched"]
    assert table[1]["executable_sha256"] == table[1]["abi"] * 2


@pytest.mark.parametrize("make", [rows, samples, samples_without_a_control, no_samples])
def test_parquet_holds_what_json_holds(tmp_path: Path, make: object) -> None:
    import duckdb

    assert callable(make)
    path = tmp_path / "table.parquet"
    path.write_bytes(whole_of(make(), "parquet"))
    relation = duckdb.read_parquet(str(path))
    expected = json.loads(whole_of(make(), "json"))
    for line in expected:
        for name in {"parameters", "chosen", "counters"} & line.keys():
            line[name] = json.dumps(line[name], separators=(",", ":"))
    assert [dict(zip(relation.columns, line, strict=True)) for line in relation.fetchall()] == expected


def test_parquet_made_of_several_parts_holds_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_ARRAYS", 1)
    test_parquet_holds_what_json_holds(tmp_path, samples_without_a_control)


@pytest.mark.parametrize("most", [1, 128])
def test_text_made_of_several_pieces_holds_what_json_of_one_holds(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    expected = json.loads(whole_of(samples_without_a_control(), "json"))
    monkeypatch.setattr(parquet, "_TEXT_VISITS", most)
    assert [json.loads(line) for line in whole_of(samples_without_a_control(), "jsonl").splitlines()] == expected
    lines = csv.DictReader(io.StringIO(whole_of(samples_without_a_control(), "csv").decode()))
    as_text = [
        {name: json.dumps(cell, separators=(",", ":")) if isinstance(cell, dict) else "" if cell is None else str(cell)
         for name, cell in line.items()} for line in expected
    ]  # fmt: skip
    assert list(lines) == as_text
    assert len(whole_of(samples_without_a_control(), "md").splitlines()) == 2 + len(expected)


def test_text_of_a_sample_stays_one_cell() -> None:
    told = 'off, by ["1"]\n[2]'
    taken = outcome(whole())
    table = samples_table([taken], [], lambda taken, _: np.full(len(taken), told, object))
    assert [line["reason"] for line in csv.DictReader(io.StringIO(whole_of(table, "csv").decode()))] == [told, told]


def test_a_table_that_parquet_cannot_hold_is_refused_with_a_sentence() -> None:
    large = [{"visit": 1 << 70}]
    with pytest.raises(Failure, match="cannot be written as Parquet") as caught:
        whole_of(ParquetTable(("visit",), large), "parquet")
    assert caught.value.exit_code == 5


def test_each_line_says_whose_it_is(tmp_path: Path) -> None:
    import duckdb

    lines = json.loads(whole_of(with_run_columns(rows(), INDEX), "json"))
    whose = {"run": "r7", "started": "2026-01-31T12:00:00+00:00", "host": "it's", "verdict": "busy"}
    assert all(line.items() >= whose.items() for line in lines) and len(lines) == 2
    path = tmp_path / "table.parquet"
    path.write_bytes(whole_of(with_run_columns(rows(), INDEX), "parquet", metadata(INDEX)))
    found = duckdb.execute("SELECT key, value FROM parquet_kv_metadata(?)", [str(path)]).fetchall()
    told = {bytes(key).decode(): bytes(value).decode() for key, value in found}
    assert told.items() >= {f"tollmeter.{name}": value for name, value in whose.items()}.items()
    assert told["tollmeter.table_format"] == str(TABLE_FORMAT)
    assert duckdb.read_parquet(str(path)).project("kernel, parameters").fetchall() == [
        (INDEX.machine.kernel, '{"size":4096,"pages":"huge"}')
    ] * 2  # fmt: skip


def test_the_librarys_page_has_every_column_with_its_type() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/library.md").read_text(encoding="utf-8")
    told = {
        column: kind
        for kind, columns in re.findall(r"^\| `([A-Z]{3}[^`]*)` \| (.*) \|$", page, re.MULTILINE)
        for column in re.findall(r"`(\w+)`", columns)
    }
    columns = [
        column for table in (*derived_tables(INDEX).values(), samples()) for column in with_run_columns(table, INDEX)[0]
    ]
    assert told == column_types(columns)
    assert f"format {TABLE_FORMAT}" in page


def test_tolls_findings_and_the_machine_are_tables_that_tell_two_runs_apart(tmp_path: Path) -> None:
    import duckdb

    index = healthy(("x86_64",), visits=2, samples=2).index
    other = replace(index, run=replace(index.run, id="r8"))
    for name, table in derived_tables(index).items():
        for one in (index, other):
            path = tmp_path / f"{name}-{one.run.id}.parquet"
            path.write_bytes(whole_of(with_run_columns(derived_tables(one)[name], one), "parquet", metadata(one)))
        columns, lines = with_run_columns(table, index)[0], len([*table[1]])
        assert len(set(columns)) == len(columns)
        assert {"run", "started", "host", "cpu", "kernel", "verdict"} <= {*columns}
        every = duckdb.sql(f"SELECT run, count(*) FROM '{tmp_path}/{name}-*.parquet' GROUP BY run ORDER BY run")
        assert every.fetchall() == [(run, lines) for run in sorted((index.run.id, "r8"))]
    facts, cpus = duckdb.sql(f"SELECT facts, cpus FROM '{tmp_path}/machines-r8.parquet'").fetchall()[0]
    assert (json.loads(facts), cpus) == (index.machine.facts, index.machine.cpus)
    evidence = duckdb.sql(f"SELECT evidence FROM '{tmp_path}/findings-r8.parquet'").fetchall()
    assert [json.loads(told)[0]["what"] for (told,) in evidence] == [one.evidence[0].what for one in index.findings]
    tolls = duckdb.sql(f"SELECT toll, value, typical FROM '{tmp_path}/tolls-r8.parquet'").fetchall()
    assert tolls == [(one.toll, one.value, one.typical) for one in index.tolls]


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(Failure) as caught:
        written(rows(), "xls")
    assert caught.value.exit_code == 2
