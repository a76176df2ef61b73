# SPDX-License-Identifier: Apache-2.0
"""How much a visit costs in wall time, how many samples it takes, and how many visits one layout serves.

A visit has a price of its own - asking for it, proving, the control loops, the journal - and so has a layout: a process
that starts, touches its memory and threads a walk through it. What is dear is used for longer, by the square root of
the ratio of costs times that of variances, which is where a given time tells most (Cochran 1977, section 10.6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from tollmeter.experiment.precision import LEAST_SHARED, LEAST_VISITS
from tollmeter.model import Point, Probe, Record

VISITS_WANTED = 6
"""For which an effort is chosen: three make an interval, and twice as many a useful one."""
_LAYOUT_SERVES = (2, 8)
_MOST_SAMPLES = 64
_VARIANCES, _LAYOUT_VARIANCES = 4.0, (1 - LEAST_SHARED) / LEAST_SHARED
"""Of samples over that of visits: a standard deviation of 1.2 % beside one of 0.6 % was seen where nobody disturbed.
And of visits of one layout over that of layouts (experiment/precision.py)."""

_STARTING_S = 0.004
_ASKING_S = 0.003
_EMULATING_S = 0.045
"""In place of both: the emulator starts, and translates the code of the visit."""
_EMULATING_A_SYSTEM_S = 0.7
"""In place of both in a guest or on a board: an emulator executes the visit, kernel and all."""
_PREPARING_S_PER_BYTE = 1e-9
"""To touch memory and to thread a random walk through it: most of what a large buffer's layout takes."""
LARGE_BYTES = 24 << 20
"""Of memory that a point is laid out in: more than most private caches, and dear to get (targets/residents.py)."""
_DEAR_S, _SLOW_S = 0.05, 0.008
_BATCHES = 3
_BESIDE_SAMPLE = 1.12
_BURSTS_S = 100e-6
"""n and 2n iterations, an eighth of n to warm up, and what is seen beside."""


_COUNTED = "qemu-user:"
"""Targets whose clock is a count of the program's instructions."""
_EMULATED = ("guest:", "bare:")
"""Targets whose clock counts the instructions of a whole system."""


def visits_wanted(point: Point) -> int:
    """By which a run's time is planned: a count has no noise, and one visit says all of it; an emulated clock has
    little."""
    return 1 if is_counted(point) else LEAST_VISITS if point.target.startswith(_EMULATED) else VISITS_WANTED


def is_counted(point: Point) -> bool:
    return point.target.startswith(_COUNTED)


def _guessed_asking_s(point: Point) -> float:
    if point.target.startswith(_EMULATED):
        return _EMULATING_A_SYSTEM_S
    return _EMULATING_S if is_counted(point) else _ASKING_S


class Effort(Record, frozen=True):
    """Of one visit: samples, and ns of the shorter batch."""

    samples: int = 16
    sample_ns: int = 300_000

    def sample_s(self, bodies: int = 1) -> float:
        """Wall time of one sample; bodies: 2 where a control is timed beside the body."""
        return bodies * self.sample_ns * _BATCHES * 1e-9 * _BESIDE_SAMPLE + _BURSTS_S


USUAL = Effort()
EFFORTS = (
    Effort(samples=20),
    USUAL,
    Effort(samples=12),
    Effort(samples=10),
    Effort(samples=8),
    Effort(samples=6),
    Effort(samples=6, sample_ns=200_000),
    Effort(samples=4, sample_ns=200_000),
)
"""From the best to the least. More samples than sixteen tell little more of a point, and leave less of the time to what
surrounds a visit: a few are taken late, where the budget reaches for all visits that are wanted. Shorter batches save
no time: what stands beside a sample and around a visit takes as long as they do. All counts are even, so that n and 2n
come first equally often."""


_NEARLY = 0.9
"""Of a round's points."""


def allowed(planned: Effort, seen: Sequence[int]) -> Sequence[Effort]:
    """Those that the visits of a round may be made with, the best first. seen: visits of each of its points so far.

    None beyond the usual till nearly all points have as many as the run was planned by, since more visits tell more
    than longer ones; and then any: what is still open scatters, and has the rest of the time.
    """
    nearly_all = sorted(seen)[int((1 - _NEARLY) * len(seen))]
    if nearly_all >= VISITS_WANTED:
        return EFFORTS
    return EFFORTS[EFFORTS.index(max(planned, USUAL, key=EFFORTS.index)) :]


