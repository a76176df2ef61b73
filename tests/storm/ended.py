# SPDX-License-Identifier: Apache-2.0
"""How what a storm started ended, and the figures that are kept of it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import typer.main

HANG_S = 60
_TELLS_S, _BEAT_S, _STILL_S = 10.0, 0.5, 3.0


class Ended(NamedTuple):
    """code: None where it hung and had to be killed."""

    code: int | None
    out: bytes
    said: bytes


class Tally:
    """Complaints of one kind of storm: what went wrong, in a line each. latest: the one that was begun last."""

    latest: Tally | None = None

    def __init__(self, title: str) -> None:
        Tally.latest = self
        self.title = title
        self.count = 0
        self.complaints: list[str] = []

    def one(self, what: str, complaint: str | None) -> None:
        """Counts one; complaint: None where it went as it should."""
        self.count += 1
        if complaint:
            self.complaints.append(f"{what}: {complaint}")

    def figures(self) -> str:
        return f"{self.count} {self.title}, {len(self.complaints)} wrong"


def waited(process: subprocess.Popen[Any], limit_s: int = HANG_S) -> int | None:
    """The code of a process; None where it hung, and is killed. Counts seconds that this process saw pass: a machine
    that was suspended while both stood still would use the limit up at once by the clock."""
    for _ in range(limit_s):
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(1)
    process.kill()
    process.wait()
    return None


def ended(words: list[str], limit_s: int = HANG_S, **more: object) -> Ended:
    """By files and not by pipes: what is left behind would keep those open, and this would wait for it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
        process = subprocess.Popen(words, stdout=out, stderr=said, **more)  # type: ignore[call-overload]
        code = waited(process, limit_s)
        for file in (out, said):
            file.seek(0)
        return Ended(code, out.read(), said.read())


def ill(told: Ended, codes: set[int]) -> str | None:
    """What is wrong with an end, whatever was asked for."""
    if told.code is None:
        return "it hung"
    if b"Traceback" in told.said or b"Fatal Python error" in told.said:
        return f"a traceback: {told.said.splitlines()[-1].decode(errors='replace')}"
    return None if told.code in codes else f"code {told.code}: {told.said[-200:]!r}"


def marked(mark: bytes) -> dict[int, str]:
    """The processes in whose environment this stands, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = words.decode(errors="replace")
    return found


@contextlib.contextmanager
def one_command() -> Iterator[None]:
    """While entered the command line's parser is made once, and not for each call: that was nine tenths of a call."""
    with mock.patch.object(typer.main, "get_command", functools.cache(typer.main.get_command)):
        yield


def told(name: str, seed: int, count: int) -> Sequence[str]:
    """The complaints of one storm. Prints how far it is, in time for a log that is watched."""
    began, over = time.monotonic(), threading.Event()

    def tell() -> None:
        while not over.wait(_TELLS_S):
            so_far = Tally.latest.figures() if Tally.latest else "begins"
            print(f"{name}: {so_far}, of {count}; {time.monotonic() - began:.0f} s", flush=True)

    threading.Thread(target=tell, daemon=True).start()
    tally: Tally = importlib.import_module(f"storm.{name}").storm(seed, count)
    over.set()
    print("\n".join([*tally.complaints, f"{tally.figures()}; {time.monotonic() - began:.0f} s"]), flush=True)
    return tally.complaints


class Pulse(threading.Thread):
    """While entered, finds how long this process, and with it the machine, stood still at most."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stood_s = 0.0
        self._over = threading.Event()

    def run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(_BEAT_S):
            self.stood_s = max(self.stood_s, time.monotonic() - last)
            last = time.monotonic()

    def __enter__(self) -> Pulse:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def awake(trial: Callable[[], str | None]) -> str | None:
    """The complaint of a trial during which the machine did not stand still: that spends budgets and deadlines."""
    while True:
        with Pulse() as pulse:
            complaint = trial()
        if complaint is None or pulse.stood_s < _STILL_S:
            return complaint


class Hung(Exception):
    """A call did not return in time."""


def within(limit_s: int, call: Callable[[], int]) -> int:
    """Calls it in this process. Raises Hung after so many seconds that it saw pass, as `waited`."""
    passed = itertools.count(1)

    def ring(*_: object) -> None:
        if next(passed) >= limit_s:
            raise Hung

    before, limit = signal.signal(signal.SIGALRM, ring), signal.setitimer(signal.ITIMER_REAL, 1, 1)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *limit)  # of the test that calls: it begins anew
