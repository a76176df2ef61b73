# SPDX-License-Identifier: Apache-2.0
"""Computes the scaling of the kernel: the throughput of N workers over N times the throughput of one, and the time that
each further CPU adds to an operation.

A lock that each operation holds for h ns makes each of N workers wait for N - 1 others: a line over N of slope h. An
interrupt to each CPU that runs a thread of the process also adds its cost N - 1 times. So both are fitted by a straight
line. If the costs do not lie on a line, the interval is wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.inference.answers import (
    InferredNumber,
    absolute_error,
    middle,
    number,
    of_number,
    ratio,
    rows_meaning,
    series,
)
from tollmeter.maths.fits import line_slope
from tollmeter.model import Inference, Probe, Row, Value
from tollmeter.numbers.units import short

WITHOUT_ONE = InferredNumber(why="one worker alone was not timed")
TOO_FEW = InferredNumber(why=f"fewer than {LEAST_VISITS} visits have no interval")
COSTS = {"operation-of-workers": "workers", "release-of-threads": "threads"}
"""For each meaning of a cost the parameter with the number of participating CPUs."""


def worker_scaling(rows: Sequence[Row], probes: Mapping[str, Probe], cpus: int) -> Iterator[Inference]:
    """Yields the efficiency of the largest number of workers, and the added cost of a further one. rows: of one ABI and
    target. cpus: number of CPUs that the system allows a run, which may have used fewer."""
    for others, points in series(rows_meaning(rows, probes, "throughput-of-workers"), "workers").items():
        parameters, most = dict(others), number(points[-1], "workers")
        name = f"{_where(parameters)}: efficiency at workers={most}{_shared(parameters)}"
        efficiency = _efficiency(points, cpus)
        yield of_number(name, "worker_efficiency", efficiency, "ratio", parameters={**parameters, "workers": most})
    for means, axis in COSTS.items():
        for others, points in series(rows_meaning(rows, probes, means), axis).items():
            parameters = dict(others)
            name = f"{_where(parameters)}: cost per further {axis.removesuffix('s')}{_shared(parameters)}"
            yield of_number(name, "cost_of_worker", _further(points, axis, cpus), "ns", parameters=parameters)


def _efficiency(points: Sequence[Row], cpus: int) -> InferredNumber:
    """Returns T(N) / (N T(1)), where T is the operations per second of all workers."""
    one_worker, most = points[0], number(points[-1], "workers")
    if number(one_worker, "workers") != 1 or most == 1:
        return _alone("workers", cpus) if most == 1 else WITHOUT_ONE
    if min(one_worker.visits, points[-1].visits) < LEAST_VISITS:
        return TOO_FEW
    times = ratio(points[-1], one_worker)
    return InferredNumber(value=times.value / most, low=times.low / most, high=times.high / most)


def _further(points: Sequence[Row], axis: str, cpus: int) -> InferredNumber:
    """Returns the ns that each further worker adds to an operation, as the slope of a line. axis: parameter with the
    number of workers."""
    if len(points) == 1:
        return _alone(axis, cpus) if number(points[0], axis) == 1 else WITHOUT_ONE
    well_visited = [row for row in points if row.visits >= LEAST_VISITS]
    if len(well_visited) == 1 or not well_visited:
        return TOO_FEW
    slope_ns, error = line_slope(
        [number(row, axis) for row in well_visited], [*map(middle, well_visited)], [*map(absolute_error, well_visited)]
    )
    return InferredNumber(value=slope_ns, low=slope_ns - error, high=slope_ns + error)


def _alone(axis: str, cpus: int) -> InferredNumber:
    """Returns the reason why a single worker gives no ratio: the run may use one CPU, or it timed one worker only."""
    needs = f"scaling needs {axis}=2 or more, and as many CPUs (--cpus)"
    if cpus == 1:
        needs = "this machine allows the run one CPU, and each worker needs its own"
    return InferredNumber(why=f"only one worker was timed: {needs}")


def _shared(of: Mapping[str, Value]) -> str:
    return f" ({of['share']})" if "share" in of else ""


def _where(of: Mapping[str, Value]) -> str:
    size = int(of.get("size", 0))
    words = str(of.get("of") or of.get("act") or "").replace("_", " ")
    return ", ".join(filter(None, (words, short(size, "B") if size else "")))
