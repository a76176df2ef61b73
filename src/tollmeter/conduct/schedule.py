# SPDX-License-Identifier: Apache-2.0
"""Which visit a run makes next. Nothing here starts a process, reads a clock or writes a file."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from tollmeter.conduct.judging import Judging
from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import Outcome, Point, Status, Visit
from tollmeter.plan import LAYOUT_SERVES, Costs, Plan, Sampling, groups, visit_order
from tollmeter.plan.claims import UNCLAIMED, claim_rank
from tollmeter.plan.effort import EFFORTS, Effort, Wish, next_visits, visits_wanted

_FINAL: frozenset[Status] = frozenset({"unsupported", "wrong_answer", "timeout"})
"""One such visit is enough: the boundary does not exist here, its number is worthless, or it costs the run too much."""
_MOST_FAILURES = 2
_MOST_AGAIN = 3
"""Visits of a point that the judge reports as different; a difference that persists after them is shown."""
_MOST_SPREAD, _MOST_LEAVING = 0.5, 0.25
"""Shares of the remaining time: of a round that may be reordered, and of one that may leave points to the next."""
_LEFT_OVER_S = 10.0
"""A point whose layout is not set up is left from round to round for this long; then the run waits for it."""
_FOR_KNEES = 0.05
"""Share of the budget for points near cache boundaries, where there is too little for all."""
_LEAST_WALL_MS = 300
"""The run begins a visit only if its expected cost fits into the remaining budget; a visit that takes longer is ended
after this time at the earliest."""

Place = tuple[Point, tuple[int, ...]]
"""A point and the CPUs of its visit."""


class Layout(NamedTuple):
    """Of one point on some CPUs: which one, of which round, and how many visits it has served."""

    number: int = 0
    round: int = 0
    served: int = 0


class State(NamedTuple):
    """What the next visit depends on beside the visits so far. left_s: of the budget. is_ready: whether the layout of a
    point's next visit is set up, or is not set up before its visit. has_ended: whether the process of the layout that
    was visited last has ended, by itself or to free its memory."""

    left_s: float
    is_ready: Callable[[Point], bool]
    has_ended: Callable[[Place], bool]


class Schedule:
    """Of one run. `begin` chooses the points of a round, and `next` its visits one by one."""

    def __init__(
        self, plan: Plan, judging: Judging, costs: Costs, done: Sequence[Outcome], built: Sequence[Outcome]
    ) -> None:
        """done: of earlier sessions; built: of these, the ones whose executables are there."""
        self._plan = plan
        self._judging = judging
        self._costs = costs
        self._seen = judging.seen
        self._first_round = dict.fromkeys(plan.points(), 0)
        for earlier in built:
            self._first_round.setdefault(earlier.point, earlier.round)
        self._visits_of_pairs = {point: visits for point in plan.points() if (visits := plan.visits_of_pairs(point))}
        self._made = {
            (earlier.point, earlier.round, earlier.cpus) for earlier in done if earlier.status != "interrupted"
        }
        self._numbers = itertools.count(max((earlier.visit for earlier in done), default=-1) + 1)
        self._layouts: dict[Place, Layout] = {}
        self._review_visits: Counter[Point] = Counter()
        self._for_knees = _FOR_KNEES * plan.budget_seconds
        self._round = 0
        self._queue: list[Place] = []
        self._keeps_order, self._may_leave = True, False
        self._left_over: dict[Point, float] = {}
        self.is_cut = False
        """Whether a visit was left out because the budget does not suffice for it."""

    # ---- the visits of a round --------------------------------------------------------------------------------------

    def begin(self, round_: int, left_s: float) -> bool:
        """Chooses the points of a round. False where none is left to visit."""
        self._round = round_
        points = self._due(left_s)
        is_added = round_ > 0 and all(self._first_round[point] == round_ for point in points)
        passes = LEAST_VISITS if is_added and not self._plan.against else 1
        order = visit_order(self._plan, points, round_, self._costs)
        self._queue = [place for _ in range(passes) for place in self._spread(order)]
        return bool(points)

    def _spread(self, order: Sequence[Point]) -> list[Place]:
        """The visits of points in this order, those of a matrix evenly among them: at any moment of a round all
        relations of CPUs are visited, so that the machine's state at that moment is no difference between them."""
        places = [(point, self._placements(point)) for point in order]
        spread = [
            (turn / len(order) if len(several) == 1 else (place + 0.5) / len(several), turn, point, cpus)
            for turn, (point, several) in enumerate(places)
            for place, cpus in enumerate(several)
        ]
        return [(point, cpus) for *_, point, cpus in sorted(spread, key=lambda one: one[:2])]

    def coming(self, state: State) -> list[Visit]:
        """The visits of the round that begin a layout, of the points with one visit a round."""
        if self._plan.against:
            return []
        places = [place for place in dict.fromkeys(self._queue) if len(self._plan.placements(place[0])) == 1]
        layouts = {place: self._next_layout(place, state) for place in places if self._is_wanted(place)}
        return [
            self._plan.visit(0, point, self._round, cpus, self._sampling(point, layout, state))
            for (point, cpus), layout in layouts.items()
            if not layout.served
        ]

    def put_first(self, slow: Container[Point], left_s: float) -> None:
        """Moves the points with slow set-ups to the front, where each is visited as soon as it is ready. Where the
        budget may end with this round, each point is visited first, in the planned order."""
        points = dict.fromkeys(point for point, _ in self._queue)
        share = self._seconds_of(points) / max(1e-9, left_s)
        have_intervals = all(len(self._seen.get(point, ())) >= LEAST_VISITS for point in points)
        self._keeps_order = share > _MOST_SPREAD and not have_intervals
        if not self._keeps_order:
            self._queue.sort(key=lambda place: (place[0] not in slow, -self._left_over.get(place[0], 0.0)))
        has_others = any(point not in slow for point in points)
        self._may_leave = has_others and (have_intervals or share <= _MOST_LEAVING)

    def next(self, state: State) -> Visit | None:
        """The first visit of the round whose layout is ready. None at the end of the round: set-ups that are not ready
        then go on beside the visits of the next round."""
        while place := self._next_place(state):
            self._queue.remove(place)
            if not self._is_wanted(place):
                continue
            if self._first_s(place[0]) <= state.left_s:
                return self._visit(place, state)
            self.is_cut = True
        return None

    def _next_place(self, state: State) -> Place | None:
        ready = (place for place in self._queue if self._keeps_order or state.is_ready(place[0]))
        waited_for = (place for place in self._queue if not self._leaves(place[0], state.left_s))
        return next(ready, None) or next(waited_for, None)

    def _leaves(self, point: Point, left_s: float) -> bool:
        return self._may_leave and self._left_over.setdefault(point, left_s) - left_s < _LEFT_OVER_S

    def _visit(self, place: Place, state: State) -> Visit:
        point, cpus = place
        layout = self._next_layout(place, state)
        self._left_over.pop(point, None)
        self._layouts[place] = layout._replace(served=layout.served + 1)
        return self._plan.visit(next(self._numbers), point, self._round, cpus, self._sampling(point, layout, state))

    def _is_wanted(self, place: Place) -> bool:
        """Whether a visit of the round is still to be made: an earlier session may have made it."""
        point, cpus = place
        return (point, self._round, cpus) not in self._made and not self._has_failed(point)

    def _has_failed(self, point: Point) -> bool:
        seen = self._seen.get(point, [])
        failures = sum(outcome.status != "ok" for outcome in seen)
        return failures >= _MOST_FAILURES or any(outcome.status in _FINAL for outcome in seen)

    def _placements(self, point: Point) -> list[tuple[int, ...]]:
        """Of a matrix the pairs that follow those of its visits so far; once each has its visits, those whose intervals
        are wide."""
        seen = len(self._seen.get(point, ()))
        placements, of_pairs = self._plan.placements(point, seen), self._visits_of_pairs.get(point, 0)
        if seen < of_pairs:
            return placements[: of_pairs - seen]
        wide = self._judging.wide_pairs(point) if of_pairs else ()
        return [*wide[: len(placements)]] or placements

    def _next_layout(self, place: Place, state: State) -> Layout:
        """The layout of the next visit. It serves as often as it is worth, and more in the round that it was made for.
        Where its process has ended, the next visit sets up another one."""
        last = self._layouts.get(place, Layout(round=self._round))
        is_interleaved = bool(self._plan.against)
        effort = self._plan.effort_of(place[0])
        serves = LAYOUT_SERVES if is_interleaved else self._costs.visits_of_layout(place[0], effort)
        has_ended = last.served > 0 and not is_interleaved and state.has_ended(place)
        is_over = has_ended or (last.round != self._round and last.served >= serves)
        return Layout(last.number + 1, self._round) if is_over else last

    def _sampling(self, point: Point, layout: Layout, state: State) -> Sampling:
        """Passes on the iterations of the visit before: to find them anew takes as long as two samples."""
        last = next((earlier for earlier in reversed(self._seen.get(point, ())) if earlier.samples), None)
        sample = last.samples[0] if last else None
        effort = self._plan.effort_of(point)
        return Sampling(
            samples=self._costs.samples(point, effort), sample_ns=effort.sample_ns,
            layout=layout.number,
            iterations=sample.iterations if sample else 0,
            control_iterations=sample.control_iterations if sample else 0,
            wall_ms=max(_LEAST_WALL_MS, int(1000 * state.left_s)),
        )  # fmt: skip

    def refusal(self, point: Point) -> Visit:
        """The visit that stands for a point without one."""
        sampling = self._sampling(point, Layout(), State(0.0, lambda _: True, lambda _: False))
        return self._plan.visit(next(self._numbers), point, 0, (), sampling)

    def learn(self, visit: Visit, seconds: float, *, was_begun: bool) -> None:
        """Records what a visit took. was_begun: whether its layout's set-up had begun before it."""
        is_first = self._layouts[visit.point, visit.cpus].served == 1
        effort = self._plan.effort_of(visit.point)
        self._costs.learn(visit.point, visit.samples, effort, seconds, fresh=is_first, ahead=was_begun)

    # ---- the points of a round --------------------------------------------------------------------------------------

    def is_done(self, point: Point) -> bool:
        seen = self._seen.get(point, [])
        return self._has_failed(point) or (bool(seen) and self._visits_wanted(point) <= len(seen))

    def was_added_to(self) -> bool:
        """Whether this round visited points that were added near cache boundaries."""
        return self._round > 0 and self._round in self._first_round.values()

    def all_are_done(self) -> bool:
        return all(self.is_done(point) for point in self._first_round)

    def unvisited(self) -> list[Point]:
        return [point for point in self._first_round if not self._seen.get(point)]

    def _visits_wanted(self, point: Point) -> float:
        """Of a matrix of CPUs those of all pairs, and then one of each pair whose interval is wide: what its own row
        wants are few of these."""
        of_pairs, seen = self._visits_of_pairs.get(point, 0), len(self._seen.get(point, ()))
        if not of_pairs:
            return self._judging.visits_wanted(point)
        return of_pairs if seen < of_pairs else seen + len(self._judging.wide_pairs(point))

    def _due(self, left_s: float) -> list[Point]:
        """First every point once, those of a study's claims until each has an interval; then the points whose next
        visits gain most."""
        known = [point for point, first in self._first_round.items() if first <= self._round]
        if self._round == 0:
            return self._claims_first(known, left_s)
        if self._plan.against:
            return self._due_interleaved(left_s)
        still = self._claims_first([point for point in known if not self.is_done(point)], left_s)
        fresh = [point for point in still if not self._seen.get(point)]
        if added := [point for point in fresh if self._first_round[point] == self._round]:
            return added
        fresh += self._due_for_review(left_s)
        wishes = [self._wish(point) for point in still if self._seen.get(point) and point not in fresh]
        return fresh + next_visits(wishes, left_s - self._seconds_of(fresh))

    def _due_for_review(self, left_s: float) -> list[Point]:
        """Points that the judge reports as different, after as many visits as an interval takes: before that they are
        visited anyway."""
        differing = [
            point
            for point in self._judging.differing()
            if len(self._seen[point]) >= LEAST_VISITS
            and not self._has_failed(point)
            and self._review_visits[point] < _MOST_AGAIN
            and self._first_s(point) <= left_s
        ]
        self._review_visits.update(differing)
        return differing

    def _claims_first(self, points: list[Point], left_s: float) -> list[Point]:
        """The points of a study's claims that lack visits for an interval, where the time suffices for one; then those
        of its tables; else all points. A budget that is soon spent answers the question of the study before it begins
        other points."""
        if self._plan.against:
            return points
        ranks = {point: rank for point in points if (rank := claim_rank(self._plan.suite, point)) != UNCLAIMED}
        lacking = [
            point for point in ranks if len(self._seen.get(point, ())) < LEAST_VISITS and self._first_s(point) <= left_s
        ]
        first = min((ranks[point] for point in lacking), default=UNCLAIMED)
        return [point for point in lacking if ranks[point] == first] or points

    def _due_interleaved(self, left_s: float) -> list[Point]:
        """The points whose ratio to a reference point is not precise enough, and that reference point, if it
        answers."""
        due: list[Point] = []
        for *several, other in groups(self._plan.against):
            still = [point for point in several if not self.is_done(point)]
            due += [*still, other] if still and not self._has_failed(other) else []
        return due if sum(map(self._first_s, due)) <= left_s else []

    def _wish(self, point: Point) -> Wish[Point]:
        places, seen = len(self._placements(point)), len(self._seen[point])
        return Wish(point, seen, seen + (self._visits_wanted(point) - seen) / places, self._seconds_of([point]))

    def _first_s(self, point: Point) -> float:
        return self._costs.first(point, self._plan.effort_of(point))

    def _seconds_of(self, points: Iterable[Point], effort: Effort | None = None) -> float:
        """Time of one visit to each point, at each of its placements."""
        return sum(
            len(self._placements(point)) * self._costs.of(point, self._plan.effort_of(point, effort))
            for point in points
        )

    def refine(self, left_s: float) -> None:
        """Adds the points that curves lack to the next round, the cheapest of each curve first, as long as all wanted
        visits still fit, or the added ones take only a small share of the budget together. The place of a cache
        boundary matters more than the precision of each point, so the least effort suffices to make room."""
        spare = left_s - sum(self._missing_s(point) for point in self._first_round if not self.is_done(point))
        for curve in self._plan.curves():
            added = {
                point: self._missing_s(point, EFFORTS[-1])
                for point in self._judging.wished(curve)
                if point not in self._first_round
            }
            for point, cost in sorted(added.items(), key=lambda item: item[1]):
                if cost > max(spare, self._for_knees):
                    break
                spare, self._for_knees = spare - cost, self._for_knees - cost
                self._first_round[point] = self._round + 1

    def _missing_s(self, point: Point, effort: Effort | None = None) -> float:
        """Wall time of the visits that a point still wants: at least one, since it has not converged."""
        missing = visits_wanted(point) - len(self._seen.get(point, ()))
        return max(1, missing) * self._seconds_of([point], effort)
