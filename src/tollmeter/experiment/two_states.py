# SPDX-License-Identifier: Apache-2.0
"""Batches whose distribution is bimodal: a cache that keeps the data in some laps and loses it in others, a line whose
home is near or far, a branch on the way into the kernel that the core predicts or mispredicts. Such a point has two
costs, and none in between.

The test uses batches, not medians of visits: a state may last for some batches or for seconds, and a visit that saw
both has its median in either mode or between them."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_LEAST_VISITS, _LEAST_SHARE, _LEAST_SEEN = 6, 0.2, 2
_APART, _APART_OF_FEW = log(1.1), 8 * log(1.1)
"""Modes lie at least 10 % apart, and more the fewer batches there are: a quarter for six."""
_EMPTY, _EMPTY_OF_FEW = 0.5, 1.7
"""The share of the way between the modes' middles that is empty: half of it, and more the fewer visits there are. Where
visits scatter by 10 %, half alone called one unimodal point in eight of six visits bimodal, and three quarters one in
fifty."""
_MIXED = 0.05
"""Share of all batches that may lie in the empty part: the state changed during them."""


def bimodal_split(visits: Sequence[Array]) -> float | None:
    """The logarithm between two modes, None where there is one mode. visits: for each visit the logarithms of its
    batches.

    Each of two modes holds a fifth of all batches and occurs in two visits; they lie 10 % apart, and the greater part
    between them is nearly empty."""
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
