# SPDX-License-Identifier: Apache-2.0
"""Determines the clock of the timed core, and whether the core was uncontended.

The clock of a core varies by some percent between visits, and steps by 2 to 15 % within a visit when workloads on other
cores start and stop, since the highest clock depends on the number of active cores. A time that consists of core cycles
varies with the clock; a time that waits for memory or for a timer does not. The scatter of the visits shows which of
the two applies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, log, sqrt
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import (
    FEW,
    FLOOR_SD,
    LEAST_SAMPLES,
    LEAST_VALUES,
    LEAST_VISITS,
    SAME_WITHIN,
    SOME,
)
from tollmeter.experiment.precision import Array, Estimate, Scatter, hodges_lehmann, log_half_width, shamos_sd
from tollmeter.experiment.taken import MANY_VISITS, Floats, Mask, Taken, chunks, ranked
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Outcome, StateName

_STEADY = 0.002
"""Least scatter of the clock's logarithm at which visits show whether costs follow it."""
_LEAST_EVIDENCE, _MOST_EVIDENCE, _NEAR = 0.1, 3.0, 0.2
"""Smallest sum of evidence with which a cost follows the clock; largest evidence of one point; and difference of the
logarithms of two costs at which the weight of a point falls to 1/e."""
_STEPPED = 0.98
"""Share of the visit's clock below which the clock of a sample is used instead. A busy sibling slows the control loop
by up to 2 %."""


def cores_hz(outcomes: Sequence[Outcome]) -> Floats:
    """Returns the core clock in Hz during each visit, by `clocks_of`."""
    each = (clocks_of(Taken(outcome.samples for outcome in chunk), chunk) for chunk in chunks(outcomes))
    return np.concatenate([np.empty(0), *each])


def clocks_of(taken: Taken, outcomes: Sequence[Outcome]) -> Floats:
    """Returns the core clock in Hz during each visit: the 90th percentile of its control loops, including those beside
    samples; 0 if none ran. taken: the samples of all outcomes.

    A chain of additions never runs faster than the clock, and a busy sibling hyperthread slows it by one or two
    percent, so the median of the loops would depend on the sibling."""
    visits = len(outcomes)
    owner_of_samples = np.repeat(np.arange(visits), taken.counts)
    owner_of_controls = np.repeat(np.arange(visits), [len(outcome.controls) for outcome in outcomes])
    rates = [rate for outcome in outcomes for rate in outcome.controls]
    beside = [taken.column("control_before_hz"), taken.column("control_hz")]
    ordered, starts = ranked(
        np.concatenate([rates, *beside]),
        np.concatenate([owner_of_controls, owner_of_samples, owner_of_samples]),
        visits,
    )
    counts = np.diff(starts)
    clocks = np.zeros(visits)
    has_rates = counts > 0
    clocks[has_rates] = ordered[starts[:-1][has_rates] + ((1 - FEW) * (counts[has_rates] - 1)).astype(np.int64)]
    return clocks


def reached(rates: Iterable[float]) -> float | None:
    """Returns the 90th percentile of the control-loop rates above zero; None without one."""
    ordered = sorted(rate for rate in rates if rate > 0)
    return ordered[int((1 - FEW) * (len(ordered) - 1))] if ordered else None


def sample_clocks(taken: Taken, clocks_hz: Floats) -> Floats:
    """Returns the core clock in Hz before and after each sample, in two columns: the clock of the visit, or a lower one
    that the control loops beside the sample show. Each loop rate is the median of three successive loops, since an
    interrupt slows one of them. clocks_hz: core clock of each visit, 0 if unknown."""
    visit_hz = taken.spread(clocks_hz)
    before, after = (
        np.where(read > 0, read, visit_hz) for read in map(taken.column, ("control_before_hz", "control_hz"))
    )
    earlier, later = visit_hz.copy(), visit_hz.copy()
    has_samples = taken.counts > 0
    earlier[1:], later[:-1] = before[:-1], after[1:]
    for edge, at in ((earlier, taken.starts[:-1][has_samples]), (later, taken.starts[1:][has_samples] - 1)):
        edge[at] = visit_hz[at]
    # The median of three, in a tenth of the time of numpy's.
    low, high = np.minimum(before, after), np.maximum(before, after)
    read = np.stack([np.maximum(low, np.minimum(high, edge)) for edge in (earlier, later)])
    return np.asarray(np.where(read < _STEPPED * visit_hz, read, visit_hz).T)


class ClockEvidence(NamedTuple):
    """The values of `clock_evidence` of the points of one metric. costs: cost of each point in ns. evidence: value of
    each point."""

    costs: Sequence[float]
    evidence: Sequence[float]


