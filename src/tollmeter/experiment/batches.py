# SPDX-License-Identifier: Apache-2.0
"""Computes the cost of one iteration from the times of batches.

A batch of n iterations takes a + n c: an overhead a once, and c for each iteration. The difference of two lengths does
not contain a, but is three to five times as noisy as necessary, since it discards two thirds of the timed data. So a is
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
"""Iterations of the two batches of a sample, and of both together, in multiples of n."""
ALONE_NS, IN_COMPANY_NS = 100.0, 1000.0
"""Usual time in ns of a call and the start of a loop beyond the cost of reading the clock: for a single worker, and for
one that synchronises with companions at a gate."""
_OF_MEDIAN = sqrt(pi / 2) / NORMAL_QUARTILE
"""Factor from the median absolute deviation to the standard error of a median times sqrt(n), for a normal
distribution."""


class Paid(NamedTuple):
    """The overhead of each batch of a point. once_ns: its time; None if differences of two batches are used. why: why
    they are used. bent: why the time is not linear in the iterations, so that one iteration has no cost."""

    once_ns: float | None
    why: str | None = None
    bent: str | None = None


def paid_once(times: Array, iterations: Array, expected_ns: float, tolerance_ns: float) -> Paid:
    """Returns the overhead of a batch. times: ns, one line for each sample, columns t(n) and t(2n). iterations: n of
    each sample. expected_ns, tolerance_ns: prior mean and standard deviation of the overhead.

    The estimate is shrunk towards the expected value in proportion to its noise, unless it clearly differs. With fewer
    than eight samples the expected value is used, or differences if twice the work takes no longer."""
    if len(times) < LEAST_SAMPLES:
        longer = len(times) and middle_of(times[:, 1] - times[:, 0]) > 0
        return Paid(expected_ns if longer else None)
    paid = 2 * times[:, 0] - times[:, 1]
    once_ns, error = with_error(paid)
    if abs(once_ns - expected_ns) <= PROVEN * error:
        trust = tolerance_ns**2 / (tolerance_ns**2 + error**2)
        once_ns = expected_ns + trust * (once_ns - expected_ns)
    difference, noise = with_error(differences(times, iterations)[:, 0])
    each = middle_of(values(times, iterations, Paid(once_ns)))
    disagreement = abs(each - difference)
    if disagreement > PROVEN * noise and disagreement > NEGLIGIBLE * abs(difference):
        share = 100 * (each / difference - 1) if difference else 0.0
        return Paid(None, f"the cost by batches is {share:+.1f} % off that by differences, which is used")
    return Paid(once_ns)


def values(times: Array, iterations: Array, paid: Paid) -> Array:
    """Returns the ns of one iteration, one line for each sample: a value for each batch; or one value if differences
    are used."""
    if paid.once_ns is None:
        return differences(times, iterations)
    return np.asarray((times - paid.once_ns) / (iterations[:, None] * np.array(LENGTHS)))


def differences(times: Array, iterations: Array) -> Array:
    """Returns (t(2n) - t(n)) / n in ns, one line for each sample. It does not contain the overhead."""
    return np.asarray(((times[:, 1] - times[:, 0]) / iterations)[:, None])


def with_error(sample: Array) -> tuple[float, float]:
    """Returns the median and its standard error."""
    middle = middle_of(sample)
    return middle, _OF_MEDIAN * middle_of(np.abs(sample - middle)) / float(np.sqrt(len(sample)))


# ---- linear costs ----------------------------------------------------------------------------------------------------

# Whether the cost of a batch is linear in its iterations.
#
# For a linear cost a + n c, `2 t(n) - t(2n)` equals a for every n. For a cost that grows as n^p it is a constant share
# of t(2n): below zero if p exceeds 1, and above zero if p is less. A share below zero therefore refuses the row. A
# share above zero may be the overhead a: it refuses the row only if samples of half the length show that it grows.
# If processes wait for each other, the first iteration of a batch may be free, since the other CPU is still awake.

_EXPONENT_OFF, _WAITING_OFF = 0.025, 0.15
"""Largest deviation of the exponent p from 1 that counts as linear. The second applies if processes wait for each
other: a CPU that waits longer enters a deeper sleep state."""
_SURE = 2.0


def bent(times: Array, iterations: Array, visits: NDArray[np.int64], expected_ns: float, *, waits: bool) -> str | None:
    """Returns why the cost of one iteration cannot be stated; None if it is linear within the error of the samples.
    times: ns, one line for each sample, columns t(n) and t(2n). iterations, visits: n and visit of each sample.
    expected_ns: overhead of a batch. waits: whether an iteration waits for another process."""
    is_usable = (times > max(0.0, expected_ns)).all(axis=1)
    times, iterations, visits = times[is_usable], iterations[is_usable], visits[is_usable]
    if len(times) < LEAST_SAMPLES:
        return None
    overhead_ns = 2 * times[:, 0] - times[:, 1] - expected_ns
    shares = overhead_ns / times[:, 1]
    share, error = with_error(shares)
    exponent_tolerance, free_share = (_WAITING_OFF, 1 / (2 * middle_of(iterations))) if waits else (_EXPONENT_OFF, 0.0)
    bound = free_share - share_of(1 + exponent_tolerance) if share < 0 else share_of(1 - exponent_tolerance)
    is_small = abs(share) <= bound or abs(middle_of(overhead_ns)) <= IN_COMPANY_NS
    if is_small or abs(share) <= PROVEN * error or not _visits_agree(shares, visits, share / 2):
        return None
    if share > 0 and not _grows(shares, iterations, visits):
        return None
    return f"its cost is not linear: twice the iterations take {2 ** exponent_of(share):.2f} times as long"


def share_of(exponent: float) -> float:
    """Returns (2 t(n) - t(2n)) / t(2n) for a cost that grows as n to this exponent."""
    return float(2 ** (1 - exponent) - 1)


def exponent_of(share: float) -> float:
    """Returns the exponent with this share: the inverse of share_of."""
    return 1 - log2(1 + share)


def _visits_agree(shares: Array, visits: NDArray[np.int64], half: float) -> bool:
    """Returns whether the visits agree on a share: four visits of five have at least half of it. Visits and not samples
    are counted, since the samples of a visit are disturbed together. half: half of the share."""
    ratios = [middle_of(shares[visits == visit]) / half for visit in np.unique(visits)]
    return sum(ratio >= 1 for ratio in ratios) >= ceil((1 - SOME) * len(ratios))


def _grows(shares: Array, iterations: Array, visits: NDArray[np.int64]) -> bool:
    """Returns whether the apparent overhead grows with n. In batches of half the length, a constant overhead with the
    share x has the share 2 x / (1 + x), and a power of n has x again. The result is true if the measured share is
    nearer to x, and its interval excludes the larger one. Visits whose samples all have one length are not used, nor
    visits of fewer than eight samples, which agree by chance."""
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
