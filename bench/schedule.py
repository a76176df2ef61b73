#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Replays the scheduler on a computed clock: the number of converged points over time.

    .venv/bin/python bench/schedule.py RUN [RUN ...] [--budget 60] [--seeds 8] [--last-cache MIB --gib-s SECONDS]

A visit answers with a recorded visit of its point, drawn at random from one of the runs, and takes the time that
such visits and set-ups took there. The same words in two checkouts compare their schedulers, even on a busy machine.
The runs have to be of this checkout's build. With --last-cache the plan is that of a machine with such a last cache,
and with --gib-s each set-up of a large layout takes this time for a GiB."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from unittest import mock

import msgspec

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from tollmeter import conduct
from tollmeter.experiment.limits import LEAST_VISITS, MIB
from tollmeter.library import measure, places
from tollmeter.library.derive import learned
from tollmeter.library.options import Options
from tollmeter.library.prepare import Prepared, for_measuring, plan_of, used
from tollmeter.library.resume import interrupted
from tollmeter.library.wanted import ProbeRequest, selects_of
from tollmeter.model import Machine, Outcome, Point, Visit
from tollmeter.plan import Effort, Plan, is_shown
from tollmeter.plan.effort import LARGE_BYTES, stated_bytes
from tollmeter.store.journal import read_journal

GIB = 1024 * MIB
LONGEST_S = 15.0
"""Longest time between the starts of two visits that counts as theirs: a longer one has another cause."""
LEAST_S = 0.001
"""Shortest time of a visit without most of its samples."""


class Recorded:
    """Recorded visits by point, and the median seconds of a visit and of a set-up over the runs."""

    def __init__(self, folders: Sequence[Path]) -> None:
        runs = [sorted(read_journal(folder).outcomes, key=lambda outcome: outcome.at_ns) for folder in folders]
        self.visits = [_by_point(outcomes) for outcomes in runs]
        gaps = [gap for outcomes in runs for gap in _gaps(outcomes)]
        self.visit_s = _medians((outcome.point, seconds) for outcome, _, seconds, sets_up in gaps if not sets_up)
        self.usual_s = median(self.visit_s.values())
        self.set_up_s = _medians(
            (after.point, max(0.0, seconds - self.visit_s.get(outcome.point, self.usual_s)))
            for outcome, after, seconds, sets_up in gaps
            if sets_up
        )

    def like(self, number: int, point: Point) -> Point:
        """Returns the recorded point of the same probe and ABI whose parameters differ least."""
        known = self.visits[number]
        near = [other for other in known if (other.probe, other.abi) == (point.probe, point.abi)] or [*known]
        return point if point in known else min(near, key=lambda other: _distance(other, point))


