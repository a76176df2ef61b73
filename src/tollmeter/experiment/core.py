# SPDX-License-Identifier: Apache-2.0
"""The core clock of the timed core, and whether the core was uncontended.

A core's clock varies by some percent between visits, and steps by 2 to 15 % within a visit when workloads on other
cores start and stop, since the highest clock depends on the number of active cores. A time that consists of core cycles
varies with the clock; a time that waits for memory or for a timer does not. The visits themselves show which is
true."""

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
"""Least sum of evidence by which a cost follows the clock, most evidence of one point, and difference of the logarithms
of two costs over which a point's weight falls to a third."""
_STEPPED = 0.98
"""Share of the visit's clock below which a sample's own clock is used. A busy sibling slows the control loop by up to 2
%."""


def cores_hz(outcomes: Sequence[Outcome]) -> Floats:
    """Returns the core clock in hertz during each visit: the 90th percentile of its control loops, including the bursts
    around samples; 0 if none ran.

    A chain of additions never runs faster than the clock, and a busy sibling hyperthread slows it by one or two
    percent, so that the median of the loops would depend on the sibling."""
    each = (clocks_of(Taken(outcome.samples for outcome in some), some) for some in chunks(outcomes))
    return np.concatenate([np.empty(0), *each])


def clocks_of(taken: Taken, outcomes: Sequence[Outcome]) -> Floats:
    """Returns the core clock in hertz of visits whose samples are already read. taken: the samples of all outcomes."""
    visits = len(outcomes)
    owner = np.repeat(np.arange(visits), taken.counts)
    around = np.repeat(np.arange(visits), [len(outcome.controls) for outcome in outcomes])
    rates = [rate for outcome in outcomes for rate in outcome.controls]
    beside = [taken.column("control_before_hz"), taken.column("control_hz")]
    ordered, starts = ranked(np.concatenate([rates, *beside]), np.concatenate([around, owner, owner]), visits)
    counts = np.diff(starts)
    clocks = np.zeros(visits)
    owners = counts > 0
    clocks[owners] = ordered[starts[:-1][owners] + ((1 - FEW) * (counts[owners] - 1)).astype(np.int64)]
    return clocks


def reached(rates: Iterable[float]) -> float | None:
    """Returns the 90th percentile of the control-loop rates; None without a rate."""
    ordered = sorted(rate for rate in rates if rate > 0)
    return ordered[int((1 - FEW) * (len(ordered) - 1))] if ordered else None


def sample_clocks(taken: Taken, clocks_hz: Floats) -> Floats:
    """Returns the core's clock before and after each sample, in two columns: the clock of the visit, or a lower one
    that the control loops beside the sample show. Each loop rate is the median of three successive loops, since an
    interrupt slows one of them. clocks_hz: core clock of each visit, 0 if unknown."""
    own = taken.spread(clocks_hz)
    before, after = (np.where(read > 0, read, own) for read in map(taken.column, ("control_before_hz", "control_hz")))
    earlier, later = own.copy(), own.copy()
    filled = taken.counts > 0
    earlier[1:], later[:-1] = before[:-1], after[1:]
    for edge, at in ((earlier, taken.starts[:-1][filled]), (later, taken.starts[1:][filled] - 1)):
        edge[at] = own[at]
    # The middle of three, in a tenth of the time of a median.
    low, high = np.minimum(before, after), np.maximum(before, after)
    read = np.stack([np.maximum(low, np.minimum(high, edge)) for edge in (earlier, later)])
    return np.asarray(np.where(read < _STEPPED * own, read, own).T)


class ClockEvidence(NamedTuple):
    """The values of `clock_evidence` for the points of one metric. costs: cost of each point, ns; evidence: its
    value."""

    costs: Sequence[float]
    evidence: Sequence[float]


def clock_evidence(costs_ns: Sequence[float] | Array, clocks_hz: Sequence[float] | Array) -> float:
    """Returns how much more visits scatter in ns than in cycles, as a logarithm: above 0 for a time that consists of
    core cycles, below 0 for one that does not, 0 if the clock was too steady to show it. costs_ns: one a visit,
    positive; 0 for fewer than three."""
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
    The weight of a point falls to a third where its cost differs by a fifth: a load from memory is no evidence about
    a load from a cache."""
    weights = np.exp(-np.abs(np.log(np.asarray(seen.costs) / cost_ns)) / _NEAR)
    return float(weights @ np.asarray(seen.evidence)) > _LEAST_EVIDENCE


# ---- the target's own clock ------------------------------------------------------------------------------------------


def own_ratio(outcomes: Sequence[Outcome]) -> Estimate | None:
    """Returns the target's own time divided by the time on the serial line, with its 95 % interval; None without marks.
    outcomes: visits of one target.

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
# A chain of dependent additions takes a cycle each on a contended core too, so the control loop does not detect SMT
# contention. Independent additions do: their number in a cycle is the core's width when it is uncontended, and less
# when another workload uses the same units. The width itself comes from the run: the highest mode of all its readings,
# since nothing makes a core wider than it is.