def clock_evidence(costs_ns: Sequence[float] | Array, clocks_hz: Sequence[float] | Array) -> float:
    """Returns how much more the visits of a point scatter in ns than in cycles, as a logarithm: above 0 for a time that
    consists of core cycles, below 0 for one that does not, and 0 with too few visits or too steady a clock to show it.
    costs_ns, clocks_hz: positive values, one for each visit."""
    costs, clocks = np.asarray(costs_ns), np.asarray(clocks_hz)
    if len(costs) < LEAST_VISITS or costs.min() <= 0 or clocks.min() <= 0:
        return 0.0
    cost, clock = np.log(costs), np.log(clocks)
    if clock.std() < _STEADY:
        return 0.0
    ratio = max(shamos_sd(cost), FLOOR_SD) / max(shamos_sd(cost + clock), FLOOR_SD)
    return min(max(log(ratio), -_MOST_EVIDENCE), _MOST_EVIDENCE)


def follows_clock(cost_ns: float, seen: ClockEvidence) -> bool:
    """Returns whether a cost consists of core cycles, by the evidence of its point and of the metric's other points.
    The weight of a point falls to 1/e if its cost differs by a fifth: a load from memory is no evidence about a load
    from a cache."""
    weights = np.exp(-np.abs(np.log(np.asarray(seen.costs) / cost_ns)) / _NEAR)
    return float(weights @ np.asarray(seen.evidence)) > _LEAST_EVIDENCE


# ---- the target's own clock ------------------------------------------------------------------------------------------


def own_ratio(outcomes: Sequence[Outcome]) -> Estimate | None:
    """Returns the time by the target's own clock over the time at the other end of a serial line, with its 95 %
    interval; None without marks. outcomes: visits of one target.

    Each visit has its own marks, so visits are independent even if they are of one point. The scatter of a few visits
    is shrunk towards the median of their stated errors."""
    marked = [
        outcome.marks
        for outcome in outcomes
        if outcome.marks and outcome.marks.own_ratio and outcome.marks.own_ratio > 0
    ]
    if not marked:
        return None
    logs = np.log([marks.own_ratio or 1.0 for marks in marked])
    stated = Scatter(visits_sd=median(marks.ratio_error or 0.0 for marks in marked), runs_sd=0.0)
    middle, half = hodges_lehmann(logs), log_half_width(logs, range(len(logs)), stated)
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half))


# ---- the core's state ------------------------------------------------------------------------------------------------

# Whether the core was uncontended: no other workload ran on its sibling hyperthread.
#
# Dependent additions take a cycle each on a contended core too, so the control loop does not detect SMT contention.
# Independent additions detect it: their number per cycle is the width of the core if it is uncontended, and less if
# another workload uses the same units. The width is the highest mode of all readings of the run, since nothing makes a
# core wider than it is.

WHOLE_FROM = 1 - SAME_WITHIN
"""Share of the full width from which a reading counts as uncontended. A sibling that takes less cannot be distinguished
from an interrupted loop."""
_MODE_WIDTH = 0.03
"""Width of a mode of core widths, as a share of its lower end."""
_LEAST_SHARE = 0.02
"""Smallest share of the readings in a mode."""
_LOOKS = ("width_before_hz", "width_between_hz", "width_hz")
"""Width readings of a sample, in order."""
_NAMES = np.array(["unknown", "contended", "uncontended"], object)
_ALTERNATES = 0.6
"""Smallest ratio of the adjacent readings that differ to those that would differ in random order."""
LEAST_BUSY = 0.05
"""Lowest share of readings beside a busy sibling that matters: a smaller share slows a row by less than 1 %."""


def widths(taken: Taken, clocks_hz: Floats, *, at_step: bool = True) -> Floats:
    """Returns all readings of the core width in independent additions per cycle: before, after and, if present, in the
    middle of each sample. clocks_hz: core clock of each visit, 0 if unknown. at_step: as in `_width_readings`."""
    looks = _width_readings(taken, clocks_hz, at_step=at_step)
    complete = looks[(looks[:, 0] > 0) & (looks[:, 2] > 0)]
    return np.asarray(complete[complete > 0])


class CoreSeen(NamedTuple):
    """Clock and width of a core. clocks_hz: core clock of each visit. width: independent additions per cycle of the
    uncontended core, None if too few readings show it. alternates: whether the sibling hyperthread becomes busy and
    idle within a sample. readings: all width readings, in the order of time."""

    clocks_hz: Floats
    width: float | None
    alternates: bool
    readings: NDArray[np.float32]

    def contended_share(self, full_width: float) -> float:
        """Returns the share of the readings below 95 % (WHOLE_FROM) of the full width; 0 without a reading."""
        return float((self.readings < WHOLE_FROM * full_width).mean()) if len(self.readings) else 0.0


