# SPDX-License-Identifier: Apache-2.0
"""Tables of the verbs: in a pipe each row is one line, on a terminal names stay whole."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from tollmeter import notices
from tollmeter.cli.main import main
from tollmeter.cli.printing import print_columns
from tollmeter.library import bundling
from tollmeter.model import first_few

LONG = "words " * 40
ROWS = [("first", "qemu-user:aarch64", LONG), ("second", "local", LONG)]
TABLE = ("name", "runs", "why"), ROWS, "table"
PROGRAM = f"from tollmeter.cli.printing import print_columns; print_columns(*{TABLE!r}, whole=('runs',))"


def test_in_a_pipe_each_row_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_columns(*TABLE)
    lines = [line for line in capsys.readouterr().out.splitlines() if "words" in line]
    assert len(lines) == len(ROWS)
    assert all(LONG.strip() in line for line in lines)


def test_a_bundle_may_be_written_to_standard_output(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(bundling, "bundled", lambda *_: (b"#!/bin/sh\n", {"x86_64": 1}))
    assert main(["bundle", "kernel.loop", "--out", "-"]) == 0
    assert capfdbinary.readouterr().out == b"#!/bin/sh\n"


def test_a_narrow_terminal_folds_words_and_no_names() -> None:
    """A real terminal of 40 columns."""
    master, slave = pty.openpty()
    told = {**os.environ, "COLUMNS": "40", "TERM": "xterm", "NO_COLOR": "1", "PYTHONPATH": "src"}
    subprocess.run([sys.executable, "-c", PROGRAM], stdout=slave, env=told, check=True)
    os.close(slave)
    text = b""
    while chunk := _read(master):
        text += chunk
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()
    assert any("qemu-user:aarch64" in line for line in lines)
    assert len(lines) > 2 * len(ROWS) + 4
    assert max(map(len, lines)) <= 40


def _read(master: int) -> bytes:
    """What the terminal holds; nothing more where its other side is closed."""
    try:
        return os.read(master, 4096)
    except OSError:
        return b""


def test_a_sentence_of_several_runs_is_told_once_where_that_is_asked_for() -> None:
    told: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(notices, "_listeners", [told.append])
        with notices.once_each():
            for sentence in ("a", "b", "a"):
                notices.notify(sentence)
        notices.notify("a")
    assert told == ["a", "b", "a"]


def test_of_many_names_the_first_few_are_printed_and_the_rest_counted() -> None:
    assert first_few(["a"], 1) == "a"
    assert first_few(("a", "b", "c"), 1) == "a and 2 more"
    assert first_few(("a", "b", "c"), 2, "; ") == "a; b and 1 more"
