# SPDX-License-Identifier: Apache-2.0
"""Batches that fall into two heaps: a cache that some laps keep and others lose, a line that is homed near or far, a
branch on the way into the kernel that the core has learned to foretell or to mistake. Such a point has two costs, and
none in between.

It is asked of the batches and not of their visits' medians: a state may last for some batches or for seconds, and a
visit that saw both has its median in either heap, or between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_VISITS, _LEAST_SHARE, _LEAST_SEEN = 6, 0.2, 2
_APART, _APART_OF_FEW = log(1.1), 8 * log(1.1)
"""At least 10 % apart, and more the fewer batches there are: of six, a quarter."""
_EMPTY, _EMPTY_OF_FEW = 0.5, 1.7
"""Of the way between the heaps' middles, empty: half of it, and more the fewer visits there are. Where visits scatter
by 10 %, half alone called one point in eight of six visits two, and three quarters one in fifty."""
_MIXED = 0.05
"""Of all batches, those that may lie in the emptiness: the state changed while they ran."""


def parting(visits: Sequence[Array]) -> float | None:
    """The logarithm that parts two heaps, None where there are none. visits: the logarithms of each one's batches.

    Two heaps hold a fifth of all batches each, and some of two visits, lie 10 % apart, and have next to nothing in the
    greater part between them.
    """
    if len(visits) < _LEAST_VISITS:
        return None
    ordered = np.sort(np.concatenate(visits))
    least, mixed = int(np.ceil(_LEAST_SHARE * len(ordered))), int(_MIXED * len(ordered))
    widths = ordered[least + mixed : len(ordered) - least + 1] - ordered[least - 1 : len(ordered) - least - mixed]
    if not len(widths):
        return None
    below = least - 1 + int(np.argmax(widths))
    above = below + 1 + mixed
    distance = float(np.median(ordered[above:]) - np.median(ordered[: below + 1]))
    empty = ordered[above] - ordered[below]
    if distance < _APART + _APART_OF_FEW / len(ordered) or empty < (_EMPTY + _EMPTY_OF_FEW / len(visits)) * distance:
        return None
    cut = float(ordered[above] + ordered[below]) / 2
    seen = [sum(bool((side * (logs - cut) > 0).any()) for logs in visits) for side in (-1, 1)]
    return cut if min(seen) >= _LEAST_SEEN else None
