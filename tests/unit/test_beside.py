# SPDX-License-Identifier: Apache-2.0
"""Reviews beside visits: visits go on while one is made, and it is made between visits where it disturbs them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from support.builders import outcome, sample
from support.probe_streams import whole
from support.simulated_run import Rig
from support.waiting import LONG_S
from tollmeter.conduct.beside import ReviewThread
from tollmeter.model import Outcome, Select, Visit

VISIT = outcome([sample(1.0)])
WAITED = msgspec.structs.replace(VISIT, waited_ns=1_000_000)


class Slow(Rig):
    """Its first look ends only when some visits were made beside it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.beside = True
        self.is_beside = threading.Event()
        self.answer = self.answered

    def look(self, outcomes: Sequence[Outcome]) -> None:
        super().look(outcomes)
        assert self.is_beside.wait(LONG_S)

    def answered(self, visit: Visit) -> bytes:
        if self.looks and len(self.visits) > self.looks[0] + 3:
            self.is_beside.set()
        return whole(visit=visit)


def test_visits_go_on_while_a_review_is_made(tmp_path: Path) -> None:
    rig = Slow(tmp_path / "run")
    rig.visits_to_settle = 6
    plan = rig.plan(Select(probe="memory.parallel"), Select(probe="kernel.enter"))
    assert rig.go(plan).status == "settled"
    assert len(rig.visits) >= rig.visits_to_settle * len(plan.points())


@pytest.mark.parametrize(("contended", "is_beside"), [(VISIT, True), (WAITED, False)])
def test_a_review_that_makes_visits_wait_is_made_between_them(contended: Outcome, is_beside: bool) -> None:
    """As where the host's CPU is the sibling of the measured one."""
    several = ReviewThread[int](is_allowed=True)
    may_end = threading.Event()
    for _ in range(40):
        several.add(VISIT)
    several.begin(lambda: int(may_end.wait(LONG_S)), [])
    for _ in range(40):
        several.add(contended)
    assert several.taken(wait=False) is None
    may_end.set()
    assert several.taken(wait=True) == 1
    makers = set[int]()
    several.begin(lambda: makers.add(threading.get_ident()) or 2, [])
    assert several.taken(wait=True) == 2
    assert (threading.get_ident() not in makers) == is_beside
    several.close()


def test_without_a_thread_a_review_is_made_between_visits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the user may start no more of them."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    several = ReviewThread[int](is_allowed=True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):
        several.begin(threading.get_ident, [])
        assert several.taken(wait=True) == threading.get_ident()
    several.close()
