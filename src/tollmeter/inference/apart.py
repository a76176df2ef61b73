# SPDX-License-Identifier: Apache-2.0
"""Whether one knee may be the ends of two caches: it has no size then, and says why.

Either too few visits were made, and the system tells of a cache that ends before; or others used the caches meanwhile.
These push lines out of a shared cache in some visits and not in others, so that few sizes show its latency, or none:
what missing the cache before it costs and what missing both does look like one long rise. A cache that is left
alone may be smeared as widely, by how it replaces lines and by the luck of its pages, but its visits agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.inference.knees import Fit, Knee
from tollmeter.inference.search import LEAST_SIZE_RATIO
from tollmeter.inference.sweeps import APART, are_few, size_of, torn, when_calm
from tollmeter.model import Row

BEYOND = 1.5
TOO_FEW = f"fewer than {LEAST_VISITS} visits"
BLURRED = "the cache use of other workloads hides the boundary"


def why_merged(fit: Fit, place: int, sweep: Sequence[Row], own: float | None, known: Sequence[float]) -> str:
    """Empty where this knee is one cache's. own: what the system says of that cache, known: of all of them, in bytes;
    its word withholds a size of few visits, and makes none."""
    knee = fit.knees[place]
    if are_few(_near(knee, sweep)) and own and max(known) > own and knee.low > own * BEYOND:
        return TOO_FEW
    return BLURRED if knee is fit.knees[-1] and blurred(fit, sweep) else ""


def blurred(fit: Fit, sweep: Sequence[Row]) -> bool:
    """Whether the latency before the last knee ends so long before it that another cache has room between, and visits
    to what lies there disagree. A knee before the last was told from a cache that others may use: it is no other's."""
    if not fit.knees:
        return False
    knee, level = fit.knees[-1], APART * fit.latencies[-2]
    near = _near(knee, sweep)
    flat = len(list(takewhile(lambda row: (row.median or 0.0) < level, when_calm(near))))
    reached = bool(flat) and knee.size_bytes >= LEAST_SIZE_RATIO * size_of(near[flat - 1])
    return reached and any(torn(row) for row in near[flat:])


def _near(knee: Knee, sweep: Sequence[Row]) -> list[Row]:
    return [row for row in sweep if size_of(row) <= knee.high * BEYOND]
