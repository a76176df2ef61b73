# SPDX-License-Identifier: Apache-2.0
"""Commands that may last minutes: a line when each begins and ends, and one every few seconds in between. A Ctrl-C ends
them all."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

BEAT_S = 10.0
_LOOKS_EVERY_S = 0.1
_LONGEST_S = 2400.0
_SHOWN = 90

_stopping = threading.Event()
_turn = threading.Lock()


def tell(sentence: str) -> None:
    with _turn:
        print(sentence, flush=True)


def stop() -> None:
    """Ends what runs, and lets nothing more begin."""
    _stopping.set()


def ended(title: str, words: Sequence[str], log: Path, environment: Mapping[str, str]) -> int:
    """The exit status of a command. What it says is in the log."""
    if _stopping.is_set():
        raise KeyboardInterrupt
    began = time.monotonic()
    with log.open("wb") as said, subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment, start_new_session=True
    ) as process:  # fmt: skip
        status = _awaited(process, title, log, began)
    if _stopping.is_set():
        raise KeyboardInterrupt
    tell(f"{title}: status {status} after {time.monotonic() - began:.0f} s")
    return status


def _awaited(process: subprocess.Popen[bytes], title: str, log: Path, began: float) -> int:
    told = began
    while (status := process.poll()) is None:
        time.sleep(_LOOKS_EVERY_S)
        now = time.monotonic()
        if now - told >= BEAT_S:
            tell(f"{title}: {now - began:.0f} s  {_last_line(log)}")
            told = now
        if _stopping.is_set() or now - began > _LONGEST_S:
            os.killpg(process.pid, signal.SIGKILL)
    return status


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip()[:_SHOWN] for line in reversed(lines) if line.strip()), "")