def core_seen(outcomes: Sequence[Outcome]) -> CoreSeen:
    """Returns the clock and the width of the core. outcomes: visits of one target and ABI, in the order of time."""
    most = len(_LOOKS) * sum(len(outcome.samples) for outcome in outcomes)
    at_visit_clock, in_order, count = np.empty(most), np.empty(most, np.float32), 0
    clocks = [np.empty(0)]
    for chunk in chunks(outcomes):
        taken = Taken(outcome.samples for outcome in chunk)
        clocks.append(clocks_of(taken, chunk))
        readings = widths(taken, clocks[-1])
        part = slice(count, count + len(readings))
        # By the clock of the visit: a profiler that slows the control loops at a sample would double the width.
        at_visit_clock[part] = widths(taken, clocks[-1], at_step=False)
        in_order[part] = np.minimum(readings, np.finfo(np.float32).max)
        count += len(readings)
    width = highest_mode(at_visit_clock[:count])
    return CoreSeen(
        np.concatenate(clocks), width, width is not None and _alternates(in_order[:count] < WHOLE_FROM * width),
        in_order[:count],
    )  # fmt: skip


def _alternates(low: Mask) -> bool:
    """Returns whether adjacent readings, 0.3 to 1 ms apart, differ nearly as often as in random order. If so, full
    readings on both sides of a batch do not show that the core was uncontended in between. In random order 2 p (1 - p)
    of the pairs differ, where p is the share of low readings. low: whether each reading is below the full width, in the
    order of time."""
    busy = float(low.mean())
    differ = float((low[1:] != low[:-1]).mean())
    return LEAST_BUSY <= busy <= 1 - LEAST_BUSY and differ >= _ALTERNATES * 2 * busy * (1 - busy)


