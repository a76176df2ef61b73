# SPDX-License-Identifier: Apache-2.0
"""Whether one knee may merge the ends of two caches: it then has no size, and states the reason.

Either there are too few visits, and the system reports a cache that ends before; or other workloads used the caches.
These evict lines of a shared cache in some visits and not in others, so that few sizes show its latency, or none: the
cost of missing the cache before it and the cost of missing both look like one long rise. A cache without other users
may be smeared as widely, by its replacement policy and by page placement, but its visits agree."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.inference.knees import CurveFit, Knee
from tollmeter.inference.search import LEAST_SIZE_RATIO
from tollmeter.inference.sweeps import APART, are_few, is_mixed, size_of, undisturbed_curve
from tollmeter.model import Row

BEYOND = 1.5
TOO_FEW = f"fewer than {LEAST_VISITS} visits"
BLURRED = "the cache use of other workloads hides the boundary"


def why_merged(fit: CurveFit, place: int, sweep: Sequence[Row], own: float | None, known: Sequence[float]) -> str:
    """Empty where this knee belongs to one cache. own: the size of that cache by the system, known: the sizes of all,
    in bytes; the system's value withholds a size of few visits, and never makes one."""
    knee = fit.knees[place]
    if are_few(_near(knee, sweep)) and own and max(known) > own and knee.low > own * BEYOND:
        return TOO_FEW
    return BLURRED if knee is fit.knees[-1] and blurred(fit, sweep) else ""


def blurred(fit: CurveFit, sweep: Sequence[Row]) -> bool:
    """Whether the latency before the last knee ends so early that another cache fits between, and visits of the sizes
    there disagree. A knee before the last was separated from a cache that others may use, so it belongs to one cache.
    """
    if not fit.knees:
        return False
    knee, level = fit.knees[-1], APART * fit.latencies[-2]
    near = _near(knee, sweep)
    flat = len(list(takewhile(lambda row: (row.median or 0.0) < level, undisturbed_curve(near))))
    reached = bool(flat) and knee.size_bytes >= LEAST_SIZE_RATIO * size_of(near[flat - 1])
    return reached and any(is_mixed(row) for row in near[flat:])


def _near(knee: Knee, sweep: Sequence[Row]) -> list[Row]:
    return [row for row in sweep if size_of(row) <= knee.high * BEYOND]
