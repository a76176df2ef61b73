# SPDX-License-Identifier: Apache-2.0
"""Estimates the wall time of a visit, and chooses the number of visits that one layout serves and the points that a
round visits.

A layout has a fixed cost: a process starts, touches its memory and links a pointer cycle through it. The number of
visits that gives most information in a given time is the square root of (cost of a layout / cost of a visit x variance
of visits in a layout / variance between layouts) (Cochran 1977, section 10.6)."""

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
"""Ratio of the variance of visits of one layout to the variance between layouts (experiment/precision.py)."""

_STARTING_S = 0.004
"""Seconds to start a process for a visit."""
_ASKING_S = 0.003
"""Seconds of a visit in addition to its samples, if a waiting process serves it."""
_FORKING_S = 0.0012
"""Seconds in place of _STARTING_S and _ASKING_S, if a child of a waiting process makes the visit."""
_EMULATING_S = 0.045
"""Seconds in place of _STARTING_S and _ASKING_S under an emulator, which starts and translates the code of the
visit."""
_EMULATING_A_SYSTEM_S = 0.7
"""Seconds in place of _STARTING_S and _ASKING_S in a guest or on a board, where an emulator executes the whole visit,
kernel included."""
_PREPARING_S_PER_BYTE = 1e-9
"""Seconds per byte to touch memory and to link a random walk through it, which is most of the set-up of a large buffer.
Each line of a walk takes the latency of memory, so the time of a probe's largest layout predicts that of a larger one:
4.3 times as much as this in a Zen 4 guest."""
LARGE_BYTES = 24 * MIB
"""Bytes from which a layout is large: more than most private caches, and expensive to set up (decision 15)."""
_BESIDE_SAMPLE = 1.12
_BURSTS_S = 100e-6
"""Factor on the time of the batches, since an eighth of n warms up; and seconds to read the evidence."""


def planned_visits(point: Point) -> int:
    """Returns the number of visits by which the time of a run is planned: one for a count, which has no noise; few for
    the clock of an emulated kernel, which has little."""
    if counts_instructions(point) or point.target.startswith("bare:"):
        return 1
    return LEAST_VISITS if is_whole_system(point) else LEAST_FOR_SCATTER


def counts_instructions(point: Point) -> bool:
    """Returns whether the clock of the point is a count of the instructions of the program."""
    return point.target.startswith("qemu-user:")


def is_whole_system(point: Point) -> bool:
    """Returns whether the clock of the point counts the instructions of a whole system."""
    return point.target.startswith(("guest:", "bare:"))


def has_machines_time(point: Point) -> bool:
    """Returns whether a point runs on the machine's CPUs without an emulator."""
    return not (counts_instructions(point) or is_whole_system(point))


class Effort(Record, frozen=True):
    """The effort of one visit. samples: number of samples. sample_ns: time of the shorter batch. forks: whether a child
    of a waiting process makes the visit."""

    samples: int = 16
    sample_ns: int = 300_000
    forks: bool = False

    def sample_s(self, bodies: int = 1) -> float:
        """Returns the wall time of one sample in seconds. bodies: 2 if a control is timed with the body."""
        return bodies * self.sample_ns * BATCHES * 1e-9 * _BESIDE_SAMPLE + _BURSTS_S


USUAL = Effort()
EFFORTS = (USUAL, Effort(samples=LEAST_SAMPLES), Effort(samples=LEAST_VALUES))
"""Efforts, greatest first. More than sixteen samples add little information, and leave less time for set-up. Shorter
batches save no time, since reading the evidence and set-up take as long. All numbers of samples are even, so that n and
2n come first equally often."""


SHORT_NS = 50_000
"""Time in ns of the shorter batch if one run has thousands of visits or CPUs."""
OF_MATRIX = Effort(samples=LEAST_VALUES, sample_ns=SHORT_NS, forks=True)
"""Effort of a visit of one of many pairs of CPUs. Two visits of a pair differ by 2 to 4 % with it, and by as much with
batches four times as long (decision 38)."""

OF_EACH_CPU = Effort(samples=LEAST_SAMPLES, sample_ns=SHORT_NS)
"""Effort of a visit that times a loop on each CPU in turn: 256 CPUs take 0.4 s, and three visits of ten points 7 s. All
CPUs are compared within one sample, so that drift of the machine cancels."""

OF_EMULATED = Effort(samples=2 * USUAL.samples)
"""Effort under an emulator of a whole system, where set-up takes as long as many samples."""


def stated_bytes(point: Point, probe: Probe | None) -> int:
    """Returns the sum of the sizes among the parameters of a point, in bytes; 0 without one."""
    sizes = [parameter.name for parameter in probe.parameters if parameter.kind == "size"] if probe else []
    return sum([value for name, value in point.parameters if name in sizes and isinstance(value, int)])


