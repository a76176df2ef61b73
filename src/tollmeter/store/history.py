# SPDX-License-Identifier: Apache-2.0
"""A line for each earlier run of this machine, from which the next run learns the between-run variance. Derived from
the runs; without it the shipped values are used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import force_setattr

from tollmeter.experiment.runs_differ import Cost
from tollmeter.files import open_regular
from tollmeter.model import Machine, Record, machine_key
from tollmeter.model.former_names import present_row_names

NAME = "history.jsonl"
_MOST_RUNS = 40
_MOST_BYTES = 64 << 20


class Remembered(Record, frozen=True):
    """The remembered results of one run. run: start, and folder name, which runs elsewhere may share. machine: as
    `machine_key` gives it. place: host and kernel. rows: by row name; empty if the run's verdict forbids them.
    widths: of the uncontended core by target and ABI."""

    run: str
    machine: tuple[str, str, str]
    place: str
    rows: dict[str, Cost]
    widths: dict[str, dict[str, float]] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "rows", present_row_names(self.rows))


def host_and_kernel(machine: Machine) -> str:
    """Returns the key of host and kernel, within which two runs are comparable."""
    return f"{machine.host} {machine.kernel}"


def recall(folder: Path, machine: Machine) -> list[Remembered]:
    """Returns the last runs of this kind of machine, oldest first; runs without rows precede them and displace none."""
    runs = {run.run: run for run in _all(folder) if run.machine == machine_key(machine)}.values()
    silent, telling = ([run for run in runs if bool(run.rows) is has_rows][-_MOST_RUNS:] for has_rows in (False, True))
    return [*silent, *telling]


def remember(folder: Path, run: Remembered) -> None:
    """Stores a run; does nothing if the folder cannot be written."""
    with contextlib.suppress(OSError), open_regular(folder / NAME, "ab", follow=False) as file:
        file.write(msgspec.json.encode(run) + b"\n")


def _all(folder: Path) -> Iterable[Remembered]:
    path = folder / NAME
    with contextlib.suppress(OSError):
        if path.stat().st_size > _MOST_BYTES:
            return
        with open_regular(path) as file:
            for line in file:
                with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
                    yield msgspec.json.decode(line, type=Remembered)
