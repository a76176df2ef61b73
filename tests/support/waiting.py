# SPDX-License-Identifier: Apache-2.0
"""Waiting for a condition in a test, with a limit that only a fault reaches on a loaded machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LONG_S = 180.0
Found = TypeVar("Found")


def in_time(happened: Callable[[], Found]) -> Found:
    """Returns the result of `happened` as soon as it is true, or at the limit."""
    limit = time.monotonic() + LONG_S
    while not (found := happened()) and time.monotonic() < limit:
        time.sleep(0.01)
    return found
