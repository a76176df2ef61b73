# SPDX-License-Identifier: Apache-2.0
"""Approved texts in tests/snapshots: compared with what is printed today, or renewed by `make snapshots`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "snapshots"
OF_THIS_DAY = {
    r"\d+ (January|November) 20\d\d, \d\d:\d\d UTC|20\d\d-\d\d-\d\dT[\d:]+(\+00:00|Z)": "DATE",
    r"(?<=tollmeter\W{4})\d+\.\d+\.\d+": "VERSION",
    r"\b[0-9a-f]{40,64}\b": "HASH",
}
"""Patterns of texts that differ between days, versions and compilers, and their replacements."""

FEW = 4
"""Lines of a removed table that are shown, by which a reviewer recognises it."""


def approve(name: str, text: str, folder: Path | None = None) -> None:
    """Compares a text with the approved one, line by line. folder: its path is replaced in the text."""
    text = text.replace(str(folder), "FOLDER") if folder else text
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip("\n") + "\n"
    for pattern, word in OF_THIS_DAY.items():
        text = re.sub(pattern, word, text)
    file = FOLDER / f"{name}.txt"
    if os.environ.get("TOLL_SNAPSHOTS") == "renew":
        file.write_text(text, encoding="utf-8")
    approved = file.read_text(encoding="utf-8") if file.exists() else ""
    assert text == approved, "\n".join([f"`make snapshots` approves this as {name}:", *changes(approved, text)])


def changes(old: str, new: str) -> Iterator[str]:
    """Yields new and changed lines with +, and removed lines without a replacement with -."""
    lines = old.splitlines(), new.splitlines()
    compared = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    for way, old_from, old_to, new_from, new_to in compared:
        if way == "delete":
            gone = [f"-{line}" for line in lines[0][old_from:old_to]]
            yield from gone[:FEW] if len(gone) <= FEW else [*gone[: FEW - 1], f"- and {len(gone) - FEW + 1} more"]
        elif way != "equal":
            yield from (f"+{line}" for line in lines[1][new_from:new_to])


def approve_variations(name: str, base: str, variations: Mapping[str, str]) -> None:
    """Compares the differences between each text and the base with the approved ones; each has a title."""
    parts = (["", f"# {title}", *changes(base, text)] for title, text in variations.items())
    approve(name, "\n".join(line for part in parts for line in part))
