# SPDX-License-Identifier: Apache-2.0
"""Computes Student's t, and functions related to the gamma function. Relative errors are below 1e-11 up to 10,000
degrees of freedom."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import erfc, exp, inf, lgamma, log, log1p, pi, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LEVEL = 0.05
"""Probability that a value lies outside of its interval."""
NORMAL = 1.959963984540054
"""Half of the 95 % interval of a normal distribution, in standard deviations."""
NORMAL_QUARTILE = 0.6744897501960817
"""Median absolute value of a standard normal variable."""
EFFICIENCY_OF_MIDDLE = 0.955
"""Efficiency of the Hodges-Lehmann estimate relative to the mean, for normal values (1963)."""
EFFICIENCY_OF_MAD = 4 / pi * NORMAL_QUARTILE**2 * exp(-(NORMAL_QUARTILE**2))
"""Efficiency of the median absolute deviation relative to the standard deviation, for normal values: 37 % (Rousseeuw
and Croux 1993)."""
KNOWN = inf
"""Degrees of freedom of a variance that is known: Student's t is then the normal distribution."""
_MOST_FREEDOM = 10_000
"""Number of degrees of freedom above which Student's t is replaced by the normal distribution: their quantiles differ
by 0.01 %."""
_TINY = 1e-300
_EXACT = 1e-15
_MOST_TERMS = 10_000
_LARGE = 15.0
"""Argument from which eight terms of the asymptotic series of digamma and trigamma are exact to 1e-15."""
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""B2, B4, ... B14."""


def exp_or_inf(x: float) -> float:
    """Returns e to the power of x; infinity where that exceeds all floats."""
    try:
        return exp(x)
    except OverflowError:
        return inf


def student_tails(freedom: float, t: float) -> float:
    """Returns P(|T| > |t|) of Student's t with `freedom` degrees of freedom, which need not be whole (DLMF 8.17.16)."""
    if freedom > _MOST_FREEDOM:
        return erfc(abs(t) / sqrt(2))
    square = t * t
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


@lru_cache(maxsize=1024)
def student_reach(freedom: float, level: float = LEVEL) -> float:
    """Returns the t with P(|T| > t) = level: half of an interval, in standard errors; by default of a 95 % interval.

    The tail probability falls and is convex in t, and the normal quantile is below the result. So Newton's method from
    the normal quantile rises to the result and never exceeds it."""
    t = NormalDist().inv_cdf(1 - level / 2)
    if freedom > _MOST_FREEDOM:
        return t
    log_scale = lgamma((freedom + 1) / 2) - lgamma(freedom / 2) - log(freedom * pi) / 2
    for _ in range(_MOST_TERMS):
        density = exp(log_scale - (freedom + 1) / 2 * log1p(t * t / freedom))
        step = (student_tails(freedom, t) - level) / (2 * density)
        t += step
        if step <= _EXACT * t:
            break
    return t


def combined(parts: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Returns the standard error of a sum of independent parts, and its degrees of freedom (Satterthwaite 1946, Welch
    1947). parts: standard error and degrees of freedom of each; KNOWN if the variance is known."""
    variances = [(error**2, freedom) for error, freedom in parts]
    total = sum(variance for variance, _ in variances)
    if not 0 < total < inf:
        return total, KNOWN
    squares = sum((variance / total) ** 2 / freedom for variance, freedom in variances)
    return sqrt(total), 1 / squares if squares else KNOWN


def half_width(error: float, freedom: float, level: float = LEVEL) -> float:
    """Returns half of an interval, in the unit of the error. Degrees of freedom are rounded to a tenth, so that few
    quantiles are computed."""
    return student_reach(round(float(freedom), 1), level) * float(error)


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Returns the regularised incomplete beta function I_x(a, b) (DLMF 8.17). rest: 1 - x."""
    if x <= 0 or rest <= 0:
        return float(x > 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log(rest)) / a
    return front / _beta_fraction(a, b, x)


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Returns the continued fraction DLMF 8.17.22, by the modified method of Lentz."""
    value, upper, lower = 1.0, 1.0, 0.0
    for term in range(1, _MOST_TERMS):
        half = term // 2
        if term % 2:
            factor = -(a + half) * (a + b + half) / ((a + 2 * half) * (a + 2 * half + 1))
        else:
            factor = half * (b - half) / ((a + 2 * half - 1) * (a + 2 * half))
        lower = 1 / (1 + factor * x * lower or _TINY)
        upper = 1 + factor * x / upper or _TINY
        value *= upper * lower
        if abs(upper * lower - 1) < _EXACT:
            break
    return value


@lru_cache(maxsize=1024)
def digamma(x: float) -> float:
    """Returns the digamma function of a positive number (DLMF 5.5.2, 5.11.2)."""
    below = 0.0
    while x < _LARGE:
        below += 1 / x
        x += 1
    series = sum(number / (2 * term * x ** (2 * term)) for term, number in enumerate(_BERNOULLI, 1))
    return log(x) - 1 / (2 * x) - series - below


@lru_cache(maxsize=1024)
def trigamma(x: float) -> float:
    """Returns the trigamma function of a positive number: the derivative of digamma."""
    below = 0.0
    while x < _LARGE:
        below += 1 / (x * x)
        x += 1
    series = sum(number / x ** (2 * term + 1) for term, number in enumerate(_BERNOULLI, 1))
    return below + 1 / x + 1 / (2 * x * x) + series


def lower_gamma(a: float, x: Array) -> Array:
    """Returns the regularised lower incomplete gamma function P(a, x) for x from 0 to 700 (DLMF 8.7.1).

    For a whole `a` it is the probability that a Poisson variable of mean x is at least `a`."""
    terms, total = np.ones_like(x), np.ones_like(x)
    count = a
    while np.any(terms > _EXACT * total):
        count += 1
        terms = terms * x / count
        total = total + terms
    return np.asarray(np.exp(a * np.log(np.maximum(x, _TINY)) - x - lgamma(a + 1)) * total)


def log_factorials(most: int) -> Array:
    """Returns log 0!, log 1!, ... up to log most!."""
    return np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, most + 1)))))


def survivors(mean: Array) -> Array:
    """Returns the largest m with m = 1 - exp(-mean m), for means above 1. Newton's method from 1 falls to it and never
    passes it, since 1 - exp(-mean m) - m is concave in m."""
    root = np.ones_like(mean)
    for _ in range(_MOST_TERMS):
        rest = -np.expm1(-mean * root) - root
        slope = np.minimum(mean * np.exp(-mean * root) - 1, -_TINY)
        before, root = root, np.clip(root - rest / slope, 0, root)
        if np.all(before - root <= _EXACT * before):
            break
    return root
