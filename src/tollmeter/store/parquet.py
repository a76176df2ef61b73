# SPDX-License-Identifier: Apache-2.0
"""Tables as Parquet files, by DuckDB. Many lines come as numpy columns: as JSON one sample in 40 µs was the most."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tollmeter.extras import PARQUET, bring
from tollmeter.model import Failure, Witness
from tollmeter.root import ROOT

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

_BLOCK_BYTES = 1 << 20
_VISIT = "number_of_visit"
_NUMBERED = ("visit", "round")
_PART = "FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE 4096"
_SETTINGS = "SET threads = 1; SET enable_external_file_cache = false; SET memory_limit = "
_FEW, _MANY = "'96MB'", "'32MB'"
"""Memory for lines of JSON, of which a block is read at once, and for arrays, beside which a run is in memory. Lines
beyond it wait in a temporary file."""

_PARQUET_TYPES = {
    "median": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "minimum": "DOUBLE", "quartiles": "DOUBLE[]",
    "modes": "DOUBLE[]", "revision": "INTEGER", "visits": "INTEGER", "samples": "INTEGER", "discarded": "INTEGER",
    "visit": "BIGINT", "round": "INTEGER", "sample": "INTEGER", "iterations": "BIGINT", "body_n_ns": "BIGINT",
    "body_2n_ns": "BIGINT", "control_n_ns": "BIGINT", "control_2n_ns": "BIGINT", "control_iterations": "BIGINT",
    "at_ns": "BIGINT", "unadjusted": "DOUBLE", "clock_hz": "DOUBLE", "converged": "BOOLEAN", "layouts": "INTEGER",
    "own_ratio": "DOUBLE", "value": "DOUBLE", "cycles": "DOUBLE", "typical": "BOOLEAN", "cpus": "INTEGER",
    "memory_bytes": "BIGINT", "key": "BIGINT", "page_bytes": "INTEGER", "core_clock_hz": "DOUBLE",
    "error": "DOUBLE", "freedom": "DOUBLE", "runs_sd": "DOUBLE",
    "states": "STRUCT(state VARCHAR, share DOUBLE, median DOUBLE, low DOUBLE, high DOUBLE, error DOUBLE, "
    "freedom DOUBLE, runs_sd DOUBLE)[]",
    **{name: "DOUBLE" if name.endswith("_hz") else "BIGINT" for name in Witness.__struct_fields__},
}  # fmt: skip
"""Every other column is text."""


class Stretch(NamedTuple):
    """Consecutive lines of a table. shared: cells of columns with one value; columns: the cells of other columns."""

    shared: dict[str, Any]
    columns: dict[str, Sequence[Any]]

    def lines(self) -> Iterator[dict[str, Any]]:
        if not self.columns:
            return iter([self.shared])
        return ({**self.shared, **dict(zip(self.columns, cells, strict=True))} for cells in self.cells())

    def cells(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.columns.values(), strict=True)


class Arrays(NamedTuple):
    """Lines of several visits. shared: as in a Stretch, and equal in all Arrays of a table; of_visits: a cell for each
    visit; counts: its number of lines; columns: a cell for each line, masked if not reported."""

    shared: dict[str, Any]
    of_visits: Mapping[str, Sequence[Any]]
    counts: NDArray[Any]
    columns: dict[str, NDArray[Any]]


class ParquetTable(NamedTuple):
    """A table to write. arrays: its lines for Parquet; None for a short table."""

    columns: tuple[str, ...]
    stretches: Iterable[Stretch]
    arrays: Iterable[Arrays] | None = None


def table_lines(table: ParquetTable) -> Iterator[dict[str, Any]]:
    return (line for stretch in table.stretches for line in stretch.lines())


def jsonl(table: ParquetTable) -> Iterator[bytes]:
    for stretch in table.stretches:
        yield b"".join([msgspec.json.encode(line) + b"\n" for line in stretch.lines()])


def column_types(columns: Iterable[str]) -> dict[str, str]:
    """Returns DuckDB's type names, which Parquet's readers return as their own."""
    return {column: _PARQUET_TYPES.get(column, "VARCHAR") for column in columns}


def parquet(table: ParquetTable, about: Mapping[str, str]) -> Iterator[bytes]:
    """The file's content. Raises Failure if Parquet's library is not available."""
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch, "table.parquet")
        write_parquet(table, made, about)
        with made.open("rb") as file:
            yield from iter(partial(file.read, _BLOCK_BYTES), b"")


def write_parquet(table: ParquetTable, path: Path, about: Mapping[str, str]) -> None:
    """Writes a Parquet file. about: its metadata. Raises Failure if Parquet's library is not available, and 5 if it
    cannot write."""
    bring(ROOT, PARQUET)
    import duckdb

    entries = ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in about.items())
    keys = f", KV_METADATA {{{entries}}}" if entries else ""
    try:
        with tempfile.TemporaryDirectory() as scratch, duckdb.connect() as db:
            limit = _FEW if table.arrays is None else _MANY
            db.execute(f"SET temp_directory = {quoted(scratch)}; {_SETTINGS}{limit}")
            folder = Path(scratch)
            source = _lines(table, folder) if table.arrays is None else _parts(db, table, folder)
            db.execute(f"COPY ({source}) TO {quoted(str(path))} (FORMAT parquet, ROW_GROUP_SIZE 8192{keys})")
    except duckdb.Error as error:
        told, is_full = str(error).partition("\n")[0], os.strerror(errno.ENOSPC)
        why = is_full if is_full in told else told  # DuckDB quotes the system's answer in JSON
        raise Failure(f"the table cannot be written as Parquet: {why}", 5) from error


def _lines(table: ParquetTable, folder: Path) -> str:
    """A query of the table's lines, which are written into the folder."""
    path = folder / "lines.jsonl"
    with path.open("wb") as lines:
        lines.writelines(jsonl(table))
    types = ", ".join(f"{_name(name)}: {quoted(kind)}" for name, kind in column_types(table.columns).items())
    options = f"columns = {{{types}}}, format = 'newline_delimited', maximum_object_size = {1 << 20}"
    return f"FROM read_json({quoted(str(path))}, {options})"


