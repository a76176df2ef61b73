# SPDX-License-Identifier: Apache-2.0
"""Rows and samples as tables that other programs open: csv, json, jsonl, md and parquet."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec

from tollmeter.extras import PARQUET, bring
from tollmeter.model import Build, Failure, Finding, Index, Machine, Outcome, Row, Samples, Toll, Witness
from tollmeter.root import ROOT

_BLOCK_BYTES = 1 << 20
Format = Literal["csv", "json", "jsonl", "md", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)

_PARQUET_TYPES = {
    "median": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "minimum": "DOUBLE", "quartiles": "DOUBLE[]",
    "modes": "DOUBLE[]", "revision": "INTEGER", "visits": "INTEGER", "samples": "INTEGER", "set_aside": "INTEGER",
    "visit": "BIGINT", "round": "INTEGER", "sample": "INTEGER", "iterations": "BIGINT", "body_n_ns": "BIGINT",
    "body_2n_ns": "BIGINT", "control_n_ns": "BIGINT", "control_2n_ns": "BIGINT", "control_iterations": "BIGINT",
    "at_ns": "BIGINT", "unadjusted": "DOUBLE", "clock_hz": "DOUBLE", "settled": "BOOLEAN", "layouts": "INTEGER",
    "own_ratio": "DOUBLE", "value": "DOUBLE", "cycles": "DOUBLE", "typical": "BOOLEAN", "cpus": "INTEGER",
    "memory_bytes": "BIGINT", "page_bytes": "INTEGER", "core_clock_hz": "DOUBLE",
    "states": "STRUCT(state VARCHAR, share DOUBLE, median DOUBLE, low DOUBLE, high DOUBLE)[]",
    **{name: "DOUBLE" if name.endswith("_hz") else "BIGINT" for name in Witness.__struct_fields__},
}  # fmt: skip
"""Every other column is text."""

TABLE_FORMAT = 1
"""Of the columns of all tables and their types (docs/library.md): raised when one goes or changes its meaning."""
_JSON_TEXT = ("parameters", "evidence", "facts", "caches", "kinds", "cores", "topology", "allowed_cpus")
"""Columns whose cells differ in shape."""


class Stretch(NamedTuple):
    """Lines that follow each other. shared: every column's cell, where it is the same in all of them; columns: the
    cells of the others, all of them of one length."""

    shared: dict[str, Any]
    columns: dict[str, Sequence[Any]]

    def lines(self) -> Iterator[dict[str, Any]]:
        if not self.columns:
            return iter([self.shared])
        return ({**self.shared, **dict(zip(self.columns, cells, strict=True))} for cells in self.cells())

    def cells(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.columns.values(), strict=True)


Table = tuple[tuple[str, ...], Iterable[Stretch]]


def table_lines(table: Table) -> Iterator[dict[str, Any]]:
    return (line for stretch in table[1] for line in stretch.lines())


def derived_tables(index: Index) -> dict[str, Table]:
    """Rows, tolls, findings and the machine of a run, one line each, by the names of the tables."""
    several = {"rows": index.rows, "tolls": index.tolls, "findings": index.findings, "machines": (index.machine,)}
    kinds = {"rows": Row, "tolls": Toll, "findings": Finding, "machines": Machine}
    return {
        name: (kinds[name].__struct_fields__, [Stretch(msgspec.to_builtins(record), {}) for record in records])
        for name, records in several.items()
    }


def of_run(table: Table, index: Index) -> Table:
    """The table with columns that tell whose it is, so that tables of several runs can be joined. What a table of
    machines has already is not there twice."""
    columns, stretches = table
    about = {name: value for name, value in _about(index).items() if name not in columns}
    return (*columns, *about), (one._replace(shared={**one.shared, **about}) for one in stretches)


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


Judge = Callable[[Sequence[Outcome]], Iterable[Sequence[str | None]]]


def samples_table(outcomes: Sequence[Outcome], builds: Iterable[Build], judge: Judge) -> Table:
    """One line a sample, as it was taken: times in ns of n and of 2n iterations, its witness, and what was run.

    judge: of each of some visits, for each of its samples why it is set aside, None where it is used.
    """
    hashes = {(build.probe, build.abi): build.sha256 for build in builds}
    from tollmeter.experiment.taken import parts  # brings numpy, which what only lists can do without

    judged = (each for some in parts(outcomes) for each in zip(some, judge(some), strict=True))
    return _SAMPLE_COLUMNS, (_samples(told, hashes, why) for told, why in judged if why)


def _samples(outcome: Outcome, hashes: Mapping[tuple[str, str], str], why: Sequence[str | None]) -> Stretch:
    point, samples = outcome.point, Samples.of(outcome.samples)
    place = {
        "visit": outcome.visit, "round": outcome.round, "probe": point.probe, "abi": point.abi, "target": point.target,
        "clock": outcome.clock.kind, "parameters": point.values(),
        "executable_sha256": hashes.get((point.probe, point.abi), ""),
    }  # fmt: skip
    seen = {name: samples.told(name) for name in Witness.__struct_fields__}
    columns = {"sample": [*range(len(why))], **_times(samples), **seen, "reason": why}
    same = {name: cells[0] for name, cells in columns.items() if cells.count(cells[0]) == len(cells)}
    return Stretch(
        {**place, **dict.fromkeys(columns), **same}, {name: columns[name] for name in columns if name not in same}
    )


def _times(samples: Samples) -> dict[str, Sequence[Any]]:
    iterations, control = samples.told("iterations"), samples.told("control_n")
    own = zip(samples.told("control_iterations"), iterations, control, strict=True)
    return {
        "at_ns": samples.told("at_ns"),
        "iterations": iterations,
        "control_iterations": [None if ns is None else some or usual for some, usual, ns in own],
        "body_n_ns": samples.told("body_n"),
        "body_2n_ns": samples.told("body_2n"),
        "control_n_ns": control,
        "control_2n_ns": samples.told("control_2n"),
    }


def written(table: Table, form: str, about: Mapping[str, str] = {}) -> Iterator[bytes]:
    """The table in one of FORMATS, a piece at a time. about: the metadata of a Parquet file; the others have none.
    Raises Failure for another format, or where Parquet's library cannot be had."""
    writers = {"csv": _csv, "json": _json, "jsonl": _jsonl, "md": _markdown}
    if form not in FORMATS:
        raise Failure(f"no such format: {form}. There are {', '.join(FORMATS)}")
    return _parquet(table, about) if form == "parquet" else writers[form](table)


