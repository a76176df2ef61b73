# SPDX-License-Identifier: Apache-2.0
"""The rows of a dataset of many machines as one matrix for each hardware model, which takes no more memory than its
numbers."""

from __future__ import annotations

import json
import os
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from glob import escape, glob
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.extras import PARQUET, bring
from tollmeter.files import plain_name
from tollmeter.fleet.judged import HardwareModel
from tollmeter.model import Cache, Failure, Row, key_of
from tollmeter.notices import notify
from tollmeter.root import ROOT
from tollmeter.store.export import DIGITS, day_of, hardware_name

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    from numpy.typing import NDArray

_FILES = 100
"""Files that are read at a time."""
_READERS = 2
_MEMORY = "96MB"
_LEAST_BYTES = 8
"""Fewest bytes of a row in its file: a file of 1 MB may contain 100 million rows."""
_IDENTITY = ("probe", "abi", "target", "parameters", "metric", "unit", "better", "state")
_USABLE = f"status = 'ok' AND median > 0 AND low > 0 AND high < 'inf'::DOUBLE AND visits >= {LEAST_VISITS}"
_HALF = f"CASE WHEN layouts >= {LEAST_LAYOUTS} THEN ln(high / low) / 2 ELSE 'nan' END"
"""SQL for the half-width of a row's interval, in natural logarithms; NaN for a row of one layout, whose interval does
not include the differences between layouts. The spread of the peers does, since each peer has its own layout."""


_FROM = "FROM read_parquet(?, hive_partitioning = false)"
"""SQL that reads files without the columns of their folders, which would replace columns of the same name, such as
`cpu`."""
_OWNER = ("host", "cpu", "kernel", "started")
_MODELS = f"SELECT DISTINCT file_index AS file, {', '.join(_OWNER)}, hypervisor, facts, caches {_FROM}"
_LENGTHS = "SELECT file_name, num_rows FROM parquet_file_metadata(?)"
_OWNERS = f"SELECT DISTINCT file_index AS file, {', '.join(_OWNER)} {_FROM}"
_ROWS = (
    f"SELECT file_index::USMALLINT AS file, place, ln(median)::FLOAT AS value, ({_HALF})::FLOAT AS half"
    f" {_FROM} LEFT JOIN keys USING (key) WHERE {_USABLE}"
)
"""SQL for the rows of files. `place` is NULL for a key that the table `keys` does not have yet."""
_NEW_ROWS = (
    f"SELECT any_value(struct_pack({', '.join(f'{name} := {name}' for name in _IDENTITY)})) AS row, key"
    f" {_FROM} ANTI JOIN keys USING (key) WHERE {_USABLE} GROUP BY key"
    " ORDER BY any_value(probe), any_value(metric), any_value(parameters)"
)

_Found = tuple[Sequence[str], "dict[str, NDArray[Any]]"]
"""Files, and the columns of a query of them."""
_Owner = tuple[str, str, str, str]


_Hardware = tuple[str, tuple[Cache, ...]]
"""Name and caches of a hardware model; no caches if the file lists none."""


def is_dataset(folder: Path) -> bool:
    return (folder / "rows").is_dir() and (folder / "machines").is_dir()


def read_fleet(folder: Path) -> list[HardwareModel]:
    """Returns the hardware models of a dataset, the largest first; several runs of a machine are averaged. Reports and
    skips unreadable files. Raises Failure: 2 if it is not a dataset, 5 if no file can be read."""
    bring(ROOT, PARQUET)
    import duckdb

    if not is_dataset(folder):
        raise Failure(f"{folder} is not a dataset: it has no folders rows and machines (toll export --dataset)")
    with duckdb.connect() as db:
        db.execute(f"SET memory_limit = '{_MEMORY}'; SET threads = 1; SET preserve_insertion_order = false")
        db.execute("CREATE TABLE keys (key BIGINT, place INTEGER)")
        machines, owners = _machines(db, folder)
        if not machines:
            raise Failure(f"{folder}: no file of the table machines can be read", 5)
        files = [path for path in _files(folder, "rows") if _machine(path) in machines]
        return _read(db, _well_placed(db, files, owners), machines)


def _machines(db: duckdb.DuckDBPyConnection, folder: Path) -> tuple[dict[str, _Hardware], dict[str, _Owner]]:
    """Returns the hardware model of each machine; and host, CPU, kernel and start of each file, by its path below the
    table."""
    by_folder: dict[str, _Hardware] = {}
    owners: dict[str, _Owner] = {}
    for readable, read in _ahead(db, _MODELS, [*_parts(_bounded(db, _files(folder, "machines")))]):
        for at, *owner, hypervisor, facts, caches in _lines(read):
            path, (host, cpu, kernel, started) = readable[at], owner
            name = hardware_name(host, key_of(cpu, _facts(facts), hypervisor))
            if why := _misplaced(path, name, started):
                notify(f"{path} is left out: {why}")
                continue
            owners[_place(path)] = (host, cpu, kernel, started)
            words, known = _caches(caches)
            by_folder[name] = f"{cpu}, kernel {kernel}, {words}", known
    return dict(sorted(by_folder.items())), owners


