# SPDX-License-Identifier: Apache-2.0
"""Makes the visits of a plan, and writes each to the journal before the next begins.

`Schedule` chooses the next visit, a target makes it, and between rounds the judge reports which points have converged.
Given the outcomes of an interrupted run, it makes the missing visits; a visit is identified by point, round and
CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.conduct.judging import Judging
from tollmeter.conduct.machine_lock import hold_machine_lock, no_collections, pinned_to
from tollmeter.conduct.schedule import Place, Schedule
from tollmeter.conduct.stage import Judge, Observer, Stage
from tollmeter.conduct.stopping import Stopping
from tollmeter.conduct.strays import end_strays
from tollmeter.conduct.surroundings import Watch
from tollmeter.model import BEYOND, Outcome, Status, Visit
from tollmeter.model.topology import is_here
from tollmeter.plan import Plan
from tollmeter.protocol import Outcomes, outcome, refused
from tollmeter.store.journal import Session

__all__ = ["Judge", "Observer", "Stage", "Stopping", "Watch", "conduct", "hold_machine_lock", "pinned_to"]


def conduct(plan: Plan, stage: Stage, done: Sequence[Outcome] = (), seconds_before: float = 0.0) -> Session:
    """Measures until all points have converged, the budget is spent or a stop is requested, and returns the last note
    of the journal, which states the reason.

    done, seconds_before: outcomes and duration in seconds of the earlier sessions, if a run is resumed."""
    run = _Run(plan, stage, done, seconds_before)
    with no_collections():
        status, reason = run.to_the_end()
    run.close()
    run.leave_a_sentence_for_gaps(reason)
    return run.note(status, reason, end_strays() if stage.watch else 0)


class _Run:
    def __init__(self, plan: Plan, stage: Stage, done: Sequence[Outcome], seconds_before: float) -> None:
        self._plan = plan
        self._stage = stage
        self._seconds_before = seconds_before
        self._began = stage.now()
        self._reader = Outcomes()
        self._judging = Judging(plan, stage.judge, beside=stage.reviews_beside)
        built = [earlier for earlier in done if (earlier.point.probe, earlier.point.abi) in stage.executables]
        self._schedule = Schedule(plan, self._judging, self._has_ended, done, built)
        self._excess = ""
        for earlier in done:
            self._keep(earlier)

    def note(self, status: str, reason: str | None = None, left_behind: int = 0) -> Session:
        """Writes a note with the present conditions to the journal, and returns it."""
        surroundings = self._stage.watch.seen(left_behind) if self._stage.watch else None
        session = Session(status, self._seconds_before + self._stage.now() - self._began, reason, surroundings)
        self._stage.journal.note(session)
        return session

    def to_the_end(self) -> tuple[str, str | None]:
        """Makes all visits, and returns the status and the reason with which the session ended."""
        schedule, stopping = self._schedule, self._stage.stopping
        while self._begin():
            while not self._excess and (visit := schedule.next(self._left())) and not stopping.asked:
                self._make(visit)
            if self._excess:
                return BEYOND, self._excess
            if stopping.asked:
                return "interrupted", "the run was interrupted"
            if not schedule.is_cut:
                self._review()
        if schedule.all_are_done() and not schedule.is_cut:
            return "settled", None
        return "budget", f"the measuring time ({self._plan.budget_seconds:.0f} s) was used up"

    def _begin(self) -> bool:
        """Begins a round, and returns whether there is one. If the last review leaves no point to visit, a review of
        all visits decides."""
        schedule = self._schedule
        return not schedule.is_cut and (
            schedule.begin(self._left()) or (self._review(anew=True) and schedule.begin(self._left()))
        )

    def _review(self, *, anew: bool = False) -> bool:
        """Applies the review that was begun, refines curves, writes a note, and begins another review if there are
        enough new visits. Returns whether a review was applied. anew: wait for a review of all visits."""
        judging, is_new = self._judging, False
        for _ in range(2):
            judging.begin(anew=anew)
            if judging.take(wait=anew):
                is_new = True
                self._schedule.refine(self._left())
                self.note("measuring")
        return is_new

    def _make(self, visit: Visit) -> None:
        """Makes one visit, and learns its cost."""
        stage, point = self._stage, visit.point
        left_s = max(0.0, self._left())
        stage.observer.visit(visit, 1 - left_s / self._plan.budget_seconds, left_s)
        began = stage.now()
        revision = self._plan.probes[point.probe].revision
        stream = stage.targets[point.target].run(stage.executables[point.probe, point.abi], visit, revision)
        visited = self._record(stream)
        waited_s, counted_s = visited.waited_ns / 1e9, visited.counted_ns / 1e9
        if visited.status == "ok":  # a refusal does not show the cost of another visit
            self._schedule.learn(visit, stage.now() - began - waited_s - counted_s, counted_s)

    def _record(self, stream: bytes) -> Outcome:
        """Writes the records of a visit to the journal, and returns its outcome."""
        self._stage.journal.append(stream)
        visited = outcome(stream, self._reader)
        self._keep(visited)
        self._stage.observer.outcome(visited)
        return visited

    def _keep(self, outcome: Outcome) -> None:
        """Adds an outcome to the judged visits."""
        self._excess = self._excess or self._stage.judge.excess(outcome)
        if outcome.status != "interrupted":
            self._judging.add(outcome)

    def close(self) -> None:
        """Waits for a review in progress."""
        self._judging.close()

    def _has_ended(self, place: Place) -> bool:
        """Returns whether the process of the last layout of a point on these CPUs no longer waits for a visit."""
        point, cpus = place
        pool, executable = self._stage.pool, self._stage.executables[point.probe, point.abi]
        return pool is not None and is_here(point.target) and (executable, point.parameters, cpus) not in pool

    def _left(self) -> float:
        """Returns the remaining seconds of the budget."""
        return self._plan.budget_seconds - (self._stage.now() - self._began)

    def leave_a_sentence_for_gaps(self, reason: str | None) -> None:
        """Records a refusal for each planned point without a visit, so that its row states the reason. reason: for
        points that could have been visited."""
        gaps = self._plan.gaps()
        for point in dict.fromkeys([*gaps, *self._schedule.points]):
            if not self._judging.seen.get(point):
                status: Status = "unsupported" if point in gaps else "interrupted"
                sentence = gaps.get(point) or reason or "it was not visited"
                revision = self._plan.probes[point.probe].revision
                self._record(refused(self._schedule.refusal(point), revision, status, sentence))
