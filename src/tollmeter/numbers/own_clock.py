# SPDX-License-Identifier: Apache-2.0
"""The target's own clock by the clock at the other end of a line: their ratio, from the marks of all visits."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from statistics import median

import numpy as np

from tollmeter.experiment.precision import Estimate, Scatter, half_width, location
from tollmeter.model import Outcome

_PRIOR_FREEDOM = 4.0


def own_ratio(outcomes: Sequence[Outcome]) -> Estimate | None:
    """The target's own time over the line's, and its 95 % interval. outcomes: of one target. None without marks.

    Each visit has marks of its own, so visits are independent whatever their point. What a few visits say of their
    scatter is pulled to the median of the errors that they state.
    """
    told = [one.marks for one in outcomes if one.marks and one.marks.own_ratio and one.marks.own_ratio > 0]
    if not told:
        return None
    logs = np.log([marks.own_ratio or 1.0 for marks in told])
    stated = Scatter(visits_sd=median(marks.ratio_error or 0.0 for marks in told), freedom=_PRIOR_FREEDOM, runs_sd=0.0)
    middle, half = location(logs), half_width(logs, range(len(logs)), stated)
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half))
