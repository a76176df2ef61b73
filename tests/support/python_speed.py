# SPDX-License-Identifier: Apache-2.0
"""How fast this CPU runs Python just now: a bound on time is one on units of this, which a neighbour slows as well."""

from __future__ import annotations

import time
from collections.abc import Callable


def unit_of_work_s() -> float:
    """Seconds of this CPU for a fixed piece of Python: a twentieth of one on a quiet machine of today."""
    began = time.process_time()
    total: dict[int, str] = {}
    for number in range(400_000):
        total[number % 1000] = str(number)
    return max(time.process_time() - began, 1e-3)


def within_units(most: float, taken_s: Callable[[], float], tries: int = 3) -> bool:
    """Whether one of a few tries takes so few. The unit is timed before and after, since a neighbour slows either."""

    def units() -> float:
        before, taken = unit_of_work_s(), taken_s()
        return taken / ((before + unit_of_work_s()) / 2)

    return any(units() < most for _ in range(tries))
