# SPDX-License-Identifier: Apache-2.0
"""Times in ns at a stated clock. A core's clock varies by some percent from visit to visit. A time that consists of
core cycles varies with it; one that waits for memory or for a timer does not. The visits themselves show which it is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tollmeter.experiment.precision import Array, shamos_sd

_LEAST_VISITS = 4
_STEADY = 0.002
"""Visits whose clocks differ by less than this (standard deviation) cannot show it, and it makes no difference."""


def follows_clock(costs_ns: Sequence[float] | Array, clocks_hz: Sequence[float] | Array) -> bool:
    """Whether visits scatter less in cycles than in ns: the slope of log cost over log clock, which is -1 or 0, is
    rounded to the nearer. costs_ns: one a visit, positive. False for fewer than four visits, and for a steady clock."""
    costs, clocks = np.asarray(costs_ns), np.asarray(clocks_hz)
    if len(costs) < _LEAST_VISITS or costs.min() <= 0 or clocks.min() <= 0:
        return False
    cost, clock = np.log(costs), np.log(clocks)
    if clock.std() < _STEADY:
        return False
    return shamos_sd(cost + clock) < shamos_sd(cost)
