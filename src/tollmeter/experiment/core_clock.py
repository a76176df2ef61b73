# SPDX-License-Identifier: Apache-2.0
"""The clock of a core, from its control loops, and times in ns at a stated clock. A core's clock varies by some percent
from visit to visit, and steps by 2 to 15 % within one where neighbours start and stop: the most that a core may reach
depends on how many others work. A time that consists of core cycles varies with it; one that waits for memory or for a
timer does not. The visits themselves show which it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, log
from statistics import median
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.precision import Array, Estimate, Scatter, half_width, hodges_lehmann, shamos_sd
from tollmeter.experiment.taken import Floats, Taken, parts, ranked
from tollmeter.model import Outcome

_LEAST_VISITS, _LEAST_SD, _STEADY = 3, 0.0002, 0.002
_LEAST_EVIDENCE, _MOST_EVIDENCE, _NEAR = 0.1, 3.0, 0.2
_REACHED = 0.9
_STEPPED = 0.98
"""Share of the visit's clock. A busy sibling makes the control loop slower by up to 2 %."""


def cores_hz(outcomes: Sequence[Outcome]) -> Floats:
    """The core's clock during each visit: the rate that nine in ten of its control loops, the bursts beside samples
    included, stay at or below; 0 where none ran.

    Nothing makes a chain of additions faster than the clock; whoever shares the core makes it slower by one or two
    percent, so that their median shows the neighbour as well.
    """
    each = (clocks_of(Taken(outcome.samples for outcome in some), some) for some in parts(outcomes))
    return np.concatenate([np.empty(0), *each])


def clocks_of(taken: Taken, outcomes: Sequence[Outcome]) -> Floats:
    """The same of visits whose samples are read. taken: these, of all of them."""
    visits = len(outcomes)
    owner = np.repeat(np.arange(visits), taken.counts)
    around = np.repeat(np.arange(visits), [len(outcome.controls) for outcome in outcomes])
    rates = [rate for outcome in outcomes for rate in outcome.controls]
    beside = [taken.column("control_before_hz"), taken.column("control_hz")]
    ordered, starts = ranked(np.concatenate([rates, *beside]), np.concatenate([around, owner, owner]), visits)
    counts = np.diff(starts)
    clocks = np.zeros(visits)
    owners = counts > 0
    clocks[owners] = ordered[starts[:-1][owners] + (_REACHED * (counts[owners] - 1)).astype(np.int64)]
    return clocks


def reached(rates: Iterable[float]) -> float | None:
    """What nine readings in ten of the control loop stay at or below; None without any."""
    ordered = sorted(rate for rate in rates if rate > 0)
    return ordered[int(_REACHED * (len(ordered) - 1))] if ordered else None


def sample_clocks(taken: Taken, clocks_hz: Floats) -> Floats:
    """The core's clock before and after each sample, two columns: the visit's, except where control loops show a lower
    one. Each is the median of three loops in a row, since an interrupt makes one of them slow. clocks_hz: of each
    visit, 0 where it is not known."""
    own = taken.spread(clocks_hz)
    before, after = (np.where(read > 0, read, own) for read in map(taken.column, ("control_before_hz", "control_hz")))
    earlier, later = own.copy(), own.copy()
    filled = taken.counts > 0
    earlier[1:], later[:-1] = before[:-1], after[1:]
    for edge, at in ((earlier, taken.starts[:-1][filled]), (later, taken.starts[1:][filled] - 1)):
        edge[at] = own[at]
    in_a_row = np.stack([[earlier, before, after], [before, after, later]])
    read = np.median(in_a_row, axis=1)
    return np.asarray(np.where(read < _STEPPED * own, read, own).T)


class ClockEvidence(NamedTuple):
    """Of the points of one metric: their costs, and what `clock_evidence` gives for each."""

    costs: Sequence[float]
    evidence: Sequence[float]


def clock_evidence(costs_ns: Sequence[float] | Array, clocks_hz: Sequence[float] | Array) -> float:
    """How much more visits scatter in ns than in cycles, as a logarithm: above 0 for a time that consists of core
    cycles, below 0 for one that does not, 0 where the clock was too steady to show it. costs_ns: one a visit,
    positive; 0 for fewer than three."""
    costs, clocks = np.asarray(costs_ns), np.asarray(clocks_hz)
    if len(costs) < _LEAST_VISITS or costs.min() <= 0 or clocks.min() <= 0:
        return 0.0
    cost, clock = np.log(costs), np.log(clocks)
    if clock.std() < _STEADY:
        return 0.0
    ratio = max(shamos_sd(cost), _LEAST_SD) / max(shamos_sd(cost + clock), _LEAST_SD)
    return min(max(log(ratio), -_MOST_EVIDENCE), _MOST_EVIDENCE)


def follows_clock(cost_ns: float, seen: ClockEvidence) -> bool:
    """Whether a cost consists of core cycles, by the evidence of its own point and of others of its metric. The weight
    of a point falls to a third where its cost differs by a fifth: a load from memory shows nothing about one from a
    cache."""
    weights = np.exp(-np.abs(np.log(np.asarray(seen.costs) / cost_ns)) / _NEAR)
    return float(weights @ np.asarray(seen.evidence)) > _LEAST_EVIDENCE


# ---- the target's own clock ------------------------------------------------------------------------------------------

_PRIOR_FREEDOM = 4.0


def own_ratio(outcomes: Sequence[Outcome]) -> Estimate | None:
    """The target's own time over the line's, and its 95 % interval. outcomes: of one target. None without marks.

    Each visit has marks of its own, so visits are independent whatever their point. The scatter of a few visits is
    shrunk towards the median of the errors that they state."""
    marked = [
        outcome.marks
        for outcome in outcomes
        if outcome.marks and outcome.marks.own_ratio and outcome.marks.own_ratio > 0
    ]
    if not marked:
        return None
    logs = np.log([marks.own_ratio or 1.0 for marks in marked])
    stated = Scatter(
        visits_sd=median(marks.ratio_error or 0.0 for marks in marked), freedom=_PRIOR_FREEDOM, runs_sd=0.0
    )
    middle, half = hodges_lehmann(logs), half_width(logs, range(len(logs)), stated)
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half))
