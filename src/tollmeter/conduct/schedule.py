# SPDX-License-Identifier: Apache-2.0
"""Chooses the next visit of a run. This module starts no process, reads no clock and writes no file."""

from __future__ import annotations

import itertools
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

import msgspec

from tollmeter.conduct.judging import Judging
from tollmeter.experiment.limits import LEAST_VISITS, MOST_AGAIN
from tollmeter.experiment.pairs import LEAST_BLOCKS
from tollmeter.experiment.precision import LEAST_LAYOUTS
from tollmeter.model import Outcome, Point, Status, Visit
from tollmeter.model.topology import is_here
from tollmeter.plan import LAYOUT_SERVES, Plan, SweepCurve, groups, is_of_level, is_shown, memory_points, visit_order
from tollmeter.plan.effort import EFFORTS, Effort, Wish, fitting, next_visits, planned_visits
from tollmeter.plan.points import HERE, UNCLAIMED, claim_rank

_FINAL: frozenset[Status] = frozenset({"unsupported", "wrong_answer", "timeout"})
"""Statuses after which a point is not visited again: the boundary does not exist on this machine, the answer is wrong,
or a visit takes too much of the run's time."""
_MOST_FAILURES = 2
_FOR_KNEES = 0.05
"""Share of the budget for added points near cache boundaries if there is too little time for all points."""
_LARGE_SHARE = 0.125
"""Share of the remaining time for large layouts in a round, and for the points that show memory before other points.
The first layout shows what the others cost."""
_SHOWN_SHARE = 0.75
"""Share of the remaining time for intervals of first-screen points, after the time for the first visits of other small
points is subtracted. Large layouts beyond a last cache of 260 MiB would take more."""
_LEAST_WALL_MS = 300
"""Shortest time limit of a visit, in ms. A visit begins only if its expected cost fits into the remaining budget, and
is ended when that is used up, but not before this time."""

Place = tuple[Point, tuple[int, ...]]
"""A point and the CPUs of its visit."""


class Layout(NamedTuple):
    """A layout of a point or of a group of compared points, on some CPUs. round: round of its last visit. number:
    number of the layout, from 0. served: number of visits requested in it."""

    round: int
    number: int = 0
    served: int = 1


