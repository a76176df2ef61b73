# SPDX-License-Identifier: Apache-2.0
"""What the budget leaves for a visit bounds all of it: its layout, prepared ahead or not, and its samples."""

from __future__ import annotations

import os
import signal
import time
from types import SimpleNamespace

import pytest

from tollmeter.model import Point, Visit
from tollmeter.targets import child as children
from tollmeter.targets.child import Child, Ended
from tollmeter.targets.local import Local
from tollmeter.targets.worker_pool import Worker, WorkerPool

POINT = Point(probe="any.probe", abi="x86_64", target="local", parameters=())
VISIT = Visit(
    id=0, point=POINT, round=0, cpus=(0,), samples=1, sample_ns=1, seed=1, deadline_ms=15_000, wall_ms=2000
)  # fmt: skip
TOOK_S = 0.3


def test_what_a_layout_took_is_not_left_for_the_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A visit of 3 s had three times 3 s, and `--budget 5s` took 22 s."""
    left: list[float] = []

    def slow(*_: object) -> None:
        time.sleep(TOOK_S)

    def set_up(_: Local, __: str, visit: Visit) -> None:
        left.append(visit.wall_ms / 1000)
        time.sleep(TOOK_S)

    def asked(_: Local, worker: Worker, __: Visit, limit_s: float) -> Ended:
        left.append(limit_s)
        worker.child.end()
        return Ended(b"", 0, None)

    monkeypatch.setattr(WorkerPool, "get", slow)
    monkeypatch.setattr(Local, "_set_up", set_up)
    monkeypatch.setattr(Local, "_asked", asked)
    Local().run("/bin/true", VISIT, 1)
    assert left[0] <= VISIT.wall_ms / 1000 - TOOK_S
    assert left[1] <= VISIT.wall_ms / 1000 - 2 * TOOK_S


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
    passed_s = [0.0]

    class Freezer:
        def stdout_fds(self) -> list[int]:
            return []

        def advance(self) -> None:
            passed_s[0] = 22.0

    monkeypatch.setattr(children, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s[0]))
    assert Child(["sh", "-c", "sleep 0.3; echo done"]).read_stream(20, Freezer()) == Ended(b"done\n", 0, None)
    hangs = Child(["sleep", "60"]).read_stream(0.3, Freezer())
    assert hangs.limit == ("timeout", "no end within 0.3 s")
