# SPDX-License-Identifier: Apache-2.0
"""How far a build is: silent while it is short, a few lines in a log, one line written over on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from tollmeter.notices import Counting


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock.monotonic)
    return clock


def counted(clock: Clock, seconds: int) -> None:
    with Counting("probes linked") as count:
        for second in range(seconds):
            clock.now_s += 1
            count(second, seconds)


def test_a_log_gets_a_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    counted(clock, 4)
    assert capsys.readouterr().err == ""
    counted(clock, 40)
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"toll: probes linked: {done} of 40" for done in (4, 14, 34)], "each after twice as long"


@pytest.mark.parametrize(("term", "redraws"), [("xterm", True), ("dumb", False)])
def test_a_terminal_gets_one_line_that_is_taken_away(
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, term: str, redraws: bool
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    counted(clock, 3)
    told = capsys.readouterr().err
    assert ("\n" in told, "2 of 3" in told, told.endswith("\r\033[K")) == (False, redraws, redraws)
