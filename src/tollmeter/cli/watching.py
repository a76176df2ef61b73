# SPDX-License-Identifier: Apache-2.0
"""Progress on the terminal: of this process's run, or of another process's run from its journal."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tollmeter.conduct import Observer
from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.model import Failure, Machine, Outcome, Point, Probe, Visit
from tollmeter.numbers.rows import rows_of_point
from tollmeter.plan import Plan
from tollmeter.plan.effort import planned_visits
from tollmeter.protocol import Outcomes, head
from tollmeter.report.progress import Progress
from tollmeter.store.journal import Stream, Tail
from tollmeter.store.request import Request, read_request

LOOK_EVERY_S = 1.0
LOOKS = (1, LEAST_VISITS)
"""Numbers of visits of a point after which its value is computed: the first visit, whose value is printed with `~`, and
the visit that gives an interval."""


@contextlib.contextmanager
def watching(plan: Plan, machine: Machine) -> Iterator[Observer]:
    """Shows the progress of a run on standard error while the block runs, and removes it afterwards."""
    with Progress(plan.probes) as progress:
        visits = sum(planned_visits(point) * len(plan.placements(point)) for point in plan.points())
        progress.start(machine, plan.suite, plan.seed, visits, plan.budget_seconds)
        yield Watching(plan.probes, progress)


class Watching(Observer):
    """Shows the progress of a run. The ABI of the first visit counts as the machine's own."""

    def __init__(self, probes: Mapping[str, Probe], progress: Progress) -> None:
        self._probes = probes
        self._progress = progress
        self._abi = ""
        self._seen: dict[Point, list[Outcome]] = {}
        self._fresh: dict[Point, None] = {}

    def visit(self, visit: Visit, fraction: float, seconds_left: float) -> None:
        self.print_numbers()
        self._progress.visit(visit.point, fraction, seconds_left)

    def print_numbers(self) -> None:
        """Prints the numbers of the visits since the last call, if they will be displayed."""
        if self._progress.takes_numbers:
            fresh = [rows_of_point(self._seen[point], self._probes[point.probe]) for point in self._fresh]
            self._progress.numbers([row for rows in fresh for row in rows])
            self._fresh.clear()

    def outcome(self, outcome: Outcome) -> None:
        point = outcome.point
        self._abi = self._abi or point.abi
        if outcome.status != "ok" or point.abi != self._abi:
            return
        outcomes = self._seen.setdefault(point, [])
        if len(outcomes) >= max(LOOKS):
            return
        outcomes.append(outcome)
        if len(outcomes) in LOOKS and self._is_shown(point):
            self._fresh[point] = None

    def _is_shown(self, point: Point) -> bool:
        """Returns whether a number of the point may be displayed."""
        metrics = self._probes[point.probe].metrics if point.probe in self._probes else ()
        return any(metric.toll or metric.means == "latency-of-size" for metric in metrics)


def follow(folder: Path) -> None:
    """Shows a run of another process until it ends; reads it once a second. Raises Failure if it is no run."""
    request, tail = read_request(folder), Tail(folder)
    opening = next(tail.new_streams(), None)
    first = head(opening.lines) if opening else None
    if first is None or first.machine is None:
        raise Failure(f"{folder} does not say yet which machine is measured: try again in a moment")
    probes = {probe.probe: probe for probe in first.probes}
    with Progress(probes) as progress:
        progress.start(first.machine, request.suite, request.seed, 0, request.budget_seconds)
        watching_run = Watching(probes, progress)
        while tail.is_written():
            _show(tail.new_streams(), watching_run, progress, request)
            time.sleep(LOOK_EVERY_S)


def _show(streams: Iterable[Stream], watching_run: Watching, progress: Progress, request: Request) -> None:
    """Shows the records that arrived since the last call."""
    elapsed = (datetime.now(UTC) - datetime.fromisoformat(request.started)).total_seconds()
    share = elapsed / request.budget_seconds
    for stream in streams:
        if stream.is_visit:
            visited = Outcomes().of_text(stream.text)
            watching_run.outcome(visited)
            watching_run.print_numbers()
            progress.visit(visited.point, share, max(0.0, request.budget_seconds - elapsed))
