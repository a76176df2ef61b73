# SPDX-License-Identifier: Apache-2.0
"""Visits that fall into two heaps: a cache that some laps keep and others lose, a line that is homed near or far. Such
a point has two costs, and none in between."""

from __future__ import annotations

from math import log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_VISITS, _LEAST_SHARE = 6, 0.2
_APART = log(1.2)
_EMPTY, _EMPTY_OF_FEW = 0.5, 1.5
"""Of the way between the heaps' middles, empty: half of it, and more the fewer visits there are. Where visits scatter
by 10 %, half alone called one point in eight of six visits two, and three quarters one in fifty."""


def upper_heap(logs: Array) -> NDArray[np.bool_] | None:
    """Which of the visits are in the dearer of two heaps; None where there are none. logs: of the visits' medians.

    Two heaps hold two visits and a fifth of all each, lie 20 % apart, and have nothing in the greater part between
    them.
    """
    if len(logs) < _LEAST_VISITS:
        return None
    ordered = np.sort(logs)
    gaps = np.diff(ordered)
    cut = int(np.argmax(gaps)) + 1
    least = max(2, int(np.ceil(_LEAST_SHARE * len(logs))))
    if min(cut, len(logs) - cut) < least:
        return None
    distance = float(np.median(ordered[cut:]) - np.median(ordered[:cut]))
    if distance < _APART or gaps[cut - 1] < (_EMPTY + _EMPTY_OF_FEW / len(logs)) * distance:
        return None
    return np.asarray(logs > ordered[cut - 1])