def _by_point(outcomes: Sequence[Outcome]) -> dict[Point, list[Outcome]]:
    visits: dict[Point, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        visits[outcome.point].append(outcome)
    return visits


def _gaps(outcomes: Sequence[Outcome]) -> Iterator[tuple[Outcome, Outcome, float, bool]]:
    """Yields successive visits, the seconds between their starts, and whether the second visit's layout was set up in
    this time: set-up precedes the start."""
    seeds: dict[tuple[Point, tuple[int, ...]], int] = {}
    for outcome, after in pairwise(outcomes):
        seeds[outcome.point, outcome.cpus] = outcome.seed
        seconds = (after.at_ns - outcome.at_ns) / 1e9
        if outcome.at_ns and seconds < LONGEST_S:
            yield outcome, after, seconds, seeds.get((after.point, after.cpus)) != after.seed


def _medians(pairs: Iterable[tuple[Point, float]]) -> dict[Point, float]:
    several: dict[Point, list[float]] = defaultdict(list)
    for point, seconds in pairs:
        several[point].append(seconds)
    return {point: median(seconds) for point, seconds in several.items()}


def _distance(one: Point, other: Point) -> float:
    pairs = zip(one.parameters, other.parameters, strict=False)
    return sum(
        abs(first - second) / (first + second + 1) if isinstance(first, int) and isinstance(second, int) else 1.0
        for (_, first), (_, second) in pairs
        if first != second
    )


class Replay:
    """A target, an observer and a journal on one clock. curve: numbers of converged points, each with its time in
    seconds."""

    name = "local"

    def __init__(
        self, plan: Plan, recorded: Recorded, judge: measure.AnalysisJudge, seed: int, gib_s: float | None
    ) -> None:
        """gib_s: seconds to set up a large layout of a GiB; None: as recorded."""
        self._plan, self._recorded, self._judge, self._gib_s = plan, recorded, judge, gib_s
        self._chance, self._number = random.Random(seed), seed % len(recorded.visits)
        self._layouts: dict[tuple[Point, tuple[int, ...]], int] = {}
        self._seen: dict[Point, list[Outcome]] = defaultdict(list)
        self.clock_s, self.asked, self.curve = 0.0, False, list[tuple[float, int]]()

    def run(self, executable: str, visit: Visit, revision: int) -> bytes:
        del executable, revision
        point = self._recorded.like(self._number, visit.point)
        drawn = self._chance.choice(self._recorded.visits[self._number][point])
        samples = drawn.samples[: visit.samples]
        lacking_s = (len(drawn.samples) - len(samples)) * Effort(sample_ns=visit.sample_ns).sample_s()
        self.clock_s += max(LEAST_S, self._recorded.visit_s.get(point, self._recorded.usual_s) - lacking_s)
        if self._layouts.get((visit.point, visit.cpus)) != visit.seed:
            self.clock_s += self._set_up_s(visit.point, point)
        self._layouts[visit.point, visit.cpus] = visit.seed
        self._answer = msgspec.structs.replace(
            drawn, visit=visit.id, round=visit.round, point=visit.point, cpus=visit.cpus, seed=visit.seed,
            at_ns=1 + int(1e9 * self.clock_s), samples=samples,
        )  # fmt: skip
        return b""

    def _set_up_s(self, point: Point, recorded: Point) -> float:
        size = stated_bytes(point, self._plan.probes[point.probe])
        if self._gib_s is None or size <= LARGE_BYTES:
            return self._recorded.set_up_s.get(recorded, 0.0)
        return self._gib_s * size / GIB

    def answered(self, *_: object) -> Outcome:
        """Returns the last visit's outcome, in place of reading a stream."""
        return self._answer

    def outcome(self, outcome: Outcome) -> None:
        self._seen[outcome.point].append(outcome)
        if self.clock_s > len(self.curve) * self._plan.budget_seconds / 20:
            self.curve.append((self.clock_s, self.converged()))

    def converged(self) -> int:
        probes = self._plan.probes
        return sum(
            len(visits) >= self._judge.visits_wanted(visits, probes[point.probe])
            for point, visits in self._seen.items()
            if visits[-1].status == "ok"
        )

    def visited(self, least: int = 1) -> list[Point]:
        """Returns the planned points with at least this number of visits."""
        return [point for point in self._plan.points() if len(self._seen.get(point, [])) >= least]

    def nothing(self, *_: object) -> None:
        """Ignores the calls of an observer and a journal that a replay does not need."""

    visit = append = note = interrupt = nothing


def _replayed(plan: Plan, half: Prepared, recorded: Recorded, seed: int, gib_s: float | None) -> str:
    plan = msgspec.structs.replace(plan, seed=seed)
    judge = measure.AnalysisJudge(plan.probes, learned(half.request, half.machine), plan.precision, plan.suite)
    replay = Replay(plan, recorded, judge, seed, gib_s)
    paths = {key: made.path for key, made in used(half.plan, half.catalog).items()}
    targets = dict.fromkeys({point.target for point in plan.points()}, replay)
    stage = conduct.Stage(targets, paths, replay, judge, replay, replay, now=lambda: replay.clock_s)  # type: ignore[arg-type]
    with mock.patch.object(conduct, "outcome", replay.answered):
        conduct.conduct(plan, stage)
    with_interval = replay.visited(LEAST_VISITS)
    seen = (
        f"{len(replay.visited())} of {len(plan.points())} visited, {len(with_interval)} with an interval; of the first "
        f"screen {sum(is_shown(plan, point) for point in with_interval)} of "
        f"{sum(is_shown(plan, point) for point in plan.points())}"
    )
    curve = " ".join(f"{converged:4}" for _, converged in replay.curve)
    return f"{curve}   end {replay.converged()}; {seen}"


def _with_last_cache(machine: Machine, mib: float | None) -> Machine:
    """Returns the machine with a last cache of another size."""
    if mib is None:
        return machine
    last = max(cache.level for cache in machine.caches)
    caches = [
        msgspec.structs.replace(cache, size_bytes=int(mib * MIB)) if cache.level == last else cache
        for cache in machine.caches
    ]
    return msgspec.structs.replace(machine, caches=type(machine.caches)(caches))


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("runs", nargs="+", type=Path)
    words.add_argument("--budget", type=float, default=60.0)
    words.add_argument("--seeds", type=int, default=8)
    words.add_argument("--last-cache", type=float, help="MiB")
    words.add_argument("--gib-s", type=float)
    given = words.parse_args()
    options = Options((), None, None, None, None, None, "", True, time.monotonic())
    half = interrupted(str(given.runs[0]), options, may_start=False)
    request = msgspec.structs.replace(half.request, budget_seconds=given.budget)
    wanted = ProbeRequest(selects_of(request.suite), request.against)
    catalog = places.made_ready(request.abis, request.targets, wanted, False, may_start=False)
    plan = plan_of(request, catalog, _with_last_cache(half.machine, given.last_cache))
    plan = msgspec.structs.replace(plan, budget_seconds=for_measuring(given.budget))
    recorded = Recorded(given.runs)
    print(f"points converged at each twentieth of {plan.budget_seconds:.0f} s")
    for seed in range(given.seeds):
        print(f"{seed:3}  {_replayed(plan, half, recorded, seed, given.gib_s)}", flush=True)


if __name__ == "__main__":
    main()
