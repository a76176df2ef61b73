# SPDX-License-Identifier: Apache-2.0
"""Casts of a source tree that are wrong under another ABI: each translation unit is read by that ABI's compiler."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from tollmeter import commands
from tollmeter.model import Abi, Failure, Record
from tollmeter.toolchain.symbols import Met

DATABASE = "compile_commands.json"
_LASTS_S = 120
Diagnostic = dict[str, Any]
"""One warning or error of a compiler, in the form of -fdiagnostics-format=json."""
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

    def diagnostics(self, options: Sequence[str], text: str | None = None) -> list[Diagnostic]:
        """Warnings and errors of the file, or of a preprocessed text in its place."""
        if text is None:
            source = ["-x", self.language, self.unit.file]
        else:
            source = ["-fno-builtin", "-x", "cpp-output" if self.language == "c" else "c++-cpp-output", "-"]
        output = self._run(["-fsyntax-only", "-fdiagnostics-format=json", *options, *source], text).stderr
        # gcc writes one JSON array for each file that it reads: up to version 13 in one line, and then over many.
        diagnostics: list[Diagnostic] = []
        end = 0
        while match := _ARRAY.search(output, end):
            array, end = _JSON.raw_decode(output, match.start())
            diagnostics += array
        return diagnostics

    def preprocessed(self) -> str:
        return self._run(["-E", "-x", self.language, self.unit.file]).stdout

    def cast(self, diagnostic: Diagnostic, message: str, hidden: bool = False) -> Cast:
        """Where the compiler reports it, below the current folder if it is there."""
        file, line, _ = _place(diagnostic)
        path = (Path(self.unit.directory) / file).resolve()
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return Cast(str(shown), line, message, hidden=hidden)

    def _run(self, options: Sequence[str], text: str | None = None) -> commands.CompletedProcess[str]:
        """With the flags that determine how the file is read: no output, and no flag of another CPU's."""
        given = iter((self.unit.arguments or shlex.split(self.unit.command))[1:])
        kept: list[str] = []
        for word in given:
            if word in _TAKES_A_WORD:
                next(given, "")
            elif not word.startswith(_OWN_CPU) and word not in ("-c", "-MD", "-MMD", "-MP", self.unit.file):
                kept.append(word)
        words = [*self.compiler.split(), *self.abi.flags, *kept, *options]
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
        if not folder.exists():
            raise Failure(f"folder {folder} does not exist") from error
        raise Failure(
            f"{path} does not exist; it states how each file is compiled: "
            "`cmake -DCMAKE_EXPORT_COMPILE_COMMANDS=ON .` or `bear -- make` writes it"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise Failure(f"{path} is not a compilation database: {error}") from error
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
    is_ours = True
    for written in text.splitlines(keepends=True):
        marker = _MARKER.match(written)
        if marker:
            is_ours = "3" not in marker[1].split()
        lines.append(line(written) if is_ours and not marker else written)
    return "".join(lines)


def errors(diagnostics: Iterable[Diagnostic], kinds: Sequence[str] = ("error", "fatal error")) -> list[str]:
    return [str(diagnostic["message"]) for diagnostic in diagnostics if diagnostic.get("kind") in kinds]


def _place(diagnostic: Diagnostic) -> tuple[str, int, int]:
    """File, line and column; an empty name where it has none."""
    if not diagnostic["locations"]:
        return "", 0, 0
    caret = diagnostic["locations"][0]["caret"]
    return str(caret["file"]), int(caret["line"]), int(caret["column"])


def _is(diagnostic: Diagnostic, option: str) -> bool:
    return str(diagnostic.get("option", "")).startswith(option)


# ---- misaligned casts ------------------------------------------------------------------------------------------------

# Casts of a C tree to a type whose alignment the bytes may not have: found by the compiler of a strict ABI.
# `-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU. No
# compiler can know whether the bytes are misaligned in fact, or how often the line runs: a profile shows the latter.
#
# No compiler warns of casts through a `void *` either: it assumes that the address is aligned. So it reads the
# preprocessed file once more with each `void *` of the tree as `char *`, and then warns of these casts as of any other.
# A conversion without a cast becomes an incompatible pointer; a further line for each type shows whether a cast to it
# would be warned of. System headers stay as they are: what malloc returns is aligned.

_ALIGNMENT, _STRICT = "-Wcast-align", ("-Wcast-align=strict",)
_VOID = re.compile(r"\bvoid(?=(?:\s|\bconst\b|\bvolatile\b)*\*(?!\s*\)\s*0\b))")
"""The target of a pointer; not that of a null pointer, which is a constant only as `void *`."""
_BYTES = r"'(?:const |volatile )*char \*'"
_TYPE = r"'([^']+)'(?: \{aka '[^']+'\})?"
_CONVERTED = [
    re.compile(form)
    for form in (
        rf"(?:initialization of|assignment to) {_TYPE} from incompatible pointer type {_BYTES}",
        rf"returning {_BYTES} from a function with incompatible return type {_TYPE}",
        rf"expected {_TYPE} but argument is of type {_BYTES}",
    )
]
_ASKED = "types that void * was converted to"


def misaligned_casts(units: Sequence[Unit], abi: Abi, compiler: str) -> CastSurvey:
    return survey(units, lambda unit: _misaligned(Reader(unit, abi, compiler)))


def ranked(casts: Iterable[Cast], met: Met | None = None) -> list[Cast]:
    """What ran most often first; then what the compiler warns of before what is hidden. met: by a run."""
    counted = [cast._replace(hits=met.from_on(Path(cast.file).name, cast.line) if met else 0) for cast in casts]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.hidden, cast.file, cast.line))


