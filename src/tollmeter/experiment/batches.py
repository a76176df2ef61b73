# SPDX-License-Identifier: Apache-2.0
"""From times of batches to the cost of one iteration.

A batch of n takes a + n c: a is what it pays once, c is what is wanted. The difference of two lengths is free of a, and
three to five times as noisy as it need be, since it throws two thirds of what was timed away. So a is estimated once
from all samples of a point, and every batch then gives a value. The difference remains the judge: where the two part by
more than their noise, it stands.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.precision import middle_of

Array = NDArray[np.float64]

ALONE_NS, IN_COMPANY_NS = 100.0, 1000.0
"""What a call, a reading of the clock and a loop's beginning may take beyond the clock's own cost; and with a gate."""
_PROVEN = 4.0
_PARTED = 0.005
_LEAST = 8
_OF_MEDIAN = 1.2533 * 1.4826
"""Standard error of a median, from the median absolute deviation, both as for a normal distribution."""


class Paid(NamedTuple):
    """What each batch of a point pays once, in ns; None where differences stand, and then why. bent: why one iteration
    has no cost."""

    once_ns: float | None
    why: str | None = None
    bent: str | None = None


def paid_once(times: Array, iterations: Array, expected_ns: float, tolerance_ns: float) -> Paid:
    """times: a row a sample, columns t(n) and t(2n). expected_ns: what is known to be paid; tolerance_ns: how surely.

    The estimate is pulled to what is expected by as much as its own noise asks for; where it is surely something else
    it stands as it is. Fewer than eight samples say nothing of it, but for twice the work that takes no longer.
    """
    if len(times) < _LEAST:
        longer = len(times) and middle_of(times[:, 1] - times[:, 0]) > 0
        return Paid(expected_ns if longer else None)
    paid = 2 * times[:, 0] - times[:, 1]
    once, error = with_error(paid)
    if abs(once - expected_ns) <= _PROVEN * error:
        trust = tolerance_ns**2 / (tolerance_ns**2 + error**2)
        once = expected_ns + trust * (once - expected_ns)
    difference, noise = with_error(differences(times, iterations)[:, 0])
    each = middle_of(values(times, iterations, Paid(once)))
    parted = abs(each - difference)
    if parted > _PROVEN * noise and parted > _PARTED * abs(difference):
        share = 100 * (each / difference - 1) if difference else 0.0
        return Paid(None, f"a batch and the difference of two part by {share:+.1f} %: the difference stands")
    return Paid(once)


def values(times: Array, iterations: Array, paid: Paid) -> Array:
    """ns of one iteration: two of each sample, one of each batch; or the one difference."""
    if paid.once_ns is None:
        return differences(times, iterations)
    return np.asarray((times - paid.once_ns) / (iterations[:, None] * np.array([1.0, 2.0])))


def differences(times: Array, iterations: Array) -> Array:
    """(t(2n) - t(n)) / n: whatever both batches pay once is gone."""
    return np.asarray(((times[:, 1] - times[:, 0]) / iterations)[:, None])


def with_error(sample: Array) -> tuple[float, float]:
    """Median and its standard error."""
    middle = middle_of(sample)
    return middle, _OF_MEDIAN * middle_of(np.abs(sample - middle)) / float(np.sqrt(len(sample)))
