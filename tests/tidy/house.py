# SPDX-License-Identifier: Apache-2.0
"""What the rules of the house are held against: every file that is, or would be, committed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def files() -> tuple[str, ...]:
    """Paths of all files from the root, those of the index and those that nothing ignores."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return tuple(sorted(name for name in told.split("\0") if name and (ROOT / name).is_file()))


def under(folder: str, *endings: str) -> list[str]:
    """The files of a folder with one of some endings."""
    return [name for name in files() if name.startswith(folder) and name.endswith(endings)]


@cache
def text(name: str) -> str:
    """A file's text, empty for one that is none."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def hold(complaints: Iterable[str]) -> None:
    """Fails with every complaint, each of which names its file and the mend."""
    found = sorted(complaints)
    assert not found, "\n".join(["", *found])
