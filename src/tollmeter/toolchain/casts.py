# SPDX-License-Identifier: Apache-2.0
"""Casts of a C tree that lay a type over bytes which may not be aligned for it: found by the compiler of a strict ABI,
translation unit by translation unit.

`-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU. What it
cannot know is whether the bytes are misaligned in fact, or how often the line runs: the latter a profile tells.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter.model import Abi, Failure, Record

DATABASE = "compile_commands.json"
_WARNING = "-Wcast-align"
_LASTS_S = 120
_TAKES_A_WORD = ("-o", "-MF", "-MT", "-MQ")
_OWN_CPU = ("-m", "-W", "-O", "-g", "-fsanitize", "-fcf-protection")


class Unit(Record, frozen=True):
    """One entry of a compilation database."""

    directory: str
    file: str
    command: str = ""
    arguments: tuple[str, ...] = ()


class Cast(NamedTuple):
    """hits: how often a run was met in this line; 0 where none was profiled."""

    file: str
    line: int
    said: str
    hits: int = 0


class Found(NamedTuple):
    """troubles: what kept a translation unit from being read, by its file."""

    casts: tuple[Cast, ...]
    units: int
    troubles: dict[str, str]


def units_of(folder: Path) -> list[Unit]:
    """The C files of a tree; a relative directory is relative to the database. Raises Failure (2) where it does not say
    how they are compiled."""
    path = folder / DATABASE if folder.is_dir() else folder
    try:
        read = msgspec.json.decode(path.read_bytes(), type=list[Unit])
    except FileNotFoundError as error:
        raise Failure(
            f"{path} is not there, which tells how each file is compiled: "
            "cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, or bear -- make, writes it"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path} is no compilation database: {error}") from error
    root = path.absolute().parent
    whole = (msgspec.structs.replace(unit, directory=str(root / unit.directory)) for unit in read)
    return [unit for unit in whole if unit.file.endswith(".c")]


def casts(units: Sequence[Unit], abi: Abi, compiler: str) -> Found:
    """Every cast that the compiler warns of, each place once, in the order of the files."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        told = list(pool.map(lambda unit: _read(unit, abi, compiler), units))
    seen = dict.fromkeys(cast for one in told for cast in one.casts)
    troubles = {file: said for one in told for file, said in one.troubles.items()}
    return Found(tuple(seen), len(units), troubles)


def ranked(found: Iterable[Cast], hits: dict[tuple[str, int], int]) -> list[Cast]:
    """The line that ran most often first. hits: by a file's name and line."""
    counted = [cast._replace(hits=hits.get((Path(cast.file).name, cast.line), 0)) for cast in found]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.file, cast.line))


def _read(unit: Unit, abi: Abi, compiler: str) -> Found:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        words = [*compiler.split(), *abi.flags, *_kept(unit), "-fsyntax-only", "-Wcast-align=strict"]
        done = subprocess.run(
            [*words, "-fdiagnostics-format=json", "-x", "c", unit.file], cwd=unit.directory, capture_output=True,
            text=True, check=False, timeout=_LASTS_S, env=environment,
        )  # fmt: skip
        said = [one for line in done.stderr.splitlines() if line.startswith("[") for one in msgspec.json.decode(line)]
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return Found((), 1, {unit.file: str(error)})
    errors = [str(one["message"]) for one in said if one.get("kind") in ("error", "fatal error")]
    return Found(tuple(_casts_in(said, unit)), 1, {unit.file: errors[0]} if errors else {})


def _casts_in(said: Iterable[dict[str, Any]], unit: Unit) -> Iterable[Cast]:
    for one in said:
        if str(one.get("option", "")).startswith(_WARNING):
            caret = one["locations"][0]["caret"]
            yield Cast(str(_shown(Path(unit.directory) / caret["file"])), int(caret["line"]), str(one["message"]))


def _kept(unit: Unit) -> list[str]:
    """What says how the file is to be read: no compiler, no output, and no flag of another CPU's."""
    words = [*unit.arguments] or shlex.split(unit.command)
    kept: list[str] = []
    skip = True  # the compiler
    for word in words:
        if skip:
            skip = False
        elif word in _TAKES_A_WORD:
            skip = True
        elif not word.startswith(_OWN_CPU) and word not in ("-c", "-MD", "-MMD", "-MP", unit.file):
            kept.append(word)
    return kept


def _shown(path: Path) -> Path:
    try:
        return path.resolve().relative_to(Path.cwd())
    except ValueError:
        return path.resolve()
