# SPDX-License-Identifier: Apache-2.0
"""Makes a plan's visits, live, and journals each before the next begins.

Round 0 visits every point, except those with an expensive set-up that the budget leaves for later; the first rounds of
a study visit the points of its claims. Between rounds the judge reports which points have converged, how many visits
the others want, and where a curve wants more points. Later rounds visit the points that gain most, until all have
converged or the budget is spent. Given the outcomes of an interrupted run, it makes the missing visits: two visits are
the same if point, round and CPUs are."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import inf

from tollmeter.conduct.judge_queries import JudgeQueries
from tollmeter.conduct.layouts import Layout, Layouts, RoundOrder
from tollmeter.conduct.machine_lock import hold_machine_lock
from tollmeter.conduct.quiet import no_collections, pinned_to
from tollmeter.conduct.refining import Refinement
from tollmeter.conduct.setup_planner import SetupPlanner
from tollmeter.conduct.stage import Judge, Observer, Stage
from tollmeter.conduct.stopping import Stopping
from tollmeter.conduct.strays import end_strays
from tollmeter.conduct.surroundings import Watch
from tollmeter.experiment.allocation import Wish, next_visits
from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import Outcome, Point, Status, Visit
from tollmeter.plan import LAYOUT_SERVES, Costs, Plan, Sampling, groups, visit_order
from tollmeter.plan.claims import UNCLAIMED, claim_rank
from tollmeter.plan.effort import EFFORTS, Effort, allowed, visits_wanted
from tollmeter.protocol import Outcomes, outcome, refused
from tollmeter.store.journal import Session

__all__ = [
    "Judge",
    "Observer",
    "Stage",
    "Stopping",
    "Watch",
    "conduct",
    "hold_machine_lock",
    "pinned_to",
]

_FINAL: frozenset[Status] = frozenset({"unsupported", "wrong_answer", "timeout"})
"""One such visit is enough: the boundary does not exist here, its number is worthless, or it costs the run too much."""
_MOST_FAILURES = 2
_LEFT_OVER_S = 10.0
"""A point whose layout is not set up is postponed from round to round for this long; then the run waits for it."""
_MOST_AGAIN = 3
"""Visits of a point that the judge reports as different; a difference that persists after them is shown."""
_MOST_SPREAD, _MOST_LEAVING = 0.5, 0.25
"""Shares of the remaining time: of a round that may be reordered, and of one that may leave points to the next."""
_FOR_KNEES = 0.05
"""Share of the budget for points near cache boundaries, where there is too little for all."""
_MOST_REVIEWING = 0.01
"""Share of a run's time."""
_LEAST_WALL_MS = 1000
"""The run begins a visit only if its expected cost fits into the remaining budget; a visit that takes longer is ended
after this time at the earliest."""


def conduct(plan: Plan, stage: Stage, done: Sequence[Outcome] = (), seconds_before: float = 0.0) -> Session:
    """Measures until all points have converged, the budget is spent or a stop is requested; the journal's last note
    states which.

    done and seconds_before: of the earlier sessions, for a run that is resumed."""
    run = _Run(plan, stage, done, seconds_before)
    with no_collections():
        status, reason = run.to_the_end()
    run.leave_a_sentence_for_gaps(reason)
    return run.note(status, reason, end_strays() if stage.watch else 0)


