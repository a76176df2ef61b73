# SPDX-License-Identifier: Apache-2.0
"""The target's own clock by the clock at the other end of a line: their ratio, from the marks of all visits."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from statistics import median

import numpy as np

from tollmeter.experiment.precision import Estimate, Scatter, half_width, hodges_lehmann
from tollmeter.model import Outcome

_PRIOR_FREEDOM = 4.0


def own_ratio(outcomes: Sequence[Outcome]) -> Estimate | None:
    """The target's own time over the line's, and its 95 % interval. outcomes: of one target. None without marks.

    Each visit has marks of its own, so visits are independent whatever their point. The scatter of a few visits is
    shrunk towards the median of the errors that they state."""
    marked = [
        outcome.marks
        for outcome in outcomes
        if outcome.marks and outcome.marks.own_ratio and outcome.marks.own_ratio > 0
    ]
    if not marked:
        return None
    logs = np.log([marks.own_ratio or 1.0 for marks in marked])
    stated = Scatter(
        visits_sd=median(marks.ratio_error or 0.0 for marks in marked), freedom=_PRIOR_FREEDOM, runs_sd=0.0
    )
    middle, half = hodges_lehmann(logs), half_width(logs, range(len(logs)), stated)
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half))
