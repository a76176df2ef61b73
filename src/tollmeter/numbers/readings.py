# SPDX-License-Identifier: Apache-2.0
"""One visit's samples as arrays, and the values that they give a metric.

Inside this file every value is a *cost*: for a metric in ns, cycle or instruction the value itself, for a rate the
nanoseconds that one byte, flop or operation takes. Costs add and have long tails to one side only; `as_unit` turns a
cost into the metric's unit once it has been estimated.
"""

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
"""Work that a rate counts, and the number of its units in one unit of that work."""
NS_PER_SECOND = 1e9
_MOST_WORK = NS_PER_SECOND**2
"""Most work of one iteration: more than all machines do in a second."""

Names = NDArray[np.object_]


def is_time(unit: str) -> bool:
    """Returns whether a metric is a time or a rate, and not a count."""
    return unit == "ns" or unit in RATES


class ReadingColumns(NamedTuple):
    """The usable samples of visits that were read together. body, control: times in ns, one line for each sample,
    columns t(n) and t(2n); iterations, control_iterations: their n. states: state of the core during each sample.
    slowed: clock of each sample as a share of the visit's. waited: voluntary switches of each sample, discarded ones
    included."""

    slowed: Array
    iterations: Array
    body: Array
    control_iterations: Array
    control: Array
    states: Names
    waited: Array


class Reading(NamedTuple):
    """The usable samples of one visit, as slices of shared columns: seven arrays of its own would be larger than the
    few samples of most visits. samples, waits_of: begin and end in the columns, of the usable samples and of `waited`.
    clock_hz: core clock during the visit. lane_rates: for each sample, iterations per ns of all companions together;
    None without companions. workers: number of companions that were timed. discarded: reason for each discarded sample.
    waits: whether the visit waits for other processes."""

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
        return self.columns.control[slice(*self.samples)] if self.has_control else None

    @property
    def states(self) -> Names:
        return self.columns.states[slice(*self.samples)]

    @property
    def waited(self) -> Array:
        return self.columns.waited[slice(*self.waits_of)]


class Overheads(NamedTuple):
    """The times that each batch of a point pays once: the body's and the control's."""

    body: Paid
    control: Paid | None

    def bent(self, metric: Metric) -> str | None:
        """Returns why a metric has no number: the cost of its batches is not linear."""
        control = f"the control: {self.control.bent}" if self.control and self.control.bent else None
        if metric.source == "control":
            return control
        return self.body.bent or (control if metric.source == "difference" else None)


def readings(outcomes: Sequence[Outcome], probes: Sequence[Probe], full_widths: Sequence[float]) -> list[Reading]:
    """Returns the readings of visits, without the samples that their witness excludes. probes: probe of each visit;
    full_widths: width of the uncontended core, 0 if unknown."""
    if not outcomes:
        return []
    every = Taken(timed.samples for timed in outcomes)
    against = disturbances(every, probes)
    kept = (against == 0) & (every.column("iterations") > 0)
    used, clocks = every.where(kept), clocks_of(every, outcomes)
    iterations, own = used.column("iterations"), used.column("control_iterations")
    body, control = (np.stack([used.column(f"{of}_n"), used.column(f"{of}_2n")], axis=1) for of in ("body", "control"))
    seen = states(used, clocks, np.array(full_widths))
    clock = used.spread(clocks)
    slowed = np.where(clock > 0, sample_clocks(used, clocks).mean(axis=1) / np.where(clock > 0, clock, 1.0), 1.0)
    control_iterations = np.where(own > 0, own, iterations)
    parts = (slowed, iterations, body, control_iterations, control, seen, every.column("voluntary"))
    columns = ReadingColumns(*map(_in_little_room, parts))
    is_aside = against > 0
    why = tuple([REASONS[place] or "" for place in against[is_aside].tolist()])
    aside_ends = np.cumsum(every.of_visits(is_aside)).tolist()
    lacking = used.of_visits(control[:, 0] < 0).tolist()
    used_ends, ends = used.starts.tolist(), every.starts.tolist()
    made = []
    for visit, (outcome, probe, clock_hz) in enumerate(zip(outcomes, probes, clocks.tolist(), strict=True)):
        begin, end = used_ends[visit], used_ends[visit + 1]
        all_begin, all_end = ends[visit], ends[visit + 1]
        taken, lanes = every.visits[visit], list[Lanes]()
        if taken.columns.has_lanes:  # of the samples that are used
            lanes = [*compress(taken.lanes(), kept[all_begin:all_end].tolist())]
        in_company = bool(lanes) and all(lanes)
        rates = [sum(done / ns for done, ns in of_sample if ns > 0) for of_sample in lanes] if in_company else None
        made.append(
            Reading(
                outcome=outcome,
                clock_hz=clock_hz or None,
                columns=columns,
                samples=(begin, end),
                waits_of=(all_begin, all_end),
                has_control=end > begin and not lacking[visit],
                lane_rates=None if rates is None else np.array(rates),
                workers=len(lanes[0]) if in_company else 0,
                discarded=why[aside_ends[visit - 1] if visit else 0 : aside_ends[visit]],
                waits=probe.switches or bool(probe.roles),
            )
        )
    return made


def _in_little_room(column: NDArray[Any]) -> NDArray[Any]:
    """Returns a column of equal values as one value, to save memory for a point with 40,000 visits."""
    if len(column) and (column == column[0]).all():
        return np.broadcast_to(column[:1].copy(), column.shape)
    return column