def _parts(db: duckdb.DuckDBPyConnection, table: ParquetTable, folder: Path) -> str:
    """Returns a query of the table's lines, which are written into the folder, some visits in each file: a database
    table would need 100 MB more than the run, and a copy of files needs one row group."""
    import numpy as np

    types, count = column_types(table.columns), 0
    for count, one in enumerate(table.arrays or (), 1):
        numbers = np.arange(len(one.counts))
        of_visits = {name: np.array(cells, None if name in _NUMBERED else object)
                     for name, cells in one.of_visits.items()}  # fmt: skip
        db.register("visits", {**of_visits, _VISIT: numbers})
        db.register("lines", {**one.columns, _VISIT: np.repeat(numbers, one.counts)})
        cells = {name: quoted(one.shared[name]) if name in one.shared else _name(name) for name in types}
        named = ", ".join(f"{cells[name]}::{kind} AS {_name(name)}" for name, kind in types.items())
        query = f"SELECT {named} FROM lines JOIN visits USING ({_VISIT})"
        db.execute(f"COPY ({query}) TO {quoted(f'{folder}/{count:08}.parquet')} ({_PART})")
    if not count:
        return f"SELECT {', '.join(f'NULL::{kind} AS {_name(name)}' for name, kind in types.items())} LIMIT 0"
    return f"FROM read_parquet({quoted(f'{folder}/*.parquet')})"


def _name(column: str) -> str:
    return f'"{column}"'


def quoted(text: str) -> str:
    """An SQL string."""
    return "'" + text.replace("'", "''") + "'"
