# SPDX-License-Identifier: Apache-2.0
"""A line for each earlier run of this machine, from which the next run learns the between-run variance. Derived from
the runs; without it the shipped values are used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tollmeter.experiment.runs_differ import EarlierRun
from tollmeter.files import open_regular
from tollmeter.model import Machine, machine_key

NAME = "history.jsonl"
_MOST_RUNS = 40
_MOST_BYTES = 64 << 20


def host_and_kernel(machine: Machine) -> str:
    """Returns the key of host and kernel, within which two runs are comparable."""
    return f"{machine.host} {machine.kernel}"


def recall(folder: Path, machine: Machine) -> list[EarlierRun]:
    """Returns the last runs of this kind of machine that have rows, oldest first, after the last runs without rows:
    each kind is limited by itself."""
    runs = {run.run: run for run in _all(folder) if run.machine == machine_key(machine)}.values()
    without_rows, with_rows = (
        [run for run in runs if bool(run.rows) is has_rows][-_MOST_RUNS:] for has_rows in (False, True)
    )
    return [*without_rows, *with_rows]


def remember(folder: Path, run: EarlierRun) -> None:
    """Stores a run; does nothing if the folder cannot be written."""
    with contextlib.suppress(OSError), open_regular(folder / NAME, "ab", follow=False) as file:
        file.write(msgspec.json.encode(run) + b"\n")


def _all(folder: Path) -> Iterable[EarlierRun]:
    path = folder / NAME
    with contextlib.suppress(OSError):
        if path.stat().st_size > _MOST_BYTES:
            return
        with open_regular(path) as file:
            for line in file:
                with contextlib.suppress(msgspec.DecodeError, UnicodeError, RecursionError):
                    yield msgspec.json.decode(line, type=EarlierRun)