def _csv(table: Table) -> Iterator[bytes]:
    names, stretches = table
    yield _csv_line(names).encode()
    for shared, columns in stretches:
        text = [_csv_cell(shared[name]).replace("%", "%%") if name not in columns else "%s" for name in names]
        cells = [_plain_column(columns[name]) for name in names if name in columns]
        line = ",".join(text) + "\n"
        yield "".join([line % row for row in zip(*cells, strict=True)] if cells else [line % ()]).encode()


def _plain_column(cells: Sequence[Any]) -> Sequence[Any]:
    """Numbers are written as Python does, and all else by a library."""
    return cells if {*map(type, cells)} <= {int, float} else [_csv_cell(cell) for cell in cells]


def _csv_cell(cell: Any) -> str:
    return _csv_text(_harmless(_flat(cell)))


@lru_cache(maxsize=4096, typed=True)
def _csv_text(cell: Any) -> str:
    """One cell of several."""
    return _csv_line(["", cell])[1:-1]


def _csv_line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    """A spreadsheet takes text that begins like a formula for one, and a machine's name may be anything."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@") else cell


def _json(table: Table) -> Iterator[bytes]:
    yield b"["
    for number, line in enumerate(table_lines(table)):
        yield (b"," if number else b"") + msgspec.json.encode(line)
    yield b"]\n"


def _jsonl(table: Table) -> Iterator[bytes]:
    for stretch in table[1]:
        yield b"".join([msgspec.json.encode(line) + b"\n" for line in stretch.lines()])


def _markdown(table: Table) -> Iterator[bytes]:
    columns = table[0]
    heads = [" | ".join(columns), " | ".join("---" for _ in columns)]
    cells = (" | ".join(_plain(_flat(line[column])) for column in columns) for line in table_lines(table))
    return (f"| {line} |\n".encode() for line in chain(heads, cells))


def _plain(cell: Any) -> str:
    text = "" if cell is None else str(cell)
    for mark in "\\`*_{}[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text


def _flat(cell: Any) -> Any:
    return msgspec.json.encode(cell).decode() if isinstance(cell, dict | list | tuple) else cell


def flat_parameters(table: Table) -> Table:
    """Parameters and the like as JSON text: probes differ in theirs, and a column has one type."""
    names = [name for name in _JSON_TEXT if name in table[0]]
    flat = (
        one._replace(shared={**one.shared, **{name: _flat(one.shared[name]) for name in names}}) for one in table[1]
    )
    return table[0], flat


def column_types(columns: Iterable[str]) -> dict[str, str]:
    """In DuckDB's words, which Parquet's readers give back as their own."""
    return {column: _PARQUET_TYPES.get(column, "VARCHAR") for column in columns}


def _parquet(table: Table, about: Mapping[str, str]) -> Iterator[bytes]:
    bring(ROOT, PARQUET)
    import duckdb

    columns = table[0]
    with tempfile.TemporaryDirectory() as scratch:
        source, made = Path(scratch, "table.jsonl"), Path(scratch, "table.parquet")
        with source.open("wb") as lines:
            lines.writelines(_jsonl(flat_parameters(table)))
        with duckdb.connect() as db:
            types = column_types(columns)
            read = db.read_json(str(source), columns=types, format="newline_delimited", maximum_object_size=1 << 20)
            read.create_view("made")
            entries = ", ".join(f"{_quoted(name)}: {_quoted(value)}" for name, value in about.items())
            keys = f", KV_METADATA {{{entries}}}" if entries else ""
            db.execute(f"COPY made TO {_quoted(str(made))} (FORMAT parquet{keys})")
        with made.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK_BYTES), b"")


def _quoted(text: str) -> str:
    """A string of SQL."""
    return "'" + text.replace("'", "''") + "'"
