# SPDX-License-Identifier: Apache-2.0
"""From times of batches to the cost of one iteration.

A batch of n takes a + n c: a is what it pays once, c is what is wanted. The difference of two lengths is free of a, and
three to five times as noisy as it need be, since it throws two thirds of what was timed away. So a is estimated once
from all samples of a point, and every batch then gives a value. The difference remains the judge: where the two part by
more than their noise, it stands.
"""

from __future__ import annotations

from math import ceil, log2, sqrt
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


# ---- linear costs ----------------------------------------------------------------------------------------------------

# Whether the cost of a batch is linear in its iterations.
#
# Of a linear cost a + n c, `2 t(n) - t(2n)` is a, whatever n is. Of a cost that grows as n^p it is a constant share of
# t(2n): below zero where p exceeds 1, above where it is less. So a share below zero refuses. One above zero refuses
# where samples of half the length show that it is a share, which grows with n, and not a time, which stays.

LEAST_SAMPLES = 8
EXPONENT_OFF, WAITING_OFF = 0.025, 0.15
"""By how much an exponent may differ from 1; and where processes wait for each other, since a CPU that waits longer
sleeps more deeply."""
_ERRORS = 4.0
_LEAST_OF_LENGTH = 4
_SHORT = 0.75
_SURE = 2.0
_AGREEING = 0.8


def bent(times: Array, iterations: Array, visits: NDArray[np.int64], expected_ns: float, off: float) -> str | None:
    """Why the cost of one iteration cannot be stated; None where it is linear as far as the samples show. times: a row
    a sample, columns t(n) and t(2n); visits: of each sample; expected_ns: what a batch pays once; off: EXPONENT_OFF or
    WAITING_OFF."""
    longer = (times > max(0.0, expected_ns)).all(axis=1)
    times, iterations, visits = times[longer], iterations[longer], visits[longer]
    if len(times) < LEAST_SAMPLES:
        return None
    once = 2 * times[:, 0] - times[:, 1] - expected_ns
    shares = once / times[:, 1]
    share, error = with_error(shares)
    bound = abs(share_of(1 + off if share < 0 else 1 - off))
    is_small = abs(share) <= bound or abs(middle_of(once)) <= IN_COMPANY_NS
    if is_small or abs(share) <= _ERRORS * error or not _visits_agree(shares, visits, share / 2):
        return None
    if share > 0 and not _grows(shares, iterations, visits):
        return None
    return f"its cost is not linear: twice the iterations take {2 ** exponent_of(share):.2f} times as long"


def share_of(exponent: float) -> float:
    """(2 t(n) - t(2n)) / t(2n) of a cost that grows with that exponent."""
    return float(2 ** (1 - exponent) - 1)


def exponent_of(share: float) -> float:
    return 1 - log2(1 + share)


def _visits_agree(shares: Array, visits: NDArray[np.int64], half: float) -> bool:
    """Samples of one visit are disturbed together: in four visits of five the share is half as large at least."""
    ratios = [middle_of(shares[visits == visit]) / half for visit in np.unique(visits)]
    return sum(ratio >= 1 for ratio in ratios) >= ceil(_AGREEING * len(ratios))


def _grows(shares: Array, iterations: Array, visits: NDArray[np.int64]) -> bool:
    """Whether what seems to be paid once grows with n. Of batches of half the length a time is the larger share,
    2 x / (1 + x) in place of x, and a power has the same; the bound lies between the two, and the larger share must be
    out of reach. Visits whose samples have one length cannot tell, as where n is the least that there can be."""
    longest = np.array([iterations[visits == visit].max() for visit in visits])
    is_short = iterations < _SHORT * longest
    is_compared = np.isin(visits, visits[is_short])
    short, long = shares[is_short], shares[is_compared & ~is_short]
    if min(len(short), len(long)) < _LEAST_OF_LENGTH:
        return False
    share, (short_share, error) = middle_of(long), with_error(short)
    if share <= 0:
        return False
    return short_share < share * sqrt(2 / (1 + share)) and short_share + _SURE * error < 2 * share / (1 + share)
