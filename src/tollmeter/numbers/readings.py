# SPDX-License-Identifier: Apache-2.0
"""Reads the samples of visits into arrays, and computes the values of a metric from them.

Every value in this file is a *cost*: for a metric in ns, cycles or instructions the value itself, for a rate the ns
that one byte, flop or operation takes. Costs can be added, and have a long tail on one side only. `as_unit` converts an
estimated cost to the unit of the metric."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.batches import (
    ALONE_NS,
    IN_COMPANY_NS,
    Array,
    Paid,
    bent,
    paid_once,
    values,
)
from tollmeter.experiment.core import clocks_of, sample_clocks, states
from tollmeter.experiment.evidence import REASONS, disturbances
from tollmeter.experiment.taken import Taken, stretches
from tollmeter.model import Lanes, Metric, Outcome, Probe

RATES = {"B/s": ("bytes", 1), "bit/s": ("bytes", 8), "flop/s": ("flops", 1), "op/s": ("operations", 1)}
"""For each rate the field of the declared work that it counts, and the number of its units in one unit of that work."""
NS_PER_SECOND = 1e9
_MOST_WORK = NS_PER_SECOND**2
"""Largest plausible work of one iteration, in bytes, flops or operations: more than all machines together do in a
second."""

Names = NDArray[np.object_]


def is_time(unit: str) -> bool:
    """Returns whether a metric is a time or a rate, and not a count."""
    return unit == "ns" or unit in RATES


class ReadingColumns(NamedTuple):
    """The usable samples of visits that were read together, one line for each sample. body, control: times in ns, in
    columns t(n) and t(2n). iterations, control_iterations: n. states: state of the core during the sample. slowed: core
    clock during the sample as a share of the visit's. waited: voluntary switches of each sample, including discarded
    samples."""

    slowed: Array
    iterations: Array
    body: Array
    control_iterations: Array
    control: Array
    states: Names
    waited: Array


class Reading(NamedTuple):
    """The usable samples of one visit, as slices of shared columns: seven separate arrays would be larger than the few
    samples of most visits. samples, waits_of: begin and end in the columns, for the usable samples and for `waited`.
    clock_hz: core clock during the visit; None if unknown. lane_rates: for each sample, iterations per ns of all
    companions together; None without timed companions. workers: number of timed companions. discarded: reason for each
    discarded sample. waits: whether the visit waits for other processes."""

    outcome: Outcome
    clock_hz: float | None
    columns: ReadingColumns
    samples: tuple[int, int]
    waits_of: tuple[int, int]
    has_control: bool
    lane_rates: Array | None
    workers: int
    discarded: tuple[str, ...]
    waits: bool = False

    @property
    def many(self) -> int:
        """Returns the number of usable samples."""
        return self.samples[1] - self.samples[0]

    @property
    def slowed(self) -> Array:
        return self.columns.slowed[slice(*self.samples)]

    @property
    def iterations(self) -> Array:
        return self.columns.iterations[slice(*self.samples)]

    @property
    def body(self) -> Array:
        return self.columns.body[slice(*self.samples)]

    @property
    def control_iterations(self) -> Array:
        return self.columns.control_iterations[slice(*self.samples)]

    @property
    def control(self) -> Array | None:
        """Returns the times of the control; None if a sample has none."""
        return self.columns.control[slice(*self.samples)] if self.has_control else None

    @property
    def states(self) -> Names:
        return self.columns.states[slice(*self.samples)]

    @property
    def waited(self) -> Array:
        return self.columns.waited[slice(*self.waits_of)]


class Overheads(NamedTuple):
    """The overheads of each batch of a point, which do not grow with its iterations: of the body and of the control.
    control: None without a control."""

    body: Paid
    control: Paid | None

    def bent(self, metric: Metric) -> str | None:
        """Returns why a metric has no number, if the time of its batches does not grow linearly with their iterations;
        else None."""
        control = f"the control: {self.control.bent}" if self.control and self.control.bent else None
        if metric.source == "control":
            return control
        return self.body.bent or (control if metric.source == "difference" else None)


def readings(outcomes: Sequence[Outcome], probes: Sequence[Probe], full_widths: Sequence[float]) -> list[Reading]:
    """Returns the readings of visits, without the samples that their evidence excludes. probes: probe of each visit.
    full_widths: width of the uncontended core in each visit, in additions per cycle; 0 if unknown."""
    if not outcomes:
        return []
    taken_of_all = Taken(timed.samples for timed in outcomes)
    reason_numbers = disturbances(taken_of_all, probes)
    kept = (reason_numbers == 0) & (taken_of_all.column("iterations") > 0)
    usable, clocks = taken_of_all.where(kept), clocks_of(taken_of_all, outcomes)
    iterations, control_n = usable.column("iterations"), usable.column("control_iterations")
    body, control = (
        np.stack([usable.column(f"{part}_n"), usable.column(f"{part}_2n")], axis=1) for part in ("body", "control")
    )
    core_states = states(usable, clocks, np.array(full_widths))
    clock_of_sample = usable.spread(clocks)
    slowed = np.where(
        clock_of_sample > 0,
        sample_clocks(usable, clocks).mean(axis=1) / np.where(clock_of_sample > 0, clock_of_sample, 1.0),
        1.0,
    )
    control_iterations = np.where(control_n > 0, control_n, iterations)
    parts = (slowed, iterations, body, control_iterations, control, core_states, taken_of_all.column("voluntary"))
    columns = ReadingColumns(*map(_in_little_room, parts))
    is_discarded = reason_numbers > 0
    reasons = tuple([REASONS[place] or "" for place in reason_numbers[is_discarded].tolist()])
    discarded_ends = np.cumsum(taken_of_all.of_visits(is_discarded)).tolist()
    without_control = usable.of_visits(control[:, 0] < 0).tolist()
    used_ends, ends = usable.starts.tolist(), taken_of_all.starts.tolist()
    made_readings = []
    for visit, (outcome, probe, clock_hz) in enumerate(zip(outcomes, probes, clocks.tolist(), strict=True)):
        begin, end = used_ends[visit], used_ends[visit + 1]
        all_begin, all_end = ends[visit], ends[visit + 1]
        taken, lanes = taken_of_all.visits[visit], list[Lanes]()
        if taken.columns.has_lanes:  # of the samples that are used
            lanes = [*compress(taken.lanes(), kept[all_begin:all_end].tolist())]
        has_timed_companions = bool(lanes) and all(lanes)
        rates = (
            [sum(done / ns for done, ns in of_sample if ns > 0) for of_sample in lanes]
            if has_timed_companions
            else None
        )
        made_readings.append(
            Reading(
                outcome=outcome,
                clock_hz=clock_hz or None,
                columns=columns,
                samples=(begin, end),
                waits_of=(all_begin, all_end),
                has_control=end > begin and not without_control[visit],
                lane_rates=None if rates is None else np.array(rates),
                workers=len(lanes[0]) if has_timed_companions else 0,
                discarded=reasons[discarded_ends[visit - 1] if visit else 0 : discarded_ends[visit]],
                waits=probe.switches or bool(probe.roles),
            )
        )
    return made_readings


def _in_little_room(column: NDArray[Any]) -> NDArray[Any]:
    """Returns a column of equal values as a view of one value, to save memory for a point with 40,000 visits."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[:1].copy(), column.shape)
    return column