def highest_mode(readings: Floats) -> float | None:
    """Returns the median of the highest mode of widths: the highest range of 3 % that contains eight readings and 2 %
    of all; None if there is none. readings: sorted in place, since a run of 1 GB has 50 MB of them."""
    ordered = readings
    ordered.sort()
    least = max(LEAST_SAMPLES, int(_LEAST_SHARE * len(ordered)))
    for begin in reversed(range(0, len(ordered), MANY_VISITS)):
        block = ordered[begin : begin + MANY_VISITS]
        ends = np.searchsorted(ordered, block * (1 + _MODE_WIDTH), side="right")
        starts = np.flatnonzero(ends - np.arange(begin, begin + len(block)) >= least)
        if len(starts):
            top = ordered[ends[starts[-1]] - 1]
            low, high = np.searchsorted(ordered, top / (1 + _MODE_WIDTH)), np.searchsorted(ordered, top, side="right")
            return float(ordered[(low + high - 1) // 2] + ordered[(low + high) // 2]) / 2
    return None


def states(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> NDArray[np.object_]:
    """Returns the state of the core during each sample: `uncontended`, `contended`, or `unknown` if it was not measured
    or changed within the sample. clocks_hz, full_widths: clock and full width of the core in each visit, 0 if unknown.

    A sample is uncontended if its own width readings and the adjacent readings of the neighbouring samples reach the
    full width: workloads on the sibling hyperthread start and stop within milliseconds, and may run between two
    readings."""
    width = taken.spread(full_widths)[:, None]
    readings = _width_readings(taken, clocks_hz)
    is_measured = (readings > 0) & (width > 0)
    has_both_ends = is_measured[:, 0] & is_measured[:, 2]
    at_full = readings >= WHOLE_FROM * width
    not_low = at_full | ~is_measured
    neighbours_full = _neighbours_are_full(
        taken, not_low[:, 1:].all(axis=1) | ~has_both_ends, not_low[:, :2].all(axis=1) | ~has_both_ends
    )
    contended = has_both_ends & ~(at_full & is_measured).any(axis=1)
    return _NAMES[np.where(has_both_ends & not_low.all(axis=1) & neighbours_full, 2, np.where(contended, 1, 0))]


def contended_ns(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> tuple[float, float]:
    """Returns the ns of timed batches in which the core was contended, and the ns for which this is known. Of each
    sample, the share of its readings below the full width counts. clocks_hz, full_widths: as in `states`."""
    width = taken.spread(full_widths)[:, None]
    readings = _width_readings(taken, clocks_hz)
    is_measured = (readings > 0) & (width > 0)
    low = (is_measured & (readings < WHOLE_FROM * width)).sum(axis=1)
    count, timed = is_measured.sum(axis=1), taken.timed_ns()
    return float((timed * low / np.maximum(count, 1)).sum()), float(timed[count > 0].sum())


def _neighbours_are_full(taken: Taken, last: Mask, first: Mask) -> Mask:
    """Returns for each sample whether the adjacent readings of its neighbours reach the full width: the last readings
    of the sample before and the first ones of the sample after, if the visit has these samples. last, first: whether
    these readings of each sample do."""
    before, behind = np.ones(len(taken), dtype=bool), np.ones(len(taken), dtype=bool)
    before[1:], behind[:-1] = last[:-1], first[1:]
    has_samples = taken.counts > 0
    before[taken.starts[:-1][has_samples]] = True
    behind[taken.starts[1:][has_samples] - 1] = True
    return before & behind


def _width_readings(taken: Taken, clocks_hz: Floats, *, at_step: bool = True) -> Floats:
    """Returns independent additions per cycle before each sample, in its middle and after it; 0 if not measured.
    at_step: whether the clock is that of the control loops beside the sample; else it is that of the visit."""
    rates = np.stack([taken.column(name) for name in _LOOKS], axis=1)
    visit_hz = taken.spread(clocks_hz)
    around = sample_clocks(taken, clocks_hz) if at_step else np.stack([visit_hz, visit_hz], axis=1)
    clocks = np.stack([around[:, 0], around.mean(axis=1), around[:, 1]], axis=1)
    is_measured = (rates > 0) & (clocks > 0)
    return np.where(is_measured, rates / np.where(is_measured, clocks, 1.0), 0.0)


# ---- slices of profiles ----------------------------------------------------------------------------------------------

# Determines in which slices of a profile the core was contended, which slices the profile uses, and how precise it is.
# A workload on the sibling hyperthread slows some functions more than others: on a guest of two CPUs their shares
# changed by up to nine percentage points (docs/decisions/0024-attribution-and-profiles.md).

Look = tuple[float, float]
"""Additions a second of the control loop and of the width loop, at one moment."""

_STATES: tuple[StateName, ...] = ("uncontended", "contended")


def contended_parts(slices: Sequence[Sequence[Look]], known_width: float = 0.0) -> list[float | None]:
    """Returns for each slice the share of its width readings that show a contended core; None without readings. slices:
    readings of each slice, all of one target and ABI. known_width: width of the uncontended core in additions per
    cycle, from earlier runs; 0 if unknown."""
    widths = []
    for looks in slices:
        clock_hz = reached(chain_hz for chain_hz, _ in looks)
        widths.append([width_hz / clock_hz for _, width_hz in looks if width_hz > 0] if clock_hz else [])
    full_width = max(highest_mode(np.array([width for of_slice in widths for width in of_slice])) or 0.0, known_width)
    return [
        sum(width < WHOLE_FROM * full_width for width in of_slice) / len(of_slice) if of_slice and full_width else None
        for of_slice in widths
    ]


def is_of(contended: float | None, state: StateName | None) -> bool:
    """Returns whether a slice was in the given state for nearly all of its time; true for any other state than
    uncontended and contended. contended: contended share of the slice, None if unknown."""
    if state not in _STATES:
        return True
    return contended is not None and (contended <= SOME if state == "uncontended" else contended >= 1 - SOME)


def common_state(contended: Sequence[Sequence[float | None]]) -> StateName | None:
    """Returns the state in which every point has enough slices, so that points can be compared; "unknown" if there is
    none, and None if the state of some slice was not measured. contended: contended share by point and slice."""
    best, fewest = likeliest(contended)
    if any(part is None for parts in contended for part in parts) or not contended:
        return None
    return best if fewest >= LEAST_VALUES else "unknown"


def likeliest(contended: Sequence[Sequence[float | None]]) -> tuple[StateName, int]:
    """Returns the state in which the point with the fewest slices has most, and this number of slices. contended: as in
    `common_state`."""
    fewest = {
        state: min((sum(is_of(part, state) for part in parts) for parts in contended), default=0) for state in _STATES
    }
    best = max(_STATES, key=lambda state: fewest[state])
    return best, fewest[best]


def within(hits: Sequence[Mapping[str, int]], function: str) -> float | None:
    """Returns half of the 95 % interval of a function's share of all samples, in percentage points: from the variance
    between slices (Cochran 1977, section 2.11, a ratio of totals), and at least the binomial error of this number of
    samples. None for one slice. hits: samples by slice and function."""
    wholes = [sum(slice_hits.values()) for slice_hits in hits]
    total, count = sum(wholes), len(hits)
    if count < 2 or not total:
        return None
    share = sum(slice_hits.get(function, 0) for slice_hits in hits) / total
    residuals = sum(
        (slice_hits.get(function, 0) - share * whole) ** 2 for slice_hits, whole in zip(hits, wholes, strict=True)
    )
    between = residuals * count / (count - 1) / total**2
    return 100 * NORMAL * sqrt(max(between, share * (1 - share) / total))
