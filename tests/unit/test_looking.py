# SPDX-License-Identifier: Apache-2.0
"""What a suite wants looked at behind its visits is part of the budget too, in a process that looks at nothing."""

from __future__ import annotations

import time
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tollmeter.library import looking
from tollmeter.library.looking import look
from tollmeter.library.prepare import for_measuring, seconds_for_visits
from tollmeter.library.profiling import SPENT, STOPPED, ProfilePoint
from tollmeter.model import CacheModel, Distances, Failure, Modelled, Point, Select, Suite
from tollmeter.store.request import store_records, stored_records
from tollmeter.targets import profiling_visit
from tollmeter.targets.child import Child

CACHE = CacheModel(bytes=16384, line=32, ways=64, assumed="", select=(Select(probe="float.dot"),))


class Program(NamedTuple):
    path: str


def wanted(*lengths: int, path: str = "/nowhere", target: str = "qemu-user:a") -> list[ProfilePoint]:
    points = [Point(probe="float.dot", abi="a", target=target, parameters=(("n", n),)) for n in lengths]
    executable: Any = Program(path)
    return [ProfilePoint(point, executable) for point in points]


SUITE = Suite(name="s", question="Which?", select=CACHE.select)


class Request(NamedTuple):
    suite: Suite
    budget_seconds: float
    settings: object = None
    abis: tuple[str, ...] = ()


class Ready(NamedTuple):
    request: Request
    catalog: object = None
    machine: object = None


class Asked(NamedTuple):
    asked: bool


def test_a_suite_that_wants_a_look_measures_for_less_of_its_budget() -> None:
    bare: Any = Request(SUITE, 40.0)
    looked: Any = Request(msgspec.structs.replace(SUITE, modelled=CACHE), 40.0)
    assert seconds_for_visits(looked) < seconds_for_visits(bare) == for_measuring(40.0)


@pytest.mark.parametrize(("left_s", "asked", "why"), [(-1.0, False, SPENT), (inf, True, STOPPED), (inf, False, None)])
def test_what_is_looked_at_ends_with_the_budget_and_with_a_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left_s: float, asked: bool, why: str | None
) -> None:
    every: Any = wanted(16, 64, 256)
    ready: Any = Ready(Request(msgspec.structs.replace(SUITE, modelled=CACHE), 40.0))
    stopping: Any = Asked(asked)
    monkeypatch.setattr(looking, "wanted_by", lambda selects, _: every if selects else [])
    monkeypatch.setattr(looking, "model", lambda one, _: Modelled("float.dot", "a", "t", one.point.values()))
    look(ready, tmp_path, time.monotonic() + left_s, stopping, quiet=True)
    assert [one.reason for one in stored_records(tmp_path, Modelled)] == [why] * 3


def test_known_reuse_distances_are_reused_when_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "program").write_bytes(b"it")
    (tmp_path / looking.DISTANCES).write_bytes(b"what looks")
    known, new = wanted(16, 64, path=str(tmp_path / "program"))
    monkeypatch.setattr(looking, "_EMULATOR", tmp_path)
    monkeypatch.setattr(looking, "_KEPT", tmp_path / "kept")
    monkeypatch.setattr(looking, "open_here", nobody_is_asked)
    monkeypatch.setattr(looking, "measure_distances", nobody_is_asked)
    stored = tmp_path / "kept" / looking._fingerprint(known)
    stored.mkdir(parents=True)
    store_records(stored, Distances, [Distances("float.dot", "a", "t", {}, ((64.0, 0.5, 0.5),))])
    assert [looking.distances(one, lambda: SPENT).reason for one in (known, new)] == [None, SPENT]


def nobody_is_asked(*_: object) -> None:
    raise Failure("it was looked at")


def test_what_is_looked_at_behind_a_run_ends_with_its_budget() -> None:
    """One program whose loads were looked at took 3.2 s beyond a budget of 5 s."""
    began = time.monotonic()
    with profiling_visit.ending_at(began + 0.2):
        ended = profiling_visit._finished(Child(["sleep", "60"]), 60.0)
    assert ended.limit and ended.limit[0] == "timeout"
    assert time.monotonic() - began < 30
