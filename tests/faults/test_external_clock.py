# SPDX-License-Identifier: Apache-2.0
"""A probe that is timed at the other end of a line: over a pseudo-terminal, and over one with faults."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from support import example_runs
from support.noisy_line import Faults, noisy_line
from tollmeter.findings.clocks import clock_is_wrong
from tollmeter.model import Abi, Failure, Outcome, Point, Visit
from tollmeter.protocol import outcome
from tollmeter.targets import external_clock
from tollmeter.targets.external_clock import ClockLine, ExternalClock, Pty, device_parts, open_line
from tollmeter.targets.local import Local
from tollmeter.targets.ways import clock_of, clocked
from tollmeter.toolchain.build import build_abi

NAME = "local+pty"


MARKS = 5
"""Of a sample without control."""
WRONG_CLOCK = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  const long status = syscall(SYS_clock_gettime, clock, now);
  const uint64_t ns = ((uint64_t)now->tv_sec * 1000000000u + (uint64_t)now->tv_nsec) / 1000 * THOUSANDTHS;
  now->tv_sec = (time_t)(ns / 1000000000u);
  now->tv_nsec = (long)(ns % 1000000000u);
  return (int)status;
}
"""


@pytest.fixture(scope="module")
def loop(_built_tree: Path, own_abi: Abi) -> str:
    return str(_built_tree / "build" / own_abi.name / "kernel.loop")


def visited(executable: str, line: ClockLine, samples: int = 4) -> Outcome:
    point = Point(Path(executable).name, Path(executable).parent.name, NAME)
    visit = Visit(id=1, point=point, round=0, cpus=(max(os.sched_getaffinity(0)),), samples=samples,
                  sample_ns=1_000_000, seed=1, deadline_ms=20_000)  # fmt: skip
    with contextlib.closing(ExternalClock(NAME, Local(), line)) as target:
        return outcome(target.run(executable, visit, 1))


def test_all_marks_arrive_over_a_pty_and_both_clocks_are_reported(loop: str) -> None:
    back = visited(loop, Pty())
    assert (back.status, back.clock.kind, back.clock.source) == ("ok", "external", "pty"), back.reason
    assert back.marks and (back.marks.lost, back.marks.doubled, back.marks.inserted) == (0, 0, 0)
    assert back.marks.came == MARKS * len(back.samples)
    assert back.marks.empty_ns is not None and back.marks.own_ratio == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("thousandths", [1010, 900])
def test_a_wrong_clock_of_the_target_is_found(tree: Path, own_abi: Abi, own_compiler: str, thousandths: int) -> None:
    path = tree / "probes/kernel/loop.c"
    path.write_text(path.read_text() + WRONG_CLOCK.replace("THOUSANDTHS", str(thousandths)))
    build_abi(tree, own_abi, own_compiler)
    told = [visited(str(tree / "build" / own_abi.name / "kernel.loop"), Pty()) for _ in range(4)]
    (found,) = clock_is_wrong(msgspec.structs.replace(example_runs.small(), outcomes=tuple(told)))
    assert found.evidence[0].value == pytest.approx(thousandths / 1000, rel=0.005)


def test_what_a_line_loses_doubles_and_invents_is_counted_and_moves_no_number(loop: str) -> None:
    with noisy_line(Faults(lost=0.04, doubled=0.04, inserted=0.04), seed=3) as ends:
        back = visited(loop, open_line(f"serial:{ends.near}:{ends.far}"), samples=16)
    assert back.marks and min(back.marks.lost, back.marks.doubled, back.marks.inserted) > 0
    assert back.status == "ok" and back.marks.came < MARKS * len(back.samples)
    assert back.marks.own_ratio == pytest.approx(1, abs=0.01)


def test_a_line_that_says_nothing_is_a_reason_within_the_visit(loop: str) -> None:
    with noisy_line(Faults(lost=1.0)) as ends:
        back = visited(loop, open_line(f"serial:{ends.near}:{ends.far}"), samples=2)
    assert (back.status, "over serial:" in str(back.reason)) == ("infrastructure", True)


def test_a_line_that_never_stops_is_a_reason(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external_clock, "_MOST_STAMPS", 500)
    line = Pty()
    with chattering(line.far_end):
        back = visited(loop, line, samples=2)
    assert (back.status, "never stops" in str(back.reason)) == ("infrastructure", True)


@contextlib.contextmanager
def chattering(path: str) -> Iterator[None]:
    done = threading.Event()

    def talk() -> None:
        with Path(path).open("wb", buffering=0) as line:
            os.set_blocking(line.fileno(), False)
            while not done.is_set():
                with contextlib.suppress(BlockingIOError):
                    line.write(b"noise" * 20)
                time.sleep(0.002)

    talker = threading.Thread(target=talk)
    talker.start()
    try:
        yield
    finally:
        done.set()
        talker.join()


def test_a_port_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be opened: No such file") as caught:
        open_line(f"serial:{tmp_path}/nowhere")
    assert caught.value.exit_code == 5


def test_what_is_no_line_is_refused_by_name() -> None:
    for words in ("clock", "serial:", "serial:/dev/x@fast"):
        with pytest.raises(Failure):
            clocked((), words)
    assert device_parts("/dev/x@9600:/dev/y") == ("/dev/x", 9600, "/dev/y")
    assert device_parts("/dev/x") == ("/dev/x", 115200, "/dev/x")


def test_a_line_makes_a_target_of_its_own_whose_clock_is_external() -> None:
    assert clocked((), "pty") == ("local+pty",)
    assert clocked(("local",), None) == ("local",)
    assert clock_of("local+pty") == "external"
    with pytest.raises(Failure, match="is not timed over"):
        clock_of("bare:vexpress-a9+pty")
    assert clock_of("serial:/dev/x@9600+serial:/dev/x@9600") == "external"
    with pytest.raises(Failure, match="over that line itself"):
        clock_of("serial:/dev/x+serial:/dev/y")
