# SPDX-License-Identifier: Apache-2.0
"""Whether the core was this program's alone.

Additions that wait for each other take a cycle each whoever else is on the core, so the control loop does not notice
the core's other hardware thread. Additions that wait for nobody do: their number in a cycle is the core's width when
it is whole, and less when somebody else's work goes through the same units. The width itself is read from the run: the
highest heap of all its readings, since nothing makes a core wider than it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tollmeter.model import Outcome, Sample, StateName

WHOLE_FROM = 0.95
"""Of the full width. Neighbours that take less than that are not told from a burst that was cut short."""
_HEAP = 0.03
_LEAST_HEAP, _LEAST_SHARE = 8, 0.02
_MOST_OF_TIME = 0.8
_REACHED = 0.9


def core_hz(outcome: Outcome) -> float | None:
    """The core's clock during a visit: what its control loops, the bursts beside samples too, reached nine times in
    ten.

    Nothing makes a chain of additions faster than the clock; whoever shares the core makes it slower by one or two
    percent, so that their median tells of the neighbour as well.
    """
    seen = [sample.witness for sample in outcome.samples]
    rates = [*outcome.controls, *(one.control_before_hz for one in seen), *(one.control_hz for one in seen)]
    return reached(rates)


def reached(rates: Iterable[float]) -> float | None:
    """What nine readings in ten of the control loop stay at or below; None without any."""
    told = sorted(rate for rate in rates if rate > 0)
    return told[int(_REACHED * (len(told) - 1))] if told else None


def widths(samples: Sequence[Sample], clock_hz: float) -> NDArray[np.float64]:
    """Independent additions in a cycle: of each sample that was looked at before and after, these looks, and the one in
    its middle where it has one."""
    if not samples or clock_hz <= 0:
        return np.empty(0)
    looks = _looks(samples) / clock_hz
    told = looks[(looks[:, 0] > 0) & (looks[:, 2] > 0)]
    return np.asarray(told[told > 0])


def full_width(outcomes: Sequence[Outcome]) -> float | None:
    """The width of the whole core, from visits of one target and ABI."""
    return highest_heap(np.concatenate([np.empty(0), *(widths(one.samples, core_hz(one) or 0.0) for one in outcomes)]))


def highest_heap(readings: NDArray[np.float64]) -> float | None:
    """The middle of the highest heap of widths: a stretch of 3 % that holds eight readings and one in fifty. None where
    there are too few.
    """
    ordered = np.sort(readings)
    wanted = max(_LEAST_HEAP, int(_LEAST_SHARE * len(ordered)))
    inside = np.searchsorted(ordered, ordered * (1 + _HEAP), side="right") - np.arange(len(ordered))
    starts = np.flatnonzero(inside >= wanted)
    if not len(starts):
        return None
    top = ordered[starts[-1] + inside[starts[-1]] - 1]
    return float(np.median(ordered[(ordered >= top / (1 + _HEAP)) & (ordered <= top)]))


def states(samples: Sequence[Sample], clock_hz: float | None, width: float | None) -> NDArray[np.str_]:
    """The core's state during each sample: `unknown` where it was not seen, or was not the same throughout.

    A sample is of the whole core if its own looks, and those of its neighbours next to them, saw it whole: who shares
    a core comes and goes within milliseconds, and may be there between two looks.
    """
    if not clock_hz or not width or not samples:
        return np.full(len(samples), "unknown")
    looks = _looks(samples) / clock_hz
    made = looks > 0
    seen = made[:, 0] & made[:, 2]
    whole, full = looks >= WHOLE_FROM * width, np.ones(len(samples), dtype=bool)
    fine = whole | ~made
    full[1:] &= (fine[:, 1:].all(axis=1) | ~seen)[:-1]
    full[:-1] &= (fine[:, :2].all(axis=1) | ~seen)[1:]
    shared = seen & ~(whole & made).any(axis=1)
    return np.where(seen & fine.all(axis=1) & full, "whole", np.where(shared, "shared", "unknown"))


def _looks(samples: Sequence[Sample]) -> NDArray[np.float64]:
    """Independent additions a second before each sample, in its middle and after it; 0 where not measured."""
    seen = [sample.witness for sample in samples]
    return np.array([(one.width_before_hz, one.width_between_hz, one.width_hz) for one in seen])


def usual(seen: NDArray[np.str_]) -> StateName:
    """What a mixture of samples is called: one state where it was that for four fifths of them."""
    for name in ("whole", "shared"):
        if len(seen) and (seen == name).mean() >= _MOST_OF_TIME:
            return "whole" if name == "whole" else "shared"
    return "unknown"
