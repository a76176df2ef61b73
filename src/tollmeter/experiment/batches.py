# SPDX-License-Identifier: Apache-2.0
"""The cost of one iteration, from the times of batches.

A batch of n iterations takes a + n c: it pays a once, and c for each iteration. The difference of two lengths contains
no a, but is three to five times as noisy as necessary, since it discards two thirds of the timed data. So a is
estimated once from all samples of a point, and every batch then gives a value of c. If this estimate and the difference
disagree by more than their noise, the difference is used."""

from __future__ import annotations

from math import ceil, log2, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import CLEARLY, LEAST_SAMPLES, LEAST_VALUES, NEGLIGIBLE, PROVEN, SOME
from tollmeter.experiment.precision import middle_of
from tollmeter.maths.distributions import NORMAL_QUARTILE

Array = NDArray[np.float64]

LENGTHS = (1, 2)
BATCHES = sum(LENGTHS)
"""Iterations of the batches of a sample, n and 2n, and of both together, as multiples of n."""
ALONE_NS, IN_COMPANY_NS = 100.0, 1000.0
"""Time in ns that a call, a clock reading and the start of a loop may take beyond the clock's own cost: of a single
worker, and of one that synchronises with companions at a gate."""
_OF_MEDIAN = sqrt(pi / 2) / NORMAL_QUARTILE
"""Factor from the median absolute deviation to the standard error of a median times sqrt(n), for a normal
distribution."""


class Paid(NamedTuple):
    """The time that each batch of a point pays once. once_ns: this time; None if the row uses differences of two
    batches. why: why it uses them. bent: why one iteration has no cost."""

    once_ns: float | None
    why: str | None = None
    bent: str | None = None


def paid_once(times: Array, iterations: Array, expected_ns: float, tolerance_ns: float) -> Paid:
    """Returns the time that each batch pays once. times: one line for each sample, columns t(n) and t(2n). expected_ns:
    the expected value of this time; tolerance_ns: its standard deviation.

    The estimate is shrunk towards the expected value by its own noise; an estimate that clearly differs is not shrunk.
    Fewer than eight samples give no estimate, unless twice the work takes no longer."""
    if len(times) < LEAST_SAMPLES:
        longer = len(times) and middle_of(times[:, 1] - times[:, 0]) > 0
        return Paid(expected_ns if longer else None)
    paid = 2 * times[:, 0] - times[:, 1]
    once, error = with_error(paid)
    if abs(once - expected_ns) <= PROVEN * error:
        trust = tolerance_ns**2 / (tolerance_ns**2 + error**2)
        once = expected_ns + trust * (once - expected_ns)
    difference, noise = with_error(differences(times, iterations)[:, 0])
    each = middle_of(values(times, iterations, Paid(once)))
    parted = abs(each - difference)
    if parted > PROVEN * noise and parted > NEGLIGIBLE * abs(difference):
        share = 100 * (each / difference - 1) if difference else 0.0
        return Paid(None, f"the cost by batches is {share:+.1f} % off that by differences, which is used")
    return Paid(once)


def values(times: Array, iterations: Array, paid: Paid) -> Array:
    """Returns the ns of one iteration: two values for each sample, one for each batch; one difference for each sample
    if differences are used."""
    if paid.once_ns is None:
        return differences(times, iterations)
    return np.asarray((times - paid.once_ns) / (iterations[:, None] * np.array(LENGTHS)))


def differences(times: Array, iterations: Array) -> Array:
    """Returns (t(2n) - t(n)) / n, which contains no time that both batches pay once."""
    return np.asarray(((times[:, 1] - times[:, 0]) / iterations)[:, None])


def with_error(sample: Array) -> tuple[float, float]:
    """Returns the median and its standard error."""
    middle = middle_of(sample)
    return middle, _OF_MEDIAN * middle_of(np.abs(sample - middle)) / float(np.sqrt(len(sample)))


