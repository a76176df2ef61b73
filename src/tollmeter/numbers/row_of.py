# SPDX-License-Identifier: Apache-2.0
"""Makes one row from the visits of one point: the estimate in each state, or the reason why there is none. Also makes
the rows of gauges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, inf, isfinite
from typing import Any, NamedTuple

import msgspec
import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.limits import HARDLY, LEAST_VISITS
from tollmeter.experiment.precision import (
    LEAST_LAYOUTS,
    Estimate,
    Scatter,
    estimate,
    greatest,
    in_plain_numbers,
    log_error,
    middle_of,
)
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import REAL_CLOCKS, USUAL_PAGE_BYTES, Metric, Outcome, Probe, Row, State, StateName, Status
from tollmeter.numbers.known import Known, row_name
from tollmeter.numbers.meanings import BY_KERNEL, WORST
from tollmeter.numbers.readings import RATES, Overheads, Reading, as_unit, is_time, whole_cost
from tollmeter.numbers.series import Part, Series
from tollmeter.numbers.stats import bimodal_split, modes, quartiles
from tollmeter.numbers.units import short, span

LEAST_SAMPLES = 2
EMULATED = ("instructions", "virtual")
KERNEL_COUNTS = ("B", "fault")


class ModeEstimate(NamedTuple):
    """The estimate of one state or mode of a row. name: the state or mode. part: its samples. estimate: its cost.
    scatter: prior knowledge of the scatter of its visits."""

    name: StateName | None
    part: Part
    estimate: Estimate
    scatter: Scatter


class PointReadings(NamedTuple):
    """The readings of the completed visits of one point, at least one. paid: the times that each batch pays once. note:
    remark that all its rows get."""

    probe: Probe
    readings: Sequence[Reading]
    paid: Overheads
    note: str | None = None


class MetricEstimates(NamedTuple):
    """The estimates of one metric before they become a row. series: its values; None if no visit has one. by_mode: the
    estimate that the row states, then that of the other mode, if there are two. complaint: why there is no number."""

    metric: Metric
    series: Series | None
    by_mode: Sequence[ModeEstimate]
    complaint: str | None = None


def metric_estimates(visited: PointReadings, declared: Metric, known: Known) -> MetricEstimates:
    """Returns the estimates of one metric of a point, from the cache if they were made before."""
    name = "estimates", visited.readings[0].outcome.point, declared.name
    return known.once(name, (visited, known.scatter), lambda: _metric_estimates(visited, declared, known))


def _metric_estimates(visited: PointReadings, declared: Metric, known: Known) -> MetricEstimates:
    """Returns the estimates of one metric of a point. declared: the metric as the probe declares it."""
    first = visited.readings[0].outcome
    metric = as_instructions(declared) if first.clock.kind == "instructions" else declared
    series = known.series(visited.readings, declared, visited.paid)
    series = known.stated(series, first.point, declared.name) if series else None
    complaint = _too_little(visited.readings, declared, series) or visited.paid.bent(declared)
    if complaint or series is None:
        return MetricEstimates(metric, None, (), complaint)
    state, part = series.headline()
    by_mode = [_estimated(mode, state, visited, declared, known) for mode in _by_mode(state, part)]
    return MetricEstimates(metric, series, by_mode, _breaks_physics(by_mode[0].estimate, metric))


def _estimated(
    mode: tuple[StateName | None, Part], state: StateName | None, visited: PointReadings, metric: Metric, known: Known
) -> ModeEstimate:
    """Returns the estimate of one mode or state. mode: its name and its values. state: state of the core."""
    name, part = mode
    probe, first = visited.probe, visited.readings[0].outcome
    # Runs under an emulator have no between-run variance.
    runs_sd = 0.0 if first.clock.kind in EMULATED else known.runs_sd(_name(visited, metric, name))
    prior = known.scatter.get((probe.probe, metric.name, state), Scatter())
    scatter = msgspec.structs.replace(prior, runs_sd=runs_sd)
    medians = part.costs
    if first.clock.kind == "instructions":  # A count has no noise, so its batches show its whole range.
        values = part.values
        return ModeEstimate(name, part, _between(middle_of(medians), values.min(), values.max()), scatter)
    # The cost of the whole body, from which a difference subtracts the control; 0 for other metrics.
    usable = next(read for read in visited.readings if read.many)
    minuend = whole_cost(usable, metric, visited.paid) if metric.source == "difference" else 0.0
    if minuend or medians.min() <= 0:
        plain = in_plain_numbers(medians, part.layouts, minuend or abs(middle_of(medians)), scatter)
        return ModeEstimate(name, part, plain, scatter)
    positive = part.values[part.values > 0]
    reach = float(positive.min()), float(positive.max())
    return ModeEstimate(name, part, estimate(medians, part.layouts, scatter, reach), scatter)


def _between(value: float, low: float, high: float) -> Estimate:
    """Returns the estimate of a value whose interval is given and not derived from a scatter."""
    error = log_error(low, high)
    return Estimate(value=value, low=float(low), high=float(high), error=error if error < inf else None)


def _name(visited: PointReadings, metric: Metric, state: StateName | None) -> str:
    """Returns the name under which the history stores the row of a metric in one state."""
    return row_name(bare(visited.readings[0].outcome, visited.probe, metric, "ok", None), state)


def row_of(visited: PointReadings, declared: Metric, known: Known) -> Row:
    """Returns the row of a metric from the samples of a point: the estimate in its main state, the other states, and
    remarks. The row has no number if too few samples are usable, or if an emulator has no such number."""
    first = visited.readings[0].outcome
    if declared.unit == "cycle" and first.clock.kind in EMULATED:
        return bare(first, visited.probe, declared, "unsupported", "an emulator counts instructions, and no cycles")
    estimates = metric_estimates(visited, declared, known)
    counts = {
        "visits": len(estimates.series.all.counts) if estimates.series else 0,
        "samples": sum(read.many for read in visited.readings) if estimates.series else 0,
        "discarded": sum(len(read.discarded) for read in visited.readings),
    }
    if estimates.complaint or estimates.series is None:
        return bare(first, visited.probe, estimates.metric, "unstable", estimates.complaint, **counts)
    (headline, _), *others = estimates.series.by_state().items()
    estimates_of_states = [
        *estimates.by_mode,
        *(_estimated(each, each[0], visited, declared, known) for each in others),
    ]
    notes = [text for text in (visited.note, visited.paid.body.why) if text]
    shares = known.shares(_name(visited, declared, headline)) if first.clock.kind in REAL_CLOCKS else ""
    notes += [f"share of {shares}: other guests use it too"] if shares else []
    numbers = _numbers(estimates_of_states, estimates.metric) | {
        "clock_hz": estimates.series.clock_hz, "shares": shares,
        "reason": "; ".join(notes) or None,
    }  # fmt: skip
    row = bare(first, visited.probe, estimates.metric, "ok", None, **counts)
    return with_precision(msgspec.structs.replace(row, **numbers), estimates_of_states[0].part.layouts, known.precision)


def bare(outcome: Outcome, probe: Probe, metric: Metric, status: Status, reason: str | None, **more: object) -> Row:
    """Returns a row with its identity and status; further fields as named."""
    point = outcome.point
    return Row(
        probe=probe.probe, revision=probe.revision, abi=point.abi, target=point.target, clock=outcome.clock.kind,
        parameters=point.values(), metric=metric.name, unit=metric.unit, better=metric.better,
        status=status, reason=reason, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def with_precision(row: Row, layouts: Sequence[int], precision: float) -> Row:
    """Returns the row with its number of layouts, and whether it has converged. layouts: layout of each visit in the
    state of the row. precision: requested half-width, as a share."""
    if row.median is None or row.low is None or row.high is None:
        return row
    converged = has_converged(Estimate(value=row.median, low=row.low, high=row.high), layouts, precision)
    return msgspec.structs.replace(row, converged=converged or is_counted(row), layouts=len(set(layouts)))


def is_counted(row: Row) -> bool:
    """Returns whether one visit suffices for a row. Instructions that an emulator counts need one; so do rows of a
    board without an operating system, and a guest kernel's counts of memory and faults, which differ between visits by
    a page or two (decision 16)."""
    repeats = row.unit in KERNEL_COUNTS or row.target.startswith("bare:")
    return row.clock == "instructions" or (row.clock == "virtual" and repeats)


def has_converged(estimate: Estimate, layouts: Sequence[int], precision: float) -> bool:
    """Returns whether an estimate has converged: its interval is narrow enough, or has no width, as for a count of 0,
    and it has the least number of visits in more than one layout. layouts: layout of each visit."""
    is_narrow = estimate.low == estimate.high or estimate.share_half_width() <= precision
    return is_narrow and len(layouts) >= LEAST_VISITS and len(set(layouts)) >= LEAST_LAYOUTS


def as_instructions(metric: Metric) -> Metric:
    """Returns the metric for a clock that counts instructions: the instructions of one operation. A rate becomes the
    instructions of one of its units, since there is no second by which to divide."""
    return msgspec.structs.replace(metric, unit="instruction", better="less")


def _by_mode(name: StateName | None, part: Part) -> list[tuple[StateName | None, Part]]:
    """Returns the values under the given name; or both modes, the more frequent first, if the batches have two. The
    scatter within a mode is estimated like that of other points, since most of the scatter between visits is the
    distance of the modes."""
    if part.costs.min() <= 0:
        return [(name, part)]
    logs = np.log(np.where(part.values > 0, part.values, np.nan))
    cut = bimodal_split([visit[~np.isnan(visit)] for visit in part.visits(logs)])
    if cut is None:
        return [(name, part)]
    slower = part.values > exp(cut)
    parts: list[tuple[StateName | None, Part]] = [
        ("first", part.where(~slower, "median")), ("second", part.where(slower, "median")),
    ]  # fmt: skip
    return sorted(parts, key=lambda part: -part[1].share)


def _too_little(readings: Sequence[Reading], metric: Metric, series: Series | None) -> str | None:
    """Returns why there is no estimate; None if there are enough samples."""
    samples = sum(read.many for read in readings) if series else 0
    if samples >= LEAST_SAMPLES:
        return None
    discarded = Counter(why for read in readings for why in read.discarded)
    if discarded:
        (why, most), total = discarded.most_common(1)[0], discarded.total()
        were = "1 was" if total == 1 else f"{total} were"
        of_them = f", {most} of them" if most < total else ""
        return f"{_usable(samples)}: {were} discarded{of_them} for this: {why}"
    usable = sum(read.many for read in readings)
    if usable < LEAST_SAMPLES:
        return _usable(usable)
    needed_by_source = {
        "control": "a control",
        "difference": "a control",
        "companions": "companions",
        "together": "companions",
    }
    missing = needed_by_source.get(metric.source) or (
        "the core clock" if metric.unit == "cycle" else f"work in {metric.unit[:-2]}"
    )
    return f"the visits carry nothing of what it is made of: {missing}"


def _usable(samples: int) -> str:
    """Returns a number of samples below the least, in words."""
    return "only 1 usable sample" if samples else "no usable sample"


def _breaks_physics(estimate: Estimate, metric: Metric) -> str | None:
    """Returns the violated rule as a sentence; None if both hold: an operation takes time, and a part takes no longer
    than the whole."""
    if estimate.value > 0:
        if estimate.low > 0 or metric.source == "difference":
            return None
        return f"its time is not resolved from zero: {span(estimate.low, estimate.high, _cost_unit(metric))}"
    if metric.source != "difference":
        return f"twice the work took no longer: {short(estimate.value, _cost_unit(metric))} for one"
    if estimate.high < 0:
        return f"the control took longer than the whole, by {short(-estimate.value, _cost_unit(metric))}"
    return f"not resolved from zero: at most {short(estimate.high, _cost_unit(metric))}"


def _cost_unit(metric: Metric) -> str:
    """Returns the unit of the cost of a metric: ns for a rate."""
    return "ns" if metric.unit in RATES else metric.unit


def _numbers(by_mode: Sequence[ModeEstimate], metric: Metric) -> dict[str, object]:
    """Returns the number fields of a row by name: the estimate in the metric's unit, and the states. For a rate the
    ends of an interval are exchanged."""
    head = by_mode[0]
    pooled, raw = _in_unit(head.part.values, metric), _in_unit(head.part.raw, metric)
    value, low, high = _ends(head.estimate, metric)
    # The difference of two interrupted batches may be negative. The least cost is then unknown, and the lower quartile
    # is given in its place.
    least = pooled.min() if pooled.min() > 0 else quartiles(pooled)[0]
    states = []
    for mode in by_mode:
        if mode.name is not None and mode.estimate.low > 0:
            middle, lower, upper = _ends(mode.estimate, metric)
            states.append(State(
                state=mode.name, share=mode.part.share, median=middle, low=lower, high=upper, **_components(mode),
            ))  # fmt: skip
    return {
        "median": value, "low": low, "high": high, "minimum": float(min(least, value)),
        "quartiles": quartiles(pooled), "unadjusted": float(np.median(raw)), "state": head.name,
        "modes": modes([_in_unit(values, metric) for values in head.part.visits()]),
        "states": tuple(states), **_components(head),
    }  # fmt: skip


def _components(mode: ModeEstimate) -> dict[str, Any]:
    """Returns the components from which the interval of an estimate is computed."""
    return {"error": mode.estimate.error, "freedom": mode.estimate.freedom, "runs_sd": mode.scatter.runs_sd}


def _ends(estimate: Estimate, metric: Metric) -> tuple[float, float, float]:
    """Returns the value and the interval in the metric's unit."""
    ends = estimate.value, estimate.low, estimate.high
    if metric.unit not in RATES:
        return ends
    value, low, high = (as_unit(end, metric) for end in ends)
    return value, high, low


