# SPDX-License-Identifier: Apache-2.0
"""ns at a stated clock. A core's clock wanders by some percent from visit to visit, and a time that is made of core
cycles wanders with it; one that waits for memory or for a timer does not. Which it is, the visits themselves say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tollmeter.experiment.precision import scale

_LEAST_VISITS = 4
_STEADY = 0.002
"""Visits whose clocks differ by less than this (standard deviation) cannot tell, and it makes no difference."""


def follows_clock(costs_ns: Sequence[float], clocks_hz: Sequence[float]) -> bool:
    """Whether visits scatter less in cycles than in ns: the slope of log cost over log clock, which is -1 or 0, is
    rounded to the nearer. costs_ns: one a visit, positive. Fewer than four visits, or a steady clock, tell nothing.
    """
    if len(costs_ns) < _LEAST_VISITS or min(costs_ns) <= 0 or min(clocks_hz) <= 0:
        return False
    cost, clock = np.log(np.asarray(costs_ns)), np.log(np.asarray(clocks_hz))
    if clock.std() < _STEADY:
        return False
    return scale(cost + clock) < scale(cost)
