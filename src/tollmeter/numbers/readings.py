# SPDX-License-Identifier: Apache-2.0
"""One visit's samples as arrays, and the values that they give a metric.

Inside this file every value is a *cost*: for a metric in ns, cycle or instruction the value itself, for a rate the
nanoseconds that one byte, flop or operation takes. Costs add and have long tails to one side only; `as_unit` turns a
cost into the metric's unit once it has been estimated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.batches import ALONE_NS, IN_COMPANY_NS, Array, Paid, paid_once, values
from tollmeter.experiment.core_states import cores_hz, states
from tollmeter.experiment.evidence import REASONS, disturbances
from tollmeter.experiment.linear import EXPONENT_OFF, WAITING_OFF, bent
from tollmeter.experiment.taken import Taken
from tollmeter.model import Lanes, Metric, Outcome, Probe, Samples

RATES = {"B/s": ("bytes", 1), "bit/s": ("bytes", 8), "flop/s": ("flops", 1), "op/s": ("operations", 1)}
"""What of the work a rate counts, and how many of its units one of that is."""
NS_PER_SECOND = 1e9
_MOST_WORK = 1e18
"""Of one iteration: more than all machines do in a second."""

Names = NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Reading:
    """The usable samples of one visit. Times in ns; one row a sample, columns t(n) and t(2n). states: of the core
    during each sample. clock_hz: of the core during the visit. waits: the worker waits for other processes.
    """

    outcome: Outcome
    clock_hz: float | None
    iterations: Array
    body: Array
    control_iterations: Array
    control: Array | None
    lane_rates: Array | None
    workers: int
    states: Names
    set_aside: tuple[str, ...]
    waits: bool = False


class Overheads(NamedTuple):
    """What each batch of a point pays once: the body's and the control's."""

    body: Paid
    control: Paid | None

    def bent(self, metric: Metric) -> str | None:
        """Why the metric has no number: the cost of a batch that it is made of is not linear."""
        control = f"the control: {self.control.bent}" if self.control and self.control.bent else None
        if metric.source == "control":
            return control
        return self.body.bent or (control if metric.source == "difference" else None)


def readings(
    outcomes: Sequence[Outcome], probes: Sequence[Probe], full_widths: Sequence[float | None]
) -> list[Reading]:
    """Reads visits, less the samples that their witness speaks against. probes, full_widths: of each visit, its probe
    and the whole core's width where it is known."""
    if not outcomes:
        return []
    every = Taken(told.samples for told in outcomes)
    against = disturbances(every, probes)
    kept = (against == 0) & (every.column("iterations") > 0)
    used, clocks = every.where(kept), cores_hz(outcomes)
    iterations, own = used.column("iterations"), used.column("control_iterations")
    body, control = (np.stack([used.column(f"{of}_n"), used.column(f"{of}_2n")], axis=1) for of in ("body", "control"))
    seen = states(used, clocks, np.array([width or 0.0 for width in full_widths]))
    columns = iterations, body, np.where(own > 0, own, iterations), control, seen
    of_visits = zip(*(_of_each(column, used) for column in columns), strict=True)
    judged = zip(*(_of_each(column, every) for column in (against, kept)), strict=True)
    return [
        _reading((outcome, probe), clock or None, _lanes(samples, mine[1]), mine[0], arrays)
        for outcome, probe, clock, samples, mine, arrays in zip(
            outcomes, probes, clocks.tolist(), every.visits, judged, of_visits, strict=True
        )
    ]


def _of_each(column: NDArray[Any], taken: Taken) -> list[NDArray[Any]]:
    """What is each visit's, in a tenth of the time that np.split takes."""
    return [column[start:stop] for start, stop in pairwise(taken.starts.tolist())]


def _reading(
    told: tuple[Outcome, Probe], clock_hz: float | None, lanes: Sequence[Lanes], against: NDArray[np.int64],
    arrays: Sequence[Any],
) -> Reading:  # fmt: skip
    outcome, probe = told
    iterations, body, control_iterations, control, seen = arrays
    in_company = bool(lanes) and all(lanes)
    return Reading(
        outcome=outcome,
        clock_hz=clock_hz,
        iterations=iterations,
        body=body,
        control_iterations=control_iterations,
        control=control if len(control) and (control[:, 0] >= 0).all() else None,
        lane_rates=np.array([sum(done / ns for done, ns in some if ns > 0) for some in lanes]) if in_company else None,
        workers=len(lanes[0]) if in_company else 0,
        states=seen,
        set_aside=tuple(why for place in against.tolist() if (why := REASONS[place])),
        waits=probe.switches or bool(probe.roles),
    )


