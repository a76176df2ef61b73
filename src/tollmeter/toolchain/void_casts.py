# SPDX-License-Identifier: Apache-2.0
"""Casts through a `void *` to a type of a larger alignment. No compiler warns of them: it assumes that such an address
is aligned.

So the compiler reads the preprocessed file once more with each `void *` of the tree as `char *`. It then warns of these
casts as of any other. A conversion without a cast becomes an incompatible pointer; a further line for each type shows
whether a cast to it would be warned of. System headers stay as they are: what malloc returns is aligned."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tollmeter.toolchain.compiled_units import rewritten

Diagnostics = Sequence[dict[str, Any]]
"""A compiler's warnings and errors, one entry each, in the form of -fdiagnostics-format=json."""
Compile = Callable[[str], Diagnostics]
"""Compiles a preprocessed text and returns the diagnostics."""

CASTS = "-Wcast-align"
POINTERS = "-Wincompatible-pointer-types"
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


class VoidCast(NamedTuple):
    """file: as the compiler names it. message: the compiler's words."""

    file: str
    line: int
    message: str


def overlays(text: str, compiled: Compile) -> list[VoidCast]:
    """Where the preprocessed text lays a type that wants an alignment over what a `void *` points at."""
    text = rewritten(text, lambda line: _VOID.sub("char", line))
    diagnostics = compiled(text)
    warning = "cast of void * to a type that wants an alignment"
    cast = [VoidCast(*_place(diagnostic), warning) for diagnostic in diagnostics if _is(diagnostic, CASTS)]
    converted = [
        (diagnostic, name)
        for diagnostic in diagnostics
        if _is(diagnostic, POINTERS)
        for name in [_converted_to(diagnostic)]
        if name
    ]
    strict = _strict(text, list(dict.fromkeys(name for _, name in converted)), compiled)
    return cast + [
        VoidCast(*_place(diagnostic), f"void * becomes {name} without a cast")
        for diagnostic, name in converted
        if name in strict
    ]


def _converted_to(diagnostic: dict[str, Any]) -> str | None:
    """The type that bytes became; for an argument a note names it."""
    messages = [str(part["message"]) for part in (diagnostic, *diagnostic.get("children", ()))]
    return next((match[1] for form in _CONVERTED for text in messages if (match := form.search(text))), None)


def _strict(text: str, types: Sequence[str], compiled: Compile) -> set[str]:
    """Those that want a larger alignment than bytes have; not known where the file ends: taken for such."""
    if not types:
        return set()
    asked = "".join(f"void toll_asks_{line}(char *at) {{ (void)({name})at; }}\n" for line, name in enumerate(types, 1))
    diagnostics = compiled(f'{text}\n# 1 "{_ASKED}"\n{asked}')
    lines = {
        _place(diagnostic)[1]
        for diagnostic in diagnostics
        if _place(diagnostic)[0] == _ASKED and (_is(diagnostic, CASTS) or diagnostic["kind"] == "error")
    }
    return {name for line, name in enumerate(types, 1) if line in lines}


def _is(diagnostic: dict[str, Any], option: str) -> bool:
    return str(diagnostic.get("option", "")).startswith(option)


def _place(diagnostic: dict[str, Any]) -> tuple[str, int]:
    if not diagnostic["locations"]:
        return "", 0
    caret = diagnostic["locations"][0]["caret"]
    return str(caret["file"]), int(caret["line"])
