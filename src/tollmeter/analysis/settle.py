# SPDX-License-Identifier: Apache-2.0
"""When a point has been visited often enough, and where a sweep needs more values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log

from tollmeter.analysis.rows import rows_of_point
from tollmeter.model import Outcome, Probe, Row

LEAST_VISITS = 3
NARROW = 0.01
"""A relative half width of 1 %: half of the least change that a comparison is asked to tell from none."""

STEP = 0.10
"""Two neighbours that differ by less than this have no knee between them: noise of a shared machine is of that size."""

MOST_NEW_VALUES = 6


def settled(outcomes: Sequence[Outcome], probe: Probe) -> bool:
    """Whether more visits of this point would tell nothing new: it cannot have a number, or each of its metrics is
    known to within 1 % after three visits or more. outcomes: all visits of one point so far."""
    if any(outcome.status in ("unsupported", "wrong_answer") for outcome in outcomes):
        return True
    if sum(outcome.status == "ok" for outcome in outcomes) < LEAST_VISITS:
        return False
    return all(_is_narrow(row) for row in rows_of_point(outcomes, probe))


def refine(values: Sequence[tuple[int, float]], grid: Sequence[int]) -> list[int]:
    """Values of the grid to add between those measured: where neighbours differ most, as a knee lies between them.

    values: (parameter value, median) of the sweep so far, medians above zero. grid: all values that the sweep allows.
    Returns at most six, the middle of each gap that is worth it, ordered; none where the curve is flat.
    """
    ordered = sorted(values)
    steps = [(abs(log(after[1] / before[1])), before[0], after[0]) for before, after in pairwise(ordered)]
    worth = sorted((step for step in steps if step[0] > STEP), reverse=True)
    middles = [_middle(low, high, grid) for _, low, high in worth]
    return sorted([value for value in middles if value is not None][:MOST_NEW_VALUES])


def _is_narrow(row: Row) -> bool:
    if row.median is None or row.low is None or row.high is None:
        return row.status != "ok"
    return (row.high - row.low) / 2 <= NARROW * abs(row.median)


def _middle(low: int, high: int, grid: Sequence[int]) -> int | None:
    inside = [value for value in grid if low < value < high]
    return inside[len(inside) // 2] if inside else None