def _misaligned(reader: Reader) -> CastSurvey:
    diagnostics = reader.diagnostics(_STRICT)
    casts = [reader.cast(entry, str(entry["message"])) for entry in diagnostics if _is(entry, _ALIGNMENT)]
    if failures := errors(diagnostics):
        return CastSurvey(tuple(casts), 1, {reader.unit.file: failures[0]})
    places = {(cast.file, cast.line) for cast in casts}
    casts += [cast for cast in _void_casts(reader) if (cast.file, cast.line) not in places]
    return CastSurvey(tuple(casts), 1, {})


def _void_casts(reader: Reader) -> list[Cast]:
    """Where a type that wants an alignment is laid over what a `void *` points at."""
    text = rewritten(reader.preprocessed(), lambda line: _VOID.sub("char", line))
    diagnostics = reader.diagnostics(_STRICT, text)
    warning = "cast of void * to a type that wants an alignment"
    casts = [reader.cast(entry, warning, hidden=True) for entry in diagnostics if _is(entry, _ALIGNMENT)]
    incompatible = [entry for entry in diagnostics if _is(entry, "-Wincompatible-pointer-types")]
    converted = [(entry, name) for entry in incompatible if (name := _converted_to(entry))]
    strict = _strict_types(reader, text, list(dict.fromkeys(name for _, name in converted)))
    return casts + [
        reader.cast(entry, f"void * becomes {name} without a cast", hidden=True)
        for entry, name in converted
        if name in strict
    ]


def _converted_to(diagnostic: Diagnostic) -> str | None:
    """The type that bytes became; for an argument a note names it."""
    messages = [str(part["message"]) for part in (diagnostic, *diagnostic.get("children", ()))]
    return next((match[1] for form in _CONVERTED for text in messages if (match := form.search(text))), None)


def _strict_types(reader: Reader, text: str, types: Sequence[str]) -> set[str]:
    """Those that want a larger alignment than bytes have; not known where the file ends: taken for such."""
    if not types:
        return set()
    asked = "".join(f"void toll_asks_{line}(char *at) {{ (void)({name})at; }}\n" for line, name in enumerate(types, 1))
    diagnostics = reader.diagnostics(_STRICT, f'{text}\n# 1 "{_ASKED}"\n{asked}')
    reported = [entry for entry in diagnostics if _is(entry, _ALIGNMENT) or entry["kind"] == "error"]
    lines = {line for file, line, _ in map(_place, reported) if file == _ASKED}
    return {name for line, name in enumerate(types, 1) if line in lines}


# ---- casts of a width ------------------------------------------------------------------------------------------------

# Lines of C and C++ that are right where `long`, pointers and time_t have one ABI's widths and wrong where they have
# another's: what the compiler of the second reports and that of the first does not.
#
# No compiler warns of an explicit cast of a time_t to a `long`. So each reads a preprocessed C file once more, with
# every cast of the tree to a type as wide as a pointer turned into one to a pointer. It then warns of each operand of
# another width; g++ does not warn of wider ones.

WIDTH_LANGUAGES = ("c", "c++")
_WIDTHS = ("-Wformat", "-Wconversion", "-Wno-sign-conversion", "-Wno-float-conversion")
_TO_POINTER = "-Wint-to-pointer-cast"
_AS_WIDE = r"(?:(?:un)?signed\s+)?long(?:\s+(?:un)?signed)?(?:\s+int)?|s?size_t|u?intptr_t|ptrdiff_t"
_CAST = re.compile(rf"\(\s*(?:const\s+)?(?:{_AS_WIDE})\s*\)")


def width_casts(units: Sequence[Unit], source: tuple[Abi, str], target: tuple[Abi, str]) -> CastSurvey:
    """source, target: the ABI that the tree is written for and the one that it is ported to, each with a compiler."""
    return survey(units, lambda unit: _of_widths(Reader(unit, *source), Reader(unit, *target)))


def _of_widths(source: Reader, target: Reader) -> CastSurvey:
    # g++ refuses a cast of a pointer to a shorter integer, of which gcc warns.
    options = (*_WIDTHS, "-fpermissive") if source.language == "c++" else _WIDTHS
    before, after = source.diagnostics(options), target.diagnostics(options)
    if failures := errors(before) or errors(after, ("fatal error",)):
        return CastSurvey((), 1, {source.unit.file: failures[0]})
    reported = _new(before, after)
    casts = [target.cast(entry, str(entry["message"])) for entry in reported]
    # A cast to a type that becomes wider loses nothing.
    class_of_source, class_of_target = (int(reader.abi.elf.get("class", 64)) for reader in (source, target))
    if source.language == "c" and class_of_target < class_of_source:
        message = "cast of an integer that is wider than the type"
        places = {_place(entry)[:2] for entry in reported}
        explicit = _new(_of_pointers(source), _of_pointers(target))
        casts += [target.cast(entry, message, hidden=True) for entry in explicit if _place(entry)[:2] not in places]
    return CastSurvey(tuple(dict.fromkeys(casts)), 1, {})


def _of_pointers(reader: Reader) -> list[Diagnostic]:
    text = rewritten(reader.preprocessed(), lambda line: _CAST.sub("(char *)", line))
    return [diagnostic for diagnostic in reader.diagnostics((), text) if diagnostic.get("option") == _TO_POINTER]


def _new(before: Iterable[Diagnostic], after: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Reports of the second list that the first one does not have, with a place; the last one of each."""

    def key(diagnostic: Diagnostic) -> tuple[object, ...]:
        return *_place(diagnostic), str(diagnostic.get("option", ""))

    known = {key(diagnostic) for diagnostic in before}
    reports = {key(diagnostic): diagnostic for diagnostic in after if diagnostic["locations"]}
    return [diagnostic for at, diagnostic in reports.items() if at not in known]
