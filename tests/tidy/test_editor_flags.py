# SPDX-License-Identifier: Apache-2.0
"""An editor's language server compiles every probe with the flags of compile_flags.txt."""

from __future__ import annotations

import subprocess

from tidy.house import ROOT


def test_a_language_server_finds_no_error_in_a_probe() -> None:
    flags = (ROOT / "compile_flags.txt").read_text(encoding="ascii").splitlines()
    sources = sorted(map(str, (ROOT / "probes").glob("*/*.c")))
    own = [source for source in sources if "/runtime/bare/" not in source]
    words = ["clang", "-fsyntax-only", *flags, *own]
    checked = subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True)
    assert "error:" not in checked.stderr, checked.stderr