class _Run:
    def __init__(self, plan: Plan, stage: Stage, done: Sequence[Outcome], seconds_before: float) -> None:
        self._plan = plan
        self._stage = stage
        self._seconds_before = seconds_before
        self._began = stage.now()
        self._costs: Costs = plan.costs()
        self._seen: dict[Point, list[Outcome]] = {}
        self._asking = JudgeQueries(plan, stage.judge, self._seen)
        self._setups = SetupPlanner(stage, self._costs, self._asking.beside_a_visit)
        self._layouts = Layouts()
        self._reader = Outcomes()
        self._next_review = 0.0
        self._for_knees = _FOR_KNEES * plan.budget_seconds
        self._review_visits: Counter[Point] = Counter()
        self._left_over: dict[Point, float] = {}
        self._first_round: dict[Point, int] = dict.fromkeys(plan.points(), 0)
        self._pairs_wanted = {point: pairs for point in plan.points() if (pairs := plan.pairs_wanted(point))}
        self._refinement = Refinement(plan, stage.judge)
        self._visits = itertools.count(max((outcome.visit for outcome in done), default=-1) + 1)
        self._made = {_key(outcome) for outcome in done if outcome.status != "interrupted"}
        for earlier in done:
            self._keep(earlier)
            if (earlier.point.probe, earlier.point.abi) in stage.executables:
                self._first_round.setdefault(earlier.point, earlier.round)

    def elapsed(self) -> float:
        """Seconds of this session."""
        return self._stage.now() - self._began

    def note(self, status: str, reason: str | None = None, left_behind: int = 0) -> Session:
        seen = self._stage.watch.seen(left_behind) if self._stage.watch else None
        session = Session(status, self._seconds_before + self.elapsed(), reason, seen)
        self._stage.journal.note(session)
        return session

    def to_the_end(self) -> tuple[str, str | None]:
        """Status and reason."""
        for round_ in itertools.count():
            points = self._due(round_)
            if not points:
                return self._ended()
            whole = self._round(round_, points)
            if self._stage.stopping.asked:
                return "interrupted", "somebody asked to stop"
            if not whole:
                return "budget", self._spent()
            self._review(round_ + 1)
        raise AssertionError("rounds do not end by themselves")

    def _review(self, round_: int) -> None:
        """Refines curves and notes the state, which takes as long as two visits: after a short round it is postponed,
        as long as there are points to visit without it."""
        self._asking.read()
        began = self._stage.now()
        adds = round_ - 1 in self._first_round.values() and round_ > 1
        if not adds and began < self._next_review and not all(self._is_done(point) for point in self._first_round):
            return
        self._refine(round_)
        self.note("measuring")
        ended = self._stage.now()
        self._next_review = ended + (ended - began) / _MOST_REVIEWING

    def _ended(self) -> tuple[str, str | None]:
        """Nothing is left to visit: all points have converged, or are as narrow as the between-run variance; or no
        visit fits the remaining budget."""
        if all(self._is_done(point) for point in self._first_round):
            return "settled", None
        return "budget", self._spent()

    def _spent(self) -> str:
        return f"the {self._plan.budget_seconds:.0f} s for measuring were spent"

    def leave_a_sentence_for_gaps(self, reason: str | None) -> None:
        """Records a refusal for each planned point without a visit: its row then states the reason."""
        sentences: dict[Point, tuple[Status, str]] = {
            point: ("unsupported", gap) for point, gap in self._plan.gaps().items()
        }
        for point in self._first_round:
            sentences.setdefault(point, ("interrupted", reason or "it was not visited"))
        for point, (status, sentence) in sentences.items():
            if not self._seen.get(point):
                sampling = self._sampling(point, self._plan.effort)
                visit = self._plan.visit(next(self._visits), point, 0, (), sampling)
                self._record(refused(visit, self._plan.probes[point.probe].revision, status, sentence))

    # ---- one round ----------------------------------------------------------------------------------------------

    def _due(self, round_: int) -> list[Point]:
        """The points of the next round. First every point once, those of a study's claims until each has an interval;
        then the points whose next visits gain most."""
        known = [point for point, first in self._first_round.items() if first <= round_]
        if round_ == 0:
            return self._claims_first(known)
        if self._asking.look():
            self._refinement.forget()
        if self._plan.against:
            return self._due_interleaved()
        still = self._claims_first([point for point in known if not self._is_done(point)])
        fresh = [point for point in still if not self._seen.get(point)]
        if added := [point for point in fresh if self._first_round[point] == round_]:
            return added
        fresh += self._due_for_review()
        wishes = [self._wish(point) for point in still if self._seen.get(point) and point not in fresh]
        return fresh + next_visits(wishes, self._left() - self._seconds_of(fresh))

    def _due_for_review(self) -> list[Point]:
        """Points that the judge reports as different, after as many visits as an interval takes: before that they are
        visited anyway."""
        differing = [
            point
            for point in self._stage.judge.differing(self._seen)
            if len(self._seen[point]) >= LEAST_VISITS
            and not self._has_failed(point)
            and self._review_visits[point] < _MOST_AGAIN
            and self._costs.first(point, self._plan.effort) <= self._left()
        ]
        self._review_visits.update(differing)
        return differing

    def _claims_first(self, points: list[Point]) -> list[Point]:
        """The points of a study's claims that lack visits for an interval, where the time suffices for one; then those
        of its tables; else all points. A budget that is soon spent answers the question of the study before it begins
        other points."""
        if self._plan.against:
            return points
        ranks = {point: rank for point in points if (rank := claim_rank(self._plan.suite, point)) != UNCLAIMED}
        left, effort = self._left(), self._plan.effort
        lacking = [
            point
            for point in ranks
            if len(self._seen.get(point, ())) < LEAST_VISITS and self._costs.first(point, effort) <= left
        ]
        first = min((ranks[point] for point in lacking), default=UNCLAIMED)
        return [point for point in lacking if ranks[point] == first] or points

    def _due_interleaved(self) -> list[Point]:
        """The points whose ratio to a reference point is not precise enough, and that reference point, if it
        answers."""
        due: list[Point] = []
        for *several, other in groups(self._plan.against):
            still = [point for point in several if not self._is_done(point)]
            due += [*still, other] if still and not self._has_failed(other) else []
        return due if sum(self._costs.first(point, self._plan.effort) for point in due) <= self._left() else []

    def _wish(self, point: Point) -> Wish[Point]:
        places = len(self._plan.placements(point))
        cost = places * self._costs.of(point, self._plan.effort)
        seen = len(self._seen[point])
        return Wish(point, seen, seen + (self._visits_wanted(point) - seen) / places, cost)

    def _seconds_of(self, points: Iterable[Point]) -> float:
        """Time of one visit to each point, at each of its placements."""
        return sum(len(self._plan.placements(point)) * self._costs.of(point, self._plan.effort) for point in points)

    def _round(self, round_: int, points: Sequence[Point]) -> bool:
        """Visits each point once; points that were added near cache boundaries as often as an interval takes. False
        where the round was stopped, or a visit left out because the budget does not suffice for it."""
        is_added = round_ > 0 and all(self._first_round[point] == round_ for point in points)
        passes = LEAST_VISITS if is_added and not self._plan.against else 1
        return all(self._pass(round_, points) for _ in range(passes))

    def _pass(self, round_: int, points: Sequence[Point]) -> bool:
        effort = self._effort(points)
        whole = True
        turns = self._turns(points, round_, effort)
        for point in turns.each(self._setups.is_ready):
            for cpus in self._placements(point):
                if not self._is_wanted(point, round_, cpus):
                    continue
                if self._stage.stopping.asked:
                    return False
                if self._costs.first(point, effort) > self._left():
                    whole = False
                    continue
                self._make(point, round_, cpus, effort)
        self._left_over = {point: self._left_over.get(point, self._stage.now()) for point in turns.left}
        return whole

    def _turns(self, points: Sequence[Point], round_: int, effort: Effort) -> RoundOrder:
        """The order of a round's visits. Slow set-ups run beside visits of other points, also of the next rounds; where
        the budget may end with this round, each point is visited first."""
        order = visit_order(self._plan, points, round_, self._costs)
        order.sort(key=lambda point: self._left_over.get(point, inf))
        first = () if self._plan.against else self._first_visits(order, round_, effort)
        slow = self._setups.expect(first)
        share = self._seconds_of(points) / max(1e-9, self._left())
        have_intervals = all(len(self._seen.get(point, ())) >= LEAST_VISITS for point in points)
        if share > _MOST_SPREAD and not have_intervals:
            return RoundOrder(order)
        since = self._stage.now() - _LEFT_OVER_S
        may_wait = {point for point in slow if self._left_over.get(point, inf) > since}
        return RoundOrder(order, slow, may_wait if share <= _MOST_LEAVING or have_intervals else ())

    def _first_visits(self, order: Iterable[Point], round_: int, effort: Effort) -> Iterator[Visit]:
        """The visits that begin a layout, of the points with one visit a round."""
        for point in order:
            (cpus, *more) = self._plan.placements(point)
            layout = self._layout(point, round_, cpus, effort)
            if not more and not layout.served and self._is_wanted(point, round_, cpus):
                yield self._plan.visit(0, point, round_, cpus, self._sampling(point, effort, layout.number))

    def _is_wanted(self, point: Point, round_: int, cpus: tuple[int, ...]) -> bool:
        """Whether a visit of a round is still to be made: an earlier session may have made it."""
        return (point, round_, cpus) not in self._made and not self._has_failed(point)

    def _effort(self, points: Sequence[Point]) -> Effort:
        """The greatest allowed effort with which the visits still wanted end in time, by what visits have cost."""
        efforts = allowed(self._plan.effort, [len(self._seen.get(point, ())) for point in points])
        return next((effort for effort in efforts if self._wanted_s(points, effort) <= self._left()), efforts[-1])

    def _wanted_s(self, points: Iterable[Point], effort: Effort) -> float:
        """Wall time of the visits that the points still want: at least one each, since they have not converged."""
        total = 0.0
        for point in points:
            missing = visits_wanted(point) - len(self._seen.get(point, ()))
            total += max(1, missing) * self._costs.of(point, effort) * len(self._plan.placements(point))
        return total

    def _left(self) -> float:
        return self._plan.budget_seconds - self.elapsed()

    def _sampling(self, point: Point, effort: Effort, layout: int = 0) -> Sampling:
        """Passes on the iterations of the visit before: to find them anew takes as long as two samples."""
        last = next((outcome for outcome in reversed(self._seen.get(point, ())) if outcome.samples), None)
        sample = last.samples[0] if last else None
        return Sampling(
            samples=self._costs.samples(point, effort), sample_ns=effort.sample_ns,
            layout=layout,
            iterations=sample.iterations if sample else 0,
            control_iterations=sample.control_iterations if sample else 0,
            wall_ms=max(_LEAST_WALL_MS, int(1000 * self._left())),
        )  # fmt: skip

    def _layout(self, point: Point, round_: int, cpus: tuple[int, ...], effort: Effort) -> Layout:
        """The layout of the point's next visit."""
        is_interleaved = bool(self._plan.against)
        serves = LAYOUT_SERVES if is_interleaved else self._costs.visits_of_layout(point, effort)
        has_ended = not is_interleaved and self._setups.has_ended(point, cpus)
        return self._layouts.next((point, cpus), round_, serves, has_ended=has_ended)

    def _make(self, point: Point, round_: int, cpus: tuple[int, ...], effort: Effort) -> None:
        stage, effort = self._stage, self._plan.effort_of(point, effort)
        layout = self._layout(point, round_, cpus, effort)
        self._layouts.serve((point, cpus), layout)
        sampling = self._sampling(point, effort, layout.number)
        visit = self._plan.visit(next(self._visits), point, round_, cpus, sampling)
        stage.observer.visit(visit, *self._progress())
        is_prestaged = self._setups.is_begun(point)
        began = stage.now()
        revision = self._plan.probes[point.probe].revision
        stream = stage.targets[point.target].run(stage.executables[point.probe, point.abi], visit, revision)
        self._record(stream)
        spent = stage.now() - began
        self._costs.learn(point, visit.samples, effort, spent, fresh=not layout.served, ahead=is_prestaged)
        self._setups.learn(point, cpus)

    def _record(self, stream: bytes) -> None:
        self._stage.journal.append(stream)
        visited = outcome(stream, self._reader)
        self._keep(visited)
        self._stage.observer.outcome(visited)

    def _keep(self, outcome: Outcome) -> None:
        if outcome.status != "interrupted":
            self._seen.setdefault(outcome.point, []).append(outcome)
            self._asking.add(outcome)

    def _progress(self) -> tuple[float, float]:
        """Fraction done, and seconds left of the budget, which is the latest end."""
        budget = max(1e-9, self._plan.budget_seconds)
        return min(1.0, self.elapsed() / budget), max(0.0, self._left())

    # ---- between rounds -----------------------------------------------------------------------------------------

    def _is_done(self, point: Point) -> bool:
        seen = self._seen.get(point, [])
        return self._has_failed(point) or (bool(seen) and self._visits_wanted(point) <= len(seen))

    def _placements(self, point: Point) -> list[tuple[int, ...]]:
        """Of a matrix the pairs that follow those of its visits so far."""
        turn = len(self._seen.get(point, ())) // len(self._plan.placements(point))
        return self._plan.placements(point, turn)

    def _visits_wanted(self, point: Point) -> float:
        """Of a matrix of CPUs as many as there are pairs, at least: the later rounds visit other pairs."""
        return max(self._asking.visits_wanted(point), self._pairs_wanted.get(point, 0))

    def _has_failed(self, point: Point) -> bool:
        seen = self._seen.get(point, [])
        failures = sum(outcome.status != "ok" for outcome in seen)
        return failures >= _MOST_FAILURES or any(outcome.status in _FINAL for outcome in seen)

    def _refine(self, round_: int) -> None:
        """Adds the points that the judge wishes for, the cheapest of each curve first, as long as all wanted visits
        still fit, or the added ones take only a small share of the budget together.

        The place of a cache boundary matters more than the precision of each point, so the least effort suffices to
        make room. The added points make a round of their own, whose result adds the next points."""
        least, usual = EFFORTS[-1], self._plan.effort
        open_points = [point for point in self._first_round if not self._is_done(point)]
        spare = self._left() - self._wanted_s(open_points, usual)
        for curve in self._plan.curves():
            wished = self._refinement.wished(curve, self._seen)
            added = [point for point in wished if point not in self._first_round]
            for point in sorted(added, key=lambda candidate: self._costs.of(candidate, least)):
                cost = self._wanted_s([point], least)
                if cost > max(spare, self._for_knees):
                    break
                spare, self._for_knees = spare - cost, self._for_knees - cost
                self._first_round[point] = round_


def _key(outcome: Outcome) -> tuple[Point, int, tuple[int, ...]]:
    return outcome.point, outcome.round, outcome.cpus