def _in_unit(values: Array, metric: Metric) -> Array:
    """Returns values in the metric's unit. A sample without a positive cost has no rate, and is left out."""
    return np.asarray(1e9 / values[values > 0]) if metric.unit in RATES else values


# ---- gauges ----------------------------------------------------------------------------------------------------------

# Rows of values that a probe measured itself: one value a visit, independent of the clock and of the core's state.

_OF_THE_HOST = ("ns", "cycle", "B/s", "bit/s", "flop/s", "op/s")
_STEP = {"B": 2.0 * USUAL_PAGE_BYTES, "fault": 1.0}
_OF_THE_EMULATOR = (
    "time, resident set and faults under this emulator are its own: a guest (--target guest) has the program's"
)


def gauge_row(visited: PointReadings, metric: Metric, known: Known) -> Row:
    """Returns the row of a metric that the probe measured itself, with one value for each visit."""
    first, note = visited.readings[0].outcome, visited.note
    outcomes = [read.outcome for read in visited.readings if metric.name in read.outcome.gauges]
    measured = [(_by_line(outcome, metric), outcome.seed or -outcome.visit - 1) for outcome in outcomes]
    finite = [(value, layout) for value, layout in measured if isfinite(value)]
    if first.clock.kind == "instructions" and (not finite or metric.unit in _OF_THE_HOST):
        return bare(first, visited.probe, metric, "unsupported", _OF_THE_EMULATOR)
    if not outcomes:
        why = f"the probe declares its metric {metric.name} and reports no value of it here"
        return bare(first, visited.probe, metric, "unsupported", why)
    if not finite:
        return bare(first, visited.probe, metric, "unstable", "the probe gave no finite value")
    values, layouts = [value for value, _ in finite], [layout for _, layout in finite]
    # A time that the system accounts to a program depends on how often the sibling hyperthread is busy.
    is_of_core = (
        is_time(metric.unit)
        and first.clock.kind in REAL_CLOCKS
        and (first.point.target, first.point.abi) in known.contended
    )
    if len(values) == 1 and first.clock.kind == "virtual" and metric.unit in KERNEL_COUNTS:
        # In a guest that counts. A second visit differed by up to 1 %, or by a step of the kernel's count.
        half = HARDLY * values[0] if values[0] else 0.0
        estimate, runs_sd = _between(values[0], values[0] - half, values[0] + half), 0.0
    else:
        runs_sd = 0.0  # a count that was equal in earlier runs has no between-run variance
        if first.clock.kind not in EMULATED:
            name = _name(visited, metric, "all" if is_of_core else None)
            runs_sd = known.runs_sd(name) if is_time(metric.unit) else known.learned.runs_sd.get(name, 0.0)
        estimate = _of_gauges(values, layouts, runs_sd, metric)
    estimate = _within_steps(estimate, values, metric)
    low = estimate.value if metric.means == WORST else estimate.low  # the true worst is at least the observed one
    row = bare(
        first, visited.probe, metric, "ok", note, median=estimate.value, low=low, high=estimate.high,
        minimum=min(values), state="all" if is_of_core else None,
        error=estimate.error, freedom=estimate.freedom, runs_sd=runs_sd,
        quartiles=quartiles(values), modes=modes(np.array(values)[:, None]), visits=len(values),
        samples=len(values),
    )  # fmt: skip
    return with_precision(row, layouts, known.precision)


