# SPDX-License-Identifier: Apache-2.0
"""The translation units of a source tree, each read by a compiler of any ABI for the places that it warns of."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.model import Abi, Failure, Record

DATABASE = "compile_commands.json"
_LASTS_S = 120
_ARRAY, _JSON = re.compile(r"^\[", re.MULTILINE), json.JSONDecoder()
_MARKER = re.compile(r'# \d+ "(?:[^"\\]|\\.)*"((?: \d)*)$')
_TAKES_A_WORD = ("-o", "-MF", "-MT", "-MQ")
_OWN_CPU = ("-m", "-W", "-O", "-g", "-fsanitize", "-fcf-protection")
_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".C": "c++"}


class Unit(Record, frozen=True):
    """One entry of a compilation database."""

    directory: str
    file: str
    command: str = ""
    arguments: tuple[str, ...] = ()


class Cast(NamedTuple):
    """A place that a compiler warns of. hits: how often a profile met this line, or a later one of its function, where
    the cast pointer is used; 0 without a profile. hidden: the compiler warns of it in a changed text only."""

    file: str
    line: int
    message: str
    hits: int = 0
    hidden: bool = False


class CastSurvey(NamedTuple):
    """troubles: what kept a translation unit from being read, by its file."""

    casts: tuple[Cast, ...]
    units: int
    troubles: dict[str, str]


class Reader(NamedTuple):
    """Reads one translation unit as an ABI's compiler does."""

    unit: Unit
    abi: Abi
    compiler: str

    @property
    def language(self) -> str:
        return _LANGUAGES[Path(self.unit.file).suffix]

    def diagnostics(self, options: Sequence[str], text: str | None = None) -> list[dict[str, Any]]:
        """Warnings and errors of the file, or of a preprocessed text in its place."""
        if text is None:
            source = ["-x", self.language, self.unit.file]
        else:
            source = ["-fno-builtin", "-x", "cpp-output" if self.language == "c" else "c++-cpp-output", "-"]
        done = self._run(["-fsyntax-only", "-fdiagnostics-format=json", *options, *source], text)
        return list(_diagnostics(done.stderr))

    def preprocessed(self) -> str:
        return self._run(["-E", "-x", self.language, self.unit.file]).stdout

    def place(self, file: str) -> str:
        path = (Path(self.unit.directory) / file).resolve()
        return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)

    def _run(self, options: Sequence[str], text: str | None = None) -> commands.CompletedProcess[str]:
        words = [*self.compiler.split(), *self.abi.flags, *_reading_flags(self.unit), *options]
        return commands.run(
            "file", words, cwd=self.unit.directory, input=text, capture_output=True, text=True, errors="replace",
            timeout=_LASTS_S, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip


def units_of(folder: Path, languages: Sequence[str] = ("c",)) -> list[Unit]:
    """The files of a tree with their compile commands. Raises Failure (2) where these are missing."""
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
    absolute = (msgspec.structs.replace(unit, directory=str(root / unit.directory)) for unit in read)
    return [unit for unit in absolute if _LANGUAGES.get(Path(unit.file).suffix) in languages]


def survey(units: Sequence[Unit], read: Callable[[Unit], CastSurvey]) -> CastSurvey:
    """Every place that a compiler warns of, each once, in the order of the files."""

    def read_or_trouble(unit: Unit) -> CastSurvey:
        try:
            return read(unit)
        except (OSError, commands.TimeoutExpired, ValueError) as error:
            return CastSurvey((), 1, {unit.file: str(error)})

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        surveys = list(pool.map(read_or_trouble, units))
    seen = dict.fromkeys(cast for survey in surveys for cast in survey.casts)
    troubles = {file: reason for survey in surveys for file, reason in survey.troubles.items()}
    return CastSurvey(tuple(seen), len(units), troubles)


def rewritten(text: str, line: Callable[[str], str]) -> str:
    """A preprocessed text with each of the tree's own lines changed; not those of system headers, which line markers
    show."""
    lines = []
    ours = True
    for written in text.splitlines(keepends=True):
        marker = _MARKER.match(written)
        if marker:
            ours = "3" not in marker[1].split()
        lines.append(line(written) if ours and not marker else written)
    return "".join(lines)


def errors(diagnostics: Iterable[dict[str, Any]]) -> list[str]:
    return [
        str(diagnostic["message"]) for diagnostic in diagnostics if diagnostic.get("kind") in ("error", "fatal error")
    ]


def _diagnostics(output: str) -> Iterator[dict[str, Any]]:
    """gcc writes one JSON array for each file that it reads: up to version 13 in one line, and then over many."""
    end = 0
    while match := _ARRAY.search(output, end):
        array, end = _JSON.raw_decode(output, match.start())
        yield from array


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
