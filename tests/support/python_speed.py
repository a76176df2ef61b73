# SPDX-License-Identifier: Apache-2.0
"""The present speed of Python on this CPU. Tests bound times in units of it, so that other workloads slow both."""

from __future__ import annotations

import time
from collections.abc import Callable


def unit_of_work_s() -> float:
    """Returns the CPU seconds of a fixed piece of Python: about 0.05 on a quiet machine."""
    began = time.process_time()
    total: dict[int, str] = {}
    for number in range(400_000):
        total[number % 1000] = str(number)
    return max(time.process_time() - began, 1e-3)


def within_units(most: float, taken_s: Callable[[], float], tries: int = 3) -> bool:
    """Returns whether one of a few tries takes less than `most` units. The unit is timed before and after each try,
    since other workloads may slow either."""

    def units() -> float:
        before, taken = unit_of_work_s(), taken_s()
        return taken / ((before + unit_of_work_s()) / 2)

    return any(units() < most for _ in range(tries))
