# SPDX-License-Identifier: Apache-2.0
"""Whether the core was this program's alone.

Additions that wait for each other take a cycle each whoever else is on the core, so the control loop does not notice
the core's other hardware thread. Additions that wait for nobody do: their number in a cycle is the core's width when
it is whole, and less when somebody else's work goes through the same units. The width itself is read from the run: the
highest heap of all its readings, since nothing makes a core wider than it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.evidence import control_rates
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
    rates = [rate for rate in outcome.controls if rate > 0]
    rates += chain.from_iterable(control_rates(sample.witness) for sample in outcome.samples)
    return sorted(rates)[int(_REACHED * (len(rates) - 1))] if rates else None


def widths(sample: Sample, clock_hz: float) -> tuple[float, ...] | None:
    """Independent additions in a cycle: before the sample, in its middle where it has one, and after it; None where
    they were not measured."""
    seen = sample.witness
    if min(seen.width_before_hz, seen.width_hz, clock_hz) <= 0:
        return None
    looks = (seen.width_before_hz, seen.width_between_hz, seen.width_hz)
    return tuple(rate / clock_hz for rate in looks if rate > 0)


def full_width(outcomes: Sequence[Outcome]) -> float | None:
    """The width of the whole core, from visits of one target and ABI: the middle of the highest heap of readings.

    A heap is a stretch of 3 % that holds eight readings and one in fifty. None where there are too few.
    """
    seen: list[float] = []
    for outcome in outcomes:
        clock = core_hz(outcome)
        found = (widths(sample, clock) for sample in outcome.samples) if clock else ()
        seen += chain.from_iterable(pair for pair in found if pair)
    ordered = np.sort(np.asarray(seen, dtype=float))
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
    looks = [widths(sample, clock_hz) if clock_hz and width else None for sample in samples]
    full = WHOLE_FROM * (width or 0.0)
    return np.array([_state(looks, place, full) for place in range(len(looks))], dtype="<U7")


def _state(looks: Sequence[tuple[float, ...] | None], place: int, full: float) -> StateName:
    found = looks[place]
    if found is None:
        return "unknown"
    whole = [reading >= full for reading in found]
    if not any(whole):
        return "shared"
    before = (looks[place - 1] if place else None) or ()
    after = (looks[place + 1] if place + 1 < len(looks) else None) or ()
    beside = (*before[len(before) // 2 :], *after[: (len(after) + 1) // 2])
    return "whole" if all(whole) and all(reading >= full for reading in beside) else "unknown"


def usual(seen: NDArray[np.str_]) -> StateName:
    """What a mixture of samples is called: one state where it was that for four fifths of them."""
    for name in ("whole", "shared"):
        if len(seen) and (seen == name).mean() >= _MOST_OF_TIME:
            return "whole" if name == "whole" else "shared"
    return "unknown"
