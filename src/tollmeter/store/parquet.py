# SPDX-License-Identifier: Apache-2.0
"""Tables as Parquet files, by DuckDB. Long tables are passed as numpy columns: as JSON, a sample takes 40 µs."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
_TEXT_VISITS = 128
"""Visits that are converted to text at a time: a megabyte, which fits into a CPU's cache with the source cells."""
_PART = "FORMAT parquet, COMPRESSION uncompressed, ROW_GROUP_SIZE 4096"
_SETTINGS = "SET threads = 1; SET enable_external_file_cache = false; SET memory_limit = "
_FEW, _MANY = "'96MB'", "'32MB'"
"""Memory limits of DuckDB: for short tables, whose JSON is read in whole blocks; and for long tables, while the run is
in memory too. Beyond the limit, DuckDB uses a temporary file."""

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
"""Types of columns that are not text."""


class Arrays(NamedTuple):
    """Lines of several visits. of_visits: a cell for each visit; counts: its number of lines; columns: a cell for each
    line, masked if not reported; shared: cells that are equal in all Arrays of a table."""

    of_visits: Mapping[str, Sequence[Any]]
    counts: NDArray[Any]
    columns: dict[str, NDArray[Any]]
    shared: dict[str, Any] = {}

    def cells(self, written: Callable[[Any], Any]) -> Iterator[dict[str, list[Any]]]:
        """Yields the cells of each column, of some visits at a time. written: converts a cell that is not a number."""
        starts = [0, *self.counts.cumsum().tolist()]
        for begin in range(0, len(self.counts), _TEXT_VISITS):
            counts = self.counts[begin : begin + _TEXT_VISITS]
            lines = slice(starts[begin], starts[begin + len(counts)])
            of_visits = {name: cells[begin : begin + len(counts)] for name, cells in self.of_visits.items()}
            columns = {name: cells[lines] for name, cells in self.columns.items()}
            yield _cells(self._replace(of_visits=of_visits, counts=counts, columns=columns), written)


def _cells(lines: Arrays, written: Callable[[Any], Any]) -> dict[str, list[Any]]:
    import numpy as np

    def each(name: str, cells: Sequence[Any]) -> list[Any]:
        own = cells if name in _NUMBERED else _converted(cells, written)
        return list(np.fromiter(own, object, len(cells)).repeat(lines.counts).tolist())

    return {
        **{name: each(name, cells) for name, cells in lines.of_visits.items()},
        **{name: _listed(cells, written) for name, cells in lines.columns.items()},
        **{name: [written(cell)] * int(lines.counts.sum()) for name, cell in lines.shared.items()},
    }


def _listed(cells: NDArray[Any], written: Callable[[Any], Any]) -> list[Any]:
    import numpy as np

    if cells.dtype == object:
        return _converted(cells.tolist(), written)
    if not np.ma.is_masked(cells):
        return list(np.asarray(cells).tolist())
    absent, several = written(None), zip(cells.data.tolist(), np.ma.getmaskarray(cells).tolist(), strict=True)
    return [absent if is_absent else cell for cell, is_absent in several]


def _converted(cells: Sequence[Any], written: Callable[[Any], Any]) -> list[Any]:
    """Returns the converted cells. Cells that several lines share are one object, which is converted once."""
    distinct = {id(cell): cell for cell in cells}
    converted = {identity: written(cell) for identity, cell in distinct.items()}
    return [converted[id(cell)] for cell in cells]


class ParquetTable(NamedTuple):
    """A table to write. lines: lines of a short table; arrays: columns of a long table, instead of lines."""

    columns: tuple[str, ...]
    lines: Iterable[dict[str, Any]]
    arrays: Iterable[Arrays] | None = None


def cells_of(table: ParquetTable, written: Callable[[Any], Any]) -> Iterator[dict[str, list[Any]]]:
    """Yields the cells of a long table as `Arrays.cells` does."""
    return (cells for part in table.arrays or () for cells in part.cells(written))


def records_of_table(table: ParquetTable) -> Iterator[dict[str, Any]]:
    yield from table.lines
    for cells in cells_of(table, lambda cell: cell):
        yield from (dict(zip(cells, line, strict=True)) for line in zip(*cells.values(), strict=True))


def jsonl(table: ParquetTable) -> Iterator[bytes]:
    encoder = msgspec.json.Encoder()
    yield encoder.encode_lines(table.lines)
    kind: type[msgspec.Struct] | None = None
    for cells in cells_of(table, lambda cell: msgspec.Raw(encoder.encode(cell))):
        kind = kind or msgspec.defstruct("Line", [*cells], gc=False)
        yield encoder.encode_lines([*map(kind, *cells.values())])


def column_types(columns: Iterable[str]) -> dict[str, str]:
    """Returns the DuckDB type of each column; Parquet's readers map them to their own types."""
    return {column: _PARQUET_TYPES.get(column, "VARCHAR") for column in columns}


def parquet(table: ParquetTable, about: Mapping[str, str]) -> Iterator[bytes]:
    """Yields the file's content. Raises Failure if Parquet's library is not available."""
    with tempfile.TemporaryDirectory() as scratch:
        file_path = Path(scratch, "table.parquet")
        write_parquet(table, file_path, about)
        with file_path.open("rb") as file:
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
        message, disk_is_full = str(error).partition("\n")[0], os.strerror(errno.ENOSPC)
        why = disk_is_full if disk_is_full in message else message  # DuckDB quotes the system's answer in JSON
        raise Failure(f"the table cannot be written as Parquet: {why}", 5) from error


def _lines(table: ParquetTable, folder: Path) -> str:
    """Returns a query of the table's lines, which are written into the folder."""
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
    for count, part in enumerate(table.arrays or (), 1):
        numbers = np.arange(len(part.counts))
        of_visits = {name: np.array(cells, None if name in _NUMBERED else object)
                     for name, cells in part.of_visits.items()}  # fmt: skip
        db.register("visits", {**of_visits, _VISIT: numbers})
        db.register("lines", {**part.columns, _VISIT: np.repeat(numbers, part.counts)})
        cells = {name: quoted(part.shared[name]) if name in part.shared else _name(name) for name in types}
        named = ", ".join(f"{cells[name]}::{kind} AS {_name(name)}" for name, kind in types.items())
        query = f"SELECT {named} FROM lines JOIN visits USING ({_VISIT})"
        db.execute(f"COPY ({query}) TO {quoted(f'{folder}/{count:08}.parquet')} ({_PART})")
    if not count:
        return f"SELECT {', '.join(f'NULL::{kind} AS {_name(name)}' for name, kind in types.items())} LIMIT 0"
    return f"FROM read_parquet({quoted(f'{folder}/*.parquet')})"


def _name(column: str) -> str:
    return f'"{column}"'


def quoted(text: str) -> str:
    """Returns an SQL string."""
    return "'" + text.replace("'", "''") + "'"
