# SPDX-License-Identifier: Apache-2.0
"""The seconds of work that is done once: builds, installations, downloads. They are no part of a run's budget. A look
whether anything is to be done is repeated by each run, and is part of it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

_spent = [0.0]
_is_counting = [False]


@contextlib.contextmanager
def once() -> Iterator[None]:
    """Counts the time inside, of nested ones the outermost alone. In the main thread."""
    if _is_counting[0]:
        yield
        return
    _is_counting[0], began = True, time.monotonic()
    try:
        yield
    finally:
        _is_counting[0] = False
        _spent[0] += time.monotonic() - began


def spent_s() -> float:
    """Since this process began."""
    return _spent[0]