def told_bytes(point: Point, probe: Probe | None) -> int:
    """Of memory, as the point's sizes say; 0 where it has none."""
    sizes = {parameter.name for parameter in probe.parameters if parameter.kind == "size"} if probe else set()
    return sum(value for name, value in point.parameters if name in sizes and isinstance(value, int))


class Costs:
    """Wall time of a visit to each point, and memory that it is laid out in: guessed from its sizes, then learned from
    the visits made."""

    def __init__(self, probes: Mapping[str, Probe]) -> None:
        self._probes = probes
        self._asking: dict[Point, float] = {}
        self._starting: dict[Point, float] = {}
        self._alone: dict[Point, float] = {}
        self._held: dict[Point, int] = {}
        self._serve_once: set[Point] = set()

    def learn(
        self, point: Point, samples: int, effort: Effort, seconds: float, *, fresh: bool, ahead: bool = False
    ) -> None:
        """fresh: whether the visit is its layout's first; ahead: which was begun before it."""
        beyond = max(0.0, seconds - samples * self._sample_s(point, effort))
        if fresh:
            self._starting[point] = max(0.0, beyond - self._asking.get(point, _ASKING_S))
        else:
            self._asking[point] = beyond
        if fresh and not ahead:
            self._alone[point] = self._starting[point]

    def learn_layout(self, point: Point, bytes_: int, seconds: float) -> None:
        """What a process that has visited the point holds, and took to lay it out; 0 where that is not known. Some
        programs work on more than their sizes say."""
        self._held[point] = max(self.held_bytes(point), bytes_)
        self._serve_once.discard(point)
        if seconds:
            self._alone[point] = seconds

    def learn_that_it_ends(self, point: Point) -> None:
        """With its first visit: nobody stays for another."""
        self._serve_once.add(point)

    def of(self, point: Point, effort: Effort) -> float:
        """Seconds of one visit, with its share of its layout's start."""
        start = self._starting_s(point) / self.visits_of_layout(point, effort)
        return start + self._asking_s(point) + self.samples(point, effort) * self._sample_s(point, effort)

    def first(self, point: Point, effort: Effort) -> float:
        """Seconds of a visit that begins a layout."""
        started = self._starting_s(point) + self._asking_s(point)
        return started + self.samples(point, effort) * self._sample_s(point, effort)

    def samples(self, point: Point, effort: Effort) -> int:
        """An even number, more where what surrounds them is dear."""
        fixed = self._asking_s(point) + self._starting_s(point) / _LAYOUT_SERVES[1]
        best = sqrt(_VARIANCES * fixed / self._sample_s(point, effort))
        return min(_MOST_SAMPLES, max(effort.samples, 2 * round(best / 2)))

    def visits_of_layout(self, point: Point, effort: Effort) -> int:
        """By what it takes alone: who prepares it ahead has no time for another meanwhile."""
        if point in self._serve_once:
            return 1
        visit = self._asking_s(point) + self.samples(point, effort) * self._sample_s(point, effort)
        least, most = _LAYOUT_SERVES
        start = self._alone.get(point, self._guess(point))
        return min(most, max(least, round(sqrt(_LAYOUT_VARIANCES * start / visit))))

    def _sample_s(self, point: Point, effort: Effort) -> float:
        probe = self._probes.get(point.probe)
        return effort.sample_s(2 if probe and probe.control else 1)

    def _asking_s(self, point: Point) -> float:
        return self._asking.get(point, _guessed_asking_s(point))

    def _starting_s(self, point: Point) -> float:
        return self._starting[point] if point in self._starting else self._guess(point)

    def _guess(self, point: Point) -> float:
        return _STARTING_S + told_bytes(point, self._probes.get(point.probe)) * _PREPARING_S_PER_BYTE

    def is_dear(self, point: Point) -> bool:
        """To lay out, and soon to go for others: large, or its start was seen to last."""
        return self.is_large(point) or self._alone.get(point, 0.0) > _DEAR_S

    def is_slow(self, point: Point) -> bool:
        """To lay out, as its sizes say or was seen: what is prepared ahead takes no time to be seen."""
        return max(self._guess(point), self._alone.get(point, 0.0)) > _SLOW_S

    def is_large(self, point: Point) -> bool:
        return self.held_bytes(point) > LARGE_BYTES

    def held_bytes(self, point: Point) -> int:
        """Of memory that it is laid out in, as its sizes say or was seen."""
        if point not in self._held:
            self._held[point] = told_bytes(point, self._probes.get(point.probe))
        return self._held[point]
