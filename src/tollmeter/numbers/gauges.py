# SPDX-License-Identifier: Apache-2.0
"""Rows of values that a probe measured itself: one value a visit, independent of the clock and of the core's state."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, isfinite

import numpy as np

from tollmeter.experiment.precision import NORMAL, Estimate, Scatter, estimate
from tollmeter.model import Metric, Outcome, Row
from tollmeter.numbers.known import Known, row_name
from tollmeter.numbers.meanings import BY_KERNEL
from tollmeter.numbers.readings import RATES, is_time
from tollmeter.numbers.row_of import EMULATED, KERNEL_COUNTS, PointReadings, bare, with_precision
from tollmeter.numbers.stats import modes, quartiles

_OF_THE_HOST = ("ns", "cycle", "B/s", "bit/s", "flop/s", "op/s")
_REPEATS_WITHIN = 0.01
_STEP = {"B": 2 * 4096.0, "fault": 1.0}
_OF_THE_EMULATOR = (
    "time, resident set and faults under this emulator are its own: a guest (--target guest) has the program's"
)


def gauge_row(visited: PointReadings, metric: Metric, known: Known) -> Row:
    first, note = visited.readings[0].outcome, visited.note
    outcomes = [read.outcome for read in visited.readings if metric.name in read.outcome.gauges]
    measured = [(_by_line(outcome, metric), outcome.seed or -outcome.visit - 1) for outcome in outcomes]
    finite = [(value, layout) for value, layout in measured if isfinite(value)]
    if first.clock.kind == "instructions" and (not finite or metric.unit in _OF_THE_HOST):
        return bare(first, visited.probe, metric, "unsupported", _OF_THE_EMULATOR)
    if not finite:
        return bare(first, visited.probe, metric, "unstable", "the probe gave no value")
    values, layouts = [value for value, _ in finite], [layout for _, layout in finite]
    alone = len(values) == 1 and first.clock.kind == "virtual" and metric.unit in KERNEL_COUNTS
    estimate = (
        _counted_once(values[0], metric)
        if alone
        else _within_steps(_estimate(values, layouts, _runs_sd(visited, metric, known)), values, metric)
    )
    row = bare(
        first, visited.probe, metric, "ok", note, median=estimate.value, low=estimate.low, high=estimate.high,
        minimum=min(values),
        quartiles=quartiles(values), modes=modes(np.array(values)[:, None]), visits=len(values),
        samples=len(values),
    )  # fmt: skip
    return with_precision(row, layouts, known.precision)


def _runs_sd(visited: PointReadings, metric: Metric, known: Known) -> float:
    """What runs differ by. A count that was the same in earlier runs does not differ."""
    first = visited.readings[0].outcome
    if first.clock.kind in EMULATED:
        return 0.0
    name = row_name(bare(first, visited.probe, metric, "ok", None), None)
    return known.runs_sd(name) if is_time(metric.unit) else known.learned.runs_sd.get(name, 0.0)


def _by_line(outcome: Outcome, metric: Metric) -> float:
    """The probe's value. It is made by the target's own clock, also where a line's other end times the visit."""
    value, ratio = outcome.gauges[metric.name], (outcome.marks.own_ratio if outcome.marks else None) or 1.0
    if metric.unit == "ns":
        return value / ratio
    return value * ratio if metric.unit in RATES else value


def _counted_once(value: float, metric: Metric) -> Estimate:
    """In a guest that counts. Another visit was seen to differ by 1 %, or by a step of what the kernel counts."""
    half = _REPEATS_WITHIN * value if value else 0.0
    return _within_steps(Estimate(value=value, low=value - half, high=value + half), [value], metric)


def _within_steps(estimate: Estimate, values: Sequence[float], metric: Metric) -> Estimate:
    """Widens the interval to two pages or one fault to either side: the kernel's counts of one program differ by so
    much between runs, though all visits of one run agree. A visit's value that is not a whole number is a mean, and a
    probe's own layout is not made of pages: neither has such steps."""
    counts = metric.means in BY_KERNEL and all(value > 0 and value == round(value) for value in values)
    step = _STEP[metric.unit] if counts else 0.0
    low, high = min(estimate.low, max(0.0, estimate.value - step)), max(estimate.high, estimate.value + step)
    return Estimate(value=estimate.value, low=low, high=high)


def _estimate(values: Sequence[float], layouts: Sequence[int], runs_sd: float) -> Estimate:
    """A value that differs does not scatter with the clock, so that only its own visits show its scatter. One that
    never differs in one run may differ in the next: that is `runs_sd`."""
    if min(values) == max(values):
        beyond = exp(NORMAL * runs_sd)
        low, high = sorted((values[0] / beyond, values[0] * beyond))
        return Estimate(value=values[0], low=low, high=high)
    if min(values) <= 0:
        return Estimate(value=float(np.median(values)), low=min(values), high=max(values))
    return estimate(values, layouts, Scatter(runs_sd=runs_sd), (min(values), max(values)))
