# SPDX-License-Identifier: Apache-2.0
"""The wall time of a visit, the number of visits that one layout serves, and the points that a round visits.

A layout has a fixed cost: a process starts, touches its memory and links a pointer cycle through it. It is used for
longer where that is expensive, by the square root of (ratio of costs x ratio of variances), which gives the most
information in a given time (Cochran 1977, section 10.6)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf, sqrt
from statistics import median
from typing import Generic, NamedTuple, TypeVar

import msgspec

from tollmeter.experiment.batches import BATCHES
from tollmeter.experiment.limits import LEAST_FOR_SCATTER, LEAST_SAMPLES, LEAST_VALUES, LEAST_VISITS, MIB
from tollmeter.experiment.pairs import LAYOUT_SERVES
from tollmeter.experiment.precision import LEAST_SHARED
from tollmeter.model import Point, Probe, Record, Visit

_LEAST_SERVED = 2
_LAYOUT_VARIANCES = (1 - LEAST_SHARED) / LEAST_SHARED
"""Ratio of the variance of visits of one layout to that of layouts (experiment/precision.py)."""

_STARTING_S = 0.004
"""Seconds to start a process for a visit."""
_ASKING_S = 0.003
"""Seconds of a visit besides its samples, if a waiting process serves it."""
_FORKING_S = 0.0012
"""Seconds in place of _STARTING_S and _ASKING_S, if a child of a waiting process makes the visit."""
_EMULATING_S = 0.045
"""Seconds in place of _STARTING_S and _ASKING_S under an emulator, which starts and translates the code of the
visit."""
_EMULATING_A_SYSTEM_S = 0.7
"""Seconds in place of _STARTING_S and _ASKING_S in a guest or on a board, where an emulator executes the whole visit,
kernel included."""
_PREPARING_S_PER_BYTE = 1e-9
"""Seconds per byte to touch memory and to link a random walk through it: most of the set-up of a large buffer. Each
line of a walk takes the latency of memory, so a probe's largest layout predicts a larger one's time: 4.3 times as much
in a Zen 4 guest."""
LARGE_BYTES = 24 * MIB
"""Memory of a large layout: more than most private caches, and expensive to get (decision 15)."""
_BESIDE_SAMPLE = 1.12
_BURSTS_S = 100e-6
"""Seconds besides the batches: an eighth of n to warm up, and reading the evidence."""


def planned_visits(point: Point) -> int:
    """Returns the number of visits by which a run's time is planned: one for a count, which has no noise; few for an
    emulated kernel's clock, which has little."""
    if counts_instructions(point) or point.target.startswith("bare:"):
        return 1
    return LEAST_VISITS if is_whole_system(point) else LEAST_FOR_SCATTER


def counts_instructions(point: Point) -> bool:
    """Returns whether the point's clock is a count of the program's instructions."""
    return point.target.startswith("qemu-user:")


def is_whole_system(point: Point) -> bool:
    """Returns whether the point's clock counts the instructions of a whole system."""
    return point.target.startswith(("guest:", "bare:"))


def has_machines_time(point: Point) -> bool:
    """Returns whether a point runs on the machine's CPUs without an emulator."""
    return not (counts_instructions(point) or is_whole_system(point))


class Effort(Record, frozen=True):
    """The effort of one visit: number of samples, and ns of the shorter batch. forks: whether a child of a waiting
    process makes the visit."""

    samples: int = 16
    sample_ns: int = 300_000
    forks: bool = False

    def sample_s(self, bodies: int = 1) -> float:
        """Returns the wall time of one sample in seconds. bodies: 2 if a control is timed with the body."""
        return bodies * self.sample_ns * BATCHES * 1e-9 * _BESIDE_SAMPLE + _BURSTS_S


USUAL = Effort()
EFFORTS = (USUAL, Effort(samples=LEAST_SAMPLES), Effort(samples=LEAST_VALUES))
"""Efforts, greatest first. More than sixteen samples add little information, and leave less time for the work around a
visit. Shorter batches save no time: reading the evidence and the work around a visit take as long as they do. All
counts are even, so that n and 2n come first equally often."""


