# SPDX-License-Identifier: Apache-2.0
"""Every source says its licence, and nothing that is committed knows the machine or the workplace it was written on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidy.house import files, hold, text, under

LICENCE = "SPDX-License-Identifier: Apache-2.0"
SOURCES = (".py", ".c", ".cc", ".h", ".S", ".mk", ".toml", ".in", ".sh", ".js", ".css", ".j2")
NAMED = ("toll", "Makefile", ".ci/run", ".clang-format")
WITHIN_LINES = 3

# Each with what to write in its place. The words are put together here, so that this file does not break its own rule.
FOREIGN = {
    r"(?<![\w.$}])/(?:work|root|home/\w+)(?:/\w|\b(?![-\w]))": "a path of one machine; take it from the caller",
    r"\b(?:" + r"pypi\." + r"org|files\." + r"pythonhosted|registry\." + r"npmjs|deb\." + r"debian\.org)\b": (
        "a registry's host; whoever installs has their own"
    ),
    r"--(?:extra-)?index-" + "url|--trusted-" + "host": "a registry; whoever installs has their own",
    r"\b[Ii]ss" + r"ue #?\d": "a number of some tracker; say the reason itself",
}


def unlicensed(name: str, content: str) -> Iterator[str]:
    if LICENCE not in "\n".join(content.splitlines()[:WITHIN_LINES]):
        yield f"{name} has no licence: begin it with `{LICENCE}` in a comment"


def foreign(name: str, content: str) -> Iterator[str]:
    for pattern, mend in FOREIGN.items():
        for match in re.finditer(pattern, content):
            line = content.count("\n", 0, match.start()) + 1
            yield f"{name}:{line} has {match[0]!r}: {mend}"


def test_every_source_says_its_licence() -> None:
    # A recording is what a program once wrote, and stays so.
    sources = [name for name in (*under("", *SOURCES), *NAMED) if text(name).strip() and "/recordings/" not in name]
    assert len(sources) > len(NAMED)
    hold(said for name in sources for said in unlicensed(name, text(name)))


def test_nothing_knows_the_machine_it_was_written_on() -> None:
    hold(said for name in files() for said in foreign(name, text(name)))


def test_the_rules_bite() -> None:
    assert list(unlicensed("a.c", "int a;\n"))
    assert not list(unlicensed("toll", f"#!/bin/sh\n# {LICENCE}\n"))
    host = "py" + "pi.org"
    for bad in ("cd /ho" + "me/ann/x", 'open("/wo' + 'rk/main")', "(/ro" + "ot/.cache)", f"https://{host}/simple"):
        assert list(foreign("a.md", bad)), bad
    names = ("docs/wo" + "rk/x", "/proc/self/ro" + "ot", "the root of /wo" + "rker", "${HOME}/ro" + "ot/x")
    for good in (*names, "an issue of 3 parts"):
        assert not list(foreign("a.md", good)), good
