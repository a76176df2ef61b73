# SPDX-License-Identifier: Apache-2.0
"""Casts of a C tree that lay a type over bytes which may not be aligned for it: found by the compiler of a strict ABI,
translation unit by translation unit.

`-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU; what comes
through `void *` is found beside (void_casts.py). What no compiler can know is whether the bytes are misaligned in fact,
or how often the line runs: the latter a profile tells.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter.model import Abi, Failure, Record
from tollmeter.toolchain.symbols import Met
from tollmeter.toolchain.void_casts import CASTS, errors, overlays

DATABASE = "compile_commands.json"
_LASTS_S = 120
_ARRAY, _JSON = re.compile(r"^\[", re.MULTILINE), json.JSONDecoder()
_TAKES_A_WORD = ("-o", "-MF", "-MT", "-MQ")
_OWN_CPU = ("-m", "-W", "-O", "-g", "-fsanitize", "-fcf-protection")


class Unit(Record, frozen=True):
    """One entry of a compilation database."""

    directory: str
    file: str
    command: str = ""
    arguments: tuple[str, ...] = ()


class Cast(NamedTuple):
    """hits: how often a run was met in this line or behind it in its function, where what was cast is used; 0 where
    none was profiled. through_void: what the compiler itself is
    silent about, and which may be aligned by who made it."""

    file: str
    line: int
    said: str
    hits: int = 0
    through_void: bool = False


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
            f"{path} does not exist; it states how each file is compiled: "
            "`cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON .` or `bear -- make` writes it"
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


def ranked(found: Iterable[Cast], met: Met | None = None) -> list[Cast]:
    """What ran most often first; then what the compiler warns of before what comes through `void *`. met: by a run."""
    counted = [cast._replace(hits=met.from_on(Path(cast.file).name, cast.line) if met else 0) for cast in found]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.through_void, cast.file, cast.line))


def _read(unit: Unit, abi: Abi, compiler: str) -> Found:
    try:
        words = [*compiler.split(), *abi.flags, *_kept(unit)]
        told = _told([*words, "-x", "c", unit.file], unit)
        if found := errors(told):
            return Found(tuple(_casts_in(told, unit)), 1, {unit.file: found[0]})
        text = _run([*words, "-x", "c", "-E", unit.file], unit).stdout
        laid = overlays(text, lambda more: _told([*words, "-fno-builtin", "-x", "cpp-output", "-"], unit, more))
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        return Found((), 1, {unit.file: str(error)})
    known = list(_casts_in(told, unit))
    places = {(one.file, one.line) for one in known}
    through = [Cast(_at(unit, one.file), one.line, one.said, through_void=True) for one in laid]
    return Found((*known, *(one for one in through if (one.file, one.line) not in places)), 1, {})


def _told(words: Sequence[str], unit: Unit, text: str | None = None) -> list[dict[str, Any]]:
    done = _run([*words, "-fsyntax-only", f"{CASTS}=strict", "-fdiagnostics-format=json"], unit, text)
    return list(_diagnostics(done.stderr))


def _diagnostics(said: str) -> Iterator[dict[str, Any]]:
    """gcc writes one JSON array for each file that it reads: up to version 13 in one line, and then over many."""
    end = 0
    while found := _ARRAY.search(said, end):
        array, end = _JSON.raw_decode(said, found.start())
        yield from array


def _run(words: Sequence[str], unit: Unit, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, cwd=unit.directory, input=text, capture_output=True, text=True, errors="replace", check=False,
        timeout=_LASTS_S, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip


def _casts_in(told: Iterable[dict[str, Any]], unit: Unit) -> Iterable[Cast]:
    for one in told:
        if str(one.get("option", "")).startswith(CASTS):
            caret = one["locations"][0]["caret"]
            yield Cast(_at(unit, caret["file"]), int(caret["line"]), str(one["message"]))


def _at(unit: Unit, file: str) -> str:
    return str(_shown(Path(unit.directory) / file))


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
