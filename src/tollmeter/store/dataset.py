# SPDX-License-Identifier: Apache-2.0
"""Results of many runs as one Parquet dataset, partitioned by machine and day (docs/dataset.md):

    rows/machine=NAME/day=2026-11-23/RUN.parquet

A file is one table of one run. Its name is made of the run's name and start, so that a run that is written again
replaces its own files."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from tollmeter.files import plain
from tollmeter.model import Failure, Index, Machine
from tollmeter.store.export import flat_parameters, metadata
from tollmeter.store.history import machine_key
from tollmeter.store.parquet import Table, write_parquet

_STARTED = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)")


def machine_name(machine: Machine) -> str:
    """The host's name, and digits that distinguish machines of one name."""
    digits = hashlib.sha256("\n".join((machine.host, *machine_key(machine))).encode()).hexdigest()[:8]
    return f"{plain(machine.host)}-{digits}"


def row_key(row: Mapping[str, Any]) -> int:
    """Equal for rows that may be compared: readers distinguish rows by one column in place of eight."""
    parts = [row[name] for name in ("probe", "revision", "abi", "target", "clock", "metric", "state")]
    words = msgspec.json.encode([*parts, sorted(row["parameters"].items())])
    return int.from_bytes(hashlib.sha256(words).digest()[:8], "little", signed=True)


def _keyed(table: Table) -> Table:
    stretches = (
        stretch._replace(shared={**stretch.shared, "key": row_key(stretch.shared)}) for stretch in table.stretches
    )
    return table._replace(columns=(*table.columns, "key"), stretches=stretches)


def write_tables(folder: Path, index: Index, tables: Iterable[tuple[str, Table]]) -> None:
    """Writes a run's named tables into the dataset, each file whole or not at all. Raises Failure (5)."""
    started = _STARTED.match(index.run.started)
    day, moment = (started[1], "".join(started.groups()[1:])) if started else ("unknown", "unknown")
    place = f"machine={machine_name(index.machine)}/day={day}/{plain(index.run.id)}-{moment}.parquet"
    try:
        for name, table in tables:
            path = folder / name / place
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".", dir=folder) as scratch:
                made = Path(scratch, path.name)
                flat = flat_parameters(_keyed(table) if name == "rows" else table)
                write_parquet(flat, made, metadata(index))
                os.replace(made, path)  # noqa: PTH105
    except OSError as error:
        raise Failure(f"cannot write {folder}: {error.strerror}", 5) from error
