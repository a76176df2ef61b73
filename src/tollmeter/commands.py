# SPDX-License-Identifier: Apache-2.0
"""Starts all processes: no other file does. Every call names the origin of its command's words, which is never a run's
folder: its content is data, and may be untrusted."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, CompletedProcess, Popen, SubprocessError, TimeoutExpired
from typing import Any, Literal

from tollmeter.model import Failure

__all__ = [
    "DEVNULL", "PIPE", "STDOUT", "CompletedProcess", "Origin", "Popen", "SubprocessError", "TimeoutExpired", "run",
    "start",
]  # fmt: skip

Origin = Literal["checkout", "typed", "file"]
"""Origin of a command's words: Tollmeter itself, including its builds; the command line of this process; or a file of
the user, such as an ABI, a suite or compile_commands.json, which is trusted before it is read (files.py)."""
_OF_A_RUN = "journal.jsonl"
Word = str | os.PathLike[str]


def run(origin: Origin, words: Sequence[Word], *, check: bool = False, **options: Any) -> CompletedProcess[Any]:
    """Runs a command as subprocess.run does. Raises Failure as `start` does."""
    _refuse(origin, words)
    return subprocess.run(words, check=check, **options)


def start(origin: Origin, words: Sequence[Word], **options: Any) -> Popen[Any]:
    """Starts a command as subprocess.Popen does. Raises Failure (5) for a command with a path inside a run's folder."""
    _refuse(origin, words)
    return subprocess.Popen(words, **options)


def _refuse(origin: Origin, words: Sequence[Word]) -> None:
    for word in [os.fspath(word) for word in words]:
        is_of_a_run = False
        with contextlib.suppress(OSError, ValueError):
            is_of_a_run = word.startswith("/") and len(word) < 4096 and (Path(word).parent / _OF_A_RUN).is_file()
        if is_of_a_run:
            raise Failure(f"{word} is in a run's folder ({origin}): no command with a path of one is started", 5)