class Schedule:
    """The order of visits of one run. `begin` chooses the points of a round, and `next` returns its visits one by one.
    points: all points of the run."""

    def __init__(
        self,
        plan: Plan,
        judging: Judging,
        has_ended: Callable[[Place], bool] = lambda _: False,
        done: Sequence[Outcome] = (),
        built: Sequence[Outcome] = (),
    ) -> None:
        """Creates a schedule. has_ended: whether the process of the last visited layout has ended, by itself or to free
        its memory. done: outcomes of earlier sessions, of which the last round is completed first. built: outcomes of
        earlier sessions whose executables exist."""
        self._plan = plan
        self._judging = judging
        self._has_ended = has_ended
        self._costs = plan.costs()
        self._seen = judging.seen
        self._planned = set(plan.points())
        self.points = dict.fromkeys([*plan.points(), *(earlier.point for earlier in built)])
        self._visits_of_pairs = {point: visits for point in plan.points() if (visits := plan.visits_of_pairs(point))}
        self._made = {
            (earlier.point, earlier.round, self._as_requested(earlier.cpus))
            for earlier in done
            if earlier.status != "interrupted"
        }
        self._numbers = itertools.count(max((earlier.visit for earlier in done), default=-1) + 1)
        self._round = max((earlier.round for earlier in done), default=0) - 1
        self._layouts: dict[Place, Layout] = {}
        self._review_visits: Counter[Point] = Counter()
        self._ranks: dict[Point, int] = {}
        self._of_memory = frozenset(memory_points(plan))
        self._paired = {*plan.against, *plan.against.values()}
        self._for_knees = _FOR_KNEES * plan.budget_seconds
        self._queue = deque[Place]()
        self._wait_ms = 0
        self._counted_s = list[float]()
        self._is_begun = False
        self.is_cut = False
        """Whether no visit of the round was made, since the budget suffices for none."""

    # ---- the visits of a round --------------------------------------------------------------------------------------

    def begin(self, left_s: float) -> bool:
        """Chooses the points of the next round. Returns False if none is left to visit. left_s: remaining budget in
        seconds."""
        self._round += 1
        self.is_cut = False
        points = self._due(left_s)
        self._queue = deque(self._spread(visit_order(self._plan, points, self._round, self._costs)))
        self._is_begun = False
        self._wait_ms = self._wait_for(left_s)
        return bool(points)

    def _wait_for(self, left_s: float) -> int:
        """Returns the ms that each visit of the round may wait for an uncontended core. Even if the core is contended
        all the time, the other visits still fit: for each point the visits of an interval, and beyond these at most as
        many as it has had."""
        to_come = {point: self._to_come(point) for point in self.points if not self.is_done(point)}
        needed_s = sum(visits * self._seconds_of([point]) for point, visits in to_come.items())
        spare_s = left_s - needed_s - self._to_count_s(to_come)
        return int(1000 * max(0.0, spare_s) / max(1, sum(to_come.values()), len(self._queue)))

    def _to_come(self, point: Point) -> int:
        """Returns the visits of a point for which time is reserved."""
        visits = self._count(point)
        if self._plan.is_of_pairs:  # pairs on the uncontended core are worth more than many pairs
            return max(LAYOUT_SERVES, LEAST_BLOCKS * LAYOUT_SERVES - visits)
        least = self._for_interval(point)
        return least - visits if visits < least else max(1, int(min(self._visits_wanted(point), 2 * visits)) - visits)

    def _as_requested(self, cpus: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the CPUs that were requested for a visit, even if it ran on a replacement CPU."""
        return self._plan.also[:1] if cpus and {*cpus} <= {*self._plan.also} and len(cpus) == 1 else cpus

    def _spread(self, order: Sequence[Point]) -> list[Place]:
        """Returns the visits of points in this order, with the visits of a matrix spread evenly among them: every part
        of a round visits all relations of CPUs, so that a change of the state of the machine does not look like a
        difference between relations."""
        spread: list[tuple[float, int, Place]] = []
        for number, point in enumerate(order):
            placements = self._placements(point)
            for index, cpus in enumerate(placements):
                share_of_round = number / len(order) if len(placements) == 1 else (index + 0.5) / len(placements)
                spread.append((share_of_round, number, (point, cpus)))
        return [place for *_, place in sorted(spread, key=lambda visit: visit[:2])]

    def next(self, left_s: float) -> Visit | None:
        """Returns the next visit of the round that fits into the remaining budget (left_s, seconds); None at the end of
        the round."""
        while self._queue:
            point, cpus = place = self._queue.popleft()
            if (point, self._round, cpus) in self._made or self._has_failed(point):
                continue
            if self._next_s(place) > left_s:
                self.is_cut = not self._is_begun
                continue
            self._is_begun, self.is_cut = True, False
            layout = self._layouts[self._layout_key(place)] = self._next_layout(place)
            return self._visit(point, self._round, cpus, layout.number, left_s)
        return None

    def _has_failed(self, point: Point) -> bool:
        """Returns whether a point is not visited again: it failed twice, or in a way that a further visit does not
        change."""
        outcomes = self._seen.get(point, [])
        failures = sum(outcome.status != "ok" for outcome in outcomes)
        return failures >= _MOST_FAILURES or any(outcome.status in _FINAL for outcome in outcomes)

    def _placements(self, point: Point) -> list[tuple[int, ...]]:
        """Returns the CPUs of the next visits of a point. For a matrix these are the pairs after the visited ones; once
        each pair has its visits, the pairs with wide intervals."""
        visits = self._count(point)
        placements, of_pairs = self._plan.placements(point, visits), self._visits_of_pairs.get(point, 0)
        if visits < of_pairs:
            return placements[: of_pairs - visits]
        wide = self._judging.wide_pairs(point) if of_pairs else ()
        return [*wide[: len(placements)]] or placements

    def _next_layout(self, place: Place) -> Layout:
        """Returns the layout of the next visit, which all points of a compared group share. A layout serves the most
        efficient number of visits. If its process has ended, the next visit sets up another layout."""
        last = self._layouts.get(self._layout_key(place))
        if last is None or last.round == self._round:
            return last or Layout(self._round)
        if self._plan.is_of_pairs:
            is_over = last.served >= LAYOUT_SERVES
        elif place[0] in self._paired:
            is_over = True  # a ratio takes five layouts, and a study has many ratios
        else:
            efficient_visits = self._costs.visits_of_layout(place[0], self._plan.effort_of(place[0]))
            is_new = last.number + 1 < LEAST_VISITS and self._has_several_layouts(place[0])
            # The third visit gets another layout: an interval needs two layouts, since the next run has others.
            is_new = is_new or (last.number + 1 < LEAST_LAYOUTS and last.served + 1 >= LEAST_VISITS)
            is_over = is_new or last.served >= efficient_visits or self._has_ended(place)
        return Layout(self._round, last.number + 1) if is_over else last._replace(
            round=self._round, served=last.served + 1
        )  # fmt: skip

    def _next_s(self, place: Place) -> float:
        """Returns the seconds of the next visit, including the set-up if its layout is new."""
        point = place[0]
        if self._next_layout(place).served == 1:
            return self._first_s(point)
        return self._costs.visit_s(point, self._plan.effort_of(point))

    def _has_several_layouts(self, point: Point) -> bool:
        """Returns whether each visit of an interval has a layout of its own, as for a large buffer on the first screen:
        three layouts give an interval by which two runs can be compared."""
        return self._costs.is_large(point) and is_shown(self._plan, point)

    def _layout_key(self, place: Place) -> Place:
        """Returns the key by which layouts are kept: the reference point of a compared group, else the point, with the
        CPUs."""
        return self._plan.against.get(place[0], place[0]), place[1]

    def _visit(self, point: Point, round_: int, cpus: tuple[int, ...], layout: int, left_s: float) -> Visit:
        """Returns a visit with the iterations of the previous visit, since calibrating them again takes as long as two
        samples. round_, layout: numbers of the round and of the layout. left_s: remaining budget in seconds."""
        last = next((earlier for earlier in reversed(self._seen.get(point, ())) if earlier.samples), None)
        sample = last.samples[0] if last else None
        visit = self._plan.visit(
            next(self._numbers), point, round_, cpus, layout=layout, stays=self._judging.is_under_way
        )
        return msgspec.structs.replace(
            visit, iterations=sample.iterations if sample else 0,
            control_iterations=sample.control_iterations if sample else 0,
            wall_ms=max(_LEAST_WALL_MS, int(1000 * left_s)), full_width=self._judging.full_width(point),
            wait_ms=self._wait_ms,
        )  # fmt: skip

    def refusal(self, point: Point) -> Visit:
        """Returns the visit under which a refusal of the point is recorded."""
        return self._visit(point, 0, (), 0, 0.0)

    def learn(self, visit: Visit, seconds: float, counted_s: float = 0.0) -> None:
        """Records the cost of a visit. seconds: time from request to answer, without the wait for an uncontended core
        and without counted_s. counted_s: seconds for counting the work, which is done once for each point."""
        place = visit.point, visit.cpus
        self._counted_s += [counted_s] if counted_s else []
        effort, is_first = self._plan.effort_of(visit.point), self._layouts[self._layout_key(place)].served == 1
        self._costs.learn(visit, effort, seconds, is_first=is_first, stays=not self._has_ended(place))

    # ---- the points of a round --------------------------------------------------------------------------------------

    def _count(self, point: Point) -> int:
        """Returns the number of visits of a point so far."""
        return len(self._seen.get(point, ()))

    def is_done(self, point: Point) -> bool:
        """Returns whether a point needs no further visit, since it has converged or failed."""
        visits = self._count(point)
        return self._has_failed(point) or 0 < visits >= self._visits_wanted(point)

    def all_are_done(self) -> bool:
        return all(self.is_done(point) for point in self.points)

    def _visits_wanted(self, point: Point) -> float:
        """Returns the total number of visits that a point needs. A matrix of CPUs needs its planned visits of all
        pairs, and then one more of each pair with a wide interval. The row over all pairs needs fewer."""
        of_pairs, visits = self._visits_of_pairs.get(point, 0), self._count(point)
        if not of_pairs:
            return self._judging.visits_wanted(point)
        return of_pairs if visits < of_pairs else visits + len(self._judging.wide_pairs(point))

    def _due(self, left_s: float) -> list[Point]:
        """Returns the points of the next round: first every point once, the claims of a study until each has an
        interval, and small points before large ones; then the points whose next visits narrow their intervals most.
        left_s: remaining budget in seconds."""
        if self._plan.is_of_pairs:
            return self._due_interleaved(left_s)
        due = [
            point
            for point in self.points
            if not self.is_done(point)
            and any(self._next_s((point, cpus)) <= left_s for cpus in self._placements(point))
        ]
        claims = self._claims_first(due, left_s)
        due = self._with_tolls(self._shown_first(claims, left_s), claims)
        fresh = [point for point in due if not self._seen.get(point) or self._rank(point) != UNCLAIMED]
        fresh = self._affordable(fresh, left_s) + self._due_for_review(left_s)
        wishes = [self._wish(point) for point in due if self._seen.get(point) and point not in fresh]
        return self._with_pairs(fresh + next_visits(wishes, left_s - self._seconds_of(fresh)))

    def _affordable(self, fresh: list[Point], left_s: float) -> list[Point]:
        """Returns the points for which there is time: the small points, and the large ones if half of the time suffices
        for them.

        Otherwise large points get a share of the time while small points converge: first the points that show memory,
        then other first-screen points, then the cheapest. Beyond a last cache of 480 MiB the large layouts take longer
        than a run. So the first large layout of a probe is visited alone, to measure the cost of the others: a layout
        of 256 MiB took 0.3 s on one machine and 11 s on another. fresh: points due in this round. left_s: remaining
        budget in seconds."""
        large = [point for point in fresh if self._costs.is_large(point)]
        is_last = all(self.is_done(point) or self._costs.is_large(point) for point in self.points)
        chosen = large if is_last else self._first_layouts(large)
        chosen.sort(
            key=lambda point: (point not in self._of_memory, not is_shown(self._plan, point), self._first_s(point))
        )
        costs_s = [*map(self._first_s, chosen)]
        is_cheap = sum(costs_s) <= left_s / 2
        kept = chosen if is_cheap else fitting(chosen, costs_s, left_s if is_last else self._share_s(chosen, left_s))
        kept = kept or fitting(chosen, costs_s, left_s)[:1]
        left_out = set(large).difference(kept)
        return [point for point in fresh if point not in left_out]

    def _share_s(self, large: Iterable[Point], left_s: float) -> float:
        """Returns the seconds for large points in this round. The points that show memory get up to half of the
        remaining time, if the small points still get their intervals."""
        of_memory_s = sum(self._first_s(point) for point in large if point in self._of_memory)
        small = [point for point in self.points if not self._costs.is_large(point)]
        return max(_LARGE_SHARE * left_s, min(of_memory_s, left_s / 2, left_s - self._to_intervals_s(small)))

    def _first_layouts(self, large: Iterable[Point]) -> list[Point]:
        """Returns the large points whose cost can be estimated from a large layout of their probe; for each other probe
        only its cheapest point."""
        first: dict[str, Point] = {}
        for point in sorted(large, key=self._first_s):
            first.setdefault(point.probe, point)
        return [point for point in large if self._costs.knows_layouts(point) or first[point.probe] == point]

    def _with_pairs(self, points: Sequence[Point]) -> list[Point]:
        """Returns the points together with the points that they are compared with, since a ratio is of visits of one
        round."""
        of_group = {point: group for group in groups(self._plan.against) for point in group}
        chosen = dict.fromkeys(itertools.chain.from_iterable(of_group.get(point, (point,)) for point in points))
        return [point for point in chosen if not self._has_failed(point)]

    def _due_for_review(self, left_s: float) -> list[Point]:
        """Returns the points that were measured in another state of the machine than the others, if they have the
        visits of an interval. Points with fewer visits are due in any case."""
        differing = [
            point
            for point in self._judging.differing()
            if self._count(point) >= LEAST_VISITS
            and not self._has_failed(point)
            and self._review_visits[point] < MOST_AGAIN
            and self._first_s(point) <= left_s
        ]
        self._review_visits.update(differing)
        return differing

    def _claims_first(self, points: list[Point], left_s: float) -> list[Point]:
        """Returns the points of a study's claims that lack an interval and can be visited in time, those of this
        machine before emulated ones; if there are none, likewise the points of its tables; else all points. So a short
        budget answers the study's question before other points are begun."""
        ranks = {
            point: (rank, not is_here(point.target)) for point in points if (rank := self._rank(point)) != UNCLAIMED
        }
        lacking = [point for point in ranks if self._lacks_interval(point) and self._first_s(point) <= left_s]
        first = min((ranks[point] for point in lacking), default=None)
        return [point for point in lacking if ranks[point] == first] or points

    def _rank(self, point: Point) -> int:
        """Returns the rank of a point among the claims of the study, lowest first; UNCLAIMED if it belongs to none. An
        emulated point has none if the same point was measured on this machine, since a claim is judged by the time on
        hardware if there is one."""
        if not is_here(point.target):
            here = self._seen.get(msgspec.structs.replace(point, target=HERE), ())
            if any(outcome.status == "ok" for outcome in here):
                return UNCLAIMED
        if point not in self._ranks:
            self._ranks[point] = claim_rank(self._plan.suite, point)
        return self._ranks[point]

    def _shown_first(self, points: list[Point], left_s: float) -> list[Point]:
        """Returns the points that are visited before all others, by the first of these rules that gives any.

        First the points of a study's claims, then those of its tables, if every other point can still get an interval.

        Then the small points of the first screen that lack an interval, if there is time for these intervals and for
        one visit of every other small point; else only the tolls of the first screen.

        Then the intervals of memory's latency and rate, if an eighth of the remaining time suffices and one visit of
        every other small point still fits. The first layout alone shows what the others cost.

        Then one visit of every other small point, since its cost is unknown before. Then, in an eighth of the remaining
        time of a round, one visit of each other point that shows memory.

        Then all points of the first screen, in the first half of the run, until those converge that can.

        Then all points without an interval; or all points, if only large ones lack an interval and need more than half
        of the time."""
        for rank in range(UNCLAIMED):
            claims = [point for point in points if self._rank(point) == rank]
            # A claim may be decided before its points converge, so all points of claims get equally many visits.
            soon = [point for point in claims if self._lacks_interval(point)] or claims
            spare_s = left_s - self._to_intervals_s(set(points).difference(claims))
            if soon and self._to_intervals_s(soon) + self._seconds_of(soon) <= spare_s:
                return soon
        lacking = [point for point in points if self._lacks_interval(point)]
        shown = [point for point in points if is_shown(self._plan, point)]
        small = [point for point in lacking if not self._costs.is_large(point)]
        soon = [point for point in shown if point in lacking]
        unvisited = [point for point in small if not self._seen.get(point) and point not in soon]
        soon = [point for point in soon if point in small] if unvisited else self._small_first(soon, left_s)
        if soon and self._to_intervals_s(soon) <= _SHOWN_SHARE * (left_s - sum(map(self._first_s, unvisited))):
            return soon
        if tolls := self._cheapest([point for point in soon if not is_of_level(self._plan, point)], left_s / 2):
            return tolls
        if first := self._memory_first(lacking, unvisited, left_s):
            return first
        known = [point for point in shown if point not in lacking and not soon]
        converging = self._converging(known, left_s - self._plan.budget_seconds / 2)
        is_for_large = not small and self._to_intervals_s(lacking) > left_s / 2
        return converging or ([] if is_for_large else self._small_first(lacking, left_s)) or points

    def _memory_first(self, lacking: Iterable[Point], unvisited: list[Point], left_s: float) -> list[Point]:
        """Returns the points of memory's latency and rate that get intervals, else the unvisited points, else those
        that show memory and have no visit. Claims of a study have no such order. lacking: points without an
        interval."""
        of_memory = [point for point in lacking if point in self._of_memory and self._rank(point) == UNCLAIMED]
        levels = [point for point in of_memory if is_shown(self._plan, point)]
        share_s, spare_s = _LARGE_SHARE * left_s, left_s - sum(map(self._first_s, unvisited))
        if memory := self._cheapest(levels, min(share_s, spare_s)):
            return memory if all(map(self._costs.knows_layouts, memory)) else memory[:1]
        return unvisited or self._cheapest([point for point in of_memory if not self._seen.get(point)], share_s)

    def _with_tolls(self, due: list[Point], points: Iterable[Point]) -> list[Point]:
        """Returns the due points and the tolls of the first screen that have an interval. Every round visits these few
        tolls until they converge. points: candidates."""
        tolls = (point for point in points if is_shown(self._plan, point) and not is_of_level(self._plan, point))
        return [*dict.fromkeys([*due, *(point for point in tolls if not self._lacks_interval(point))])]

    def _cheapest(self, points: Iterable[Point], spare_s: float) -> list[Point]:
        """Returns the cheapest points, as many as get an interval in spare_s seconds, in their original order."""
        costs_s = {point: self._to_intervals_s([point]) for point in points}
        for point in sorted(costs_s, key=lambda point: costs_s[point]):
            spare_s -= costs_s[point]
            if spare_s < 0:
                del costs_s[point]
        return [*costs_s]

    def _small_first(self, lacking: list[Point], left_s: float) -> list[Point]:
        """Returns the points that are not large, if half of the time suffices for their intervals: setting up all large
        layouts takes as long as several rounds of the other points. lacking: points without an interval."""
        has_unvisited_large = any(self._costs.is_large(point) and not self._seen.get(point) for point in lacking)
        small = [point for point in lacking if not self._costs.is_large(point)]
        return small if has_unvisited_large and small and self._to_intervals_s(small) <= left_s / 2 else lacking

    def _converging(self, points: Iterable[Point], spare_s: float) -> list[Point]:
        """Returns the cheapest points, as many as converge in spare_s seconds. Points that refinement added are left
        out: each locates the boundary of a cache, where the cost differs by layout, and needs only an interval."""
        wishes = sorted([self._wish(point) for point in points if point in self._planned], key=Wish.to_settle_s)
        return [wish.point for wish in fitting(wishes, map(Wish.to_settle_s, wishes), spare_s)]

    def _to_intervals_s(self, points: Iterable[Point]) -> float:
        """Returns the seconds until each point has its interval. A large point that the first screen does not show
        counts with one visit."""
        lacking = [point for point in points if self._lacks_interval(point)]
        large = [point for point in lacking if self._costs.is_large(point)]
        small = set(lacking).difference(large)
        visits_s = sum((self._for_interval(point) - self._count(point)) * self._seconds_of([point]) for point in small)
        large_s = sum(self._first_s(point) * (self._layouts_lacking(point) or 1) for point in large)
        return visits_s + large_s + self._to_count_s(lacking)

    def _layouts_lacking(self, point: Point) -> int:
        """Returns the number of layouts that an interval still needs if each of its visits has its own layout; else
        0."""
        return LEAST_VISITS - self._count(point) if self._has_several_layouts(point) else 0

    def _to_count_s(self, points: Iterable[Point]) -> float:
        """Returns the seconds for counting the work of the points not yet visited, estimated from visited points."""
        return fmean(self._counted_s or [0.0]) * sum(not self._count(point) for point in points)

    def _lacks_interval(self, point: Point) -> bool:
        """Returns whether a point has fewer visits than an interval needs, and may have more."""
        return self._count(point) < self._for_interval(point) and not self.is_done(point)

    def _for_interval(self, point: Point) -> int:
        """Returns the number of visits that an interval needs: for a ratio of a study, one visit for each block."""
        return LEAST_BLOCKS if point in self._paired else LEAST_VISITS

    def _due_interleaved(self, left_s: float) -> list[Point]:
        """Returns the points whose ratio to their reference point is not precise enough, with the reference point,
        unless it failed. Empty if they do not fit into the remaining budget."""
        due: list[Point] = []
        for *compared, reference in groups(self._plan.against):
            imprecise = [point for point in compared if not self.is_done(point)]
            due += [*imprecise, reference] if imprecise and not self._has_failed(reference) else []
        return due if self._round == 0 or sum(map(self._first_s, due)) <= left_s else []

    def _wish(self, point: Point) -> Wish[Point]:
        """Returns the wish of a point for visits: its number of visits so far, the number it needs, and the seconds of
        the next."""
        places, visits = len(self._placements(point)), self._count(point)
        is_new = visits < LEAST_VISITS and self._has_several_layouts(point)
        visit_s = self._first_s(point) if is_new else self._seconds_of([point])
        return Wish(point, visits, visits + (self._visits_wanted(point) - visits) / places, visit_s)

    def _first_s(self, point: Point) -> float:
        """Returns the seconds of a first visit of a layout, with its set-up."""
        return self._costs.first_visit_s(point, self._plan.effort_of(point))

    def _seconds_of(self, points: Iterable[Point], effort: Effort | None = None) -> float:
        """Returns the seconds of one visit to each point at each of its placements."""
        return sum(
            len(self._placements(point)) * self._costs.visit_s(point, self._plan.effort_of(point, effort))
            for point in points
        )

    def refine(self, left_s: float) -> None:
        """Adds the points that curves lack to the next round, the cheapest of each curve first, while all needed visits
        still fit, or while the added visits take only a small share of the budget. The other points are counted at the
        lowest effort, since locating a cache boundary matters more than their precision. Sizes beyond a planned sweep
        get only the small share, since each takes twice as long as the previous one."""
        spare = left_s - sum(self._missing_s(point) for point in self.points if not self.is_done(point))
        for curve in self._plan.curves():
            added = {
                point: self._missing_s(point, EFFORTS[-1])
                for point in self._judging.wished(curve)
                if point not in self.points
            }
            for point, cost in sorted(added.items(), key=lambda item: item[1]):
                if cost > (self._for_knees if _is_beyond(curve, point) else max(spare, self._for_knees)):
                    break
                spare, self._for_knees = spare - cost, self._for_knees - cost
                self.points[point] = None

    def _missing_s(self, point: Point, effort: Effort | None = None) -> float:
        """Returns the wall time in seconds of the visits that a point still needs, at least one visit. For a large
        point of the first screen, each visit of an interval has its own layout."""
        visits = self._count(point)
        visits_s = max(1, planned_visits(point) - visits) * self._seconds_of([point], effort)
        return max(visits_s, self._layouts_lacking(point) * self._first_s(point))


def _is_beyond(curve: SweepCurve, point: Point) -> bool:
    """Returns whether the point's value is larger than all planned ones."""
    value = point.values()[curve.parameter]
    return isinstance(value, int) and value > max(curve.begun, default=0)