def _well_placed(db: duckdb.DuckDBPyConnection, files: Sequence[str], owners: Mapping[str, _Owner]) -> list[str]:
    """Returns the files whose lines are of the machine and the day that their folders name; other files are reported.
    owners: host, CPU, kernel and start of each file of machines, by `_place`."""
    misplaced, known_files = dict[str, str](), list[str]()
    for readable, read in _ahead(db, _OWNERS, [*_parts(_bounded(db, files))]):
        known_files += readable
        for at, *owner in _lines(read):
            path, (host, _, _, started) = readable[at], owner
            known = owners.get(_place(path), owner)
            why = _misplaced(path, f"{plain_name(host)}-{_machine(path)[-DIGITS:]}", started)
            others = (name for name, own, other in zip(_OWNER, owner, known, strict=True) if own != other)
            if why := why or ", ".join(f"its {name} is not that of the run's machine" for name in others):
                misplaced[path] = why
    for path, why in misplaced.items():
        notify(f"{path} is left out: {why}")
    return [path for path in known_files if path not in misplaced]


def _bounded(db: duckdb.DuckDBPyConnection, files: Sequence[str]) -> list[str]:
    """Returns files with at most the rows that their size permits; other files are reported."""
    known = dict(line for _, read in _ahead(db, _LENGTHS, [*_parts(files)]) for line in _lines(read))
    oversized = {path for path, rows in known.items() if rows * _LEAST_BYTES > os.stat(path).st_size}  # noqa: PTH116
    for path in sorted(oversized):
        notify(f"{path} is left out: it says that it has {known[path]} rows, more than fit into its bytes")
    return [path for path in files if path in known.keys() - oversized]


def _misplaced(path: str, machine: str, started: str) -> str:
    """Returns which of the dataset's own partitions contradicts the lines of a file; empty if none does."""
    partitions = {"machine": machine, "day": day_of(started)}
    names = path.split("/")[-3:-1]
    wrong = (f"{name}={value}" for name, value in partitions.items() if f"{name}={value}" not in names)
    return ", ".join(f"it is in {'/'.join(names)}, and its lines are of {right}" for right in wrong)


def _lines(read: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Any, ...]]:
    """Yields the lines of a file; a missing text is empty."""
    columns = (["" if cell is None else cell for cell in column.tolist()] for column in read.values())
    return zip(*columns, strict=True)


def _facts(text: str) -> dict[str, str]:
    return {name: str(value) for name, value in _fields(text).items()}


def _fields(text: str) -> dict[str, Any]:
    try:
        facts = json.loads(text)
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


@cache
def _caches(text: str) -> tuple[str, tuple[Cache, ...]]:
    """Returns the caches in words, and as records. A text that is not a list of caches is kept unchanged, since it is
    only tested for equality."""
    try:
        caches = msgspec.json.decode(text, type=tuple[Cache, ...])
    except (msgspec.DecodeError, UnicodeError):
        return text, ()
    names = [f"L{cache.level}{cache.kind[0] if cache.kind != 'unified' else ''}" for cache in caches]
    sized = (
        f"{name} {cache.size_bytes >> 10} KiB" if cache.size_bytes else f"{name} of unknown size"
        for name, cache in zip(names, caches, strict=True)
    )  # fmt: skip
    return ", ".join(sized) or "caches not reported", caches


def _files(folder: Path, table: str) -> list[str]:
    """Returns files as texts: 20,000 Path objects take 3 s. Reports and skips pipes, which DuckDB would wait for."""
    paths = sorted(glob(f"{escape(str(folder / table))}/machine=*/day=*/*.parquet"))  # noqa: PTH207
    files = [path for path in paths if os.path.isfile(path)]  # noqa: PTH113
    for path in sorted({*paths} - {*files}):
        notify(f"{path} is left out: it is not a file")
    return files


def _machine(path: str) -> str:
    return path.split("/")[-3].removeprefix("machine=")


def _place(path: str) -> str:
    """Returns the path below a table's folder, which is equal for all tables of a run."""
    return "/".join(path.split("/")[-3:])


def _parts(files: Sequence[str]) -> Iterator[Sequence[str]]:
    return (files[at : at + _FILES] for at in range(0, len(files), _FILES))


