# SPDX-License-Identifier: Apache-2.0
"""Numbers that mean the same in several packages: fewest values, shares, and differences of two values of one quantity.

A rule whose number has a reason of its own keeps it in its own module."""

from __future__ import annotations

KIB = 1 << 10
MIB = KIB * KIB
"""Bytes."""
LEAST_VISITS = 3
"""Fewest visits, runs or times that have an interval: of two, each may be the outlier."""
LEAST_VALUES = 4
"""Fewest values of one kind that are compared or summarised: samples of a visit in one state of the core or of one
length, slices of a profile, trials of a batch, and points of a curve. Chance explains fewer: three values that agree,
or a short moment between two busy periods of the sibling hyperthread."""
LEAST_FOR_SCATTER = 6
"""Visits from which a point's scatter and a second mode can be seen. Of three, one outlier is in two of the three pairs
that give the scatter, so that the point seems to need hundreds."""
LEAST_SAMPLES = 8
"""Fewest samples, readings or visits whose usual value is known well enough to judge others by it."""
OF_LAST_CACHE = 16
"""Ratio of the needed memory to the last cache: a walk beyond that cache takes four times its size, and a buffer at
most a quarter of the memory."""

NEGLIGIBLE = 0.005
"""Relative difference that rounds to nothing: half a percent, a sixth of the default precision."""
HARDLY = 0.01
"""Share that is no more than normal operation: of a time, what a short interrupt takes; of a count, what a library
calls now and then."""
FEW = 0.1
"""Share of visits, samples, points or time that counts as few, and whose values do not decide: quantiles at `FEW` and
`1 - FEW` leave out that many outliers."""
SOME = 0.2
"""Share of visits, slices or time from which a second state counts beside the first; `1 - SOME` is nearly all. Kernel
threads and accounting ticks take up to a tenth of an idle machine."""
MOSTLY = 0.5
"""Share of visits, points, figures or time from which the whole counts as such."""
UNDISTURBED = 0.25
"""Quantile that represents times which other workloads only lengthen: the lower quartile. Lower quantiles agree better
between runs, and scatter more between visits (decision 52)."""

SAME_WITHIN = 0.05
"""Relative difference up to which two values are the same, and a gate's usual limit. Rows that converged to the default
precision of 3 % give a ratio within 4.2 %, so that a smaller difference could not be excluded (decision 68)."""
ALIKE = 0.1
"""Relative difference up to which two measured values belong to one level of a curve or one state of the machine:
points of one plateau scatter by some percent."""
CLEARLY = 0.25
"""Relative difference from which two measured values of one machine differ whatever its state: runs of one machine
differ by 3 % and the clock by up to 15 %. Caches that follow each other differ by more."""
FAR_APART = 0.5
"""Relative difference from which two values have different causes: the next cache, another core or another memory
node."""
MORE_THAN_TWICE = 2.5
"""Ratio from which more than one doubling lies between two values: page sizes, a busy sibling hyperthread or one
further step of a sweep explain a factor of two."""
INEXPLICABLE = 32.0
"""Ratio that no state of a machine explains: a core that wakes at 400 MHz instead of 4.7 GHz takes 11 times as long,
data leave a cache, and 30 readings of a clock may fall into one step of 41 ns."""

MOST_AGAIN = 3
"""Highest number of further visits or attempts of what differs from the others: a difference that persists is printed.
"""
PROVEN = 4.0
"""Number of standard errors that chance does not reach in a run of thousands of visits."""
FLOOR_SD = 1e-4
"""Least standard deviation of a logarithm: a batch is read to the clock's step, about 1e-4 of its time."""
