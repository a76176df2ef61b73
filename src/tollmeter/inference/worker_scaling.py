# SPDX-License-Identifier: Apache-2.0
"""Scaling of the kernel: the throughput of N workers over N times the throughput of one, and the cost that a further
CPU adds to an operation.

A lock that each operation holds for h ns makes N workers wait for N - 1 others: a line over N of slope h. An interrupt
to each CPU that runs a thread of the process adds its cost as often. So both are fitted by a straight line; where the
costs do not lie on one, its interval is wide."""

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
"""Parameter with the number of CPUs that take part, by the meaning of a cost."""


def worker_scaling(rows: Sequence[Row], probes: Mapping[str, Probe], cpus: int) -> Iterator[Inference]:
    """Yields for rows of one ABI and target the efficiency of the most workers, and the added cost of a further one.

    cpus: number of CPUs that the system allows a run, which may have used fewer."""
    for others, points in series(rows_meaning(rows, probes, "throughput-of-workers"), "workers").items():
        of, most = dict(others), number(points[-1], "workers")
        name = f"{_where(of)}: efficiency at workers={most}{_shared(of)}"
        efficiency = _efficiency(points, cpus)
        yield of_number(name, "worker_efficiency", efficiency, "ratio", parameters={**of, "workers": most})
    for means, axis in COSTS.items():
        for others, points in series(rows_meaning(rows, probes, means), axis).items():
            of = dict(others)
            name = f"{_where(of)}: cost per further {axis.removesuffix('s')}{_shared(of)}"
            yield of_number(name, "cost_of_worker", _further(points, axis, cpus), "ns", parameters=of)


def _efficiency(points: Sequence[Row], cpus: int) -> InferredNumber:
    """Returns T(N) / (N T(1)), where T is the operations per second of all workers."""
    alone, most = points[0], number(points[-1], "workers")
    if number(alone, "workers") != 1 or most == 1:
        return _alone("workers", cpus) if most == 1 else WITHOUT_ONE
    if min(alone.visits, points[-1].visits) < LEAST_VISITS:
        return TOO_FEW
    times = ratio(points[-1], alone)
    return InferredNumber(value=times.value / most, low=times.low / most, high=times.high / most)


def _further(points: Sequence[Row], axis: str, cpus: int) -> InferredNumber:
    if len(points) == 1:
        return _alone(axis, cpus) if number(points[0], axis) == 1 else WITHOUT_ONE
    firm = [row for row in points if row.visits >= LEAST_VISITS]
    if len(firm) == 1 or not firm:
        return TOO_FEW
    rise, error = line_slope([number(row, axis) for row in firm], [*map(middle, firm)], [*map(absolute_error, firm)])
    return InferredNumber(value=rise, low=rise - error, high=rise + error)


def _alone(axis: str, cpus: int) -> InferredNumber:
    """Returns the reason why a single worker gives no ratio: on a machine of several CPUs the run may have used one
    CPU, requested one worker, or been refused more."""
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
