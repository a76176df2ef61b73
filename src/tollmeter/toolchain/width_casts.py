# SPDX-License-Identifier: Apache-2.0
"""Lines of C and C++ that are right where `long`, pointers and time_t have one ABI's widths and wrong where they have
another's: what the compiler of the second reports and that of the first does not.

No compiler warns of an explicit cast of a time_t to a `long`. So each reads a preprocessed C file once more, with every
cast of the tree to a type as wide as a pointer turned into one to a pointer. It then warns of each operand of another
width; g++ does not warn of wider ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tollmeter.model import Abi
from tollmeter.toolchain.compiled_units import Cast, CastSurvey, Reader, Unit, errors, rewritten, survey

LANGUAGES = ("c", "c++")
_OPTIONS = ("-Wformat", "-Wconversion", "-Wno-sign-conversion", "-Wno-float-conversion")
_TO_POINTER = "-Wint-to-pointer-cast"
_AS_WIDE = r"(?:(?:un)?signed\s+)?long(?:\s+(?:un)?signed)?(?:\s+int)?|s?size_t|u?intptr_t|ptrdiff_t"
_CAST = re.compile(rf"\(\s*(?:const\s+)?(?:{_AS_WIDE})\s*\)")


class _Report(NamedTuple):
    file: str
    line: int
    column: int
    option: str


def width_casts(units: Sequence[Unit], source: tuple[Abi, str], target: tuple[Abi, str]) -> CastSurvey:
    """source, target: the ABI that the tree is written for and the one that it is ported to, each with a compiler."""
    return survey(units, lambda unit: _read(Reader(unit, *source), Reader(unit, *target)))


def _read(source: Reader, target: Reader) -> CastSurvey:
    before, after = (reader.diagnostics(_options(reader)) for reader in (source, target))
    if failures := errors(before) or [str(entry["message"]) for entry in after if entry["kind"] == "fatal error"]:
        return CastSurvey((), 1, {source.unit.file: failures[0]})
    known = _new(before, after)
    explicit = _new(_of_casts(source), _of_casts(target)) if _narrows(source, target) else ()
    places = {(entry.file, entry.line) for entry in known}
    message = "cast of an integer that is wider than the type"
    casts = [Cast(target.place(at.file), at.line, text) for at, text in known.items()]
    casts += [
        Cast(target.place(at.file), at.line, message, hidden=True)
        for at in explicit
        if (at.file, at.line) not in places
    ]
    return CastSurvey(tuple(dict.fromkeys(casts)), 1, {})


def _narrows(source: Reader, target: Reader) -> bool:
    """A cast to a type that becomes wider loses nothing."""
    widths = [int(reader.abi.elf.get("class", 64)) for reader in (target, source)]
    return source.language == "c" and widths[0] < widths[1]


def _options(reader: Reader) -> tuple[str, ...]:
    """g++ refuses a cast of a pointer to a shorter integer, of which gcc warns."""
    return (*_OPTIONS, "-fpermissive") if reader.language == "c++" else _OPTIONS


def _of_casts(reader: Reader) -> list[dict[str, Any]]:
    text = rewritten(reader.preprocessed(), _with_pointers)
    return [diagnostic for diagnostic in reader.diagnostics((), text) if diagnostic.get("option") == _TO_POINTER]


def _with_pointers(line: str) -> str:
    return _CAST.sub("(char *)", line)


def _new(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> dict[_Report, str]:
    """Reports of the second list that the first one does not have, with their messages."""
    known = {_report(diagnostic) for diagnostic in before}
    return {at: str(diagnostic["message"]) for diagnostic in after if (at := _report(diagnostic)) and at not in known}


def _report(diagnostic: dict[str, Any]) -> _Report | None:
    if not diagnostic["locations"]:
        return None
    caret = diagnostic["locations"][0]["caret"]
    return _Report(str(caret["file"]), int(caret["line"]), int(caret["column"]), str(diagnostic.get("option", "")))
