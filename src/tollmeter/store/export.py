# SPDX-License-Identifier: Apache-2.0
"""Rows and samples as tables for other programs: csv, json, jsonl, md and parquet."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from tollmeter.files import own_folder, plain_name
from tollmeter.model import Build, Failure, Finding, Index, Machine, Outcome, Row, Toll, Witness, machine_key
from tollmeter.model.samples import MAYBE, NONE
from tollmeter.store.parquet import Arrays, ParquetTable, cells_of, jsonl, parquet, records_of_table, write_parquet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tollmeter.experiment.taken import Taken

Format = Literal["csv", "json", "jsonl", "md", "parquet"]
FORMATS: tuple[str, ...] = get_args(Format)

TABLE_FORMAT = 2
"""Version of all tables' columns and their types (docs/library.md), incremented when a column is removed or changes its
meaning."""
_ARRAYS = 2048
"""Visits whose samples are in arrays at a time: a library makes several copies of each, and a query takes 10 ms."""
_JSON_TEXT = (
    "parameters", "counters", "evidence", "facts", "caches", "kinds", "cores", "topology", "allowed_cpus", "settings",
)  # fmt: skip
"""Columns whose cells have different structures."""


def derived_tables(index: Index) -> dict[str, ParquetTable]:
    """Returns the rows, tolls, findings and machine of a run as tables, by table name."""
    several = {"rows": index.rows, "tolls": index.tolls, "findings": index.findings, "machines": (index.machine,)}
    kinds = {"rows": Row, "tolls": Toll, "findings": Finding, "machines": Machine}
    return {
        name: ParquetTable(kinds[name].__struct_fields__, [msgspec.to_builtins(record) for record in records])
        for name, records in several.items()
    }


def with_run_columns(table: ParquetTable, index: Index) -> ParquetTable:
    """Returns the table with columns that identify the run, for joins; without those that it already has."""
    about = {name: value for name, value in _about(index).items() if name not in table.columns}

    lines = ({**line, **about} for line in table.lines)
    arrays = (part._replace(shared={**part.shared, **about}) for part in table.arrays or ())
    return ParquetTable((*table.columns, *about), lines, None if table.arrays is None else arrays)


def _about(index: Index) -> dict[str, str]:
    run, machine = index.run, index.machine
    return {
        "run": run.id, "started": run.started, "host": machine.host, "cpu": machine.cpu, "kernel": machine.kernel,
        "verdict": run.verdict,
    }  # fmt: skip


def metadata(index: Index) -> dict[str, str]:
    """Returns the metadata of a Parquet file: the version of its columns, the run, and the program version."""
    run = index.run
    fields = {"table_format": str(TABLE_FORMAT), "tollmeter": run.tollmeter, "suite": run.suite, "seed": str(run.seed)}
    return {f"tollmeter.{name}": value for name, value in {**fields, **_about(index)}.items()}


_RAW = {
    "at_ns": "at_ns", "iterations": "iterations", "control_iterations": "control_iterations", "body_n_ns": "body_n",
    "body_2n_ns": "body_2n", "control_n_ns": "control_n", "control_2n_ns": "control_2n",
}  # fmt: skip
_SAMPLE_COLUMNS = (
    "visit", "round", "probe", "abi", "target", "clock", "parameters", "sample", "at_ns", "iterations",
    "body_n_ns", "body_2n_ns", "control_iterations", "control_n_ns", "control_2n_ns", *Witness.__struct_fields__,
    "reason", "executable_sha256",
)  # fmt: skip


Judge = Callable[["Taken", Sequence[Outcome]], "NDArray[Any]"]


def samples_table(outcomes: Sequence[Outcome], builds: Iterable[Build], judge: Judge) -> ParquetTable:
    """Returns one line for each sample: times in ns of n and of 2n iterations, its witness, and the executable.

    judge: returns for each sample of some visits why it is discarded, None if it is used."""
    hashes = {(build.probe, build.abi): build.sha256 for build in builds}
    from tollmeter.experiment.taken import chunks  # imports numpy, which verbs that only list do without

    several = ([outcome for outcome in part if len(outcome.samples)] for part in chunks(outcomes, _ARRAYS))
    return ParquetTable(_SAMPLE_COLUMNS, (), (_arrays(part, hashes, judge) for part in several if part))


def _place(outcome: Outcome, hashes: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """Returns the cells that all samples of a visit share."""
    point = outcome.point
    return {
        "visit": outcome.visit, "round": outcome.round, "probe": point.probe, "abi": point.abi, "target": point.target,
        "clock": outcome.clock.kind, "parameters": point.values(),
        "executable_sha256": hashes.get((point.probe, point.abi), ""),
    }  # fmt: skip


def _arrays(visits: Sequence[Outcome], hashes: Mapping[tuple[str, str], str], judge: Judge) -> Arrays:
    """Returns the samples of several visits. A number that the system does not report is masked."""
    import numpy as np

    from tollmeter.experiment.taken import Taken

    taken = Taken([outcome.samples for outcome in visits])
    places = [_place(outcome, hashes) for outcome in visits]
    whole = taken.whole((*_RAW.values(), *Witness.__struct_fields__))
    columns = {name: np.ma.masked_equal(column, NONE) if name in MAYBE else column for name, column in whole.items()}
    control_iterations = np.where(whole["control_iterations"] != 0, whole["control_iterations"], whole["iterations"])
    control_iterations = np.ma.array(control_iterations, mask=whole["control_n"] == NONE)
    times = {name: columns[raw] for name, raw in _RAW.items()} | {"control_iterations": control_iterations}
    within = np.arange(len(taken)) - taken.spread(taken.starts[:-1])
    parts = {name: [place[name] for place in places] for name in places[0]}
    witness = {name: columns[name] for name in Witness.__struct_fields__}
    return Arrays(parts, taken.counts, {"sample": within, **times, **witness, "reason": judge(taken, visits)})


def written(table: ParquetTable, form: str, about: Mapping[str, str] = {}) -> Iterator[bytes]:
    """Yields the table in one of FORMATS, a piece at a time. about: metadata of a Parquet file; other formats have
    none. Raises Failure for another format, or if Parquet's library is not available."""
    writers = {"csv": _csv, "json": _json, "jsonl": jsonl, "md": _markdown}
    if form not in FORMATS:
        raise Failure(f"there is no format {form!r}; known: {', '.join(FORMATS)}")
    return parquet(flat_parameters(table), about) if form == "parquet" else writers[form](table)