SHORT_NS = 50_000
"""Nanoseconds of the shorter batch where one run has thousands of visits or CPUs."""
OF_MATRIX = Effort(samples=LEAST_VALUES, sample_ns=SHORT_NS, forks=True)
"""Effort of a pair of many CPUs: two visits of a pair differ by 2 to 4 % with it, and by as much with batches of four
times the length (decision 38)."""

OF_EACH_CPU = Effort(samples=LEAST_SAMPLES, sample_ns=SHORT_NS)
"""Effort of a visit that times a loop on each CPU in turn: 256 CPUs take 0.4 s, and three visits of ten points 7 s. All
CPUs are compared within one sample, so that the drift of the machine is not in the comparison."""

OF_EMULATED = Effort(samples=2 * USUAL.samples)
"""Effort under an emulator of a whole system: the work around the samples takes as long as many of them."""


def stated_bytes(point: Point, probe: Probe | None) -> int:
    """Returns the bytes of memory that the point's sizes state; 0 if none."""
    sizes = [parameter.name for parameter in probe.parameters if parameter.kind == "size"] if probe else []
    return sum([value for name, value in point.parameters if name in sizes and isinstance(value, int)])


class Costs:
    """Wall time of a visit to each point: first estimated from its sizes and from what the visits of other points took,
    then learned from its visits."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = probes
        self._asking: dict[Point, float] = {}
        self._starting: dict[Point, float] = {}
        self._stays: dict[Point, bool] = {}
        self._largest: dict[tuple[str, str], tuple[int, float]] = {}
        """Of each probe on a target the bytes of its largest layout so far, and the seconds that it took."""
        self._ratios: list[float] = []
        """Time of each small point's first visit over its estimate."""
        self._slowness = 1.0
        """Median of several of these, at least 1: on a busy machine a visit takes several times its estimate. A search
        of seconds, a cold disk or the first connection says nothing of other points."""

    def learn(self, visit: Visit, effort: Effort, seconds: float, *, is_first: bool, stays: bool) -> None:
        """Records the cost of a visit. seconds: without waits for an uncontended core. is_first: whether the visit is
        its layout's first. stays: whether its process waits for another visit."""
        point = visit.point
        if not (point in self._starting or point in self._asking or self.is_large(point)):
            self._ratios.append(seconds * self._slowness / self.first_visit_s(point, effort))
            self._slowness = max(1.0, median(self._ratios)) if len(self._ratios) >= LEAST_VALUES else 1.0
        if is_first and not effort.forks:
            made = msgspec.structs.replace(effort, samples=visit.samples)
            self._starting[point] = max(0.0, seconds - self._after_set_up_s(point, made))
            size = stated_bytes(point, self._probes.get(point.probe))
            self._largest[_layouts_of(point)] = max(self._largest_of(point), (size, self._starting[point]))
        else:
            self._asking[point] = max(0.0, seconds - visit.samples * self._sample_s(point, effort))
        self._stays[point] = stays

    def visit_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of one visit, with its share of its layout's start."""
        start_s, after_s = self._starting_s(point, effort), self._after_set_up_s(point, effort)
        return start_s / self._served(point, start_s, after_s) + after_s

    def first_visit_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of a visit that begins a layout."""
        return self._starting_s(point, effort) + self._after_set_up_s(point, effort)

    def visits_of_layout(self, point: Point, effort: Effort) -> int:
        """Returns the visits that a layout serves, from the cost of its set-up."""
        return self._served(point, self._starting_s(point, effort), self._after_set_up_s(point, effort))

    def _served(self, point: Point, start_s: float, visit_s: float) -> int:
        if not self._stays.get(point, True):
            return 1
        return min(LAYOUT_SERVES, max(_LEAST_SERVED, round(sqrt(_LAYOUT_VARIANCES * start_s / visit_s))))

    def _after_set_up_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of a visit whose layout is already set up."""
        seconds = self._asking_s(point, effort) + effort.samples * self._sample_s(point, effort)
        return seconds if point in self._asking else seconds * self._slowness

    def _sample_s(self, point: Point, effort: Effort) -> float:
        probe = self._probes.get(point.probe)
        return effort.sample_s(2 if probe and probe.control else 1)

    def _asking_s(self, point: Point, effort: Effort) -> float:
        usual_s = (
            _EMULATING_A_SYSTEM_S
            if is_whole_system(point)
            else _EMULATING_S
            if counts_instructions(point)
            else _ASKING_S
        )
        return self._asking.get(point, _FORKING_S if effort.forks else usual_s)

    def _starting_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of a layout's start: zero if a child of a waiting process makes the visit."""
        if effort.forks:
            return 0.0
        if point in self._starting:
            return self._starting[point]
        size, (of_largest, took_s) = stated_bytes(point, self._probes.get(point.probe)), self._largest_of(point)
        if of_largest > LARGE_BYTES:
            return _STARTING_S + size * took_s / of_largest
        return (_STARTING_S + size * _PREPARING_S_PER_BYTE) * self._slowness

    def knows_layouts(self, point: Point) -> bool:
        """Returns whether the cost of the point's layout is estimated from a large one of its probe."""
        return self._largest_of(point)[0] > LARGE_BYTES

    def _largest_of(self, point: Point) -> tuple[int, float]:
        return self._largest.get(_layouts_of(point), (0, 0.0))

    def is_large(self, point: Point) -> bool:
        return stated_bytes(point, self._probes.get(point.probe)) > LARGE_BYTES


