# SPDX-License-Identifier: Apache-2.0
"""Command lines that a tired or hostile person would type: each ends soon, with a line and a documented code."""

from __future__ import annotations

import itertools
import random
import subprocess
import tempfile
from pathlib import Path

from storm.ended import Ended, Tally, ill, waited
from support.fake_probes import toll, tree

CODES = {0, 1, 2, 5, 6}
LONG = "9" * 400
VALUES = ("", " ", "-1", "0", LONG, "1e999", "nan", "..", "/", "~", "\x1b[2J", "\u202e", "a,b", "*", "$(id)", "--", "ü")
WHOLE = (
    ["run", "kernel.loop", f"size={LONG}"], ["run", "kernel.loop", "=4"], ["run", "="], ["run", "kernel.*", "x=y"],
    ["run", "--cpus", "1-0"], ["run", "--target", "local:foo"], ["run", "--resume", ""], ["run", "--resume", "."],
    ["run", "--resume", "/dev/zero"], ["show", ""], ["show", "/"], ["show", "/dev/zero"], ["show", "\x00"[:0]],
    ["show", "--format", "xml"], ["export", "--format", ""], ["export", "--what", "nothing"], ["report", "--out", ""],
    ["report", "nothing"], ["list"], ["list", ""], ["list", "runs", "--format", "yaml"], ["layout", "--abi", "none"],
    ["layout", "--only", "x"], ["nothing"], [""], ["--"], ["-"], ["--version", "x"], ["run", "nothing.toml"],
    ["time"], ["time", ""], ["time", "no-such-command"], ["time", "-r", "0", "true"], ["time", "-P", "n"],
    ["time", "'"], ["time", "--import", "/"], ["time", "--import", "/dev/null"], ["time", "--output", "/", "true"],
    ["time", "/"],
)  # fmt: skip
ASKED = {
    ("run", "kernel.loop"): (
        "--budget", "--precision", "--priority", "--seed", "--cpus", "--abi", "--target", "--out", "--format",
        "--against", "--clock", "--folder", "--trust",
    ),
    ("show", "none"): ("--format", "--only"), ("export", "none"): ("--format", "--what", "--out"),
    ("compare", "none"): ("--format",), ("gate", "none"): ("--limit",), ("history",): ("--format",),
    ("list", "runs"): ("--format",), ("fleet", "report"): ("--out",), ("gallery", "none"): ("--out",),
}  # fmt: skip
"""Options by the words before them, each with each of VALUES."""


def lines() -> list[list[str]]:
    """All there are, in a fixed order."""
    asked = (
        [*words, option, value]
        for words, options in ASKED.items()
        for option, value in itertools.product(options, VALUES)
    )
    return [*map(list, WHOLE), *asked]


def storm(seed: int, count: int) -> Tally:
    tally = Tally("command lines")
    chosen = random.Random(seed).sample(lines(), min(count, len(lines())))
    with tempfile.TemporaryDirectory(prefix="toll-storm.") as name:
        root = tree(Path(name) / "checkout", loop="good")
        for words in chosen:
            tally.one(repr(words)[:200], _wrong(root, words))
    return tally


def _wrong(root: Path, words: list[str]) -> str | None:
    short = ["--budget", "1s"] if words[:1] == ["run"] and "--budget" not in words and "--resume" not in words else []
    with tempfile.TemporaryFile() as said:
        with toll(root, *words, *short, stdout=subprocess.DEVNULL, stderr=said) as process:
            code = waited(process)
        said.seek(0)
        answer = Ended(code, b"", said.read())
    if answer.code and not answer.said.strip():
        return f"code {answer.code} without a word"
    return ill(answer, CODES) or ("a control character is printed" if b"\x1b[2J" in answer.said else None)