def _ahead(db: duckdb.DuckDBPyConnection, words: str, parts: Sequence[Sequence[str]]) -> Iterator[_Found]:
    """Yields the result of `_readable` for each part in order, while as many threads read others."""
    with ThreadPoolExecutor(_READERS) as readers:
        waiting = deque[Future[list[_Found]]]()
        for part in parts:
            waiting.append(readers.submit(lambda some: [*_readable(db.cursor(), words, some)], part))
            if len(waiting) > _READERS:
                yield from waiting.popleft().result()
        for one in waiting:
            yield from one.result()


def _readable(db: duckdb.DuckDBPyConnection, words: str, files: Sequence[str]) -> Iterator[_Found]:
    """Yields the readable files, together or in parts, with their columns; other files are reported."""
    import duckdb

    try:
        yield files, db.execute(words, [[*map(escape, files)]]).fetchnumpy()
    except (duckdb.Error, UnicodeEncodeError) as error:
        if len(files) == 1:
            notify(f"{files[0]} cannot be read and is left out: {str(error).splitlines()[0]}")
            return
        for half in (files[: len(files) // 2], files[len(files) // 2 :]):
            yield from _readable(db, words, half)


def _rounds(files: Sequence[str]) -> Iterator[list[str]]:
    """Yields the files in rounds: the first file of each machine, then the second of each."""
    files_of_machines = defaultdict(list)
    for path in files:
        files_of_machines[_machine(path)].append(path)
    for at in range(max(map(len, files_of_machines.values()), default=0)):
        yield [several[at] for several in files_of_machines.values() if len(several) > at]


def _read(db: duckdb.DuckDBPyConnection, files: Sequence[str], models: dict[str, _Hardware]) -> list[HardwareModel]:
    """Returns the hardware models with the mean of each row over the files of a machine. models: hardware model of each
    machine."""
    import numpy as np

    columns = {name: at for at, name in enumerate(models)}
    # A machine's numbers stand together, so that a file is written to one place.
    values, squares, counts = (np.zeros((len(models), 0), kind) for kind in (np.float32, np.float32, np.uint8))
    rows: list[dict[str, Any]] = []
    for turn, paths in enumerate(_rounds(files)):
        # The first file alone has nearly all the rows, which are then known when the others are read.
        found = chain(_ahead(db, _ROWS, [paths[:1]]), _ahead(db, _ROWS, [*_parts(paths[1:])]))
        for readable, read in chain.from_iterable(_with_places(db, each, rows) for each in found):
            more = len(rows) - values.shape[1]
            values, squares, counts = (np.pad(each, ((0, 0), (0, more))) for each in (values, squares, counts))
            starts = np.array([columns[_machine(path)] * len(rows) for path in readable])
            at = starts[read["file"]] + read["place"]
            for sums, each in ((values, read["value"]), (squares, read["half"] ** 2), (counts, 1)):
                of_lines = sums.reshape(-1)
                of_lines[at] = of_lines[at] + each if turn else each
    with np.errstate(invalid="ignore", divide="ignore"):
        values /= counts
        halves = np.sqrt(squares, out=squares)
        halves /= counts
    return _by_model(models, [*map(_row_of, rows)], values.T, halves.T)


def _with_places(db: duckdb.DuckDBPyConnection, found: _Found, rows: list[dict[str, Any]]) -> Iterator[_Found]:
    """Yields the files after adding their new rows to `rows`. Leaves out files that cannot be read."""
    import numpy as np

    if not np.ma.is_masked(found[1]["place"]):
        yield found
        return
    for paths, new in _readable(db, _NEW_ROWS, found[0]):
        db.register("added", {"key": new["key"], "place": len(rows) + np.arange(len(new["key"]))})
        db.execute("INSERT INTO keys FROM added")
        rows += new["row"].tolist()
        yield from _readable(db, _ROWS, paths)


def _by_model(
    machines: Mapping[str, _Hardware], rows: Sequence[Row], values: NDArray[np.float32], halves: NDArray[np.float32]
) -> list[HardwareModel]:
    """Returns the numbers of each hardware model, the largest first. values, halves: one column for each machine."""
    by_model: dict[_Hardware, list[int]] = {}
    for column, model in enumerate(machines.values()):
        by_model.setdefault(model, []).append(column)
    names, models = [*machines], []
    for (words, caches), columns in sorted(by_model.items(), key=lambda item: -len(item[1])):
        selection = slice(None) if len(by_model) == 1 else columns
        nodes = [names[column] for column in columns]
        models.append(HardwareModel(words, nodes, rows, values[:, selection], halves[:, selection], caches))
    return models


def _row_of(cells: dict[str, Any]) -> Row:
    """Returns the properties that a row has on every machine. A dataset may come from another site, and its words are
    not checked."""
    words: dict[str, Any] = {name: str(cells[name] or "") for name in _IDENTITY if name != "parameters"}
    return Row(**words, parameters=_fields(str(cells["parameters"])), revision=1, clock="hardware", status="ok")
