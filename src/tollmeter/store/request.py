# SPDX-License-Identifier: Apache-2.0
"""Files next to a journal. run.toml: the request, with the seed; with the journal's first stream it determines the
missing visits. Also the profiles of a run, its modelled caches, and its stack distances."""

from __future__ import annotations

import contextlib
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec.structs import force_setattr

from tollmeter.files import first_bytes, read_regular, write_whole
from tollmeter.model import PRECISION, Distances, Failure, Modelled, Pair, Priority, Profile, Record, Suite, Value
from tollmeter.model.former_names import STATES, present_row_names
from tollmeter.protocol import clean, clean_suite

FORMAT = 2
NAME = "run.toml"
_MOST_BYTES = 1 << 19
"""Highest size of a request: Python's parser takes two seconds for a megabyte of tables or numbers. The request of a
default run has 14 KB, and an interleaved comparison 300 bytes for each pair."""
_MOST_DOTS = 4_000
"""Highest number of dots in a line: Python's parser compares each part of a key with all parts before it, which takes
minutes for 1 MB of them."""
_MOST_SD = 100
"""Highest standard deviation of a logarithm: the interval of a higher one would overflow."""
_SELDOM = ("least_cycles", "settings", "private_bytes", "all_points", "narrowed", "planned_s", "reused")
"""Fields that are not written if they are empty."""


class Request(Record, frozen=True, forbid_unknown_fields=True):
    """The request of a run. suite: stored completely, so that a later edit of its file does not change this run.
    started: ISO 8601, UTC. abis, targets, cpus: those requested; empty for the suite's, the ABIs' or all. settings:
    parameters beside the suite, of older versions. runs_sd, widths: from earlier runs of this machine, the between-run
    deviation by group of rows, and the uncontended width by target and ABI. private_bytes: bytes that certainly fit
    into private caches, or 0. against: words of an interleaved comparison; pairs: its points. folder: folder in which
    probes create files. peer: the other end of a network. all_points: visit all requested points in any budget.
    narrowed: points left out for the budget; planned_s: the sufficient budget, or 0. reused: visits of another run that
    are used, in a sentence. least_cycles: lowest core cycles of system calls in earlier runs on this kind of CPU, by
    row name."""

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
    precision: Annotated[float, msgspec.Meta(gt=0, le=1)] = PRECISION
    priority: Priority = "normal"
    counters: bool = True
    runs_sd: dict[str, Annotated[float, msgspec.Meta(ge=0, le=_MOST_SD)]] = {}
    widths: dict[str, dict[str, float]] = {}
    private_bytes: Annotated[int, msgspec.Meta(ge=0)] = 0
    against: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()
    folder: str = ""
    peer: str = ""
    all_points: bool = False
    narrowed: str = ""
    planned_s: Annotated[float, msgspec.Meta(ge=0)] = 0
    reused: str = ""
    least_cycles: dict[str, Annotated[float, msgspec.Meta(gt=0)]] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "runs_sd", present_row_names(self.runs_sd))
        force_setattr(self, "least_cycles", present_row_names(self.least_cycles))

    @property
    def is_of_commands(self) -> bool:
        """Returns whether this is a run of `toll time` or `toll bill`: `words` is its command line, and its suite
        selects no probe."""
        return not self.suite.select and not self.suite.workload


def places_of(request: Request) -> list[str]:
    """Returns the words of `toll run` that name its targets and external resources, other than this machine and the
    run's folder."""
    words = ["--target", ",".join(request.targets)] if request.targets else []
    words += ["--folder", request.folder] if request.folder else []
    return words + (["--peer", request.peer] if request.peer else [])


def write_request(folder: Path, request: Request) -> None:
    table = msgspec.to_builtins(request)
    text = dumps({name: value for name, value in table.items() if name not in _SELDOM or value})
    write_whole(folder / NAME, f"# What was asked. Measured values are in journal.jsonl.\n{text}".encode())


