# SPDX-License-Identifier: Apache-2.0
"""What every target owes, whatever its way to the machine: one whole stream a visit, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from fakes import fake
from tollmeter.model import Failure, Outcome, Point, Visit
from tollmeter.protocol import description, head, outcome
from tollmeter.targets import Target
from tollmeter.targets.local import Local

TARGETS = [Local]


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    made: Target = request.param()
    return made


def visit(deadline_ms: int = 20000) -> Visit:
    point = Point(probe="kernel.enter", abi="x86_64", target="local")
    return Visit(id=5, point=point, round=2, cpus=(0,), samples=3, sample_ns=1000, seed=1, deadline_ms=deadline_ms)


def told(target: Target, tmp_path: Path, behaviour: str, deadline_ms: int = 20000) -> Outcome:
    executable = fake(tmp_path / "x86_64", "kernel.enter", behaviour)
    return outcome(target.run(str(executable), visit(deadline_ms), 1))


def processes_of(folder: Path) -> list[str]:
    """Command lines that name the folder: the fakes that still live."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


@pytest.mark.parametrize("behaviour", ["good", "garbage", "flood"])
def test_a_whole_stream_is_found_whatever_stands_around_it(target: Target, tmp_path: Path, behaviour: str) -> None:
    back = told(target, tmp_path, behaviour)
    assert (back.status, len(back.samples), back.visit, back.round) == ("ok", 3, 5, 2)


@pytest.mark.parametrize(
    ("behaviour", "status", "named"),
    [
        ("cut", "infrastructure", "cut"),
        ("silent", "infrastructure", "cut"),
        ("bad_exit", "failed", "wrote past the arena"),
        ("crash", "failed", "SIGSEGV"),
        ("closed_output", "failed", "SIGABRT"),
        ("deadline", "timeout", "20000 ms"),
        ("endless", "failed", "16 MiB"),
        ("wrong", "wrong_answer", "off by one"),
        ("skip", "unsupported", "no such gate"),
        ("other_visit", "infrastructure", "visit 6"),
    ],
)
def test_a_visit_that_goes_wrong_fails_with_its_reason(
    target: Target, tmp_path: Path, behaviour: str, status: str, named: str
) -> None:
    back = told(target, tmp_path, behaviour)
    assert (back.status, back.samples, back.visit) == (status, (), 5)
    assert named in (back.reason or "")
    assert not processes_of(tmp_path)


def test_a_probe_that_hangs_is_ended_at_its_deadline_with_all_that_it_started(target: Target, tmp_path: Path) -> None:
    began = time.monotonic()
    back = told(target, tmp_path, "hang", deadline_ms=100)
    assert back.status == "timeout"
    assert time.monotonic() - began < 30
    assert not processes_of(tmp_path)


def test_a_companion_left_behind_neither_delays_nor_survives(target: Target, tmp_path: Path) -> None:
    began = time.monotonic()
    assert told(target, tmp_path, "orphan").status == "ok"
    assert time.monotonic() - began < 15
    assert not processes_of(tmp_path)


def test_a_visit_asked_to_stop_ends_with_what_it_has(target: Target, tmp_path: Path) -> None:
    asking = threading.Timer(0.5, target.interrupt)
    asking.start()
    back = told(target, tmp_path, "interruptible")
    asking.join()
    assert (back.status, len(back.samples)) == ("ok", 1)


def test_killed_half_way_from_outside(target: Target, tmp_path: Path) -> None:
    def kill() -> None:
        for line in range(200):
            del line
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit() and _names(entry, tmp_path) and b"--visit" in (entry / "cmdline").read_bytes():
                    time.sleep(0.1)
                    os.kill(int(entry.name), signal.SIGKILL)
                    return
            time.sleep(0.02)

    killing = threading.Thread(target=kill)
    killing.start()
    back = told(target, tmp_path, "hang")
    killing.join()
    assert (back.status, back.samples) == ("failed", ())
    assert "SIGKILL" in (back.reason or "")


def _names(entry: Path, folder: Path) -> bool:
    try:
        return str(folder).encode() in (entry / "cmdline").read_bytes()
    except OSError:
        return False


def test_interrupting_nothing_does_nothing(target: Target) -> None:
    target.interrupt()


def test_what_is_no_executable_is_named(target: Target, tmp_path: Path) -> None:
    missing = outcome(target.run(str(tmp_path / "kernel.enter"), visit(), 1))
    assert (missing.status, missing.point) == ("infrastructure", visit().point)
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"\x7fELF" + bytes(60))
    foreign.chmod(0o755)
    assert outcome(target.run(str(foreign), visit(), 1)).status == "unsupported"
    with pytest.raises(Failure) as caught:
        target.describe(str(missing))
    assert caught.value.exit_code == 5


def test_it_asks_for_the_description_and_the_machine(target: Target, tmp_path: Path) -> None:
    executable = str(fake(tmp_path / "x86_64", "kernel.enter"))
    assert description(target.describe(executable))[0].probe == "kernel.enter"
    told_of = head(target.machine(executable)).machine
    assert told_of
    assert told_of.core_clock_hz == 4e9
