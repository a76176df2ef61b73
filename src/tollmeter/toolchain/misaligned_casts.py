# SPDX-License-Identifier: Apache-2.0
"""Casts of a C tree to a type whose alignment the bytes may not have: found by the compiler of a strict ABI,
translation unit by translation unit.

`-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU; casts
through `void *` are found separately (void_casts.py). No compiler can know whether the bytes are misaligned in fact, or
how often the line runs: a profile shows the latter."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter import commands
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
    """hits: how often a profile met this line, or a later one of its function, where the cast pointer is used; 0
    without a profile. through_void: the compiler itself does not warn of it, and the allocation may be aligned."""

    file: str
    line: int
    message: str
    hits: int = 0
    through_void: bool = False


class CastSurvey(NamedTuple):
    """troubles: what kept a translation unit from being read, by its file."""

    casts: tuple[Cast, ...]
    units: int
    troubles: dict[str, str]


def units_of(folder: Path) -> list[Unit]:
    """The C files of a tree with their compile commands. Raises Failure (2) where these are missing."""
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


def casts(units: Sequence[Unit], abi: Abi, compiler: str) -> CastSurvey:
    """Every cast that the compiler warns of, each place once, in the order of the files."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        surveys = list(pool.map(lambda unit: _read(unit, abi, compiler), units))
    seen = dict.fromkeys(cast for survey in surveys for cast in survey.casts)
    troubles = {file: reason for survey in surveys for file, reason in survey.troubles.items()}
    return CastSurvey(tuple(seen), len(units), troubles)


def ranked(every: Iterable[Cast], met: Met | None = None) -> list[Cast]:
    """What ran most often first; then what the compiler warns of before what comes through `void *`. met: by a run."""
    counted = [cast._replace(hits=met.from_on(Path(cast.file).name, cast.line) if met else 0) for cast in every]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.through_void, cast.file, cast.line))


def _read(unit: Unit, abi: Abi, compiler: str) -> CastSurvey:
    try:
        words = [*compiler.split(), *abi.flags, *_reading_flags(unit)]
        diagnostics = _compiled([*words, "-x", "c", unit.file], unit)
        if failures := errors(diagnostics):
            return CastSurvey(tuple(_casts_in(diagnostics, unit)), 1, {unit.file: failures[0]})
        text = _run([*words, "-x", "c", "-E", unit.file], unit).stdout
        laid = overlays(text, lambda more: _compiled([*words, "-fno-builtin", "-x", "cpp-output", "-"], unit, more))
    except (OSError, commands.TimeoutExpired, ValueError) as error:
        return CastSurvey((), 1, {unit.file: str(error)})
    known = list(_casts_in(diagnostics, unit))
    places = {(cast.file, cast.line) for cast in known}
    through = [Cast(_at(unit, cast.file), cast.line, cast.message, through_void=True) for cast in laid]
    return CastSurvey((*known, *(cast for cast in through if (cast.file, cast.line) not in places)), 1, {})


def _compiled(words: Sequence[str], unit: Unit, text: str | None = None) -> list[dict[str, Any]]:
    done = _run([*words, "-fsyntax-only", f"{CASTS}=strict", "-fdiagnostics-format=json"], unit, text)
    return list(_diagnostics(done.stderr))


def _diagnostics(output: str) -> Iterator[dict[str, Any]]:
    """gcc writes one JSON array for each file that it reads: up to version 13 in one line, and then over many."""
    end = 0
    while match := _ARRAY.search(output, end):
        array, end = _JSON.raw_decode(output, match.start())
        yield from array


def _run(words: Sequence[str], unit: Unit, text: str | None = None) -> commands.CompletedProcess[str]:
    return commands.run(
        "file", words, cwd=unit.directory, input=text, capture_output=True, text=True, errors="replace",
        timeout=_LASTS_S, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip


def _casts_in(diagnostics: Iterable[dict[str, Any]], unit: Unit) -> Iterable[Cast]:
    for diagnostic in diagnostics:
        if str(diagnostic.get("option", "")).startswith(CASTS):
            caret = diagnostic["locations"][0]["caret"]
            yield Cast(_at(unit, caret["file"]), int(caret["line"]), str(diagnostic["message"]))


def _at(unit: Unit, file: str) -> str:
    return str(_shown(Path(unit.directory) / file))


def _reading_flags(unit: Unit) -> list[str]:
    """The flags that determine how the file is read: no compiler, no output, and no flag of another CPU's."""
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