WHOLE_FROM = 1 - SAME_WITHIN
"""Share of the full width from which a reading counts as uncontended. A sibling that takes less is not distinguished
from a burst that was cut short."""
_HEAP = 0.03
"""Width of a mode of widths, as a share."""
_LEAST_SHARE = 0.02
"""Least share of the readings in a mode."""
_LOOKS = ("width_before_hz", "width_between_hz", "width_hz")
"""Width readings of a sample, in order."""
_NAMES = np.array(["unknown", "contended", "uncontended"], object)
_ALTERNATES = 0.6
"""Least ratio of the adjacent readings that differ to those that differ in random order."""
LEAST_BUSY = 0.05
"""Lowest share of readings beside a busy sibling that matters: a smaller share slows a row by less than 1 %."""


def widths(taken: Taken, clocks_hz: Floats, *, at_step: bool = True) -> Floats:
    """Returns independent additions per cycle for each sample: the readings before, after and, if present, in the
    middle of it. clocks_hz: core clock of each visit, 0 if unknown; at_step: as in `_looks`."""
    looks = _looks(taken, clocks_hz, at_step=at_step)
    seen = looks[(looks[:, 0] > 0) & (looks[:, 2] > 0)]
    return np.asarray(seen[seen > 0])


class CoreSeen(NamedTuple):
    """Clock and width of a core. clocks_hz: core clock of each visit. width: independent additions per cycle of the
    uncontended core, None if too few readings show it. alternates: whether the sibling hyperthread becomes busy and
    idle within a sample. readings: all width readings."""

    clocks_hz: Floats
    width: float | None
    alternates: bool
    readings: NDArray[np.float32]

    def contended_share(self, full_width: float) -> float:
        """Returns the share of the readings below 95 % (WHOLE_FROM) of the full width; 0 without a reading."""
        return float((self.readings < WHOLE_FROM * full_width).mean()) if len(self.readings) else 0.0


def core_seen(outcomes: Sequence[Outcome]) -> CoreSeen:
    """Returns the clock and the width of the core that served visits of one target and ABI, in the order of time."""
    most = len(_LOOKS) * sum(len(outcome.samples) for outcome in outcomes)
    seen, in_order, count = np.empty(most), np.empty(most, np.float32), 0
    clocks = [np.empty(0)]
    for some in chunks(outcomes):
        taken = Taken(outcome.samples for outcome in some)
        clocks.append(clocks_of(taken, some))
        readings = widths(taken, clocks[-1])
        part = slice(count, count + len(readings))
        # A profiler that slows the control loops at a sample would make the core twice as wide.
        seen[part] = widths(taken, clocks[-1], at_step=False)
        in_order[part] = np.minimum(readings, np.finfo(np.float32).max)
        count += len(readings)
    width = highest_mode(seen[:count])
    return CoreSeen(
        np.concatenate(clocks), width, width is not None and _alternates(in_order[:count] < WHOLE_FROM * width),
        in_order[:count],
    )  # fmt: skip


def _alternates(low: Mask) -> bool:
    """Returns whether adjacent readings, 0.3 to 1 ms apart, differ nearly as often as readings in random order, in
    which 2 p (1 - p) of the pairs differ for a share p of low readings. If so, full readings on both sides of a
    batch do not show that the core was uncontended in between. low: readings below the full width, in the order of
    time."""
    busy = float(low.mean())
    differ = float((low[1:] != low[:-1]).mean())
    return LEAST_BUSY <= busy <= 1 - LEAST_BUSY and differ >= _ALTERNATES * 2 * busy * (1 - busy)