class Costs:
    """Estimates the wall time of a visit to each point: first from its sizes and from visits to other points, then from
    its own visits."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = probes
        self._asking: dict[Point, float] = {}
        self._starting: dict[Point, float] = {}
        self._stays: dict[Point, bool] = {}
        self._largest: dict[tuple[str, str], tuple[int, float]] = {}
        """For each probe and target the bytes of its largest layout so far, and the seconds of its set-up."""
        self._ratios: list[float] = []
        """Time of the first visit of each small point over its estimate."""
        self._slowness = 1.0
        """Median of these ratios, at least 1: on a busy machine a visit takes several times its estimate. The median
        ignores single slow visits, as by a cold disk or a first connection."""

    def learn(self, visit: Visit, effort: Effort, seconds: float, *, is_first: bool, stays: bool) -> None:
        """Records the cost of a visit. seconds: without waits for an uncontended core. is_first: whether the visit is
        the first of its layout. stays: whether its process waits for another visit."""
        point = visit.point
        if not (point in self._starting or point in self._asking or self.is_large(point)):
            self._ratios.append(seconds * self._slowness / self.first_visit_s(point, effort))
            self._slowness = max(1.0, median(self._ratios)) if len(self._ratios) >= LEAST_VALUES else 1.0
        if is_first and not effort.forks:
            effort_made = msgspec.structs.replace(effort, samples=visit.samples)
            self._starting[point] = max(0.0, seconds - self._after_set_up_s(point, effort_made))
            size = stated_bytes(point, self._probes.get(point.probe))
            self._largest[_layouts_of(point)] = max(self._largest_of(point), (size, self._starting[point]))
        else:
            self._asking[point] = max(0.0, seconds - visit.samples * self._sample_s(point, effort))
        self._stays[point] = stays

    def visit_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of one visit, with its share of the set-up of its layout."""
        start_s, after_s = self._starting_s(point, effort), self._after_set_up_s(point, effort)
        return start_s / self._served(point, start_s, after_s) + after_s

    def first_visit_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of a visit that sets up a layout."""
        return self._starting_s(point, effort) + self._after_set_up_s(point, effort)

    def visits_of_layout(self, point: Point, effort: Effort) -> int:
        """Returns the number of visits that a layout serves."""
        return self._served(point, self._starting_s(point, effort), self._after_set_up_s(point, effort))

    def _served(self, point: Point, start_s: float, visit_s: float) -> int:
        """Returns the number of visits that a layout serves. start_s: seconds of its set-up. visit_s: seconds of a
        further visit."""
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
        """Returns the seconds of a visit in addition to its samples, if its layout is set up."""
        usual_s = (
            _EMULATING_A_SYSTEM_S
            if is_whole_system(point)
            else _EMULATING_S
            if counts_instructions(point)
            else _ASKING_S
        )
        return self._asking.get(point, _FORKING_S if effort.forks else usual_s)

    def _starting_s(self, point: Point, effort: Effort) -> float:
        """Returns the seconds of the set-up of a layout: zero if a child of a waiting process makes the visit."""
        if effort.forks:
            return 0.0
        if point in self._starting:
            return self._starting[point]
        size, (of_largest, took_s) = stated_bytes(point, self._probes.get(point.probe)), self._largest_of(point)
        if of_largest > LARGE_BYTES:
            return _STARTING_S + size * took_s / of_largest
        return (_STARTING_S + size * _PREPARING_S_PER_BYTE) * self._slowness

    def knows_layouts(self, point: Point) -> bool:
        """Returns whether the set-up time of the point is estimated from a large layout of its probe."""
        return self._largest_of(point)[0] > LARGE_BYTES

    def _largest_of(self, point: Point) -> tuple[int, float]:
        """Returns the bytes and the set-up seconds of the largest layout so far of the probe on this target."""
        return self._largest.get(_layouts_of(point), (0, 0.0))

    def is_large(self, point: Point) -> bool:
        """Returns whether the layout of a point is large."""
        return stated_bytes(point, self._probes.get(point.probe)) > LARGE_BYTES


def _layouts_of(point: Point) -> tuple[str, str]:
    return point.probe, point.target


# ---- allocation ------------------------------------------------------------------------------------------------------

P = TypeVar("P", bound=Hashable)
T = TypeVar("T")


class Wish(NamedTuple, Generic[P]):
    """A point that has not converged. seen: number of visits so far. wanted: total number of visits that it needs,
    estimated from its scatter; infinite if no number suffices. visit_s: wall time of one visit in seconds."""

    point: P
    seen: int
    wanted: float
    visit_s: float

    def to_settle_s(self) -> float:
        """Returns the seconds of the visits until the point converges."""
        return max(1.0, self.wanted - self.seen) * self.visit_s

    def to_interval_s(self) -> float:
        """Returns the seconds of the visits until the point has an interval."""
        return (LEAST_VISITS - self.seen) * self.visit_s


def next_visits(wishes: Sequence[Wish[P]], left_s: float) -> list[P]:
    """Returns the points that the next round visits once. left_s: remaining time in seconds.

    First the points without an interval, the cheapest first: as many as get one in half of the remaining time, and at
    least one. Without this limit, one more visit of each large point would take the time in which all other points
    could get an interval, and most rows of a run would end with two visits. Then the points that converge in the
    remaining time, the cheapest first, so that most converge. If there are neither, the points with the least time
    spent."""
    new = sorted((wish for wish in wishes if wish.seen < LEAST_VISITS), key=Wish.to_interval_s)
    known = sorted((wish for wish in wishes if wish.seen >= LEAST_VISITS), key=Wish.to_settle_s)
    chosen = fitting(new, map(Wish.to_interval_s, new), left_s / 2)
    chosen = chosen or fitting(new, [wish.visit_s for wish in new], left_s)
    spare_s = left_s - sum(map(Wish.to_interval_s, chosen))
    chosen += fitting(known, map(Wish.to_settle_s, known), spare_s)
    least = sorted(wishes, key=lambda wish: (wish.seen * wish.visit_s, wish.visit_s))
    return [wish.point for wish in chosen or fitting(least, [wish.visit_s for wish in least], left_s)]


def fitting(candidates: Iterable[T], costs_s: Iterable[float], left_s: float) -> list[T]:
    """Returns the candidates that fit into the time one after the other, in their order; a candidate that costs more
    than the remaining time is skipped. left_s: time in seconds."""
    taken: list[T] = []
    for candidate, cost in zip(candidates, costs_s, strict=True):
        if cost <= left_s and cost < inf:
            left_s -= cost
            taken.append(candidate)
    return taken
