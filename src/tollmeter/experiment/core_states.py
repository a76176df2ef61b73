# SPDX-License-Identifier: Apache-2.0
"""Whether the core was uncontended: no other workload ran on its sibling hyperthread.

A chain of dependent additions takes a cycle each on a contended core too, so the control loop does not detect SMT
contention. Independent additions do: their number in a cycle is the core's width when it is uncontended, and less when
another workload uses the same units. The width itself comes from the run: the highest mode of all its readings, since
nothing makes a core wider than it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.core_clock import clocks_of, sample_clocks
from tollmeter.experiment.taken import Floats, Mask, Taken, parts
from tollmeter.model import Outcome, StateName

WHOLE_FROM = 0.95
"""Share of the full width. A neighbour that takes less is not distinguished from a burst that was cut short."""
_HEAP = 0.03
_LEAST_HEAP, _LEAST_SHARE = 8, 0.02
_STRETCH = 1 << 16
_LOOKS = 3
"""At the core of each sample, at most."""
_NAMES = np.array(["unknown", "shared", "whole"], object)
_MOST_OF_TIME = 0.8
_ALTERNATES = 0.6
_LEAST_BUSY = 0.04
"""Share of the readings. A sibling that is busy for less makes a row slower by less than 1 %."""


def widths(taken: Taken, clocks_hz: Floats) -> Floats:
    """Independent additions in a cycle: of each sample that was looked at before and after, these looks, and the one in
    its middle where it has one. clocks_hz: of the core in each visit, 0 where it is not known."""
    looks = _looks(taken, clocks_hz)
    seen = looks[(looks[:, 0] > 0) & (looks[:, 2] > 0)]
    return np.asarray(seen[seen > 0])


class CoreSeen(NamedTuple):
    """clocks_hz: during each visit. width: of the whole core, None where too few readings show it. alternates: whether
    the sibling is busy and idle in turn within a sample."""

    clocks_hz: Floats
    width: float | None
    alternates: bool


def core_seen(outcomes: Sequence[Outcome]) -> CoreSeen:
    """What visits of one target and ABI, in the order of time, show of their core."""
    seen, count = np.empty(_LOOKS * sum(len(outcome.samples) for outcome in outcomes)), 0
    clocks = [np.empty(0)]
    for some in parts(outcomes):
        taken = Taken(outcome.samples for outcome in some)
        clocks.append(clocks_of(taken, some))
        readings = widths(taken, clocks[-1])
        seen[count : count + len(readings)] = readings
        count += len(readings)
    in_order = seen[:count].astype(np.float32)
    width = highest_mode(seen[:count])
    return CoreSeen(np.concatenate(clocks), width, width is not None and _alternates(in_order < WHOLE_FROM * width))


def _alternates(low: Mask) -> bool:
    """Whether adjacent readings, 0.3 to 1 ms apart, differ nearly as often as readings in random order, which do so in
    2 p (1 - p) of the pairs where the share p is low. Then full readings on both sides of a batch do not show that the
    core was uncontended in between. low: readings below the full width, in the order of time."""
    busy = float(low.mean())
    differ = float((low[1:] != low[:-1]).mean())
    return _LEAST_BUSY <= busy <= 1 - _LEAST_BUSY and differ >= _ALTERNATES * 2 * busy * (1 - busy)


def highest_mode(readings: Floats) -> float | None:
    """The middle of the highest mode of widths: a stretch of 3 % that holds eight readings and one in fifty. None where
    there are too few. readings: sorted in place, since a run of 1 GB has 50 MB of them."""
    ordered = readings
    ordered.sort()
    wanted = max(_LEAST_HEAP, int(_LEAST_SHARE * len(ordered)))
    for begin in reversed(range(0, len(ordered), _STRETCH)):
        some = ordered[begin : begin + _STRETCH]
        ends = np.searchsorted(ordered, some * (1 + _HEAP), side="right")
        starts = np.flatnonzero(ends - np.arange(begin, begin + len(some)) >= wanted)
        if len(starts):
            top = ordered[ends[starts[-1]] - 1]
            low, high = np.searchsorted(ordered, top / (1 + _HEAP)), np.searchsorted(ordered, top, side="right")
            return float(ordered[(low + high - 1) // 2] + ordered[(low + high) // 2]) / 2
    return None


def states(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> NDArray[np.object_]:
    """The core's state during each sample: `unknown` where it was not seen, or was not the same throughout. clocks_hz,
    full_widths: of the core in each visit, 0 where they are unknown.

    A sample is uncontended if its own looks, and the adjacent looks of the samples next to it, saw the full width:
    workloads on the sibling hyperthread come and go within milliseconds, and may run between two looks."""
    width = taken.spread(full_widths)[:, None]
    looks = _looks(taken, clocks_hz)
    made = (looks > 0) & (width > 0)
    seen = made[:, 0] & made[:, 2]
    at_full = looks >= WHOLE_FROM * width
    fine = at_full | ~made
    full = _neighbours_are_full(taken, fine[:, 1:].all(axis=1) | ~seen, fine[:, :2].all(axis=1) | ~seen)
    shared = seen & ~(at_full & made).any(axis=1)
    return _NAMES[np.where(seen & fine.all(axis=1) & full, 2, np.where(shared, 1, 0))]


def contended_ns(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> tuple[float, float]:
    """Nanoseconds in timed batches for which the sibling was busy, and those of which it is known: each sample's share
    of readings below the full width, by its time. clocks_hz, full_widths: as in `states`."""
    width = taken.spread(full_widths)[:, None]
    looks = _looks(taken, clocks_hz)
    made = (looks > 0) & (width > 0)
    low = (made & (looks < WHOLE_FROM * width)).sum(axis=1)
    count, timed = made.sum(axis=1), taken.timed_ns()
    return float((timed * low / np.maximum(count, 1)).sum()), float(timed[count > 0].sum())


def _neighbours_are_full(taken: Taken, last: Mask, first: Mask) -> Mask:
    """Whether the samples next to each sample, as far as its visit has them, saw the full width in their adjacent
    looks: the last ones of the sample before, the first ones of the sample after."""
    before, behind = np.ones(len(taken), dtype=bool), np.ones(len(taken), dtype=bool)
    before[1:], behind[:-1] = last[:-1], first[1:]
    filled = taken.counts > 0
    before[taken.starts[:-1][filled]] = True
    behind[taken.starts[1:][filled] - 1] = True
    return before & behind


def _looks(taken: Taken, clocks_hz: Floats) -> Floats:
    """Independent additions in a cycle before each sample, in its middle and after it; 0 where not measured."""
    read = np.stack([taken.column(name) for name in ("width_before_hz", "width_between_hz", "width_hz")], axis=1)
    around = sample_clocks(taken, clocks_hz)
    clocks = np.stack([around[:, 0], around.mean(axis=1), around[:, 1]], axis=1)
    made = (read > 0) & (clocks > 0)
    return np.where(made, read / np.where(made, clocks, 1.0), 0.0)


def usual(seen: NDArray[np.object_]) -> StateName:
    """What a mixture of samples is called: one state where it was that for four fifths of them."""
    for name in ("whole", "shared"):
        if len(seen) and (seen == name).mean() >= _MOST_OF_TIME:
            return "whole" if name == "whole" else "shared"
    return "unknown"
