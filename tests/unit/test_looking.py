# SPDX-License-Identifier: Apache-2.0
"""What a suite wants looked at behind its visits is part of the budget too, in a process that looks at nothing."""

from __future__ import annotations

import io
import time
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tollmeter.library import distances, modelling
from tollmeter.library.prepare import before_looking, for_measuring
from tollmeter.library.sampled import SPENT, Wanted
from tollmeter.model import CacheModel, Distances, Failure, Modelled, Point, Select, Suite
from tollmeter.store.profiles import keep_distances, kept_modelled

CACHE = CacheModel(bytes=16384, line=32, ways=64, assumed="", select=(Select(probe="float.dot"),))


class Program(NamedTuple):
    path: str


def wanted(*lengths: int, path: str = "/nowhere") -> list[Wanted]:
    points = [Point(probe="float.dot", abi="a", target="qemu-user:a", parameters=(("n", n),)) for n in lengths]
    executable: Any = Program(path)
    return [Wanted(point, executable) for point in points]


class Request(NamedTuple):
    suite: Suite
    budget_seconds: float


def test_a_suite_that_wants_a_look_measures_for_less_of_its_budget() -> None:
    bare: Any = Request(Suite(name="s", question="Which?", select=CACHE.select), 40.0)
    looked: Any = Request(msgspec.structs.replace(bare.suite, modelled=CACHE), 40.0)
    assert before_looking(looked) < before_looking(bare) == for_measuring(40.0)


@pytest.mark.parametrize(("left_s", "modelled"), [(-1.0, 1), (inf, 3)])
def test_no_point_is_modelled_once_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, left_s: float, modelled: int
) -> None:
    """But for the first: what a point takes nobody knows before."""
    every: Any = wanted(16, 64, 256)
    monkeypatch.setattr(modelling, "wanted_by", lambda *_: every)
    monkeypatch.setattr(modelling, "model", lambda one, _: Modelled("float.dot", "a", "t", one.point.values()))
    ground: Any = None
    modelling.model_suite(tmp_path, CACHE, ground, time.monotonic() + left_s, lambda *_: None)
    assert [one.reason for one in kept_modelled(tmp_path)] == [None] * modelled + [SPENT] * (3 - modelled)


def test_what_loads_told_before_is_told_again_when_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "program").write_bytes(b"it")
    (tmp_path / distances.DISTANCES).write_bytes(b"what looks")
    known, new = wanted(16, 64, path=str(tmp_path / "program"))
    monkeypatch.setattr(distances, "_EMULATOR", tmp_path)
    monkeypatch.setattr(distances, "_KEPT", tmp_path / "kept")
    monkeypatch.setattr(distances, "open_here", lambda *_: io.StringIO())
    monkeypatch.setattr(distances, "apart", nobody_is_asked)
    kept = tmp_path / "kept" / distances._fingerprint(known)
    kept.mkdir(parents=True)
    keep_distances(kept, [Distances("float.dot", "a", "t", {}, ((64.0, 0.5, 0.5),))])
    late = time.monotonic() - 1
    assert [distances.distances(one, late).reason for one in (known, new)] == [None, SPENT]


def nobody_is_asked(*_: object) -> None:
    raise Failure("it was looked at")
