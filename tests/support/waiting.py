# SPDX-License-Identifier: Apache-2.0
"""Waiting for what a test needs to have happened, with a limit that only a fault reaches on a loaded machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

LONG_S = 180.0
Found = TypeVar("Found")


def in_time(happened: Callable[[], Found]) -> Found:
    """What `happened` returns as soon as that is true, or at the limit."""
    limit = time.monotonic() + LONG_S
    while not (found := happened()) and time.monotonic() < limit:
        time.sleep(0.01)
    return found
