# SPDX-License-Identifier: Apache-2.0
"""A row of what a probe said itself: one value a visit, which no clock and no state of the core is part of."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

import numpy as np

from tollmeter.experiment.precision import Estimate, Scatter, estimate
from tollmeter.model import Metric, Outcome, Row
from tollmeter.numbers.known import Known
from tollmeter.numbers.meanings import BY_KERNEL
from tollmeter.numbers.readings import RATES
from tollmeter.numbers.row_of import KERNEL_COUNTS, Told, bare, with_precision
from tollmeter.numbers.stats import modes, quartiles

_OF_THE_HOST = ("ns", "cycle", "B/s", "bit/s", "flop/s", "op/s")
_REPEATS_WITHIN = 0.01
_STEP = {"B": 2 * 4096.0, "fault": 1.0}
_OF_THE_EMULATOR = (
    "time, resident set and faults under this emulator are its own: a guest (--target guest) has the program's"
)


def gauge_row(told: Told, metric: Metric, known: Known) -> Row:
    first, note = told.readings[0].outcome, told.note
    outcomes = [read.outcome for read in told.readings if metric.name in read.outcome.gauges]
    said = [(_by_line(outcome, metric), outcome.seed or -outcome.visit - 1) for outcome in outcomes]
    finite = [(value, layout) for value, layout in said if np.isfinite(value)]
    if first.clock.kind == "instructions" and (not finite or metric.unit in _OF_THE_HOST):
        return bare(first, told.probe, metric, "unsupported", _OF_THE_EMULATOR)
    if not finite:
        return bare(first, told.probe, metric, "unstable", "the probe gave no value")
    values, layouts = [value for value, _ in finite], [layout for _, layout in finite]
    alone = len(values) == 1 and first.clock.kind == "virtual" and metric.unit in KERNEL_COUNTS
    found = _counted_once(values[0], metric) if alone else _within_steps(_estimate(values, layouts), metric)
    row = bare(
        first, told.probe, metric, "ok", note, median=found.value, low=found.low, high=found.high, minimum=min(values),
        quartiles=quartiles(values), modes=modes([[value] for value in values]), visits=len(values),
        samples=len(values),
    )  # fmt: skip
    return with_precision(row, layouts, known.precision)


def _by_line(outcome: Outcome, metric: Metric) -> float:
    """The probe's value. It is made by the target's own clock, also where a line's other end times the visit."""
    value, ratio = outcome.gauges[metric.name], (outcome.marks.own_ratio if outcome.marks else None) or 1.0
    if metric.unit == "ns":
        return value / ratio
    return value * ratio if metric.unit in RATES else value


def _counted_once(value: float, metric: Metric) -> Estimate:
    """In a guest that counts. Another visit was seen to differ by 1 %, or by a step of what the kernel counts."""
    half = _REPEATS_WITHIN * value if value else 0.0
    return _within_steps(Estimate(value=value, low=value - half, high=value + half), metric)


def _within_steps(found: Estimate, metric: Metric) -> Estimate:
    """The interval reaches two pages or one fault to either side at least: so much the kernel's counts of one program
    differ between runs, though all visits of one run agree. What is no whole number is a mean, and what the probe says
    of its own layout is not made of pages: neither has such steps."""
    is_whole = found.value > 0 and isclose(found.value, round(found.value))  # a mean of logarithms is not exact
    step = _STEP[metric.unit] if metric.means in BY_KERNEL and is_whole else 0.0
    low, high = min(found.low, max(0.0, found.value - step)), max(found.high, found.value + step)
    return Estimate(value=found.value, low=low, high=high)


def _estimate(values: Sequence[float], layouts: Sequence[int]) -> Estimate:
    """A number that never differs is known; what differs is not scattered by a clock, so that only its own visits say
    by how much."""
    if min(values) == max(values):
        return Estimate(value=values[0], low=values[0], high=values[0])
    if min(values) <= 0:
        return Estimate(value=float(np.median(values)), low=min(values), high=max(values))
    return estimate(values, layouts, Scatter(runs_sd=0.0), (min(values), max(values)))
