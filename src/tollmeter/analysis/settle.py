# SPDX-License-Identifier: Apache-2.0
"""What the conductor asks between rounds: is a point known well enough, and where does a curve want more points?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf, log, sqrt

from tollmeter.analysis.rows import rows_of_point
from tollmeter.analysis.stats import Estimate
from tollmeter.model import Outcome, Probe, Row

LEAST_VISITS = 3
NARROW = 0.01
BENT = 0.1
MOST_ADDED = 6
NEVER_A_NUMBER = ("unsupported", "wrong_answer")


def settled(outcomes: Sequence[Outcome], probe: Probe) -> bool:
    """Whether further visits of this point would tell nothing new. outcomes: all visits of one point so far.

    Settled where it cannot have a number, or after three visits, when every metric that something is made of (the
    first, and each with a meaning or a line in the toll table) has an interval of at most 1 % to either side.
    """
    if any(outcome.status in NEVER_A_NUMBER for outcome in outcomes):
        return True
    if sum(outcome.status == "ok" for outcome in outcomes) < LEAST_VISITS:
        return False
    used = {metric.name for place, metric in enumerate(probe.metrics) if not place or metric.means or metric.toll}
    return all(_is_narrow(row) for row in rows_of_point(list(outcomes), probe) if row.metric in used)


def _is_narrow(row: Row) -> bool:
    """A row that physics refused may be sound after another visit; one that can have no number is done with."""
    if row.status != "ok" or row.median is None or row.low is None or row.high is None:
        return row.status in NEVER_A_NUMBER
    return Estimate(value=row.median, low=row.low, high=row.high).half_width() <= NARROW


def refine(values: Sequence[tuple[int, float]], grid: Sequence[int]) -> list[int]:
    """Values of the grid to add to a sweep, at most six, ordered; none where the curve is straight in log-log.

    A gap between two neighbours is worth a point in its middle when the value changes across it and the curve bends at
    its ends, both by 10 % and more: by the second difference of log value over log parameter times the shorter side,
    which is how far a straight continuation would miss. What bends most comes first. values: (parameter, median).
    """
    points = sorted((value, median) for value, median in values if value > 0 and median > 0)
    scored = []
    for gap in range(len(points) - 1):
        (low, before), (high, after) = points[gap : gap + 2]
        inside = [value for value in grid if low < value < high]
        bend = min(_bend(points, gap), abs(log(after / before)))
        if inside and bend > BENT:
            scored.append((bend, min(inside, key=partial(_distance, sqrt(low * high)))))
    return sorted(value for _, value in sorted(scored, reverse=True)[:MOST_ADDED])


def _distance(middle: float, value: int) -> float:
    return abs(log(value / middle))


def _bend(points: Sequence[tuple[int, float]], gap: int) -> float:
    """The sharper bend of a gap's two ends; an end of the sweep has none. Of two points alone anything may be true."""
    ends = [_second_difference(points, end) for end in (gap, gap + 1) if 0 < end < len(points) - 1]
    return max(ends, default=inf)


def _second_difference(points: Sequence[tuple[int, float]], place: int) -> float:
    (x0, y0), (x1, y1), (x2, y2) = ((log(x), log(y)) for x, y in points[place - 1 : place + 2])
    before, after = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    return abs(after - before) * min(x1 - x0, x2 - x1)
