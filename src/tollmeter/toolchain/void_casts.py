# SPDX-License-Identifier: Apache-2.0
"""Types laid over what a `void *` points at, of which no compiler warns: it takes such an address for aligned.

So the compiler reads the preprocessed file once more with each `void *` of the tree as `char *`. Casts are then warned
of as any other. What C converts without a cast is told as an incompatible pointer, of which the compiler is asked, a
line for each type, whether a cast of it would be warned of. System headers stay as they are: what malloc returns is
aligned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

Told = Sequence[dict[str, Any]]
"""What a compiler said, one entry a warning or error, in the form of -fdiagnostics-format=json."""
Compile = Callable[[str], Told]
"""Reads a preprocessed text and tells."""

CASTS = "-Wcast-align"
POINTERS = "-Wincompatible-pointer-types"
_MARKER = re.compile(r'# \d+ "(?:[^"\\]|\\.)*"((?: \d)*)$')
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


class Overlay(NamedTuple):
    """file: as the compiler names it. said: in words."""

    file: str
    line: int
    said: str


def overlays(text: str, compiled: Compile) -> list[Overlay]:
    """Where the preprocessed text lays a type that wants an alignment over what a `void *` points at."""
    text = with_bytes_for_void(text)
    told = compiled(text)
    said = "cast of void * to a type that wants an alignment"
    cast = [Overlay(*_place(one), said) for one in told if _is(one, CASTS)]
    converted = [(one, name) for one in told if _is(one, POINTERS) for name in [_converted_to(one)] if name]
    strict = _strict(text, list(dict.fromkeys(name for _, name in converted)), compiled)
    return cast + [
        Overlay(*_place(one), f"void * becomes {name} without a cast") for one, name in converted if name in strict
    ]


def with_bytes_for_void(text: str) -> str:
    """The tree's own lines with `char *` in place of `void *`; not those of system headers, which line markers tell."""
    lines = []
    ours = True
    for line in text.splitlines(keepends=True):
        marker = _MARKER.match(line)
        if marker:
            ours = "3" not in marker[1].split()
        lines.append(_VOID.sub("char", line) if ours and not marker else line)
    return "".join(lines)


def _converted_to(one: dict[str, Any]) -> str | None:
    """The type that bytes became; of an argument a note tells it."""
    said = [str(part["message"]) for part in (one, *one.get("children", ()))]
    return next((found[1] for form in _CONVERTED for text in said if (found := form.search(text))), None)


def _strict(text: str, types: Sequence[str], compiled: Compile) -> set[str]:
    """Those that want a larger alignment than bytes have; not known where the file ends: taken for such."""
    if not types:
        return set()
    asked = "".join(f"void toll_asks_{line}(char *at) {{ (void)({name})at; }}\n" for line, name in enumerate(types, 1))
    told = compiled(f'{text}\n# 1 "{_ASKED}"\n{asked}')
    lines = {_place(one)[1] for one in told if _place(one)[0] == _ASKED and (_is(one, CASTS) or one["kind"] == "error")}
    return {name for line, name in enumerate(types, 1) if line in lines}


def _is(one: dict[str, Any], option: str) -> bool:
    return str(one.get("option", "")).startswith(option)


def _place(one: dict[str, Any]) -> tuple[str, int]:
    if not one["locations"]:
        return "", 0
    caret = one["locations"][0]["caret"]
    return str(caret["file"]), int(caret["line"])


def errors(told: Iterable[dict[str, Any]]) -> list[str]:
    return [str(one["message"]) for one in told if one.get("kind") in ("error", "fatal error")]