def overheads(readings: Sequence[Reading]) -> Overheads:
    """Returns the overheads of one point, from all its visits: they depend on the code of the batch, and not on the
    visit."""
    timed = [read for read in readings if read.many]
    if not timed:
        return Overheads(Paid(0.0), None)
    has_companions = timed[0].workers or (timed[0].waited > 0).any()
    expected_ns = max(read.outcome.clock.cost_ns for read in timed)
    body = _paid(timed, ("body", "iterations"), expected_ns, IN_COMPANY_NS if has_companions else 0.0)
    controlled = [read for read in timed if read.has_control]
    control = _paid(controlled, ("control", "control_iterations"), expected_ns, 0.0) if controlled else None
    return Overheads(body, control)


def _paid(timed: Sequence[Reading], names: tuple[str, str], expected_ns: float, tolerance_ns: float) -> Paid:
    """Returns the overhead of the batches of the body or of the control. names: columns of times and iterations.
    expected_ns: cost of reading the clock. tolerance_ns: 0 for the usual tolerance."""
    tolerance_ns = tolerance_ns or max(ALONE_NS, expected_ns)
    times, iterations = together(timed, *names)
    visits = np.repeat(np.arange(len(timed)), [read.many for read in timed])
    why = bent(times, iterations, visits, expected_ns, waits=timed[0].waits)
    return paid_once(times, iterations, expected_ns, tolerance_ns)._replace(bent=why)


