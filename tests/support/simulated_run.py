# SPDX-License-Identifier: Apache-2.0
"""A run on a simulated machine, whose clock advances by the time of its visits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from support.fake_catalog import MACHINE, catalog
from support.probe_streams import whole
from tollmeter.conduct import Stage, Stopping, conduct
from tollmeter.model import Machine, Outcome, Point, Probe, Published, Select, Suite, Visit
from tollmeter.plan import Plan, make_plan
from tollmeter.protocol import seal
from tollmeter.store.journal import Journal, Session
from tollmeter.store.request import Request
from tollmeter.targets.local import LayoutKey, WorkerPool

HEAD = seal([{"k": "machine", **msgspec.to_builtins(MACHINE)}])


class Emptied(WorkerPool):
    """A pool from which some processes have ended. ended: returns whether the process of a layout has."""

    def __init__(self, ended: Callable[[LayoutKey], bool]) -> None:
        super().__init__()
        self._ended = ended

    def __contains__(self, key: LayoutKey) -> bool:
        return not self._ended(key)


class Rig:
    """A target, a judge, an observer and a clock, which record the calls."""

    name = "local"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock_s = 0.0
        self.visit_s = 0.01
        self.visits: list[Visit] = []
        self.progress: list[tuple[float, float]] = []
        self.visits_to_settle = 3
        self.differs = ""
        self.beyond, self.ends_at = "", -1
        self.interrupts = 0
        self.looks: list[int] = []
        self.asked = 0
        self.answer: Callable[[Visit], bytes] = lambda visit: whole(visit=visit)
        self.wished: dict[int, list[int]] = {}
        self.wide: list[Sequence[tuple[int, ...]]] = []
        self.pool: WorkerPool | None = None
        self.width = 0.0
        self.beside = False

    def plan(self, *selects: Select, budget: float = 1000, gaps: dict[str, str] | None = None,
             against: tuple[str, ...] = (), published: tuple[Published, ...] = (),
             machine: Machine = MACHINE) -> Plan:  # fmt: skip
        suite = Suite(name="s", question="?", select=selects, published=published)
        self.request = Request(id="r", suite=suite, started="", seed=1, budget_seconds=budget, tollmeter="")
        return make_plan(
            self.request.suite, catalog(gaps=gaps), machine, budget_seconds=budget, seed=1, against=against,
            all_points=True,
        )  # fmt: skip

    def go(self, plan: Plan, done: Sequence[Outcome] = (), before: float = 0.0) -> Session:
        fresh = not self.folder.exists()
        opened = Journal.create(self.folder, self.request, HEAD) if fresh else Journal.resume(self.folder)
        paths = {key: executable.path for key, executable in catalog().executables.items()}
        with opened as journal, Stopping() as self.stopping:
            self.stopping.reach(self.interrupt)
            targets = {"local": self} | {point.target: self for point in plan.points()}
            stage = Stage(
                targets, paths, journal, self, self, self.stopping, now=lambda: self.clock_s, pool=self.pool,
                reviews_beside=self.beside,
            )  # fmt: skip
            return conduct(plan, stage, done, before)

    # Target
    def describe(self, executable: str) -> bytes:
        raise AssertionError(executable)

    machine = describe

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        assert executable.endswith(f"{visit.point.abi}/{visit.point.probe}")
        assert revision
        self.visits.append(visit)
        self.clock_s += self.visit_s
        return self.answer(visit)

    def interrupt(self) -> None:
        self.interrupts += 1

    # Judge
    def look(self, outcomes: Sequence[Outcome]) -> None:
        self.looks.append(len(outcomes))

    def full_width(self, point: Point) -> float:
        assert point.abi
        return self.width

    def visits_wanted(self, outcomes: Sequence[Outcome], probe: Probe) -> float:
        self.asked += 1
        assert all(outcome.point.probe == probe.probe for outcome in outcomes)
        return self.visits_to_settle

    def visits_wanted_against(self, outcomes: Sequence[Outcome], pair: tuple[Point, Point]) -> float:
        assert {outcome.point for outcome in outcomes} == {*pair}
        return self.visits_to_settle

    def wide_pairs(self, outcomes: Sequence[Outcome], point: Point) -> Sequence[tuple[int, ...]]:
        assert {outcome.point.probe for outcome in outcomes} == {point.probe}
        return self.wide.pop() if self.wide else ()

    def differing(self, seen: Mapping[Point, Sequence[Outcome]]) -> Sequence[Point]:
        return [point for point in seen if point.probe == self.differs]

    def excess(self, outcome: Outcome) -> str:
        return self.beyond if outcome.visit == self.ends_at else ""

    def refine(self, curve: Mapping[int, Sequence[Outcome]], probe: Probe, grid: Sequence[int]) -> Sequence[int]:
        assert probe.probe == "memory.latency"
        assert all(found and value in grid for value, found in curve.items())
        return self.wished.pop(max(visit.round for visit in self.visits), [])

    # Observer
    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        assert visit.id >= len(self.visits)
        self.progress.append((fraction, seconds_left))

    def outcome(self, outcome: Outcome) -> None:
        assert outcome.visit == self.visits[-1].id or outcome.status in ("interrupted", "unsupported")
