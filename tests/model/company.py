# SPDX-License-Identifier: Apache-2.0
"""A modelled machine of whose last cache neighbours hold most, and not the same part from one moment to the next.

What a walk is left of it differs from visit to visit, and within a visit; a lap that outgrows what is left loses its
lines to them one after the other. Visits are few, so that a row says no more than its interval: from served to lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from model.machine import Machine
from tollmeter.experiment.precision import Scatter, estimate
from tollmeter.model import Row

BATCHES, VISITS = 12, (3, 6)
VISITS_SD, BATCHES_SD = 0.5, 0.25
"""Of the logarithm of what neighbours leave."""
NOISE = 0.02
BURSTS, BURST = 1 / 30, (1.2, 3.0)
LEAST_LEFT, MOST_LEFT = 1.5, 6.0
"""Times the cache before the last: what is left of less is no level of its own."""
LOST_WITHIN = 0.5
SOONER = 4.0
"""As many times as often as a walk goes round does reading: neighbours push so much less of its lines out meanwhile."""
SCATTER = Scatter(visits_sd=0.05)


def beside(rows: Iterable[Row], reading: Sequence[Row], machine: Machine) -> list[Row]:
    """The rows of a walk and of reading, two sizes of the walk in each doubling, as a short run has them."""
    random = np.random.default_rng([machine.seed, 0xBE51DE])
    left = machine.caches[-2].size_bytes * float(np.exp(random.uniform(np.log(LEAST_LEFT), np.log(MOST_LEFT))))
    coarse = [row for row in rows if int(row.parameters["size"]).bit_count() <= 2 and not _is_fine(row)]
    return [*(_walked(row, machine, left, random) for row in coarse), *_read(reading, SOONER * left)]


def _is_fine(row: Row) -> bool:
    """Five quarters of a power of two."""
    size = int(row.parameters["size"])
    return size.bit_count() == 2 and size & (size >> 2) != 0


def _walked(row: Row, machine: Machine, left: float, random: np.random.Generator) -> Row:
    count = int(random.integers(*VISITS, endpoint=True))
    now = left * np.exp(random.normal(0, VISITS_SD, (count, 1)) + random.normal(0, BATCHES_SD, (count, BATCHES)))
    lost = np.clip((int(row.parameters["size"]) / now - 1) / LOST_WITHIN, 0, 1)
    made = (row.median or 0.0) + lost * _lost_at_most(row.median or 0.0, machine)
    made *= np.exp(random.normal(0, NOISE, (count, 1)) + random.normal(0, NOISE, made.shape))
    made *= np.where(random.random(made.shape) < BURSTS, random.uniform(*BURST, made.shape), 1.0)
    return _row(row, made)


def _lost_at_most(alone: float, machine: Machine) -> float:
    """What a load takes longer where the last cache has none of its lines: those that the cache before it keeps are as
    near as ever."""
    before, last, beyond = (machine.ns(machine.latency_of(len(machine.caches) + place)) for place in (-2, -1, 0))
    if alone >= last:
        return max(beyond - alone, 0.0)
    return (beyond - last) * max(alone - before, 0.0) / (last - before)


def _row(row: Row, batches: NDArray[np.float64]) -> Row:
    found = estimate(
        list(np.median(batches, axis=1)), range(len(batches)), SCATTER, (float(batches.min()), float(batches.max()))
    )
    lower, upper = np.quantile(batches, (0.25, 0.75))
    return msgspec.structs.replace(
        row, median=found.value, low=found.low, high=found.high, minimum=float(batches.min()),
        quartiles=(float(lower), float(upper)), visits=len(batches), samples=batches.size,
    )  # fmt: skip


def _read(rows: Sequence[Row], served: float) -> list[Row]:
    """At memory's rate beyond what is served."""
    slowest = rows[-1]
    return [
        row if int(row.parameters["size"]) <= served else msgspec.structs.replace(slowest, parameters=row.parameters)
        for row in rows
    ]
