# SPDX-License-Identifier: Apache-2.0
"""Slices of profiles: in which the core was whole or shared, which of them make a profile, and how well it is known.

Whoever uses the core's other hardware thread takes more from some functions than from others: on a guest of two CPUs
shares moved by up to nine points (docs/decisions/0029-profiles.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tollmeter.experiment.core_states import WHOLE_FROM, highest_heap, reached
from tollmeter.model import StateName

Look = tuple[float, float]
"""Additions a second of the control loop and of the width loop, at one moment."""

LEAST_SLICES = 4
_MOST_OF_WHOLE, _LEAST_OF_SHARED = 0.2, 0.8
_SURE = 1.96
_STATES: tuple[StateName, ...] = ("whole", "shared")


def shared_parts(slices: Sequence[Sequence[Look]], known_width: float = 0.0) -> list[float | None]:
    """Of each slice, in how many of its looks somebody else used the core; None where nothing tells. All slices are of
    one target and ABI. known_width: of the whole core, in additions a cycle, as earlier runs saw it.
    """
    widths = [_widths(looks) for looks in slices]
    seen = highest_heap(np.array([width for one in widths for width in one]))
    whole = max(seen or 0.0, known_width)
    return [sum(width < WHOLE_FROM * whole for width in one) / len(one) if one and whole else None for one in widths]


def _widths(looks: Sequence[Look]) -> list[float]:
    clock_hz = reached(chain_hz for chain_hz, _ in looks)
    return [width_hz / clock_hz for _, width_hz in looks if width_hz > 0] if clock_hz else []


def is_of(shared: float | None, state: StateName | None) -> bool:
    """Whether a slice was of that state throughout; of any where it is none of the two."""
    if state not in _STATES:
        return True
    return shared is not None and (shared <= _MOST_OF_WHOLE if state == "whole" else shared >= _LEAST_OF_SHARED)


def common_state(shared: Sequence[Sequence[float | None]]) -> StateName | None:
    """The state that every point has slices enough of, since points are held against each other; "unknown" where there
    is none, None where nobody looked. shared: by point and slice."""
    best, fewest = likeliest(shared)
    if any(part is None for one in shared for part in one) or not shared:
        return None
    return best if fewest >= LEAST_SLICES else "unknown"


def likeliest(shared: Sequence[Sequence[float | None]]) -> tuple[StateName, int]:
    """The state that the point that has least of it has most of, and how many slices those are."""
    fewest = {state: min((sum(is_of(part, state) for part in one) for one in shared), default=0) for state in _STATES}
    best = max(_STATES, key=lambda state: fewest[state])
    return best, fewest[best]


def within(hits: Sequence[Mapping[str, int]], function: str) -> float | None:
    """Half the 95 % interval of a function's share of all samples, in percentage points: by how much slices differ
    (Cochran 1977, section 2.11, a ratio of totals), and no less than so many samples would by chance. None where there
    is one slice. hits: by slice and function.
    """
    wholes = [sum(one.values()) for one in hits]
    every, count = sum(wholes), len(hits)
    if count < 2 or not every:
        return None
    share = sum(one.get(function, 0) for one in hits) / every
    residuals = sum((one.get(function, 0) - share * whole) ** 2 for one, whole in zip(hits, wholes, strict=True))
    between = residuals * count / (count - 1) / every**2
    return 100 * _SURE * math.sqrt(max(between, share * (1 - share) / every))
