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
"""Statuses after which a point is not visited again: the boundary does not exist here, its number is worthless, or it
takes too much of the run's time."""
_MOST_FAILURES = 2
_FOR_KNEES = 0.05
"""Share of the budget for points near cache boundaries if there is too little time for all points."""
_LARGE_SHARE = 0.125
"""Share of the remaining time for large layouts in a round: the first of them shows what the others cost."""
_SHOWN_SHARE = 0.75
"""Share of the remaining time, less the first visits of other small points, for the intervals of first-screen points.
Beyond a last cache of 260 MiB their large layouts take more."""
_LEAST_WALL_MS = 300
"""The run begins a visit only if its expected cost fits into the remaining budget; a visit that takes longer is ended
after this time at the earliest."""

Place = tuple[Point, tuple[int, ...]]
"""A point and the CPUs of its visit."""


class Layout(NamedTuple):
    """A layout of a point or pair on some CPUs: its number, the number of visits requested in it, and the round of the
    last one."""

    round: int
    number: int = 0
    served: int = 1


class Schedule:
    """The order of visits of one run. `begin` chooses the points of a round, `next` its visits one by one. points: all
    points of the run."""

    def __init__(
        self,
        plan: Plan,
        judging: Judging,
        has_ended: Callable[[Place], bool] = lambda _: False,
        done: Sequence[Outcome] = (),
        built: Sequence[Outcome] = (),
    ) -> None:
        """Creates a schedule. has_ended: whether the process of the last visited layout has ended, by itself or to free
        its memory. done: outcomes of earlier sessions, whose last round is completed; built: the outcomes whose
        executables exist."""
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
        self._of_memory = frozenset(memory_points(plan)) if plan.entries else frozenset[Point]()
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
        """Chooses the points of the next round. False if none is left to visit."""
        self._round += 1
        self.is_cut = False
        points = self._due(left_s)
        self._queue = deque(self._spread(visit_order(self._plan, points, self._round, self._costs)))
        self._is_begun = False
        self._wait_ms = self._wait_for(left_s)
        return bool(points)

    def _wait_for(self, left_s: float) -> int:
        """Returns the ms that a visit of the round may wait for an uncontended core. On a permanently contended
        core the remaining visits must still fit: at least the visits for intervals, and at most as many as were
        made."""
        to_come = {point: self._to_come(point) for point in self.points if not self.is_done(point)}
        needed_s = sum(visits * self._seconds_of([point]) for point, visits in to_come.items())
        spare_s = left_s - needed_s - self._to_count_s(to_come)
        return int(1000 * max(0.0, spare_s) / max(1, sum(to_come.values()), len(self._queue)))

    def _to_come(self, point: Point) -> int:
        seen = self._count(point)
        if self._plan.is_of_pairs:  # pairs on the uncontended core are worth more than many pairs
            return max(LAYOUT_SERVES, LEAST_BLOCKS * LAYOUT_SERVES - seen)
        least = self._for_interval(point)
        return least - seen if seen < least else max(1, int(min(self._visits_wanted(point), 2 * seen)) - seen)

    def _as_requested(self, cpus: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the CPUs that were requested for a visit, even if another CPU replaced one."""
        return self._plan.also[:1] if cpus and {*cpus} <= {*self._plan.also} and len(cpus) == 1 else cpus

    def _spread(self, order: Sequence[Point]) -> list[Place]:
        """Returns the visits of points in this order, with the visits of a matrix spread evenly among them: every part
        of a round visits all relations of CPUs, so that a change of the machine's state does not look like a
        difference between them."""
        spread: list[tuple[float, int, Place]] = []
        for number, point in enumerate(order):
            several = self._placements(point)
            for place, cpus in enumerate(several):
                part = number / len(order) if len(several) == 1 else (place + 0.5) / len(several)
                spread.append((part, number, (point, cpus)))
        return [place for *_, place in sorted(spread, key=lambda visit: visit[:2])]

    def next(self, left_s: float) -> Visit | None:
        """Returns the next visit of the round; None at its end."""
        while self._queue:
            point, cpus = place = self._queue.popleft()
            if (point, self._round, cpus) in self._made or self._has_failed(point):
                continue
            if self._next_s(place) > left_s:
                self.is_cut = not self._is_begun
                continue
            self._is_begun, self.is_cut = True, False
            layout = self._layouts[self._turn_of(place)] = self._next_layout(place)
            return self._visit(point, self._round, cpus, layout.number, left_s)
        return None

    def _has_failed(self, point: Point) -> bool:
        seen = self._seen.get(point, [])
        failures = sum(outcome.status != "ok" for outcome in seen)
        return failures >= _MOST_FAILURES or any(outcome.status in _FINAL for outcome in seen)

    def _placements(self, point: Point) -> list[tuple[int, ...]]:
        """Returns the next pairs of a matrix after the visited ones; once each pair has its visits, the pairs with wide
        intervals."""
        seen = self._count(point)
        placements, of_pairs = self._plan.placements(point, seen), self._visits_of_pairs.get(point, 0)
        if seen < of_pairs:
            return placements[: of_pairs - seen]
        wide = self._judging.wide_pairs(point) if of_pairs else ()
        return [*wide[: len(placements)]] or placements

    def _next_layout(self, place: Place) -> Layout:
        """Returns the layout of the next visit, which is common to the points of a pair. It is used for the most
        efficient number of visits. If its process has ended, the next visit sets up another layout."""
        last = self._layouts.get(self._turn_of(place))
        if last is None or last.round == self._round:
            return last or Layout(self._round)
        if self._plan.is_of_pairs:
            is_over = last.served >= LAYOUT_SERVES
        elif place[0] in self._paired:
            is_over = True  # a ratio takes five layouts, and a study has many ratios
        else:
            serves = self._costs.visits_of_layout(place[0], self._plan.effort_of(place[0]))
            is_new = last.number + 1 < LEAST_VISITS and self._has_several_layouts(place[0])
            # Visits of one layout say nothing about the next run's: an interval's third visit has another one.
            is_new = is_new or (last.number + 1 < LEAST_LAYOUTS and last.served + 1 >= LEAST_VISITS)
            is_over = is_new or last.served >= serves or self._has_ended(place)
        return Layout(self._round, last.number + 1) if is_over else last._replace(
            round=self._round, served=last.served + 1
        )  # fmt: skip

    def _next_s(self, place: Place) -> float:
        """Returns the seconds of the next visit, with the set-up of its layout if that is a new one."""
        point = place[0]
        if self._next_layout(place).served == 1:
            return self._first_s(point)
        return self._costs.visit_s(point, self._plan.effort_of(point))

    def _has_several_layouts(self, point: Point) -> bool:
        """Returns whether each visit of an interval has its own layout: three layouts of a large buffer give an
        interval by which two runs can be compared."""
        return self._costs.is_large(point) and is_shown(self._plan, point)

    def _turn_of(self, place: Place) -> Place:
        """Returns the key of a pair's layouts."""
        return self._plan.against.get(place[0], place[0]), place[1]

    def _visit(self, point: Point, round_: int, cpus: tuple[int, ...], layout: int, left_s: float) -> Visit:
        """Returns a visit with the iterations of the previous visit: calibrating them again takes as long as two
        samples. layout: number of the layout."""
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
        """Returns the visit that records a point that cannot be visited."""
        return self._visit(point, 0, (), 0, 0.0)

    def learn(self, visit: Visit, seconds: float, counted_s: float = 0.0) -> None:
        """Records the cost of a visit. seconds: time from request to answer, without its wait for an uncontended core,
        and without counted_s, the counting of its work, which is done once for each point."""
        place = visit.point, visit.cpus
        self._counted_s += [counted_s] if counted_s else []
        effort, is_first = self._plan.effort_of(visit.point), self._layouts[self._turn_of(place)].served == 1
        self._costs.learn(visit, effort, seconds, is_first=is_first, stays=not self._has_ended(place))

    # ---- the points of a round --------------------------------------------------------------------------------------

    def _count(self, point: Point) -> int:
        """The number of visits so far."""
        return len(self._seen.get(point, ()))

    def is_done(self, point: Point) -> bool:
        seen = self._count(point)
        return self._has_failed(point) or 0 < seen >= self._visits_wanted(point)

    def all_are_done(self) -> bool:
        return all(self.is_done(point) for point in self.points)

    def _visits_wanted(self, point: Point) -> float:
        """Returns the visits that a point needs. A matrix of CPUs needs visits of all pairs, and then one of each pair
        with a wide interval; its own row needs few of these."""
        of_pairs, seen = self._visits_of_pairs.get(point, 0), self._count(point)
        if not of_pairs:
            return self._judging.visits_wanted(point)
        return of_pairs if seen < of_pairs else seen + len(self._judging.wide_pairs(point))

    def _due(self, left_s: float) -> list[Point]:
        """Returns the points of the next round: first every point once, a study's claims until each has an interval,
        and small points before large ones; then the points whose next visits gain most."""
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

        Otherwise large points have a share of the time while small points converge: first the points that show memory,
        then other first-screen points, then the cheapest. Beyond a last cache of 480 MiB the large layouts take longer
        than a run. So the first large layout of a probe is visited alone, since it shows the cost of the others:
        256 MiB took 0.3 s on one machine and 11 s on another."""
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
        out = set(large).difference(kept)
        return [point for point in fresh if point not in out]

    def _share_s(self, large: Iterable[Point], left_s: float) -> float:
        """Returns the seconds for large points of this round. The points that show memory have up to half of the time,
        if the small points still get their intervals."""
        of_memory_s = sum(self._first_s(point) for point in large if point in self._of_memory)
        small = [point for point in self.points if not self._costs.is_large(point)]
        return max(_LARGE_SHARE * left_s, min(of_memory_s, left_s / 2, left_s - self._to_intervals_s(small)))

    def _first_layouts(self, large: Iterable[Point]) -> list[Point]:
        """Returns the large points whose cost is estimated from a large layout of their probe; of the other probes the
        cheapest point."""
        first: dict[str, Point] = {}
        for point in sorted(large, key=self._first_s):
            first.setdefault(point.probe, point)
        return [point for point in large if self._costs.knows_layouts(point) or first[point.probe] == point]

    def _with_pairs(self, points: Sequence[Point]) -> list[Point]:
        """Returns the points with the other points of their pairs, since a ratio is of visits of one round."""
        of_group = {point: group for group in groups(self._plan.against) for point in group}
        chosen = dict.fromkeys(itertools.chain.from_iterable(of_group.get(point, (point,)) for point in points))
        return [point for point in chosen if not self._has_failed(point)]

    def _due_for_review(self, left_s: float) -> list[Point]:
        """Points that the judge reports as different, after as many visits as an interval needs: before that they are
        visited in any case."""
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
        """Returns the points of a study's claims that lack visits for an interval, if the time suffices for an
        interval, points of this machine before emulated points; then the points of its tables; else all points. So a
        short budget answers the study's question before it begins other points."""
        ranks = {
            point: (rank, not is_here(point.target)) for point in points if (rank := self._rank(point)) != UNCLAIMED
        }
        lacking = [point for point in ranks if self._lacks_interval(point) and self._first_s(point) <= left_s]
        first = min((ranks[point] for point in lacking), default=None)
        return [point for point in lacking if ranks[point] == first] or points

    def _rank(self, point: Point) -> int:
        """Returns the rank of a point by its claim; an emulated point has none if this machine answers the claim, since
        a claim is judged by the hardware's time if there is one."""
        if not is_here(point.target):
            here = self._seen.get(msgspec.structs.replace(point, target=HERE), ())
            if any(outcome.status == "ok" for outcome in here):
                return UNCLAIMED
        if point not in self._ranks:
            self._ranks[point] = claim_rank(self._plan.suite, point)
        return self._ranks[point]

    def _shown_first(self, points: list[Point], left_s: float) -> list[Point]:
        """Returns the points of a study's claims, then those of its tables, as long as every other point can still get
        an interval.

        Then the small points of the first screen until each has an interval. If there is too little time for its
        levels, or for one visit of every other small point, its tolls get their intervals first.
        Then one visit of every other small point: what it costs is known only then.
        Then all points of the first screen, in the first half of the run, until those converge that can.

        Then all points without an interval; if only large points lack one, and need more than half of the time, all
        points."""
        for rank in range(UNCLAIMED):
            claims = [point for point in points if self._rank(point) == rank]
            # A claim that no budget makes precise may be decided all the same: claims get equally many visits.
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
        if unvisited:
            return unvisited
        known = [point for point in shown if point not in lacking and not soon]
        converging = self._converging(known, left_s - self._plan.budget_seconds / 2)
        is_for_large = not small and self._to_intervals_s(lacking) > left_s / 2
        return converging or ([] if is_for_large else self._small_first(lacking, left_s)) or points

    def _with_tolls(self, due: list[Point], points: Iterable[Point]) -> list[Point]:
        """Returns the due points and the tolls of the first screen that have an interval. Each round visits these few
        points until they converge."""
        tolls = (point for point in points if is_shown(self._plan, point) and not is_of_level(self._plan, point))
        return [*dict.fromkeys([*due, *(point for point in tolls if not self._lacks_interval(point))])]

    def _cheapest(self, points: Iterable[Point], spare_s: float) -> list[Point]:
        """Returns as many points as get an interval in this time, the cheapest first."""
        costs_s = {point: self._to_intervals_s([point]) for point in points}
        for point in sorted(costs_s, key=lambda point: costs_s[point]):
            spare_s -= costs_s[point]
            if spare_s < 0:
                del costs_s[point]
        return [*costs_s]

    def _small_first(self, lacking: list[Point], left_s: float) -> list[Point]:
        """Returns the points that are not large, if half of the time suffices for them: setting up all large layouts
        takes as long as several rounds of the other points."""
        waiting = any(self._costs.is_large(point) and not self._seen.get(point) for point in lacking)
        small = [point for point in lacking if not self._costs.is_large(point)]
        return small if waiting and small and self._to_intervals_s(small) <= left_s / 2 else lacking

    def _converging(self, points: Iterable[Point], spare_s: float) -> list[Point]:
        """Returns as many points as converge in this time, the cheapest first. A point that refinement added locates
        the boundary of a cache, where the cost differs by layout: it needs only an interval."""
        wishes = sorted([self._wish(point) for point in points if point in self._planned], key=Wish.to_settle_s)
        return [wish.point for wish in fitting(wishes, map(Wish.to_settle_s, wishes), spare_s)]

    def _to_intervals_s(self, points: Iterable[Point]) -> float:
        """Returns the seconds until each point has its interval; for a large point, until its first visit, unless the
        first screen shows it."""
        lacking = [point for point in points if self._lacks_interval(point)]
        large = [point for point in lacking if self._costs.is_large(point)]
        small = set(lacking).difference(large)
        visits_s = sum((self._for_interval(point) - self._count(point)) * self._seconds_of([point]) for point in small)
        large_s = sum(self._first_s(point) * (self._layouts_lacking(point) or 1) for point in large)
        return visits_s + large_s + self._to_count_s(lacking)

    def _layouts_lacking(self, point: Point) -> int:
        """Returns the layouts that an interval still needs if each of its visits has its own."""
        return LEAST_VISITS - self._count(point) if self._has_several_layouts(point) else 0

    def _to_count_s(self, points: Iterable[Point]) -> float:
        """Returns the seconds for counting the work of each point not yet visited, estimated from visited points."""
        return fmean(self._counted_s or [0.0]) * sum(not self._count(point) for point in points)

    def _lacks_interval(self, point: Point) -> bool:
        return self._count(point) < self._for_interval(point) and not self.is_done(point)

    def _for_interval(self, point: Point) -> int:
        """Returns the number of visits for an interval; for a ratio of a study, one visit of each block."""
        return LEAST_BLOCKS if point in self._paired else LEAST_VISITS

    def _due_interleaved(self, left_s: float) -> list[Point]:
        """Returns the points whose ratio to a reference point is not precise enough, with the reference point, if it
        answers."""
        due: list[Point] = []
        for *several, other in groups(self._plan.against):
            still = [point for point in several if not self.is_done(point)]
            due += [*still, other] if still and not self._has_failed(other) else []
        return due if self._round == 0 or sum(map(self._first_s, due)) <= left_s else []

    def _wish(self, point: Point) -> Wish[Point]:
        places, seen = len(self._placements(point)), self._count(point)
        is_new = seen < LEAST_VISITS and self._has_several_layouts(point)
        visit_s = self._first_s(point) if is_new else self._seconds_of([point])
        return Wish(point, seen, seen + (self._visits_wanted(point) - seen) / places, visit_s)

    def _first_s(self, point: Point) -> float:
        return self._costs.first_visit_s(point, self._plan.effort_of(point))

    def _seconds_of(self, points: Iterable[Point], effort: Effort | None = None) -> float:
        """Returns the seconds of one visit to each point, at each of its placements."""
        return sum(
            len(self._placements(point)) * self._costs.visit_s(point, self._plan.effort_of(point, effort))
            for point in points
        )

    def refine(self, left_s: float) -> None:
        """Adds the points that curves lack to the next round, the cheapest of each curve first, while all needed visits
        fit, or while the added visits take only a small share of the budget. Locating a cache boundary matters more
        than the precision of each point, so the lowest effort suffices for other points. Sizes beyond a planned
        sweep get only the small share, since each takes twice as long as the previous one."""
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
        """Returns the wall time in seconds of the visits that a point still needs: at least one visit, since it has not
        converged. For a large point of the first screen, each visit of an interval has its own layout."""
        seen = self._count(point)
        visits_s = max(1, planned_visits(point) - seen) * self._seconds_of([point], effort)
        return max(visits_s, self._layouts_lacking(point) * self._first_s(point))


def _is_beyond(curve: SweepCurve, point: Point) -> bool:
    """Returns whether the point's value is larger than all planned ones."""
    value = point.values()[curve.parameter]
    return isinstance(value, int) and value > max(curve.begun, default=0)