def highest_mode(readings: Floats) -> float | None:
    """Returns the middle of the highest mode of widths: the highest range of 3 % that contains eight readings and 2 %
    of all. None for too few readings. readings: sorted in place, since a run of 1 GB has 50 MB of them."""
    ordered = readings
    ordered.sort()
    least = max(LEAST_SAMPLES, int(_LEAST_SHARE * len(ordered)))
    for begin in reversed(range(0, len(ordered), MANY_VISITS)):
        some = ordered[begin : begin + MANY_VISITS]
        ends = np.searchsorted(ordered, some * (1 + _HEAP), side="right")
        starts = np.flatnonzero(ends - np.arange(begin, begin + len(some)) >= least)
        if len(starts):
            top = ordered[ends[starts[-1]] - 1]
            low, high = np.searchsorted(ordered, top / (1 + _HEAP)), np.searchsorted(ordered, top, side="right")
            return float(ordered[(low + high - 1) // 2] + ordered[(low + high) // 2]) / 2
    return None


def states(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> NDArray[np.object_]:
    """Returns the core's state during each sample: `unknown` if it was not measured, or changed within the sample.
    clocks_hz, full_widths: clock and full width of the core in each visit, 0 if unknown.

    A sample is uncontended if its own width readings and the adjacent readings of the neighbouring samples reach the
    full width: workloads on the sibling hyperthread start and stop within milliseconds, and may run between two
    readings."""
    width = taken.spread(full_widths)[:, None]
    looks = _looks(taken, clocks_hz)
    made = (looks > 0) & (width > 0)
    seen = made[:, 0] & made[:, 2]
    at_full = looks >= WHOLE_FROM * width
    fine = at_full | ~made
    full = _neighbours_are_full(taken, fine[:, 1:].all(axis=1) | ~seen, fine[:, :2].all(axis=1) | ~seen)
    contended = seen & ~(at_full & made).any(axis=1)
    return _NAMES[np.where(seen & fine.all(axis=1) & full, 2, np.where(contended, 1, 0))]


def contended_ns(taken: Taken, clocks_hz: Floats, full_widths: Floats) -> tuple[float, float]:
    """Returns the nanoseconds of timed batches during which the sibling was busy, and the nanoseconds for which this is
    known: the share of each sample's readings below the full width, weighted by its time. clocks_hz, full_widths: as
    in `states`."""
    width = taken.spread(full_widths)[:, None]
    looks = _looks(taken, clocks_hz)
    made = (looks > 0) & (width > 0)
    low = (made & (looks < WHOLE_FROM * width)).sum(axis=1)
    count, timed = made.sum(axis=1), taken.timed_ns()
    return float((timed * low / np.maximum(count, 1)).sum()), float(timed[count > 0].sum())


def _neighbours_are_full(taken: Taken, last: Mask, first: Mask) -> Mask:
    """Returns whether the adjacent readings of the samples next to each sample reach the full width: the last readings
    of the sample before, and the first ones of the sample after, if the visit has these samples."""
    before, behind = np.ones(len(taken), dtype=bool), np.ones(len(taken), dtype=bool)
    before[1:], behind[:-1] = last[:-1], first[1:]
    filled = taken.counts > 0
    before[taken.starts[:-1][filled]] = True
    behind[taken.starts[1:][filled] - 1] = True
    return before & behind


def _looks(taken: Taken, clocks_hz: Floats, *, at_step: bool = True) -> Floats:
    """Returns independent additions per cycle before each sample, in its middle and after it; 0 if not measured.
    at_step: by the clock that the control loops of the sample show; else by the clock of its visit."""
    read = np.stack([taken.column(name) for name in _LOOKS], axis=1)
    own = taken.spread(clocks_hz)
    around = sample_clocks(taken, clocks_hz) if at_step else np.stack([own, own], axis=1)
    clocks = np.stack([around[:, 0], around.mean(axis=1), around[:, 1]], axis=1)
    made = (read > 0) & (clocks > 0)
    return np.where(made, read / np.where(made, clocks, 1.0), 0.0)


# ---- slices of profiles ----------------------------------------------------------------------------------------------

# In which slices the core was contended, which of them make a profile, and how precise it is. A workload on the sibling
# hyperthread takes more from some functions than from others: on a guest of two CPUs shares moved by up to
# nine points (docs/decisions/0024-attribution-and-profiles.md).

Look = tuple[float, float]
"""Additions a second of the control loop and of the width loop, at one moment."""

_STATES: tuple[StateName, ...] = ("uncontended", "contended")


def contended_parts(slices: Sequence[Sequence[Look]], known_width: float = 0.0) -> list[float | None]:
    """Returns for each slice the share of its width readings that show a contended core; None without readings. All
    slices are of one target and ABI. known_width: width of the uncontended core in additions per cycle, from earlier
    runs."""
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
    """Returns whether a whole slice was in the given state; for any other state, whether it was in neither state
    throughout."""
    if state not in _STATES:
        return True
    return contended is not None and (contended <= SOME if state == "uncontended" else contended >= 1 - SOME)


def common_state(contended: Sequence[Sequence[float | None]]) -> StateName | None:
    """Returns the state of which every point has enough slices, so that points can be compared; "unknown" without one,
    None if the core's state was not measured. contended: contended share by point and slice."""
    best, fewest = likeliest(contended)
    if any(part is None for parts in contended for part in parts) or not contended:
        return None
    return best if fewest >= LEAST_VALUES else "unknown"


def likeliest(contended: Sequence[Sequence[float | None]]) -> tuple[StateName, int]:
    """Returns the state whose rarest point has the most slices, and that number of slices."""
    fewest = {
        state: min((sum(is_of(part, state) for part in parts) for parts in contended), default=0) for state in _STATES
    }
    best = max(_STATES, key=lambda state: fewest[state])
    return best, fewest[best]


def within(hits: Sequence[Mapping[str, int]], function: str) -> float | None:
    """Returns half the 95 % interval of a function's share of all samples, in percentage points: from the variance
    between slices (Cochran 1977, section 2.11, a ratio of totals), and at least the binomial error of that many
    samples. None for one slice. hits: samples by slice and function."""
    wholes = [sum(slice_hits.values()) for slice_hits in hits]
    every, count = sum(wholes), len(hits)
    if count < 2 or not every:
        return None
    share = sum(slice_hits.get(function, 0) for slice_hits in hits) / every
    residuals = sum(
        (slice_hits.get(function, 0) - share * whole) ** 2 for slice_hits, whole in zip(hits, wholes, strict=True)
    )
    between = residuals * count / (count - 1) / every**2
    return 100 * NORMAL * sqrt(max(between, share * (1 - share) / every))
