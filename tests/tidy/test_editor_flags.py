# SPDX-License-Identifier: Apache-2.0
"""An editor's language server compiles probes with the flags of compile_flags.txt: those that together include every
header, which is where a flag is missed. All 142 would take eight seconds."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from tidy.house import ROOT, text, under


def covering() -> Iterator[str]:
    """Sources of probes, until no header is left that none of them includes."""
    sources = [name for name in under("probes/", ".c") if name.count("/") == 2 and "/runtime/" not in name]
    headers = {name: {*re.findall(r"#include (.+)", text(name))} for name in sources}
    left = set().union(*headers.values())
    while left:
        most = max(sources, key=lambda name: len(headers[name] & left))
        left -= headers[most]
        yield most


def test_a_language_server_finds_no_error_in_a_probe() -> None:
    words = ["clang", "-fsyntax-only", *text("compile_flags.txt").splitlines(), *covering()]
    checked = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True)
    assert "error:" not in checked.stderr, checked.stderr
