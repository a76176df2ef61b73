# SPDX-License-Identifier: Apache-2.0
"""index.sqlite: the results derived from a run's journal, for queries in SQL. It is made again if the journal or the
deriving code changed; it is not stored if the folder cannot be written.

Tables: `about` (key, value), `documents` (name, json: `run`, `machine`, `study`, `withheld`, `opposed`, `profiles`),
and one for each list of records in an index, one column for each field of its record in model/; a field that is neither
text nor a number is JSON."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import msgspec

from tollmeter.files import open_regular
from tollmeter.model import (
    Finding,
    Index,
    Inference,
    KindAnswer,
    Lengths,
    Level,
    Machine,
    Opposed,
    Outcome,
    Profile,
    Record,
    Row,
    RunInfo,
    Study,
    Toll,
)
from tollmeter.protocol import clean, clean_json, is_clean
from tollmeter.store import kept_visits
from tollmeter.store.document import complaints
from tollmeter.store.request import KEPT as PROFILES
from tollmeter.version import VERSION

NAME = "index.sqlite"
_TABLES: dict[str, type[Record]] = {
    "rows": Row, "levels": Level, "findings": Finding, "lengths": Lengths, "inferred": Inference, "tolls": Toll,
}  # fmt: skip
_FIELDS = {"levels": "hierarchy"}
"""Fields of the index whose table has another name."""
_DOCUMENTS: dict[str, Any] = {
    "run": RunInfo, "machine": Machine, "study": Study | None, "withheld": tuple[str, ...],
    "opposed": tuple[Opposed, ...], "profiles": tuple[Profile, ...], "kinds": tuple[KindAnswer, ...],
}  # fmt: skip
_DERIVING = (
    "experiment", "numbers", "inference", "judgement", "studies", "findings", "library", "store", "protocol", "model",
)  # fmt: skip
_MADE_OF = ("journal.jsonl", "run.toml")
_TICK_NS = 10_000_000
"""Tick of the slowest kernel timer, 100 Hz, to which a file system may round times."""
_OF_TOLLS = """WHERE clock = 'hardware' AND (probe, metric, abi, target, parameters) IN
    (SELECT probe, metric, abi, target, parameters FROM tolls)"""
_BLOCK_BYTES = 1 << 20
_MOST_CELL_BYTES = 64 << 20
_AS_IT_IS = {str, int, float}

T = TypeVar("T", bound=Record)
Content = TypeVar("Content")


def index_fingerprint(folder: Path, journal: bytes = b"") -> str:
    """Returns a fingerprint of the journal, the request, and the code that derives an index from them. journal: its
    digest, if it was already read."""
    digest = hashlib.sha256(VERSION.encode())
    for name, known in zip(_MADE_OF, (journal, b""), strict=True):
        digest.update(known or _digest(folder / name))
    with contextlib.suppress(FileNotFoundError), open_regular(folder / PROFILES) as file:
        digest.update(hashlib.sha256(file.read()).digest())
    digest.update(_code())
    return digest.hexdigest()


def _digest(path: Path) -> bytes:
    content = hashlib.sha256()
    with open_regular(path) as file:
        while block := file.read(_BLOCK_BYTES):
            content.update(block)
    return content.digest()


def inodes(folder: Path) -> str:
    """Returns a fingerprint of the folder's metadata, taken before its journal is read; empty if the journal is so new
    that a change might not alter the fingerprint."""
    return "" if _is_within_a_tick(folder) else _inodes(folder)


def _inodes(folder: Path) -> str:
    """Returns a fingerprint from file-system metadata, as git does: reading the files would take most of the time of a
    list of runs. A copied folder has other inodes."""
    parts = []
    for name in (*_MADE_OF, PROFILES):
        with contextlib.suppress(FileNotFoundError):
            status = os.stat(folder / name)  # noqa: PTH116  a list of 10,000 runs asks it 30,000 times
            parts.append(f"{name} {status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}")
    return "\n".join([*parts, hashlib.sha256(VERSION.encode() + _code()).hexdigest()])


def _is_within_a_tick(folder: Path) -> bool:
    """Returns whether the journal is so new that another change now might leave its times equal."""
    return time.time_ns() - (folder / _MADE_OF[0]).stat().st_ctime_ns < _TICK_NS


def load_index(folder: Path) -> Index | None:
    """Returns the stored index; None if it is of another journal or version, or does not exist."""
    return _read(folder, _index)


def load_excerpt(folder: Path, probes: str | None) -> Index | None:
    """Returns a part of the index for a history, in a tenth of the time of `load_index`: the rows of a glob of probes;
    or, for None, the tolls, their rows, and the levels."""
    return _read(folder, partial(_excerpt, probes=probes))


def index_has_numbers(folder: Path) -> bool | None:
    """Returns whether the stored index has a row with a number; None without an index."""
    return _read(folder, lambda db: bool(db.execute("SELECT 1 FROM rows WHERE status = 'ok'").fetchone()))


def _read(folder: Path, reader: Callable[[sqlite3.Connection], Content]) -> Content | None:
    if not (folder / NAME).is_file():
        return None
    try:
        with contextlib.closing(_connect(folder / NAME)) as db:
            if not _is_plain(db):
                return None
            about = dict(db.execute("SELECT key, value FROM about"))
            is_current = about.get("inodes") == _inodes(folder) or about.get("fingerprint") == index_fingerprint(folder)
            return reader(db) if is_current else None
    except (sqlite3.Error, OSError, ValueError, TypeError, LookupError, RecursionError):
        return None


def _excerpt(db: sqlite3.Connection, probes: str | None) -> Index:
    about = {"format": _format(db), **_documents(db, "run", "machine")}
    if probes is not None:
        return Index(**about, rows=_records(db, "rows", Row, "WHERE probe GLOB ?", (probes,)))
    return Index(
        **about, rows=_records(db, "rows", Row, _OF_TOLLS), hierarchy=_records(db, "levels", Level),
        tolls=_records(db, "tolls", Toll),
    )  # fmt: skip


def load_visits(folder: Path) -> tuple[Outcome, ...] | None:
    """Returns the visits that the index stores of a large journal; else None."""
    return _read(folder, kept_visits.visits_kept)


def save_index(
    folder: Path, fingerprint: str, index: Index, visits: Sequence[Outcome] = (), inodes_before: str = ""
) -> None:
    """Stores an index completely or not at all. If the folder cannot be written, the index is derived again the next
    time. visits: the relevant ones, stored for a large journal. inodes_before: `inodes` before the journal was read."""
    with contextlib.suppress(OSError, OverflowError, sqlite3.Error):
        kept = visits if (folder / _MADE_OF[0]).stat().st_size >= kept_visits.LEAST_BYTES else ()
        try:
            _write(folder / NAME, fingerprint, index, kept, inodes_before)
        except sqlite3.OperationalError:
            return
        except sqlite3.DatabaseError:
            (folder / NAME).unlink()
            _write(folder / NAME, fingerprint, index, kept, inodes_before)


@cache
def _code() -> bytes:
    """Returns names, sizes and modification times of the deriving source files, read once per process."""
    files = ((path.name, path.stat()) for path in _sources())
    return "".join(f"{name} {status.st_size} {status.st_mtime_ns}\n" for name, status in files).encode()


def _sources() -> Iterator[Path]:
    package = Path(__file__).parents[1]
    return (path for name in _DERIVING for path in sorted((package / name).glob("**/*.py")))


def _connect(path: Path) -> sqlite3.Connection:
    # A run folder from elsewhere may contain a link to another database, or a pipe that never answers.
    if os.path.lexists(path) and not (path.is_file() and not path.is_symlink()) and not path.is_dir():
        path.unlink()
    db = sqlite3.connect(path, timeout=10, isolation_level=None)
    db.execute("PRAGMA trusted_schema = OFF")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_CELL_BYTES)
    return db


def _is_plain(db: sqlite3.Connection) -> bool:
    """Returns whether the database contains only tables: a view in a file from elsewhere may have an infinite number of
    lines."""
    other = db.execute("SELECT 1 FROM sqlite_schema WHERE type <> 'table' OR sql NOT LIKE 'CREATE TABLE %' LIMIT 1")
    return other.fetchone() is None


def _write(path: Path, fingerprint: str, index: Index, visits: Sequence[Outcome], inodes_before: str) -> None:
    about = {"fingerprint": fingerprint, "format": str(index.format), "tollmeter": VERSION}
    if inodes_before and inodes_before == _inodes(path.parent):
        about["inodes"] = inodes_before
    documents = {name: msgspec.json.encode(getattr(index, name)).decode() for name in _DOCUMENTS}
    with contextlib.closing(_connect(path)) as db:
        if not _is_plain(db):
            raise sqlite3.DatabaseError("it is not an index")
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN IMMEDIATE")
        _fill(db, "about", ("key", "value"), about.items())
        _fill(db, "documents", ("name", "json"), documents.items())
        for table, form in _TABLES.items():
            columns, nested = form.__struct_fields__, _nested(form)
            records = getattr(index, _FIELDS.get(table, table))
            cells = ([_cell(getattr(record, name), name in nested) for name in columns] for record in records)
            _fill(db, table, columns, cells)
        for table in kept_visits.TABLES:
            _fill(db, table, ("content",), ())
        for table, content in kept_visits.cells(visits) if visits else ():
            db.execute(f"INSERT INTO {table} VALUES (?)", (content,))
        db.execute("COMMIT")


def _fill(db: sqlite3.Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    db.execute(f"DROP TABLE IF EXISTS {table}")
    db.execute(f"CREATE TABLE {table} ({', '.join(map(_quoted, columns))})")
    db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)


def _index(db: sqlite3.Connection) -> Index:
    lists: dict[str, Any] = {_FIELDS.get(table, table): _records(db, table, form) for table, form in _TABLES.items()}
    index = Index(format=_format(db), **_documents(db, *_DOCUMENTS), **lists)
    for complaint in complaints(index):
        raise ValueError(complaint)
    return index


def _format(db: sqlite3.Connection) -> int:
    (version,) = db.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
    return int(version)


def _documents(db: sqlite3.Connection, *names: str) -> dict[str, Any]:
    """Returns the documents of an index. Raises LookupError if one is missing."""
    texts = dict(db.execute(f"SELECT * FROM documents WHERE name IN ({', '.join('?' * len(names))})", names))
    return {name: msgspec.convert(clean_json(texts[name]), _DOCUMENTS[name]) for name in names}


def _records(
    db: sqlite3.Connection, table: str, form: type[T], where: str = "", values: Sequence[Any] = ()
) -> tuple[T, ...]:
    columns, nested = form.__struct_fields__, _nested(form)
    rows = db.execute(f"SELECT {', '.join(map(_quoted, columns))} FROM {table} {where} ORDER BY rowid", values)

    def read(name: str, cell: Any) -> Any:
        return clean_json(cell) if name in nested and cell is not None else clean(cell)

    def named(cells: Sequence[Any]) -> dict[str, Any]:
        # One look at all texts of a record: a look at each cell takes two thirds of the time of a history.
        if is_clean(" ".join(cell for cell in cells if type(cell) is str)):
            decoded = {name: msgspec.json.decode(cells[place]) for name, place in places if cells[place] is not None}
            return dict(zip(columns, cells, strict=True)) | decoded
        return {name: read(name, cell) for name, cell in zip(columns, cells, strict=True)}

    places = [(name, place) for place, name in enumerate(columns) if name in nested]
    return tuple(msgspec.convert(named(cells), form) for cells in rows)


@cache
def _nested(form: type[Record]) -> set[str]:
    """Returns the fields that are JSON in their cell: lists, tables, and truth values, which SQL would return as
    numbers."""
    return {field.name for field in msgspec.structs.fields(form) if not _types(field.type) <= _AS_IT_IS}


def _types(annotation: Any) -> set[Any]:
    """Returns the types that a field may have, other than None."""
    if isinstance(annotation, UnionType) or get_origin(annotation) in (Union, Annotated):
        parts = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
        return set().union(*map(_types, parts)) - {type(None)}
    return {str} if get_origin(annotation) is Literal else {annotation}


def _quoted(column: str) -> str:
    return f'"{column}"'


def _cell(value: Any, nested: bool) -> Any:
    return msgspec.json.encode(value).decode() if nested and value is not None else value
