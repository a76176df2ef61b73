# SPDX-License-Identifier: Apache-2.0
"""Casts of a C tree to a type whose alignment the bytes may not have: found by the compiler of a strict ABI,
translation unit by translation unit.

`-Wcast-align=strict` warns of each pointer that is cast to a type of a larger alignment, whatever the CPU; casts
through `void *` are found separately (void_casts.py). No compiler can know whether the bytes are misaligned in fact, or
how often the line runs: a profile shows the latter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tollmeter.model import Abi
from tollmeter.toolchain.compiled_units import Cast, CastSurvey, Reader, Unit, errors, survey
from tollmeter.toolchain.symbols import Met
from tollmeter.toolchain.void_casts import CASTS, overlays

_OPTIONS = (f"{CASTS}=strict",)


def casts(units: Sequence[Unit], abi: Abi, compiler: str) -> CastSurvey:
    return survey(units, lambda unit: _read(Reader(unit, abi, compiler)))


def ranked(every: Iterable[Cast], met: Met | None = None) -> list[Cast]:
    """What ran most often first; then what the compiler warns of before what is hidden. met: by a run."""
    counted = [cast._replace(hits=met.from_on(Path(cast.file).name, cast.line) if met else 0) for cast in every]
    return sorted(counted, key=lambda cast: (-cast.hits, cast.hidden, cast.file, cast.line))


def _read(reader: Reader) -> CastSurvey:
    diagnostics = reader.diagnostics(_OPTIONS)
    known = tuple(_casts_in(diagnostics, reader))
    if failures := errors(diagnostics):
        return CastSurvey(known, 1, {reader.unit.file: failures[0]})
    laid = overlays(reader.preprocessed(), lambda text: reader.diagnostics(_OPTIONS, text))
    places = {(cast.file, cast.line) for cast in known}
    through = [Cast(reader.place(cast.file), cast.line, cast.message, hidden=True) for cast in laid]
    return CastSurvey((*known, *(cast for cast in through if (cast.file, cast.line) not in places)), 1, {})


def _casts_in(diagnostics: Iterable[dict[str, Any]], reader: Reader) -> Iterable[Cast]:
    for diagnostic in diagnostics:
        if str(diagnostic.get("option", "")).startswith(CASTS):
            caret = diagnostic["locations"][0]["caret"]
            yield Cast(reader.place(caret["file"]), int(caret["line"]), str(diagnostic["message"]))