def _lanes(samples: Samples, kept: NDArray[np.bool_]) -> list[Lanes]:
    """Of the samples that are used; none where no sample has any."""
    every = samples.lanes()
    return [some for some, is_used in zip(every, kept.tolist(), strict=True) if is_used] if any(every) else []


def overheads(readings: Sequence[Reading]) -> Overheads:
    """From all visits of one point: what a batch pays once is its code's, and no visit's."""
    told = [read for read in readings if len(read.body)]
    if not told:
        return Overheads(Paid(0.0), None)
    waits = told[0].waits
    in_company = told[0].workers or _switched(told[0].outcome)
    body = _paid([(read.body, read.iterations) for read in told], told, IN_COMPANY_NS if in_company else 0.0, waits)
    controls = [(read.control, read.control_iterations) for read in told if read.control is not None]
    return Overheads(body, _paid(controls, told, 0.0, waits) if controls else None)


def _paid(batches: Sequence[tuple[Array, Array]], told: Sequence[Reading], tolerance_ns: float, waits: bool) -> Paid:
    """batches: of each visit its times and iterations."""
    expected_ns = max(read.outcome.clock.cost_ns for read in told)
    tolerance_ns = tolerance_ns or max(ALONE_NS, expected_ns)
    times, iterations = (np.concatenate(part) for part in zip(*batches, strict=True))
    visits = np.repeat(np.arange(len(batches)), [len(some) for _, some in batches])
    why = bent(times, iterations, visits, expected_ns, WAITING_OFF if waits else EXPONENT_OFF)
    return paid_once(times, iterations, expected_ns, tolerance_ns)._replace(bent=why)


def _switched(outcome: Outcome) -> bool:
    return bool((Taken([outcome.samples]).column("voluntary") > 0).any())


def costs(read: Reading, metric: Metric, paid: Overheads) -> Array | None:
    """The costs that each sample gives, a row a sample; None where this visit lacks what the metric is made of."""
    scale = _scale(read, metric)
    per_iteration = _per_iteration(read, metric, paid)
    return None if scale is None or per_iteration is None else per_iteration * scale


def whole_cost(read: Reading, metric: Metric, paid: Overheads) -> float:
    """Median of the body alone in the metric's cost: what a difference is a part of."""
    scale = _scale(read, metric)
    return abs(float(np.median(values(read.body, read.iterations, paid.body)))) * (scale or 0.0)


def as_unit(cost: float, metric: Metric) -> float:
    """A cost in the metric's unit; the cost of a rate must be above zero."""
    return NS_PER_SECOND / cost if metric.unit in RATES else cost


def _per_iteration(read: Reading, metric: Metric, paid: Overheads) -> Array | None:
    """Nanoseconds of one iteration as the metric's source defines it."""
    if not len(read.iterations):
        return None
    body = values(read.body, read.iterations, paid.body)
    if metric.source == "body":
        return body
    if metric.source in ("companions", "together"):
        return _beside_companions(read, body, metric.source == "together")
    return _of_control(read, body, paid, metric.source == "difference")


def _of_control(read: Reading, body: Array, paid: Overheads, difference: bool) -> Array | None:
    """The control alone, or what the body takes beyond it."""
    if read.control is None or paid.control is None:
        return None
    control = values(read.control, read.control_iterations, paid.control)
    if not difference:
        return control
    same = body.shape == control.shape
    return np.asarray(body - control if same else body.mean(axis=1)[:, None] - control.mean(axis=1)[:, None])


def _beside_companions(read: Reading, body: Array, together: bool) -> Array | None:
    """One over the rates added up, during the longer batch; for a time, the mean of the workers that were added. A
    worker without companions is all there is together."""
    if read.lane_rates is None:
        return body if together else None
    longer = body[:, -1]
    with np.errstate(divide="ignore"):
        own = np.where(longer > 0, 1 / longer, np.inf) if together else np.zeros_like(longer)
        return np.asarray(1 / (own + read.lane_rates))[:, None]


def _scale(read: Reading, metric: Metric) -> float | None:
    """What turns nanoseconds of one iteration into the metric's cost; None where the probe did not declare it, or
    declared what no machine does."""
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
