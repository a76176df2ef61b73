# SPDX-License-Identifier: Apache-2.0
"""Whether a cache's measured size and the system's value differ by more than the uncertainty explains: for the finding,
the mark in the memory table and the text below its chart."""

from __future__ import annotations

from tollmeter.model import Level

TOLERATED = {"L1d": 0.15}
TOLERATED_ELSEWHERE = 0.25
_MOST_DOUBT = 3.0
"""Ratio of a size's upper to its lower end: a size with a wider interval is not compared. Where too few visits resolve
the second cache from the third, both look like one that ends anywhere between."""


def disagrees(level: Level) -> bool:
    """The system's size lies outside the measured interval, and further from it than is tolerated. False where either
    size is missing."""
    if not level.size_bytes or not level.os_size_bytes:
        return False
    low, high = level.size_low or level.size_bytes, level.size_high or level.size_bytes
    if high > _MOST_DOUBT * low:
        return False
    nearest = min(max(low, level.os_size_bytes), high)
    return abs(nearest / level.os_size_bytes - 1) > TOLERATED.get(level.level, TOLERATED_ELSEWHERE)
