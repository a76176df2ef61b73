# SPDX-License-Identifier: Apache-2.0
"""Rows and samples as tables that other programs open: csv, json, jsonl, md and parquet."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tollmeter.extras import PARQUET, bring
from tollmeter.model import Build, Failure, Index, Outcome, Row, Sample, Witness
from tollmeter.root import ROOT

Format = Literal["csv", "json", "jsonl", "md", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)

_PARQUET_TYPES = {
    "median": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "minimum": "DOUBLE", "quartiles": "DOUBLE[]",
    "modes": "DOUBLE[]", "revision": "INTEGER", "visits": "INTEGER", "samples": "INTEGER", "set_aside": "INTEGER",
    "visit": "BIGINT", "round": "INTEGER", "sample": "INTEGER", "iterations": "BIGINT", "body_n_ns": "BIGINT",
    "body_2n_ns": "BIGINT", "control_n_ns": "BIGINT", "control_2n_ns": "BIGINT", "control_iterations": "BIGINT",
    "at_ns": "BIGINT", "unadjusted": "DOUBLE", "clock_hz": "DOUBLE", "settled": "BOOLEAN", "layouts": "INTEGER",
    "own_ratio": "DOUBLE",
    "states": "STRUCT(state VARCHAR, share DOUBLE, median DOUBLE, low DOUBLE, high DOUBLE)[]",
    **{name: "DOUBLE" if name.endswith("_hz") else "BIGINT" for name in Witness.__struct_fields__},
}  # fmt: skip
"""Every other column is text."""

TABLE_FORMAT = 1
"""Of the columns of both tables and their types (docs/library.md): raised when one goes or changes its meaning."""

Table = tuple[tuple[str, ...], Iterable[dict[str, Any]]]


def rows_table(rows: Iterable[Row]) -> Table:
    """One line a metric and point; parameters are one column of JSON, since probes differ in theirs."""
    return Row.__struct_fields__, (msgspec.to_builtins(row) for row in rows)


def of_run(table: Table, index: Index) -> Table:
    """The table with columns that tell whose it is, so that tables of several runs can be joined."""
    columns, lines = table
    about = _about(index)
    return (*columns, *about), ({**line, **about} for line in lines)


def _about(index: Index) -> dict[str, str]:
    run, machine = index.run, index.machine
    return {
        "run": run.id, "started": run.started, "host": machine.host, "cpu": machine.cpu, "kernel": machine.kernel,
        "verdict": run.verdict,
    }  # fmt: skip


def metadata(index: Index) -> dict[str, str]:
    """Of a Parquet file: the version of its columns, the run, and what made it."""
    run = index.run
    made = {"table_format": str(TABLE_FORMAT), "tollmeter": run.tollmeter, "suite": run.suite, "seed": str(run.seed)}
    return {f"tollmeter.{name}": value for name, value in {**made, **_about(index)}.items()}


_SAMPLE_COLUMNS = (
    "visit", "round", "probe", "abi", "target", "clock", "parameters", "sample", "at_ns", "iterations",
    "body_n_ns", "body_2n_ns", "control_iterations", "control_n_ns", "control_2n_ns", *Witness.__struct_fields__,
    "reason", "executable_sha256",
)  # fmt: skip


Judge = Callable[[Outcome], Iterable[str | None]]


def samples_table(outcomes: Iterable[Outcome], builds: Iterable[Build], judge: Judge) -> Table:
    """One line a sample, as it was taken: times in ns of n and of 2n iterations, its witness, and what was run.

    judge: for each sample of a visit why it is set aside, None where it is used.
    """
    hashes = {(build.probe, build.abi): build.sha256 for build in builds}
    return _SAMPLE_COLUMNS, (line for outcome in outcomes for line in _samples(outcome, hashes, judge))


def _samples(outcome: Outcome, hashes: Mapping[tuple[str, str], str], judge: Judge) -> Iterator[dict[str, Any]]:
    point = outcome.point
    place = {
        "visit": outcome.visit,
        "round": outcome.round,
        "probe": point.probe,
        "abi": point.abi,
        "target": point.target,
        "clock": outcome.clock.kind,
        "parameters": point.values(),
        "executable_sha256": hashes.get((point.probe, point.abi), ""),
    }
    for number, (sample, why) in enumerate(zip(outcome.samples, judge(outcome), strict=True)):
        seen = msgspec.structs.asdict(sample.witness)
        yield {**place, "sample": number, **_times(sample), **seen, "reason": why}


def _times(sample: Sample) -> dict[str, Any]:
    control = sample.control or (None, None)
    return {
        "at_ns": sample.at_ns,
        "iterations": sample.iterations,
        "control_iterations": (sample.control_iterations or sample.iterations) if sample.control else None,
        "body_n_ns": sample.body[0],
        "body_2n_ns": sample.body[1],
        "control_n_ns": control[0],
        "control_2n_ns": control[1],
    }


def written(table: Table, form: str, about: Mapping[str, str] = {}) -> bytes:
    """The whole table in one of FORMATS. about: the metadata of a Parquet file; the others have none. Raises Failure
    for another format, or where Parquet's library cannot be had."""
    writers = {"csv": _csv, "json": _json, "jsonl": _jsonl, "md": _markdown}
    if form not in FORMATS:
        raise Failure(f"no such format: {form}. There are {', '.join(FORMATS)}")
    return _parquet(table, about) if form == "parquet" else writers[form](table)


def _csv(table: Table) -> bytes:
    columns, lines = table
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_harmless(_flat(line[column])) for column in columns] for line in lines)
    return text.getvalue().encode()


def _harmless(cell: Any) -> Any:
    """A spreadsheet takes text that begins like a formula for one, and a machine's name may be anything."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def _json(table: Table) -> bytes:
    return msgspec.json.encode(list(table[1])) + b"\n"


def _jsonl(table: Table) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in table[1])


def _markdown(table: Table) -> bytes:
    columns, lines = table
    heads = [" | ".join(columns), " | ".join("---" for _ in columns)]
    cells = (" | ".join(_plain(_flat(line[column])) for column in columns) for line in lines)
    return "".join(f"| {line} |\n" for line in (*heads, *cells)).encode()


def _plain(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    for mark in "\\`*_{}[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text


def _flat(cell: Any) -> Any:
    return msgspec.json.encode(cell).decode() if isinstance(cell, dict | list | tuple) else cell


def flat_parameters(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Parameters as JSON text: probes differ in theirs, and a column has one type."""
    return ({**line, "parameters": _flat(line["parameters"])} for line in lines)


def column_types(columns: Iterable[str]) -> dict[str, str]:
    """In DuckDB's words, which Parquet's readers give back as their own."""
    return {column: _PARQUET_TYPES.get(column, "VARCHAR") for column in columns}


def _parquet(table: Table, about: Mapping[str, str]) -> bytes:
    bring(ROOT, PARQUET)
    import duckdb

    columns, lines = table
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "table.jsonl"), Path(scratch, "table.parquet")
        source.write_bytes(_jsonl((columns, flat_parameters(lines))))
        with duckdb.connect() as db:
            types = column_types(columns)
            read = db.read_json(str(source), columns=types, format="newline_delimited", maximum_object_size=1 << 20)
            read.create_view("made")
            entries = ", ".join(f"{_quoted(name)}: {_quoted(value)}" for name, value in about.items())
            keys = f", KV_METADATA {{{entries}}}" if entries else ""
            db.execute(f"COPY made TO {_quoted(str(made))} (FORMAT parquet{keys})")
        return made.read_bytes()


def _quoted(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"