def read_request(folder: Path) -> Request:
    """Returns the request of a run. Raises Failure: 2 if the folder is no run or a newer one, 5 if the file is
    damaged."""
    path = folder / NAME
    try:
        content = read_regular(path, _MOST_BYTES)
        if max(line.count(b".") for line in content.split(b"\n")) > _MOST_DOTS:
            raise ValueError("one of its keys has too many parts")
        written = tomllib.loads(content.decode())
        table = clean(written)
        version = table.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise Failure(
                f"{path} has format {version}, and this Tollmeter reads up to {FORMAT}: a newer one is needed"
            )
        suite = clean_suite(written["suite"]) if isinstance(written.get("suite"), dict) else None
        return msgspec.convert({**table, "suite": suite}, Request)
    except FileNotFoundError as error:
        raise Failure(f"{folder} is not a run: it has no {NAME}") from error
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", exit_code=5) from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", exit_code=5) from error


_STARTED = re.compile(rb'\nstarted = ("[^\n]*")\n')
_WORDS = re.compile(rb"\nwords = (\[[^\n]*\])\n")
_SUITE = re.compile(rb'\n\[suite\]\nname = ("[^\n]*")\n')
_HEADING_BYTES = 1 << 14


def start_and_words(folder: Path) -> tuple[str, str]:
    """Returns when a run began, and the words that were typed, else the name of its suite. Reads only the first lines
    of the request: reading all takes a hundred times as long. Raises Failure as `read_request` does."""
    with contextlib.suppress(OSError, ValueError):
        text = b"\n" + first_bytes(folder / NAME, _HEADING_BYTES)
        found = [pattern.search(text) for pattern in (_STARTED, _WORDS, _SUITE)]
        started, words, suite = (each and _told(each[1]) for each in found)
        if started and suite:
            return started, words or shlex.join([suite])
    request = read_request(folder)
    return request.started, shlex.join(request.words or [request.suite.name])


@lru_cache
def _told(text: bytes) -> str:
    """Returns a TOML text that is also JSON, parsed; several texts are joined as a shell command line. Results are
    cached, since most runs of a list share few suites. Raises ValueError."""
    decoded = clean(msgspec.json.decode(text, type=str | list[str]))
    return decoded if isinstance(decoded, str) else shlex.join(decoded)


# ---- profiles and models ---------------------------------------------------------------------------------------------

KEPT = "profiles.json"
_NAMES: dict[type[Record], str] = {Profile: KEPT, Modelled: "modelled.json", Distances: "distances.json"}
_MOST_KEPT_BYTES = 64 << 20
T = TypeVar("T", bound=Record)


def store_records(folder: Path, form: type[T], records: Iterable[T]) -> None:
    write_whole(folder / _NAMES[form], msgspec.json.encode(tuple(records)))


def stored_records(folder: Path, form: type[T]) -> tuple[T, ...]:
    """Returns stored records; empty if none were taken. Raises Failure (5) if the file is damaged."""
    path = folder / _NAMES[form]
    try:
        records = clean(msgspec.json.decode(read_regular(path, _MOST_KEPT_BYTES)))
        if form is Profile:
            records = [record | {"state": STATES.get(record.get("state"), record.get("state"))} for record in records]
        return tuple(msgspec.convert(records, list[form]))  # type: ignore[valid-type]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}", 5) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise Failure(f"{path} is damaged: {clean(str(error))[:200]}", 5) from error


# ---- TOML ------------------------------------------------------------------------------------------------------------


def dumps(table: Mapping[str, Any]) -> str:
    """Returns a table as TOML. None has no form in TOML and is left out. Keys are quoted if necessary."""
    return "\n".join(_table(table, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if _is_table(value) or _is_array_of_tables(value)}
    for key, value in table.items():
        if key not in inner and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in inner.items():
        name = ".".join(map(_key, (*path, key)))
        for item in [value] if _is_table(value) else value:
            yield ""
            yield f"[{name}]" if _is_table(value) else f"[[{name}]]"
            yield from _table(item, (*path, key))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_table, value))


def _key(key: str) -> str:
    bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
    return key if bare else _value(key)


def _value(value: Any) -> str:
    """Returns a TOML value. JSON's strings and numbers are valid TOML, except for one control character."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