def _by_line(outcome: Outcome, metric: Metric) -> float:
    """Returns the value of a gauge in the visit's time. The probe computes it by the target's clock, so it is converted
    if an external clock times the visit."""
    value, ratio = outcome.gauges[metric.name], (outcome.marks.own_ratio if outcome.marks else None) or 1.0
    if metric.unit == "ns":
        return value / ratio
    return value * ratio if metric.unit in RATES else value


def _within_steps(estimate: Estimate, values: Sequence[float], metric: Metric) -> Estimate:
    """Returns the estimate with its interval widened by two pages or one fault to either side: the kernel's counts of
    one program differ by this much between runs, even if all visits of one run agree. A mean of several values and a
    probe's own layout size have no such steps."""
    counts = metric.means in BY_KERNEL and all(value > 0 and value == round(value) for value in values)
    step = _STEP[metric.unit] if counts else 0.0
    low, high = min(estimate.low, max(0.0, estimate.value - step)), max(estimate.high, estimate.value + step)
    return estimate if (low, high) == (estimate.low, estimate.high) else _between(estimate.value, low, high)


def _of_gauges(values: Sequence[float], layouts: Sequence[int], runs_sd: float, metric: Metric) -> Estimate:
    """Returns the estimate of a gauge. Only its own visits show its scatter, since it does not scatter as timed samples
    do. runs_sd: between-run standard deviation of its logarithm, by which a gauge that is constant in one run may
    differ in the next."""
    if metric.means == WORST:
        return greatest(values, runs_sd)
    if min(values) == max(values):
        beyond = exp(NORMAL * runs_sd)
        low, high = sorted((values[0] / beyond, values[0] * beyond))
        return Estimate(value=values[0], low=low, high=high, error=0.0)
    if min(values) <= 0:
        # If only some visits had an event, the mean is its rate or share.
        middle = np.mean if metric.unit in ("op/s", "ratio") else np.median
        return _between(float(middle(values)), min(values), max(values))
    return estimate(values, layouts, Scatter(runs_sd=runs_sd), (min(values), max(values)))
