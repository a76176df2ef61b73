# SPDX-License-Identifier: Apache-2.0
"""Times in ns at a stated clock. A core's clock varies by some percent from visit to visit. A time that consists of
core cycles varies with it; one that waits for memory or for a timer does not. The visits themselves show which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tollmeter.experiment.precision import shamos_sd

_LEAST_VISITS = 4
_STEADY = 0.002
"""Visits whose clocks differ by less than this (standard deviation) cannot show it, and it makes no difference."""


def follows_clock(costs_ns: Sequence[float], clocks_hz: Sequence[float]) -> bool:
    """Whether visits scatter less in cycles than in ns: the slope of log cost over log clock, which is -1 or 0, is
    rounded to the nearer. costs_ns: one a visit, positive. False for fewer than four visits, and for a steady clock."""
    if len(costs_ns) < _LEAST_VISITS or min(costs_ns) <= 0 or min(clocks_hz) <= 0:
        return False
    cost, clock = np.log(np.asarray(costs_ns)), np.log(np.asarray(clocks_hz))
    if clock.std() < _STEADY:
        return False
    return shamos_sd(cost + clock) < shamos_sd(cost)