def costs(read: Reading, metric: Metric, paid: Overheads) -> Array | None:
    """Returns the costs by each sample, one line for each sample; None if the visit lacks an input of the metric."""
    timed, costs = costs_of([read], metric, paid)
    return costs if timed else None


def costs_of(readings: Sequence[Reading], metric: Metric, paid: Overheads) -> tuple[list[Reading], Array]:
    """Returns the visits of one point that have all inputs of the metric, and their costs, one line for each sample."""
    with_inputs = readings
    if metric.source in ("companions", "together"):
        with_companions = [read for read in readings if read.lane_rates is not None]
        with_inputs = with_companions if with_companions or metric.source == "companions" else readings
    elif metric.source != "body":
        with_inputs = [read for read in readings if read.has_control and paid.control is not None]
    scaled = [(read, scale) for read in with_inputs if read.many and (scale := _scale(read, metric)) is not None]
    timed = [read for read, _ in scaled]
    if not timed:
        return [], np.empty((0, 1))
    scale_of_sample = np.repeat([scale for _, scale in scaled], [read.many for read in timed])
    if metric.unit == "cycle":
        (slowed,) = together(timed, "slowed")
        scale_of_sample = scale_of_sample * slowed
    return timed, _per_iteration(timed, metric, paid) * scale_of_sample[:, None]


def whole_cost(read: Reading, metric: Metric, paid: Overheads) -> float:
    """Returns the median cost of the body in the unit of costs, without subtracting the control."""
    scale = _scale(read, metric)
    return abs(float(np.median(values(read.body, read.iterations, paid.body)))) * (scale or 0.0)


def as_unit(cost: float, metric: Metric) -> float:
    """Returns a cost in the metric's unit. The cost of a rate must be above zero."""
    return NS_PER_SECOND / cost if metric.unit in RATES else cost


def _per_iteration(timed: Sequence[Reading], metric: Metric, paid: Overheads) -> Array:
    """Returns the ns of one iteration, by the part that the source of the metric names."""
    times, iterations = together(timed, "body", "iterations")
    body = values(times, iterations, paid.body)
    if metric.source == "body":
        return body
    if metric.source in ("companions", "together"):
        rates = [read.lane_rates for read in timed if read.lane_rates is not None]
        if not rates:  # without companions, the worker alone is the sum
            return body
        # The rates of all workers during the longer batch are added, and the cost is one over the sum.
        longer = body[:, -1]
        with np.errstate(divide="ignore"):
            worker_rate = np.zeros_like(longer)
            if metric.source == "together":
                worker_rate = np.where(longer > 0, 1 / longer, np.inf)
            return np.asarray(1 / (worker_rate + np.concatenate(rates)))[:, None]
    assert paid.control is not None
    times, iterations = together(timed, "control", "control_iterations")
    control = values(times, iterations, paid.control)
    if metric.source != "difference":
        return control
    same_shape = body.shape == control.shape
    return np.asarray(body - control if same_shape else body.mean(axis=1)[:, None] - control.mean(axis=1)[:, None])


def together(timed: Sequence[Reading], *names: str) -> list[NDArray[Any]]:
    """Returns columns of the usable samples of visits, concatenated. This takes a fifth of the time of slicing the
    columns of each visit."""
    parts: list[list[NDArray[Any]]] = [[] for _ in names]
    for _, group in groupby(timed, key=lambda read: id(read.columns)):
        readings = [*group]
        ends = np.array([read.samples for read in readings], dtype=np.int64)
        places = stretches(ends[:, 0], ends[:, 1] - ends[:, 0])
        for part, name in zip(parts, names, strict=True):
            part.append(getattr(readings[0].columns, name)[places])
    return [np.concatenate(part) for part in parts]


def _scale(read: Reading, metric: Metric) -> float | None:
    """Returns the factor from ns of one iteration to the cost of the metric; None if the probe declared no such work,
    or an impossible amount."""
    operations = read.outcome.work.operations or 1.0
    if operations > _MOST_WORK:
        return None
    if metric.unit in RATES:
        field, units_each = RATES[metric.unit]
        amount = operations if field == "operations" else float(getattr(read.outcome.work, field))
        return 1 / (amount * units_each) if 0 < amount <= _MOST_WORK else None
    if metric.unit != "cycle":
        return 1 / operations
    return read.clock_hz / NS_PER_SECOND / operations if read.clock_hz else None
