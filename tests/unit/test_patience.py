# SPDX-License-Identifier: Apache-2.0
"""What the budget leaves for a visit bounds all of it: its layout and its samples."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from types import SimpleNamespace

import pytest

from tollmeter.model import Point, Visit
from tollmeter.targets import child as children
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.local import Local

POINT = Point(probe="any.probe", abi="x86_64", target="local", parameters=())
VISIT = Visit(
    id=0, point=POINT, round=0, cpus=(0,), samples=1, sample_ns=1, seed=1, deadline_ms=15_000, wall_ms=2000,
    sets_up_first=True,
)  # fmt: skip
TOOK_S = 0.3


def test_what_a_layout_took_is_not_left_for_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit of 3 s had three times 3 s, and `--budget 5s` took 22 s."""
    left: list[float] = []

    def answer(_: Child, request: str, limit_s: float) -> Ended:
        left.append(limit_s)
        time.sleep(TOOK_S * ("--ahead" in request))
        return Ended(b"", 0, None)

    monkeypatch.setattr(Child, "answer", answer)
    with contextlib.closing(Local()) as target:
        target.run("/bin/cat", VISIT, 1)
    assert len(left) == 2
    assert left[0] <= VISIT.wall_ms / 1000
    assert left[1] <= VISIT.wall_ms / 1000 - TOOK_S


def test_a_process_that_came_to_its_limit_is_killed_before_anything_else_is_asked_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To move one that trapped to another CPU took until its own deadline, 12 s later."""
    child = Child(["sleep", "60"])
    killed: list[bool] = []
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: killed.append(signal.SIGKILL in child._sent))
    ended = child.read_stream(0.05)
    assert ended.limit and ended.limit[0] == "timeout"
    assert killed == [True]


def test_a_process_that_was_suspended_with_the_host_has_its_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cgroup's freezer stopped `toll run` and `PROBE --machine` for 22 s: exit 5, "no end within 20 s"."""

    def read(command: str, limit_s: float) -> Ended:
        """The clock jumps once the host waits: after it has set the deadline and the time to wait."""
        passed_s = itertools.chain([0.0] * 3, itertools.repeat(22.0))
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + next(passed_s))
        child = Child(["sh", "-c", command])
        monkeypatch.setattr(children, "time", clock)
        return child.read_stream(limit_s)

    assert read("sleep 0.3; echo done", 20) == Ended(b"done\n", 0, None)
    assert read("sleep 60", 0.3).limit == ("timeout", "no end within 0.3 s")
