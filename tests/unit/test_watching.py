# SPDX-License-Identifier: Apache-2.0
"""Numbers beside a run under way are made when they will be seen: to make one takes as long as half a visit."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence

import pytest
from rich.console import Console

from support.builders import machine, metric, outcome, probe, quiet, sample
from tollmeter.cli import watching
from tollmeter.cli.watching import LOOKS, Watching
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.model import Outcome, Point, Probe, Row, Visit
from tollmeter.numbers.rows import rows_of_point
from tollmeter.report.progress import LEAST_SECONDS_BETWEEN_NUMBERS, SECONDS_BETWEEN_LINES, Progress

CALL = probe(metric(toll="system call", means="entry"), name="kernel.enter")
OTHER = probe(metric(), name="any.probe")
PROBES = {one.probe: one for one in (CALL, OTHER)}
MACHINE = machine(cpus=4)
AT = 1e6
"""Seconds that the machine has been on."""


class Watched:
    """A run whose clock the test turns. made: how many visits each number was made of, and moments: when."""

    def __init__(self, *, terminal: bool) -> None:
        self.seconds = AT
        self.made: list[int] = []
        self.moments: list[float] = []
        self.stream = io.StringIO()
        console = Console(file=self.stream, width=100, force_terminal=terminal, color_system=None)
        self.progress = Progress(PROBES, console, lambda: self.seconds)
        self.progress.start(MACHINE, "default", 4711, 400, 120.0)
        self.watching = Watching(PROBES, self.progress)

    def rows_of_point(self, outcomes: Sequence[Outcome], probe: Probe) -> list[Row]:
        self.made.append(len(outcomes))
        self.moments.append(self.seconds)
        return rows_of_point(outcomes, probe)

    def visit(self, size: int = 0, *, name: str = "kernel.enter", abi: str = "x86_64") -> None:
        """One that begins, and ends without time between."""
        parameters = (("size", size),)
        point = Point(probe=name, abi=abi, target="local", parameters=parameters)
        self.watching.visit(Visit(id=0, point=point, round=0, cpus=(1,), samples=1, sample_ns=1, seed=1, deadline_ms=1),
                            0.5, 60)  # fmt: skip
        samples = [sample(100.0, witness=quiet()) for _ in range(4)]
        self.watching.outcome(outcome(samples, name=name, abi=abi, parameters={**dict(parameters)}))


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return _watched(monkeypatch, terminal=True)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return _watched(monkeypatch, terminal=False)


def _watched(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> Watched:
    watched = Watched(terminal=terminal)
    monkeypatch.setattr(watching, "rows_of_point", watched.rows_of_point)
    return watched


def test_on_a_terminal_the_first_number_is_made_before_the_next_visit(screen: Watched) -> None:
    screen.visit()
    assert screen.made == []
    screen.visit(1)
    assert screen.made == [1]
    screen.seconds += 1
    screen.visit(2)
    assert "system call ~ 100 ns" in screen.stream.getvalue()


def test_a_terminal_gets_new_numbers_only_every_two_seconds(screen: Watched) -> None:
    for size in range(1000):
        screen.seconds = AT + size / 64
        screen.visit(size)
    assert len(screen.made) > 800, "they are not lost"
    moments = sorted(set(screen.moments))
    assert len(moments) > 5
    assert all(later - one >= LEAST_SECONDS_BETWEEN_NUMBERS for one, later in itertools.pairwise(moments))


def test_a_point_with_several_visits_since_is_read_once(screen: Watched) -> None:
    screen.visit()
    screen.visit()
    screen.seconds += LEAST_SECONDS_BETWEEN_NUMBERS
    screen.watching.print_numbers()
    assert screen.made == [1], "two visits tell no more than one"
    for _ in range(LEAST_VISITS + 3):
        screen.visit()
    screen.seconds += LEAST_SECONDS_BETWEEN_NUMBERS
    screen.visit()
    assert screen.made == [1, max(LOOKS)]


def test_elsewhere_none_is_made_before_ten_seconds_have_passed(lines: Watched) -> None:
    for second in range(int(SECONDS_BETWEEN_LINES)):
        lines.seconds = AT + second
        lines.visit(second)
    assert lines.made == []
    lines.seconds = AT + SECONDS_BETWEEN_LINES
    lines.visit()
    assert lines.made == [1] * int(SECONDS_BETWEEN_LINES)
    assert "system call ~ 100 ns" in lines.stream.getvalue().splitlines()[-1], "in the line that then is said"


def test_elsewhere_they_are_made_once_a_line(lines: Watched) -> None:
    for size in range(100):
        lines.seconds = AT + size
        lines.visit()
    assert lines.made == [max(LOOKS)]
    assert lines.stream.getvalue().count("system call") == 9


def test_no_number_is_made_of_what_is_not_shown(screen: Watched) -> None:
    """What has no line in the toll table and is no memory's, another ABI's, and what failed."""
    screen.visit()
    screen.visit(name="any.probe")
    screen.visit(abi="ia32")
    failed = outcome(status="failed", name="kernel.enter", parameters={"size": 7})
    screen.watching.outcome(failed)
    screen.seconds += LEAST_SECONDS_BETWEEN_NUMBERS
    screen.watching.print_numbers()
    assert screen.made == [1]


def test_a_visit_of_a_probe_that_the_journal_does_not_describe_has_no_number(screen: Watched) -> None:
    for _ in range(max(LOOKS)):
        screen.visit(name="kernel.unknown")
    screen.watching.print_numbers()
    assert screen.made == []
