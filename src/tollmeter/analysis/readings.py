# SPDX-License-Identifier: Apache-2.0
"""One visit's samples as arrays, and the value that each sample gives a metric.

Inside this file every value is a *cost*: for a metric in ns, cycle or instruction the value itself, for a rate the
nanoseconds that one byte, flop or operation takes. Costs add and have long tails to one side only; `as_unit` turns a
cost into the metric's unit once it has been estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from tollmeter.analysis.stats import Array, slope_minimum
from tollmeter.analysis.witness import reasons
from tollmeter.model import Metric, Outcome, Probe, Sample

RATES = {"B/s": "bytes", "flop/s": "flops", "op/s": "operations"}
NS_PER_SECOND = 1e9


@dataclass(frozen=True)
class Reading:
    """The usable samples of one visit. Times in ns; one row a sample, columns t(n) and t(2n)."""

    outcome: Outcome
    iterations: Array
    body: Array
    control: Array | None
    lane_rates: Array | None
    workers: int
    set_aside: tuple[str, ...]


def reading(outcome: Outcome, probe: Probe) -> Reading:
    """Reads one visit, less the samples that their witness speaks against."""
    judged = reasons(outcome.samples, probe)
    pairs = zip(outcome.samples, judged, strict=True)
    used = [sample for sample, why in pairs if why is None and sample.iterations > 0]
    controls = [sample.control for sample in used if sample.control is not None]
    lanes = bool(used) and all(sample.lanes for sample in used)
    return Reading(
        outcome=outcome,
        iterations=np.array([sample.iterations for sample in used], dtype=float),
        body=np.array([sample.body for sample in used], dtype=float).reshape(-1, 2),
        control=np.array(controls, dtype=float) if used and len(controls) == len(used) else None,
        lane_rates=np.array([_lane_rate(sample) for sample in used]) if lanes else None,
        workers=len(used[0].lanes) if lanes else 0,
        set_aside=tuple(why for why in judged if why is not None),
    )


def _lane_rate(sample: Sample) -> float:
    """Iterations a nanosecond of all background companions together."""
    return sum(done / ns for done, ns in sample.lanes if ns > 0)


def core_clock_hz(outcome: Outcome) -> float | None:
    """The control loop is additions that each wait for the one before, one a cycle: its rate is the core clock."""
    rates = [rate for rate in outcome.controls if rate > 0]
    return median(rates) if rates else None


def costs(read: Reading, metric: Metric) -> Array | None:
    """The cost that each sample gives, or None where this visit lacks what the metric is made of."""
    scale = _scale(read.outcome, metric)
    per_iteration = _per_iteration(read, metric)
    return None if scale is None or per_iteration is None else per_iteration * scale


def least_cost(read: Reading, metric: Metric) -> float:
    """The least cost of one visit, from minima of times where there are times; `costs` gave at least one value."""
    scale = _scale(read.outcome, metric)
    assert scale is not None
    if metric.source == "difference":
        assert read.control is not None
        return scale * (_least_slope(read, read.body) - _least_slope(read, read.control))
    times = {"body": read.body, "control": read.control}.get(metric.source)
    if times is not None:
        return scale * _least_slope(read, times)
    per_iteration = _per_iteration(read, metric)
    assert per_iteration is not None
    return scale * float(per_iteration.min())


def as_unit(cost: float, metric: Metric) -> float:
    """A cost in the metric's unit; the cost of a rate must be above zero."""
    return NS_PER_SECOND / cost if metric.unit in RATES else cost


def slope(times: Array, iterations: Array) -> Array:
    """Time of one iteration: (t(2n) - t(n)) / n, so that whatever both batches pay once is gone."""
    return np.asarray((times[:, 1] - times[:, 0]) / iterations)


def _least_slope(read: Reading, times: Array) -> float:
    """By batch length, should a visit have changed it."""
    lengths: Sequence[float] = sorted(set(read.iterations.tolist()))
    batches = [(times[read.iterations == length], length) for length in lengths]
    return slope_minimum([(rows[:, 0].tolist(), rows[:, 1].tolist(), length) for rows, length in batches])


def _per_iteration(read: Reading, metric: Metric) -> Array | None:
    """Nanoseconds of one iteration as the metric's source defines it."""
    if not len(read.iterations):
        return None
    body = slope(read.body, read.iterations)
    if metric.source == "body":
        return body
    if metric.source in ("companions", "together"):
        return _beside_companions(read, body, metric.source == "together")
    if read.control is None:
        return None
    control = slope(read.control, read.iterations)
    return control if metric.source == "control" else body - control


def _beside_companions(read: Reading, body: Array, together: bool) -> Array | None:
    """One over the rates added up; for a time, the mean of the workers that were added. A worker without companions is
    all there is together."""
    if read.lane_rates is None:
        return body if together else None
    with np.errstate(divide="ignore"):
        own = np.where(body > 0, 1 / body, np.inf) if together else np.zeros_like(body)
        return np.asarray(1 / (own + read.lane_rates))


def _scale(outcome: Outcome, metric: Metric) -> float | None:
    """What turns nanoseconds of one iteration into the metric's cost; None where the probe did not declare it."""
    operations = outcome.work.operations or 1.0
    if metric.unit in RATES:
        amount = operations if metric.unit == "op/s" else float(getattr(outcome.work, RATES[metric.unit]))
        return 1 / amount if amount > 0 else None
    if metric.unit != "cycle":
        return 1 / operations
    clock = core_clock_hz(outcome)
    return clock / NS_PER_SECOND / operations if clock else None