def _layouts_of(point: Point) -> tuple[str, str]:
    return point.probe, point.target


# ---- allocation ------------------------------------------------------------------------------------------------------

P = TypeVar("P", bound=Hashable)
T = TypeVar("T")


class Wish(NamedTuple, Generic[P]):
    """A point that has not converged. seen: visits so far; wanted: total number of visits, estimated from its scatter;
    infinite if no number suffices. visit_s: wall time of one visit."""

    point: P
    seen: int
    wanted: float
    visit_s: float

    def to_settle_s(self) -> float:
        return max(1.0, self.wanted - self.seen) * self.visit_s

    def to_interval_s(self) -> float:
        return (LEAST_VISITS - self.seen) * self.visit_s


def next_visits(wishes: Sequence[Wish[P]], left_s: float) -> list[P]:
    """Returns the points that the next round visits once.

    First the points without an interval, the cheapest first: as many as get one in half of the remaining time, and at
    least one. Without that limit, one more visit of each large point takes the time in which all other points could get
    an interval, and most rows of a run end with two visits. Then the points that converge in the remaining time, the
    cheapest first, so that most converge. If there are neither, the points with the least time spent."""
    new = sorted((wish for wish in wishes if wish.seen < LEAST_VISITS), key=Wish.to_interval_s)
    known = sorted((wish for wish in wishes if wish.seen >= LEAST_VISITS), key=Wish.to_settle_s)
    chosen = fitting(new, map(Wish.to_interval_s, new), left_s / 2)
    chosen = chosen or fitting(new, [wish.visit_s for wish in new], left_s)
    spare_s = left_s - sum(map(Wish.to_interval_s, chosen))
    chosen += fitting(known, map(Wish.to_settle_s, known), spare_s)
    least = sorted(wishes, key=lambda wish: (wish.seen * wish.visit_s, wish.visit_s))
    return [wish.point for wish in chosen or fitting(least, [wish.visit_s for wish in least], left_s)]


def fitting(candidates: Iterable[T], costs_s: Iterable[float], left_s: float) -> list[T]:
    """Returns the candidates that fit into the time, in their order; one that costs too much is skipped."""
    taken: list[T] = []
    for candidate, cost in zip(candidates, costs_s, strict=True):
        if cost <= left_s and cost < inf:
            left_s -= cost
            taken.append(candidate)
    return taken