def overheads(readings: Sequence[Reading]) -> Overheads:
    """Returns the overheads from all visits of one point: the time that a batch pays once depends on its code, and not
    on the visit."""
    timed = [read for read in readings if read.many]
    if not timed:
        return Overheads(Paid(0.0), None)
    in_company = timed[0].workers or (timed[0].waited > 0).any()
    expected_ns = max(read.outcome.clock.cost_ns for read in timed)
    body = _paid(timed, ("body", "iterations"), expected_ns, IN_COMPANY_NS if in_company else 0.0)
    controlled = [read for read in timed if read.has_control]
    control = _paid(controlled, ("control", "control_iterations"), expected_ns, 0.0) if controlled else None
    return Overheads(body, control)


def _paid(timed: Sequence[Reading], names: tuple[str, str], expected_ns: float, tolerance_ns: float) -> Paid:
    """Returns the time paid once by the body or the control. names: columns of times and iterations."""
    tolerance_ns = tolerance_ns or max(ALONE_NS, expected_ns)
    times, iterations = together(timed, *names)
    visits = np.repeat(np.arange(len(timed)), [read.many for read in timed])
    why = bent(times, iterations, visits, expected_ns, waits=timed[0].waits)
    return paid_once(times, iterations, expected_ns, tolerance_ns)._replace(bent=why)


def costs(read: Reading, metric: Metric, paid: Overheads) -> Array | None:
    """Returns the costs that each sample gives, one line for each sample; None if this visit lacks an input of the
    metric."""
    timed, costs = costs_of([read], metric, paid)
    return costs if timed else None


def costs_of(readings: Sequence[Reading], metric: Metric, paid: Overheads) -> tuple[list[Reading], Array]:
    """Returns the visits of one point that have costs, and their costs."""
    able = readings
    if metric.source in ("companions", "together"):
        beside = [read for read in readings if read.lane_rates is not None]
        able = beside if beside or metric.source == "companions" else readings
    elif metric.source != "body":
        able = [read for read in readings if read.has_control and paid.control is not None]
    scaled = [(read, scale) for read in able if read.many and (scale := _scale(read, metric)) is not None]
    timed = [read for read, _ in scaled]
    if not timed:
        return [], np.empty((0, 1))
    each = np.repeat([scale for _, scale in scaled], [read.many for read in timed])
    if metric.unit == "cycle":
        (slowed,) = together(timed, "slowed")
        each = each * slowed
    return timed, _per_iteration(timed, metric, paid) * each[:, None]


def whole_cost(read: Reading, metric: Metric, paid: Overheads) -> float:
    """Returns the median cost of the body, without subtracting the control, in the metric's unit."""
    scale = _scale(read, metric)
    return abs(float(np.median(values(read.body, read.iterations, paid.body)))) * (scale or 0.0)


def as_unit(cost: float, metric: Metric) -> float:
    """Returns a cost in the metric's unit; the cost of a rate must be above zero."""
    return NS_PER_SECOND / cost if metric.unit in RATES else cost


def _per_iteration(timed: Sequence[Reading], metric: Metric, paid: Overheads) -> Array:
    """Returns the nanoseconds of one iteration as the metric's source defines it."""
    times, iterations = together(timed, "body", "iterations")
    body = values(times, iterations, paid.body)
    if metric.source == "body":
        return body
    if metric.source in ("companions", "together"):
        rates = [read.lane_rates for read in timed if read.lane_rates is not None]
        if not rates:  # a worker without companions is all there is together
            return body
        # One over the rates added up, during the longer batch; for a time, the mean of the workers that were added.
        longer = body[:, -1]
        with np.errstate(divide="ignore"):
            own = np.zeros_like(longer)
            if metric.source == "together":
                own = np.where(longer > 0, 1 / longer, np.inf)
            return np.asarray(1 / (own + np.concatenate(rates)))[:, None]
    assert paid.control is not None
    times, iterations = together(timed, "control", "control_iterations")
    control = values(times, iterations, paid.control)
    if metric.source != "difference":
        return control
    same = body.shape == control.shape
    return np.asarray(body - control if same else body.mean(axis=1)[:, None] - control.mean(axis=1)[:, None])


def together(timed: Sequence[Reading], *names: str) -> list[NDArray[Any]]:
    """Returns columns of the usable samples of visits, concatenated. This is five times as fast as slicing them for
    each visit."""
    parts: list[list[NDArray[Any]]] = [[] for _ in names]
    for _, group in groupby(timed, key=lambda read: id(read.columns)):
        several = [*group]
        ends = np.array([read.samples for read in several], dtype=np.int64)
        places = stretches(ends[:, 0], ends[:, 1] - ends[:, 0])
        for part, name in zip(parts, names, strict=True):
            part.append(getattr(several[0].columns, name)[places])
    return [np.concatenate(part) for part in parts]


def _scale(read: Reading, metric: Metric) -> float | None:
    """Returns the factor from nanoseconds of one iteration to the metric's cost; None if the probe declared none, or an
    impossible one."""
    operations = read.outcome.work.operations or 1.0
    if operations > _MOST_WORK:
        return None
    if metric.unit in RATES:
        counted, units = RATES[metric.unit]
        amount = operations if counted == "operations" else float(getattr(read.outcome.work, counted))
        return 1 / (amount * units) if 0 < amount <= _MOST_WORK else None
    if metric.unit != "cycle":
        return 1 / operations
    return read.clock_hz / NS_PER_SECOND / operations if read.clock_hz else None
