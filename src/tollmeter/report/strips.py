# SPDX-License-Identifier: Apache-2.0
"""An interval drawn in a line of text, on a scale shared by several lines."""

from __future__ import annotations

from math import log

SCALE = 26
"""Width of a drawing beside six columns of numbers, in 80 columns."""


def interval(
    low: float | None, value: float | None, high: float | None, ends: tuple[float, float], signs: str = "├─●┤"
) -> str:
    """Returns an interval and its value as text on a scale, which is logarithmic if both ends are positive. ends: of
    the scale. signs: characters for the begin, the line, the value and the end."""
    if value is None:
        return ""
    first, place, last = (position_on_scale(at if at is not None else value, ends) for at in (low, value, high))
    drawn = ["·"] * SCALE
    drawn[first : last + 1] = signs[1] * (last + 1 - first)
    drawn[first], drawn[last] = signs[0], signs[3]
    drawn[place] = signs[2]
    return "".join(drawn)


def position_on_scale(value: float, ends: tuple[float, float], places: int = SCALE) -> int:
    """Returns the position of a value on a scale. places: characters of the scale."""
    low, high = ends
    if low > 0 and value > 0:
        low, value, high = log(low), log(value), log(high)
    share = (value - low) / (high - low) if high > low else 0.5
    return min(places - 1, max(0, int(share * places)))
