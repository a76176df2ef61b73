# SPDX-License-Identifier: Apache-2.0
"""Sizes of the first two caches by the memory that they were counted to hold, in place of those of a latency curve.

A count depends on no replacement policy, and on no luck of the pages. It can be too little, where another program used
a part of the cache, and hardly too much: its upper quartile stands. It replaces the first boundary that it agrees with.
A boundary between the two that are counted is none: the second cache follows the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tollmeter.inference.knees import OF_MODEL, CurveFit, Knee
from tollmeter.model import Probe, Row
from tollmeter.numbers.meanings import with_meaning

LEVELS = ("first", "second")


def counted(fit: CurveFit, rows: Sequence[Row], probes: Mapping[str, Probe]) -> CurveFit:
    """The fit with the sizes of rows that mean `capacity`, where they agree with its boundaries."""
    by_level = {row.parameters.get("level"): row for row in with_meaning(rows, probes, "capacity") if row.low}
    places = []
    for row in (by_level[level] for level in LEVELS if level in by_level):
        knee = _counted(row)
        place = next((at for at, other in enumerate(fit.knees) if _meet(knee, other)), None)
        if place is not None:
            places.append(place)
            fit = _with(fit, place, knee)
    return _without(fit, *places) if len(places) == len(LEVELS) else fit


def _counted(row: Row) -> Knee:
    low, size, high = row.low or 0.0, row.quartiles[1], row.high or 0.0
    return Knee(size_bytes=size, low=low / OF_MODEL, high=max(high, size) * OF_MODEL)


def _meet(one: Knee, other: Knee) -> bool:
    return one.low <= other.high and other.low <= one.high


def _with(fit: CurveFit, place: int, knee: Knee) -> CurveFit:
    """With a boundary in place of another that is known less closely."""
    old = fit.knees[place]
    if knee.high / knee.low >= old.high / old.low:
        return fit
    return msgspec.structs.replace(fit, knees=(*fit.knees[:place], knee, *fit.knees[place + 1 :]))


def _without(fit: CurveFit, first: int, second: int) -> CurveFit:
    """Without boundaries between two, and the levels that end there."""
    kept = [place for place in range(len(fit.knees)) if not first < place < second]
    levels = [*kept, len(fit.knees)]
    return CurveFit(
        knees=tuple(fit.knees[place] for place in kept),
        latencies=tuple(fit.latencies[place] for place in levels),
        spreads=tuple(fit.spreads[place] for place in levels),
    )
