# SPDX-License-Identifier: Apache-2.0
"""The information in a probe's source: its method, the functions that it names, and the reasons for which it refuses a
number.

tests/probes/test_shape.py checks that every probe has the form that is read here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.model import Failure

ROLES = ("body", "control", "check")
"""The functions of `toll_probe` that a reader needs to judge a number."""
_COMMENT = re.compile(r"\A/\* SPDX-License-Identifier: [\w.-]+\n \*\n(.*?) \*/", re.DOTALL)
_INCLUDED = re.compile(r'^#include "([\w./]+)"$', re.MULTILINE)
_TABLE = "const struct toll_probe toll_probe = {"
_FIELD = re.compile(r"^    \.(\w+) =\s+(\w+),(?:\s|$)", re.MULTILINE)
_REFUSALS = re.compile(r'\btoll_(skip|wrong|fail)\(\w+,\s*((?:"(?:[^"\\]|\\.)*"\s*(?:PRI\w+\s*)?)+)')
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_SHARED = ("runtime",)
"""Folder whose headers any probe may include."""


class SourceFunction(NamedTuple):
    """A function in a probe's source. role: its role in the probe. text: its lines, empty if no file of the probe
    defines it."""

    role: str
    name: str
    text: str


class ProbeSource(NamedTuple):
    """The source of a probe. path: below probes/. method: paragraphs of the comment at the beginning of the file and of
    each header of its family, by the file's name. functions: the functions of ROLES that it names. wrong:
    formats of its messages for a wrong answer; skipped: formats of its messages for a number that it cannot give."""

    path: Path
    method: tuple[tuple[str, tuple[str, ...]], ...]
    functions: tuple[SourceFunction, ...]
    wrong: tuple[str, ...]
    skipped: tuple[str, ...]

    def named(self, role: str) -> SourceFunction | None:
        return next((function for function in self.functions if function.role == role), None)


def read_source(probes: Path, name: str) -> ProbeSource:
    """Returns the source of a probe. probes: folder of the sources. Raises Failure (2) if the probe does not exist."""
    family, _, stem = name.partition(".")
    path = next((path for suffix in ("c", "cc") if (path := probes / family / f"{stem}.{suffix}").is_file()), None)
    if path is None:
        raise Failure(f"{probes} has no source of {name}")
    texts = _with_headers(path)
    heads = ((file.name, _paragraphs(comment[1])) for file, text in texts.items() if (comment := _COMMENT.match(text)))
    sources = [*texts.values()]
    return ProbeSource(
        path.relative_to(probes), tuple(heads), tuple(_functions(sources, probes)),
        tuple(_refusals(sources, "wrong")), tuple(_refusals(sources, "skip")),
    )  # fmt: skip


def _with_headers(path: Path) -> dict[Path, str]:
    """Returns the file and the headers of its family that it includes, transitively."""
    texts, left = dict[Path, str](), [path]
    while left:
        file = left.pop(0)
        if file not in texts and file.is_file():
            texts[file] = file.read_text(encoding="utf-8")
            left += [file.parent / found for found in _INCLUDED.findall(texts[file])]
    return texts


def _paragraphs(comment: str) -> tuple[str, ...]:
    """Returns paragraphs without the margin of stars. Lines of one paragraph become one; a list keeps its lines."""
    bare = "\n".join(line.removeprefix(" *").removeprefix(" ") for line in comment.splitlines())
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n|\n(?=[*-] )", bare) if part.strip())


def _functions(texts: Sequence[str], probes: Path) -> Iterator[SourceFunction]:
    """Yields the functions. texts: texts of the probe's files. A function that all probes share is in a header of the
    runtime."""
    fields = dict(_FIELD.findall(next((text for text in texts if _TABLE in text), "").partition(_TABLE)[2]))
    for role in ROLES:
        if name := fields.get(role):
            shared = (file.read_text(encoding="utf-8") for folder in _SHARED for file in (probes / folder).glob("*.h"))
            found = (text for source in (*texts, *shared) if (text := _definition(source, name)))
            yield SourceFunction(role, name, next(found, ""))


def _definition(source: str, name: str) -> str:
    form = rf"^(?:template <[^\n]*>\n)?[A-Za-z_][^;{{}}#=\n]*\b{name}\([^;{{}}]*\)[^;{{}}\n]* {{\n.*?^}}$"
    found = re.search(form, source, re.MULTILINE | re.DOTALL)
    return found[0] if found else ""


def _refusals(texts: Sequence[str], kind: str) -> Iterator[str]:
    """Yields each format once. A value that it prints appears as in the source."""
    found = (match[2] for text in texts for match in _REFUSALS.finditer(text) if match[1] == kind)
    yield from dict.fromkeys("".join(_TEXT.findall(quoted)) for quoted in found)
