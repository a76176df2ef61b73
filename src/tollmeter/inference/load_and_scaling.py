# SPDX-License-Identifier: Apache-2.0
"""Computes memory latency over concurrent traffic: unloaded, at shares of the highest traffic, and at saturation. Also
computes how rates and latencies scale with the number of instances.

Memory counts as saturated from the traffic at which a load takes twice as long as with the least traffic. Queues grow
without bound as traffic nears the throughput of memory (Kleinrock 1975), so any factor gives nearly the same traffic,
and a factor of two exceeds the noise. Latencies are in ns, traffic in bytes a second."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from tollmeter.inference.answers import (
    InferredNumber,
    Parameters,
    middle,
    number,
    of_number,
    ratio,
    rows_meaning,
    series,
)
from tollmeter.maths.fits import nearest_rising
from tollmeter.model import Inference, Probe, Row, Value
from tollmeter.numbers.meanings import TRAFFIC
from tollmeter.numbers.stats import Estimate
from tollmeter.numbers.units import short

SATURATED_RISE = 2
LEAST_PACES = 3
"""Smallest number of paces of a load curve: idle, the most traffic, and one between them."""
SHARES = (50, 80)
"""Shares of the highest traffic, in percent, at which the latency is given: a usual load, and one that is nearly
saturated."""


def load_curves(rows: Sequence[Row], probes: Mapping[str, Probe]) -> Iterator[Inference]:
    """Yields the properties of the load curve of each mix and size. rows: of one ABI and target; those of the meanings
    `latency-of-traffic` and `traffic-beside` are used. Curves of fewer than LEAST_PACES paces are omitted."""
    groups: dict[Parameters, list[tuple[Row, Row]]] = {}
    traffic = {_place(row): row for row in rows_meaning(rows, probes, TRAFFIC)}
    for row in rows_meaning(rows, probes, "latency-of-traffic"):
        if beside := traffic.get(_place(row)):
            others = tuple(sorted((name, value) for name, value in row.parameters.items() if name != "delay"))
            groups.setdefault(others, []).append((beside, row))
    for others in sorted(groups, key=str):
        if len(groups[others]) < LEAST_PACES:
            continue
        yield from _of_curve(dict(others), sorted(groups[others], key=lambda pair: middle(pair[0])))


def _of_curve(of: dict[str, Value], pairs: Sequence[tuple[Row, Row]]) -> Iterator[Inference]:
    """Yields the properties of one load curve. pairs: traffic and latency of each pace, by rising traffic."""
    (_, idle), (most, loaded) = pairs[0], pairs[-1]
    where = f"mix {of.get('mix', '')}" + (f", node {of['node']}" if "node" in of else "")
    yield of_number(f"unloaded latency, {where}", "idle_latency", _of_row(idle), "ns", parameters=of)
    for share in SHARES:
        name = f"latency at {share} % of the most traffic, {where}"
        at = _latency_at(pairs, share / 100 * middle(most))
        yield of_number(name, "latency_at_share", at, "ns", parameters={**of, "share": share})
    name = f"latency beside the most traffic, {where}"
    yield of_number(name, "loaded_latency", _of_row(loaded), "ns", parameters=of)
    name = f"latency under full traffic, {where}, against idle"
    yield of_number(name, "latency_rise", ratio(loaded, idle), "ratio", parameters=of)
    yield of_number(f"most traffic, {where}", "most_traffic", _of_row(most), "B/s", parameters=of)
    name = f"traffic at which a load takes {SATURATED_RISE} times as long, {where}"
    yield of_number(name, "latency_knee", _saturation(pairs), "B/s", parameters=of)


def _of_row(row: Row) -> InferredNumber:
    """Returns the median of a row with its interval; without an interval, the median alone."""
    return InferredNumber(value=row.median, low=row.low or row.median, high=row.high or row.median)


def _place(row: Row) -> tuple[str, Parameters]:
    """Returns the probe and the parameters of a row."""
    return row.probe, tuple(sorted(row.parameters.items()))


def _latency_at(pairs: Sequence[tuple[Row, Row]], traffic: float) -> InferredNumber:
    """Returns the latency in ns at a traffic (bytes a second), by linear interpolation of curves that never fall,
    through the medians and through the interval ends."""
    at = [middle(beside) for beside, _ in pairs]
    if traffic < at[0]:
        return InferredNumber(why="no pace made as little traffic")
    ends = ([end or middle(row) for end, (_, row) in zip(ends_of_rows, pairs, strict=True)] for ends_of_rows in (
        [row.low for _, row in pairs], [middle(row) for _, row in pairs], [row.high for _, row in pairs]))  # fmt: skip
    low, value, high = (float(np.interp(traffic, at, nearest_rising(latency))) for latency in ends)
    return InferredNumber(value=value, low=min(low, value), high=max(high, value))


def _saturation(pairs: Sequence[tuple[Row, Row]]) -> InferredNumber:
    """Returns the traffic at which the curve that never falls reaches the latency of saturation. The interval comes
    from the curves of the interval ends."""
    traffic = [middle(beside) for beside, _ in pairs]
    latency = [middle(row) for _, row in pairs]
    limit = latency[0] * SATURATED_RISE
    saturated = _crossing(traffic, latency, limit)
    if saturated is None:
        most = max(latency) / latency[0]
        return InferredNumber(why=f"the traffic of this run makes a load {most:.2f} times as long, and no longer")
    early = _crossing(traffic, [row.high or middle(row) for _, row in pairs], limit)
    late = _crossing(traffic, [row.low or middle(row) for _, row in pairs], limit)
    return InferredNumber(
        value=saturated, low=min(early or saturated, saturated), high=max(late or traffic[-1], saturated)
    )


def _crossing(traffic: Sequence[float], latency: Sequence[float], limit: float) -> float | None:
    """Returns the traffic at which the nearest curve that never falls crosses a latency, by linear interpolation; None
    if it stays below."""
    rising = list(nearest_rising(latency))
    if rising[0] >= limit:
        return traffic[0]
    for (left, below), (right, above) in pairwise(zip(traffic, rising, strict=True)):
        if above >= limit:
            return float(left + (right - left) * (limit - below) / (above - below))
    return None


# ---- scaling ---------------------------------------------------------------------------------------------------------


def efficiency(rows: Sequence[Row], probes: Mapping[str, Probe]) -> Iterator[Inference]:
    """Yields BW(N) / (N BW(1)) for each number of instances N above one, if one instance was timed. rows: of one ABI
    and target; those of the meaning `bandwidth-of-instances` are used."""
    for parameters, times in _times_of_one(rows_meaning(rows, probes, "bandwidth-of-instances")):
        instances = int(parameters["instances"])
        value, low, high = (end / instances for end in (times.value, times.low, times.high))
        name = f"bandwidth of each of {instances}, {_where(parameters)}, against one"
        yield of_number(name, "efficiency", Estimate(value=value, low=low, high=high), "ratio", parameters=parameters)


def slowdown(rows: Sequence[Row], probes: Mapping[str, Probe]) -> Iterator[Inference]:
    """Yields the latency of a load while several walks run, as a multiple of the latency of one walk. rows: as in
    `efficiency`, of the meaning `latency-of-instances`."""
    for parameters, times in _times_of_one(rows_meaning(rows, probes, "latency-of-instances")):
        name = f"latency of {parameters['instances']} walks at once, {_where(parameters)}, against one"
        yield of_number(name, "slowdown", times, "ratio", parameters=parameters)


def _times_of_one(rows: Sequence[Row]) -> Iterator[tuple[dict[str, Value], Estimate]]:
    """Yields the parameters of each row of several instances, with its ratio to the row of one instance."""
    for others, points in series(rows, "instances").items():
        alone = next((row for row in points if number(row, "instances") == 1), None)
        if alone is not None:
            yield from (
                ({**dict(others), "instances": number(row, "instances")}, ratio(row, alone))
                for row in points
                if row is not alone
            )


def _where(of: Mapping[str, Value]) -> str:
    """Returns the kernel and the size as text."""
    size = int(of.get("size", 0))
    return ", ".join(filter(None, (str(of.get("operation", "")), short(size, "B") if size else "")))
