# SPDX-License-Identifier: Apache-2.0
"""What is seen while a run measures: something at once, nothing between calls, nothing left behind."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from support import builders, example_runs
from tollmeter.model import Machine, Parameter, Point
from tollmeter.report.progress import Progress, headlines

POINT = Point(probe="memory.latency", abi="x86_64", target="local", parameters=(("size", 393216), ("pages", "huge")))
MACHINE: Machine = example_runs.healthy().index.machine


class Watched:
    """A progress whose clock the test turns."""

    def __init__(self, *, terminal: bool, width: int = 100) -> None:
        self.seconds = 0.0
        self.stream = io.StringIO()
        console = Console(file=self.stream, width=width, force_terminal=terminal, color_system=None)
        self.progress = Progress({p.probe: p for p in example_runs.PROBES}, console, lambda: self.seconds)
        self.progress.start(MACHINE, "default", 4711, 400, 120.0)

    def visit(self, share: float, left: float) -> str:
        """What one more visit adds to what was seen."""
        before = len(self.stream.getvalue())
        self.progress.visit(POINT, share, left)
        return self.stream.getvalue()[before:]


def test_the_machine_is_named_before_the_first_visit() -> None:
    for terminal in (True, False):
        text = Watched(terminal=terminal).stream.getvalue()
        assert "AMD EPYC" in text and "default" in text and "4711" in text


def test_a_terminal_shows_the_place_the_share_the_time_left_and_the_numbers() -> None:
    watched = Watched(terminal=True)
    watched.visit(0.1, 100)
    watched.seconds = 1.0
    watched.progress.numbers(example_runs.healthy().index.rows)
    watched.seconds = 2.0
    text = watched.visit(0.47, 52)
    for part in ("memory.latency", "384 KiB", "huge", "47 %", "0:52 left", "L1d 0.9", "memory 1", "system call 12"):
        assert part in text, part


def test_a_terminal_that_cannot_go_back_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    watched = Watched(terminal=True)
    assert "AMD EPYC" in watched.stream.getvalue()
    assert "memory.latency" in watched.visit(0.1, 100)
    watched.seconds = 11.0
    text = watched.visit(0.47, 52)
    assert "47 %" in text and "0:52 left" in text and "\x1b" not in text


def test_it_draws_only_when_called_and_not_too_often() -> None:
    watched = Watched(terminal=True)
    watched.seconds = 1.0
    assert watched.visit(0.1, 100)
    watched.seconds = 1.05
    assert watched.visit(0.2, 90) == ""
    watched.seconds = 1.5
    assert watched.visit(0.3, 80)


def test_elsewhere_there_is_a_plain_line_every_ten_seconds() -> None:
    watched = Watched(terminal=False)
    lines = []
    for second in range(60):
        watched.seconds = float(second)
        lines.append(watched.visit(second / 60, 60 - second))
    said = [line for line in lines if line]
    assert 5 <= len(said) <= 7
    assert all(line.count("\n") == 1 and "\x1b" not in line for line in said)


@pytest.mark.parametrize("width", [30, 60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    watched = Watched(terminal=True, width=width)
    watched.progress.numbers(example_runs.healthy().index.rows)
    watched.seconds = 5.0
    text = watched.visit(0.47, 52)
    assert max(len(line) for line in _without_codes(text).splitlines()) < width


def _without_codes(text: str) -> str:
    import re

    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", text)


def test_stopping_takes_the_lines_away_and_may_be_done_twice() -> None:
    watched = Watched(terminal=True)
    watched.visit(0.5, 10)
    watched.progress.stop()
    before = watched.stream.getvalue()
    assert "\x1b[2K" in before
    watched.progress.stop()
    assert watched.stream.getvalue() == before


def test_headlines_choose_a_buffer_well_inside_each_level() -> None:
    results = example_runs.healthy(("x86_64",))
    told = headlines(results.index.rows, results.probes, results.index.machine)
    assert list(told)[:4] == ["L1d", "L2", "L3", "memory"]
    assert told["L1d"].startswith("0.9") and told["L2"].startswith("3.")
    assert any(label.startswith("system call") for label in told)


def test_hostile_names_stay_words() -> None:
    results = example_runs.hostile()
    stream = io.StringIO()
    progress = Progress(results.probes, Console(file=stream, width=100, force_terminal=True, color_system=None))
    progress.start(results.index.machine, "\x1b]0;evil\x07", 1, 1, 1.0)
    progress.numbers(results.index.rows)
    progress.stop()
    assert "\x1b]0;" not in stream.getvalue() and "\x07" not in stream.getvalue()


def test_headlines_say_a_row_by_what_it_is_and_nothing_of_another_place() -> None:
    signal = builders.probe(
        builders.metric("trip", toll="signal, handled"),
        name="kernel.signal",
        parameters=[
            Parameter(name="step", kind="choice", summary="s", choices=("deliver", "blocked"), typical="deliver")
        ],
    )
    blocked = builders.row(554.0, of="kernel.signal", name="trip", parameters={"step": "blocked"})
    guest = msgspec.structs.replace(blocked, target="guest:x", clock="virtual", parameters={"step": "deliver"})
    assert list(headlines([blocked, guest], {"kernel.signal": signal}, MACHINE)) == ["kernel.signal, step blocked"]


def test_a_number_is_in_doubt_until_it_has_three_visits() -> None:
    rows = example_runs.healthy().index.rows
    probes = {probe.probe: probe for probe in example_runs.PROBES}
    thin = [msgspec.structs.replace(row, visits=2) for row in rows]
    assert headlines(rows, probes, MACHINE)["system call"].startswith("12")
    assert headlines(thin, probes, MACHINE)["system call"] == "~ 130 ns"
