# SPDX-License-Identifier: Apache-2.0
"""Slices of profiles: in which the core was contended, which of them make a profile, and how precise it is.

A workload on the sibling hyperthread takes more from some functions than from others: on a guest of two CPUs shares
moved by up to nine points (docs/decisions/0024-attribution-and-profiles.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tollmeter.experiment.core import WHOLE_FROM, highest_mode, reached
from tollmeter.model import StateName

Look = tuple[float, float]
"""Additions a second of the control loop and of the width loop, at one moment."""

LEAST_SLICES = 4
_MOST_OF_WHOLE, _LEAST_OF_SHARED = 0.2, 0.8
_SURE = 1.96
_STATES: tuple[StateName, ...] = ("whole", "shared")


def shared_parts(slices: Sequence[Sequence[Look]], known_width: float = 0.0) -> list[float | None]:
    """For each slice the share of its looks that saw the core contended; None where nothing was seen. All slices are of
    one target and ABI. known_width: of the uncontended core, in additions a cycle, from earlier runs."""
    widths = [_widths(looks) for looks in slices]
    seen = highest_mode(np.array([width for seen_widths in widths for width in seen_widths]))
    full_width = max(seen or 0.0, known_width)
    return [
        sum(width < WHOLE_FROM * full_width for width in seen_widths) / len(seen_widths)
        if seen_widths and full_width
        else None
        for seen_widths in widths
    ]


def _widths(looks: Sequence[Look]) -> list[float]:
    clock_hz = reached(chain_hz for chain_hz, _ in looks)
    return [width_hz / clock_hz for _, width_hz in looks if width_hz > 0] if clock_hz else []


def is_of(shared: float | None, state: StateName | None) -> bool:
    """Whether a slice was of that state throughout; of any where it is none of the two."""
    if state not in _STATES:
        return True
    return shared is not None and (shared <= _MOST_OF_WHOLE if state == "whole" else shared >= _LEAST_OF_SHARED)


def common_state(shared: Sequence[Sequence[float | None]]) -> StateName | None:
    """The state of which every point has enough slices, since points are compared; "unknown" where there is none, None
    where the state was not observed. shared: by point and slice."""
    best, fewest = likeliest(shared)
    if any(part is None for parts in shared for part in parts) or not shared:
        return None
    return best if fewest >= LEAST_SLICES else "unknown"


def likeliest(shared: Sequence[Sequence[float | None]]) -> tuple[StateName, int]:
    """The state that the point that has least of it has most of, and how many slices those are."""
    fewest = {
        state: min((sum(is_of(part, state) for part in parts) for parts in shared), default=0) for state in _STATES
    }
    best = max(_STATES, key=lambda state: fewest[state])
    return best, fewest[best]


def within(hits: Sequence[Mapping[str, int]], function: str) -> float | None:
    """Half the 95 % interval of a function's share of all samples, in percentage points: by how much slices differ
    (Cochran 1977, section 2.11, a ratio of totals), and no less than so many samples would by chance. None where there
    is one slice. hits: by slice and function.
    """
    wholes = [sum(slice_hits.values()) for slice_hits in hits]
    every, count = sum(wholes), len(hits)
    if count < 2 or not every:
        return None
    share = sum(slice_hits.get(function, 0) for slice_hits in hits) / every
    residuals = sum(
        (slice_hits.get(function, 0) - share * whole) ** 2 for slice_hits, whole in zip(hits, wholes, strict=True)
    )
    between = residuals * count / (count - 1) / every**2
    return 100 * _SURE * math.sqrt(max(between, share * (1 - share) / every))
