# SPDX-License-Identifier: Apache-2.0
"""What several CPUs reach together, beside so many times what one of them reaches alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tollmeter.inference.answers import number, ratio, rows_meaning, series
from tollmeter.model import Probe, Record, Row, Value
from tollmeter.numbers.stats import Estimate


class ScalingShare(Record, frozen=True):
    """So many instances at one point. of_one: efficiency BW(N) / (N BW(1)) for bandwidth, latency(N) / latency(1) for
    latency."""

    parameters: tuple[tuple[str, Value], ...]
    instances: int
    of_one: Estimate


def efficiency(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[ScalingShare, ...]:
    """Of each number of instances above one, from rows that mean `bandwidth-of-instances`, of one ABI and target.
    Nothing where one instance alone was not timed."""
    shares = _times_of_one(rows_meaning(rows, probes, "bandwidth-of-instances"))
    return tuple(msgspec.structs.replace(share, of_one=_divided(share.of_one, share.instances)) for share in shares)


def slowdown(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[ScalingShare, ...]:
    """How many times as long a load takes among so many chases, from rows that mean `latency-of-instances`."""
    return tuple(_times_of_one(rows_meaning(rows, probes, "latency-of-instances")))


def _times_of_one(rows: Sequence[Row]) -> list[ScalingShare]:
    shares = []
    for others, points in series(rows, "instances").items():
        alone = next((row for row in points if number(row, "instances") == 1), None)
        if alone is not None:
            shares += [
                ScalingShare(parameters=others, instances=number(row, "instances"), of_one=ratio(row, alone))  # type: ignore[arg-type]
                for row in points
                if row is not alone
            ]
    return shares


def _divided(estimate: Estimate, by: int) -> Estimate:
    return Estimate(value=estimate.value / by, low=estimate.low / by, high=estimate.high / by)
