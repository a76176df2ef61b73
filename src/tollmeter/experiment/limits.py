# SPDX-License-Identifier: Apache-2.0
"""Numbers with one meaning in several packages: fewest values, shares, and relative differences of two values of one
quantity.

A number with a reason of its own is kept in the module that uses it."""

from __future__ import annotations

KIB = 1 << 10
MIB = KIB * KIB
"""Sizes in bytes."""
LEAST_VISITS = 3
"""Smallest number of visits, runs or times that have an interval: if there are two, either may be the outlier."""
LEAST_VALUES = 4
"""Smallest number of values of one kind that are compared or summarised: samples of a visit in one state of the core or
of one length, slices of a profile, trials of a batch, and points of a curve. Fewer may agree by chance, for example in
a short moment between two busy periods of the sibling hyperthread."""
LEAST_FOR_SCATTER = 6
"""Smallest number of visits that show the scatter of a point, and a second mode. Of three visits, one outlier is in two
of the three pairs from which the scatter is estimated, so that the point seems to need hundreds."""
LEAST_SAMPLES = 8
"""Smallest number of samples, readings or visits whose median is known well enough to judge others by it."""
OF_LAST_CACHE = 16
"""Ratio of the needed memory to the last cache: a walk beyond that cache takes four times its size, and a buffer at
most a quarter of the memory."""

NEGLIGIBLE = 0.005
"""Relative difference that is negligible: half a percent, a sixth of the default precision."""
HARDLY = 0.01
"""Share of normal operation: of a time, the length of a short interrupt; of a count, the occasional calls of a
library."""
FEW = 0.1
"""Share of visits, samples, points or time that counts as few, and whose values do not decide: quantiles at `FEW` and
`1 - FEW` leave out that many outliers."""
SOME = 0.2
"""Share of visits, slices or time from which a second state counts beside the first; `1 - SOME` is nearly all. Kernel
threads and accounting ticks take up to a tenth of an idle machine."""
MOSTLY = 0.5
"""Share of visits, points, figures or time from which it counts as most of them."""
UNDISTURBED = 0.25
"""Quantile that represents times which other workloads only lengthen: the lower quartile. Lower quantiles agree better
between runs, but scatter more between visits (decision 52)."""

SAME_WITHIN = 0.05
"""Relative difference up to which two values are the same, and a gate's usual limit. Rows that converged to the default
precision of 3 % give a ratio within 4.2 %, so that a smaller difference could not be excluded (decision 68)."""
ALIKE = 0.1
"""Relative difference up to which two measured values belong to one level of a curve or one state of the machine:
points of one plateau scatter by some percent."""
CLEARLY = 0.25
"""Relative difference from which two measured values differ in every state of one machine: runs of one machine differ
by 3 % and its clock by up to 15 %. The capacities of consecutive caches differ by more."""
FAR_APART = 0.5
"""Relative difference from which two values have different causes: the next cache, another core or another memory
node."""
MORE_THAN_TWICE = 2.5
"""Ratio of two values that more than one doubling separates: page sizes, a busy sibling hyperthread or one further step
of a sweep explain a factor of two."""
INEXPLICABLE = 32.0
"""Ratio that no state of a machine explains. A core that wakes at 400 MHz instead of 4.7 GHz takes 11 times as long,
and 30 readings of a clock may fall into one step of 41 ns."""

MOST_AGAIN = 3
"""Largest number of further visits or attempts for a value that differs from the others. A difference that persists is
reported."""
PROVEN = 4.0
"""Number of standard errors that chance does not exceed in a run of thousands of visits."""
FLOOR_SD = 1e-4
"""Least standard deviation of a logarithm: a batch is read to the clock's step, about 1e-4 of its time."""
