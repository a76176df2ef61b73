# SPDX-License-Identifier: Apache-2.0
"""A run folder from the journal of a bundle, or from what a serial line brought of it (docs/bundle.md).

The file is data, and may come from anybody: nothing of it is executed, and no file of an archive is extracted."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from tollmeter.library import places
from tollmeter.library.prepare import with_history
from tollmeter.model import Failure
from tollmeter.plan import measured_caches
from tollmeter.plan.points import on_machine
from tollmeter.protocol import clean, clean_suite, joined
from tollmeter.store.capture import Capture, captured
from tollmeter.store.journal import Journal
from tollmeter.store.request import Request


class Imported(NamedTuple):
    """lost: streams that were not whole."""

    folder: Path
    visits: int
    lost: int


def imported(path: Path, out: Path | None) -> Imported:
    """Raises Failure: 2 where there is no such file or the folder is taken, 5 where it holds no run of a bundle."""
    capture = captured(path)
    request = request_of(path, capture)
    folder = out.resolve() if out else places.new_folder(request.suite.name)
    write_run(capture, request, folder)
    places.remember(folder)
    return Imported(folder, len(capture.visits), capture.lost)


def write_run(capture: Capture, request: Request, folder: Path) -> None:
    """A run's folder. Raises Failure: 2 where the folder holds a run, 5 where it cannot be written."""
    with Journal.create(folder, msgspec.structs.replace(request, id=folder.name), joined(capture.first)) as journal:
        for stream in capture.visits:
            journal.append(stream)
        journal.note(capture.session)


def request_of(path: Path, capture: Capture) -> Request:
    """Raises Failure: 2 where the journal has none, 5 where it cannot be read."""
    machine = capture.head.machine
    assert machine is not None
    line = next((line for line in capture.first if line.kind == "request"), None)
    if line is None:
        raise Failure(
            f"{path} does not say what was requested, as a bundle's journal does: of another run, copy the whole folder"
        )
    try:
        record = msgspec.json.decode(line.text)
        suite = clean_suite(record.pop("suite"))
        fields = {key: value for key, value in clean(record).items() if key not in ("k", "n", "c")}
        started = fields.pop("started", "") or datetime.now(UTC).isoformat(timespec="seconds")
        request = msgspec.convert({**fields, "started": started, "suite": suite, "id": ""}, Request)
    except (ValueError, RecursionError, KeyError, AttributeError, TypeError) as error:
        raise Failure(f"{path}: its request cannot be read: {clean(str(error))[:200]}", 5) from error
    seen = measured_caches(machine, request.cpus)
    request = msgspec.structs.replace(request, suite=on_machine(request.suite, seen))
    return with_history(request, machine, {probe.probe for probe in capture.head.probes})
