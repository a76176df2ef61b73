# SPDX-License-Identifier: Apache-2.0
"""Memory's latency over the traffic beside it: idle end, loaded end, and the knee between. And how rates and latencies
scale with the number of instances.

The knee is the traffic at which a load takes 1.5 times as long as beside the least traffic: queues grow without bound
as traffic nears the memory's throughput (Kleinrock 1975), so any such factor marks nearly the same traffic, and this
one exceeds the noise. Latencies in ns, traffic in bytes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from tollmeter.inference.answers import InferredNumber, Parameters, middle, number, ratio, rows_meaning, series
from tollmeter.maths.fits import nearest_rising
from tollmeter.model import Probe, Record, Row
from tollmeter.numbers.stats import Estimate

KNEE_RISE = 1.5
LEAST_POINTS = 3


class LoadPoint(Record, frozen=True):
    """One pace of the traffic."""

    traffic: float
    latency_ns: float
    low: float
    high: float


class LoadCurve(Record, frozen=True):
    """points: by rising traffic. rise: latency beside the most traffic over that beside the least."""

    parameters: Parameters
    points: tuple[LoadPoint, ...]
    rise: Estimate
    knee: InferredNumber


def load_curves(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[LoadCurve, ...]:
    """One curve for each mix and size, from rows that mean `latency-of-traffic` and `traffic-beside`, of one ABI and
    target. A curve needs three paces."""
    groups: dict[Parameters, list[tuple[Row, Row]]] = {}
    traffic = {_place(row): row for row in rows_meaning(rows, probes, "traffic-beside")}
    for row in rows_meaning(rows, probes, "latency-of-traffic"):
        if beside := traffic.get(_place(row)):
            others = tuple(sorted((name, value) for name, value in row.parameters.items() if name != "delay"))
            groups.setdefault(others, []).append((beside, row))
    return tuple(
        _curve(others, groups[others]) for others in sorted(groups, key=str) if len(groups[others]) >= LEAST_POINTS
    )


def _place(row: Row) -> tuple[str, Parameters]:
    return row.probe, tuple(sorted(row.parameters.items()))


def _curve(parameters: Parameters, pairs: Sequence[tuple[Row, Row]]) -> LoadCurve:
    """pairs: the traffic and the latency of each pace."""
    ordered = sorted(pairs, key=lambda pair: middle(pair[0]))
    points = tuple(
        LoadPoint(
            traffic=middle(beside), latency_ns=middle(row), low=row.low or middle(row), high=row.high or middle(row)
        )
        for beside, row in ordered
    )
    rise = ratio(ordered[-1][1], ordered[0][1])
    return LoadCurve(parameters=parameters, points=points, rise=rise, knee=_knee(points))


def _knee(points: Sequence[LoadPoint]) -> InferredNumber:
    """Where the rising curve passes the knee's latency; the interval, where those of the intervals' ends do."""
    traffic = [point.traffic for point in points]
    limit = points[0].latency_ns * KNEE_RISE
    at = _crossing(traffic, [point.latency_ns for point in points], limit)
    if at is None:
        most = max(point.latency_ns for point in points) / points[0].latency_ns
        return InferredNumber(why=f"the traffic that was made makes a load {most:.2f} times as long, and no longer")
    early = _crossing(traffic, [point.high for point in points], limit)
    late = _crossing(traffic, [point.low for point in points], limit)
    return InferredNumber(value=at, low=min(early or at, at), high=max(late or traffic[-1], at))


def _crossing(traffic: Sequence[float], latency: Sequence[float], limit: float) -> float | None:
    """By straight lines between the points of the nearest curve that never falls; None where it stays below."""
    rising = list(nearest_rising(latency))
    if rising[0] >= limit:
        return traffic[0]
    for (left, below), (right, above) in pairwise(zip(traffic, rising, strict=True)):
        if above >= limit:
            return float(left + (right - left) * (limit - below) / (above - below))
    return None


# ---- scaling ---------------------------------------------------------------------------------------------------------


class ScalingShare(Record, frozen=True):
    """So many instances at one point. of_one: efficiency BW(N) / (N BW(1)) for bandwidth, latency(N) / latency(1) for
    latency."""

    parameters: Parameters
    instances: int
    of_one: Estimate


def efficiency(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[ScalingShare, ...]:
    """Of each number of instances above one, from rows that mean `bandwidth-of-instances`, of one ABI and target.
    Nothing where one instance alone was not timed."""
    shares = []
    for share in _times_of_one(rows_meaning(rows, probes, "bandwidth-of-instances")):
        value, low, high = (end / share.instances for end in (share.of_one.value, share.of_one.low, share.of_one.high))
        shares.append(msgspec.structs.replace(share, of_one=Estimate(value=value, low=low, high=high)))
    return tuple(shares)


def slowdown(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[ScalingShare, ...]:
    """How many times as long a load takes among so many chases, from rows that mean `latency-of-instances`."""
    return _times_of_one(rows_meaning(rows, probes, "latency-of-instances"))


def _times_of_one(rows: Sequence[Row]) -> tuple[ScalingShare, ...]:
    return tuple(
        ScalingShare(parameters=others, instances=number(row, "instances"), of_one=ratio(row, alone))
        for others, points in series(rows, "instances").items()
        if (alone := next((row for row in points if number(row, "instances") == 1), None)) is not None
        for row in points
        if row is not alone
    )