def _csv(table: ParquetTable) -> Iterator[bytes]:
    yield _csv_line(table.columns).encode()
    for line in table.lines:
        yield ",".join([_csv_text(_flat(line[name])) for name in table.columns]).encode() + b"\n"
    encode = msgspec.json.Encoder().encode
    for cells in cells_of(table, _csv_cell):
        # A JSON list without its brackets is a line of CSV.
        lines = [encode(line)[1:-1] for line in zip(*[cells[name] for name in table.columns], strict=True)]
        yield b"\n".join([*lines, b""])


def _csv_cell(cell: Any) -> msgspec.Raw:
    return msgspec.Raw(_csv_text(_flat(cell)).encode())


@lru_cache(maxsize=4096, typed=True)
def _csv_text(cell: Any) -> str:
    """Returns a cell as text. A text that begins like a formula gets an apostrophe, since a spreadsheet would execute
    it, and a machine's name may be any text."""
    is_formula = isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@")
    return _csv_line(["", f"'{cell}" if is_formula else cell])[1:-1]


def _csv_line(cells: Iterable[Any]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _json(table: ParquetTable) -> Iterator[bytes]:
    yield b"["
    for number, line in enumerate(records_of_table(table)):
        yield (b"," if number else b"") + msgspec.json.encode(line)
    yield b"]\n"


def _markdown(table: ParquetTable) -> Iterator[bytes]:
    for heads in (table.columns, ["---"] * len(table.columns)):
        yield f"| {' | '.join(heads)} |\n".encode()
    for line in records_of_table(table):
        yield f"| {' | '.join([_plain(line[name]) for name in table.columns])} |\n".encode()


def _plain(cell: Any) -> str:
    text = "" if cell is None else str(_flat(cell))
    for mark in "\\`*_{}[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text


def _flat(cell: Any) -> Any:
    return msgspec.json.encode(cell).decode() if isinstance(cell, dict | list | tuple) else cell


def flat_parameters(table: ParquetTable) -> ParquetTable:
    """Returns the table with parameters and similar fields as JSON text: probes have different parameters, and a column
    has one type."""
    names = [name for name in _JSON_TEXT if name in table.columns]
    lines = ({**line, **{name: _flat(line[name]) for name in names}} for line in table.lines)
    arrays = (
        part._replace(of_visits={**part.of_visits, **{name: [*map(_flat, part.of_visits[name])] for name in names}})
        for part in table.arrays or ()
    )
    return table._replace(lines=lines, arrays=None if table.arrays is None else arrays)


# ---- a dataset of many runs, partitioned by machine and day ----------------------------------------------------------

DIGITS = 8
"""Number of digits in a machine's name."""
_STARTED = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)")


def machine_name(machine: Machine) -> str:
    """Returns the host's name, and digits that distinguish machines of one name."""
    return hardware_name(machine.host, machine_key(machine))


def hardware_name(host: str, key: Sequence[str]) -> str:
    digits = hashlib.sha256("\n".join((host, *key)).encode()).hexdigest()[:DIGITS]
    return f"{plain_name(host)}-{digits}"


def day_of(started: str) -> str:
    """Returns the day in UTC, from the run's start."""
    moment = _STARTED.match(started)
    return moment[1] if moment else "unknown"


def _row_key(row: Mapping[str, Any]) -> int:
    """Returns a hash that is equal for rows that may be compared, so that readers need one column instead of eight."""
    parts = [row[name] for name in ("probe", "revision", "abi", "target", "clock", "metric", "state")]
    words = msgspec.json.encode([*parts, sorted(row["parameters"].items())])
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "little", signed=True)


def _keyed(table: ParquetTable) -> ParquetTable:
    return table._replace(
        columns=(*table.columns, "key"), lines=({**line, "key": _row_key(line)} for line in table.lines)
    )


def write_tables(folder: Path, index: Index, tables: Iterable[tuple[str, ParquetTable]]) -> None:
    """Writes a run's named tables into the dataset, each file completely or not at all, as
    `rows/machine=NAME/day=2026-11-23/RUN.parquet` (docs/dataset.md). The file name contains the run's name and
    start, so that a run that is written again replaces its own files. Raises Failure (5)."""
    started = _STARTED.match(index.run.started)
    moment = "".join(started.groups()[1:]) if started else "unknown"
    name = f"{plain_name(index.run.id)}-{moment}.parquet"
    place = f"machine={machine_name(index.machine)}/day={day_of(index.run.started)}"
    try:
        for table_name, table in tables:
            path = own_folder(folder, f"{table_name}/{place}") / name
            with tempfile.TemporaryDirectory(prefix=".", dir=folder) as scratch:
                file = Path(scratch, name)
                write_parquet(flat_parameters(_keyed(table) if table_name == "rows" else table), file, metadata(index))
                os.replace(file, path)  # noqa: PTH105
    except OSError as error:
        raise Failure(f"cannot write {folder}: {error.strerror}", 5) from error
