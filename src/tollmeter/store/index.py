# SPDX-License-Identifier: Apache-2.0
"""index.sqlite: what a run's journal comes to, for whoever would rather ask in SQL. Derived, and made again whenever
the journal or the code that derives it has changed; not kept where the folder cannot be written.

Tables: `about` (key, value), `documents` (name, json: `run` and `machine`), `rows`, `levels` and `findings`, one
column a field of the record of that name in model.py; lists and tables inside a field are JSON.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

import tollmeter
from tollmeter.model import Finding, Index, Lengths, Level, Machine, Record, Row, RunInfo
from tollmeter.protocol import clean

NAME = "index.sqlite"
_TABLES: dict[str, type[Record]] = {"rows": Row, "levels": Level, "findings": Finding, "lengths": Lengths}
_DERIVING = ("analysis", "experiment", "findings", "store", "protocol")

T = TypeVar("T", bound=Record)


def fingerprint(folder: Path) -> str:
    """Changes with the journal, with what was asked, and with the code that derives an index from them."""
    digest = hashlib.sha256(tollmeter.__version__.encode())
    for name in ("journal.jsonl", "run.toml"):
        with (folder / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    for path in _sources():
        told = path.stat()
        digest.update(f"{path.name} {told.st_size} {told.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def load(folder: Path, wanted: str) -> Index | None:
    """The index if it is the one of this fingerprint, else None."""
    if not (folder / NAME).is_file():
        return None
    try:
        with contextlib.closing(_connect(folder / NAME)) as db:
            found = db.execute("SELECT value FROM about WHERE key = 'fingerprint'").fetchone()
            return _index(db) if found == (wanted,) else None
    except (sqlite3.Error, OSError, ValueError, RecursionError):
        return None


def save(folder: Path, made_of: str, index: Index) -> None:
    """Whole or not at all. A folder that cannot be written keeps none: it is derived again the next time."""
    with contextlib.suppress(OSError, OverflowError, sqlite3.Error):
        try:
            _write(folder / NAME, made_of, index)
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            (folder / NAME).unlink()
            _write(folder / NAME, made_of, index)


def _sources() -> Iterator[Path]:
    package = Path(__file__).parents[1]
    for name in _DERIVING:
        yield from sorted((package / name).glob("**/*.py"))


def _connect(path: Path) -> sqlite3.Connection:
    # A link in a run folder from elsewhere may lead to a database that is not ours to change.
    if path.is_symlink():
        path.unlink()
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    db.execute("PRAGMA trusted_schema = OFF")
    return db


def _write(path: Path, made_of: str, index: Index) -> None:
    with contextlib.closing(_connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        _make_tables(db)
        about = {"fingerprint": made_of, "format": str(index.format), "tollmeter": tollmeter.__version__}
        db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        for name, record in (("run", index.run), ("machine", index.machine)):
            db.execute("INSERT INTO documents VALUES (?, ?)", (name, _json(record)))
        tables = {
            "rows": index.rows, "levels": index.hierarchy, "findings": index.findings, "lengths": index.lengths,
        }  # fmt: skip
        for table, records in tables.items():
            _insert(db, table, records)
        db.execute("COMMIT")


def _make_tables(db: sqlite3.Connection) -> None:
    tables = {"about": ["key", "value"], "documents": ["name", "json"]}
    for table, columns in {**tables, **{name: _columns(form) for name, form in _TABLES.items()}}.items():
        db.execute(f"DROP TABLE IF EXISTS {table}")
        db.execute(f"CREATE TABLE {table} ({', '.join(map(_quoted, columns))})")


def _insert(db: sqlite3.Connection, table: str, records: Iterable[Record]) -> None:
    columns = _columns(_TABLES[table])
    marks = ", ".join("?" * len(columns))
    cells = ([_cell(getattr(record, column)) for column in columns] for record in records)
    db.executemany(f"INSERT INTO {table} VALUES ({marks})", cells)


def _index(db: sqlite3.Connection) -> Index:
    documents = {name: clean(msgspec.json.decode(text)) for name, text in db.execute("SELECT * FROM documents")}
    (version,) = db.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
    return Index(
        format=int(version),
        run=msgspec.convert(documents["run"], RunInfo),
        machine=msgspec.convert(documents["machine"], Machine),
        rows=_records(db, "rows", Row),
        hierarchy=_records(db, "levels", Level),
        findings=_records(db, "findings", Finding),
        lengths=_records(db, "lengths", Lengths),
    )


def _records(db: sqlite3.Connection, table: str, form: type[T]) -> tuple[T, ...]:
    types = {field.name: field.type for field in msgspec.structs.fields(form)}
    columns = _columns(form)
    found = db.execute(f"SELECT {', '.join(map(_quoted, columns))} FROM {table} ORDER BY rowid")
    return tuple(_record(zip(columns, cells, strict=True), types, form) for cells in found)


def _record(cells: Iterable[tuple[str, Any]], types: Mapping[str, Any], form: type[T]) -> T:
    values = {name: _value(cell, types[name]) for name, cell in cells}
    return msgspec.convert(clean(values), form)


def _value(cell: Any, annotation: Any) -> Any:
    """SQLite has no truth values: they come back as 0 and 1."""
    if _is_nested(annotation):
        return msgspec.json.decode(cell)
    return bool(cell) if annotation is bool else cell


def _is_nested(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (tuple, dict)


def _columns(form: type[Record]) -> Sequence[str]:
    return form.__struct_fields__


def _quoted(column: str) -> str:
    return f'"{column}"'


def _cell(value: Any) -> Any:
    return _json(value) if isinstance(value, tuple | dict) else value


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
