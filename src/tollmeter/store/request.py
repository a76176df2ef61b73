# SPDX-License-Identifier: Apache-2.0
"""run.toml: what was asked, with the seed. Together with the journal's first stream it says what is still missing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from tollmeter.model import PRECISION, Failure, Priority, Record, Suite, Value
from tollmeter.protocol import clean
from tollmeter.store import toml

FORMAT = 2
NAME = "run.toml"
_MOST_BYTES = 1 << 20


class Request(Record, frozen=True, forbid_unknown_fields=True):
    """suite is written out as it was, so that a later edit of its file does not change what this run is.

    started: ISO 8601, UTC. abis: asked for in place of the suite's own. settings: parameters fixed by the person.
    cpus: asked for; empty for all that may be used. targets: asked for in place of each ABI's own. runs_sd, widths:
    what earlier runs of this machine said when this one began: how much runs differ, by probe, and how wide the whole
    core is, by target and ABI. reused: what was taken over from another run, in a sentence; not written where empty.
    """

    id: str
    suite: Suite
    started: str
    seed: int
    budget_seconds: float
    tollmeter: str
    format: int = FORMAT
    abis: tuple[str, ...] = ()
    settings: dict[str, tuple[Value, ...]] = {}
    cpus: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    precision: float = PRECISION
    priority: Priority = "normal"
    runs_sd: dict[str, float] = {}
    widths: dict[str, dict[str, float]] = {}
    reused: str = ""


def write_request(folder: Path, request: Request) -> None:
    table = msgspec.to_builtins(request)
    text = toml.dumps({name: value for name, value in table.items() if name != "reused" or value})
    (folder / NAME).write_text(f"# What was asked. Measured values are in journal.jsonl.\n{text}", encoding="utf-8")


def read_request(folder: Path) -> Request:
    """Raises Failure: 2 where this is no run or a newer one, 5 where the file is damaged."""
    path = folder / NAME
    try:
        if not path.is_file():
            raise Failure(f"{folder} is not a run: it has no {NAME}")
        if path.stat().st_size > _MOST_BYTES:
            raise Failure(f"{path}: larger than any request", exit_code=5)
        table = clean(tomllib.loads(path.read_text(encoding="utf-8")))
        version = table.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise Failure(
                f"{path} has format {version}, and this Tollmeter reads up to {FORMAT}: a newer one is needed"
            )
        return msgspec.convert(table, Request)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", exit_code=5) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", exit_code=5) from error