# ---- linear costs ----------------------------------------------------------------------------------------------------

# Whether the cost of a batch is linear in its iterations.
#
# Of a linear cost a + n c, `2 t(n) - t(2n)` is a, whatever n is. Of a cost that grows as n^p it is a constant share of
# t(2n): below zero where p exceeds 1, above where it is less. So a share below zero refuses. One above zero refuses
# where samples of half the length show that it is a share, which grows with n, and not a time, which stays. Where
# processes wait for each other, the first iteration of a batch may be free: the CPU of the other one is still awake.

_EXPONENT_OFF, _WAITING_OFF = 0.025, 0.15
"""Highest deviation of the exponent of n from 1 that counts as linear. The second applies if processes wait for each
other: a CPU that waits longer enters a deeper sleep state."""
_SURE = 2.0


def bent(times: Array, iterations: Array, visits: NDArray[np.int64], expected_ns: float, *, waits: bool) -> str | None:
    """Returns why the cost of one iteration cannot be stated; None if it is linear within the error of the samples.
    times: one line for each sample, columns t(n) and t(2n); visits: the visit of each sample; expected_ns: the time
    that a batch pays once; waits: whether an iteration waits for another process."""
    longer = (times > max(0.0, expected_ns)).all(axis=1)
    times, iterations, visits = times[longer], iterations[longer], visits[longer]
    if len(times) < LEAST_SAMPLES:
        return None
    once = 2 * times[:, 0] - times[:, 1] - expected_ns
    shares = once / times[:, 1]
    share, error = with_error(shares)
    off, free = (_WAITING_OFF, 1 / (2 * middle_of(iterations))) if waits else (_EXPONENT_OFF, 0.0)
    bound = free - share_of(1 + off) if share < 0 else share_of(1 - off)
    is_small = abs(share) <= bound or abs(middle_of(once)) <= IN_COMPANY_NS
    if is_small or abs(share) <= PROVEN * error or not _visits_agree(shares, visits, share / 2):
        return None
    if share > 0 and not _grows(shares, iterations, visits):
        return None
    return f"its cost is not linear: twice the iterations take {2 ** exponent_of(share):.2f} times as long"


def share_of(exponent: float) -> float:
    """Returns (2 t(n) - t(2n)) / t(2n) for a cost that grows with this exponent of n."""
    return float(2 ** (1 - exponent) - 1)


def exponent_of(share: float) -> float:
    return 1 - log2(1 + share)


def _visits_agree(shares: Array, visits: NDArray[np.int64], half: float) -> bool:
    """Returns whether the visits agree on a share: it is at least half as large in four visits of five. Samples of one
    visit are disturbed together."""
    ratios = [middle_of(shares[visits == visit]) / half for visit in np.unique(visits)]
    return sum(ratio >= 1 for ratio in ratios) >= ceil((1 - SOME) * len(ratios))


def _grows(shares: Array, iterations: Array, visits: NDArray[np.int64]) -> bool:
    """Returns whether the time that seems to be paid once grows with n. In batches of half the length, a constant time
    has the share 2 x / (1 + x) instead of x, and a power of n has x again. The bound lies between the two, and the
    larger share must be excluded by it. Visits whose samples have one length decide nothing, for example where n is
    the least possible, and visits of fewer than eight samples agree by chance."""
    longest = np.array([iterations[visits == visit].max() for visit in visits])
    many = np.array([(visits == visit).sum() for visit in visits])
    is_short = (iterations < (1 - CLEARLY) * longest) & (many >= LEAST_SAMPLES)
    is_compared = np.isin(visits, visits[is_short])
    short, long = shares[is_short], shares[is_compared & ~is_short]
    if min(len(short), len(long)) < LEAST_VALUES:
        return False
    share, (short_share, error) = middle_of(long), with_error(short)
    if share <= 0:
        return False
    return short_share < share * sqrt(2 / (1 + share)) and short_share + _SURE * error < 2 * share / (1 + share)
