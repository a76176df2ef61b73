# SPDX-License-Identifier: Apache-2.0
"""A modelled workload on the sibling hyperthread, busy and idle in turn: the share of the time for which it is busy is
reported, and no row of the uncontended core contains its cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from support.builders import CLOCK_HZ, metric, outcome, probe, quiet, sample
from tollmeter.judgement.convergence import settlement
from tollmeter.model import Outcome, Row, Sample
from tollmeter.numbers.rows import known_of, rows

PROBES = {"any.probe": probe(metric(means="entry"))}
WHOLE, SHARED, SLOWER = 4.0, 2.4, 1.25
BATCH_NS, READING_NS = 0.3e6, 10e3
COST_NS = 100.0
VISITS, SAMPLES = 24, 16
Busy = Callable[[float, float], float]
"""For how much of the time between two moments the sibling is busy, in ns."""


def sibling(period_ns: float, share: float, random: np.random.Generator) -> Busy:
    """Busy and idle in turn, for exponentially distributed times."""
    count = int(2 * VISITS * 80e6 / period_ns)
    idle, busy = random.exponential((1 - share) * period_ns, count), random.exponential(share * period_ns, count)
    ends = np.concatenate([[0.0], np.cumsum(np.stack([idle, busy], axis=1).ravel())])
    until = np.concatenate([[0.0], np.cumsum(np.stack([0 * idle, busy], axis=1).ravel())])
    return lambda start, stop: float(np.interp(stop, ends, until) - np.interp(start, ends, until))


def later(busy: Busy, start: float, work_ns: float) -> float:
    """When work that takes so long on an uncontended core ends."""
    stop = start + work_ns
    for _ in range(40):
        stop += work_ns - (stop - start - busy(start, stop) * (1 - 1 / SLOWER))
    return stop


def visit(busy: Busy, start: float, random: np.random.Generator) -> tuple[list[Sample], float]:
    """Its samples, and when it ends."""
    now = start
    taken = []

    def width_hz() -> float:
        nonlocal now
        now += READING_NS
        share = busy(now - READING_NS, now) / READING_NS
        return float((WHOLE + share * (SHARED - WHOLE)) * random.normal(1, 0.003) * CLOCK_HZ)

    for _ in range(SAMPLES):
        before, first = width_hz(), now
        second = now = later(busy, first, BATCH_NS)
        between = width_hz()
        now = later(busy, last := now, 2 * BATCH_NS)
        cost = COST_NS * ((second - first) + (now - last)) / (3 * BATCH_NS)
        taken.append(sample(cost, witness=quiet(width_before_hz=before, width_between_hz=between, width_hz=width_hz())))
    return taken, now


def measured(period_ns: float, share: float) -> tuple[Row, float, float]:
    """A row of a run beside such a sibling, and the share of contended time: that the run reports, and the true one."""
    random = np.random.default_rng([int(period_ns), int(100 * share)])
    busy = sibling(period_ns, share, random)
    visits: list[Outcome] = []
    true = []
    for number in range(VISITS):
        start = number * 40e6 + random.uniform(0, 20e6)
        taken, stop = visit(busy, start, random)
        true.append(busy(start, stop) / (stop - start))
        visits.append(outcome(taken, visit=number))
    known = known_of(visits, PROBES)
    contended = settlement(visits, [], known, 10.0).contended_share
    assert contended is not None
    return rows(visits, PROBES, known)[0], contended, float(np.mean(true))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("period_ms", [0.3, 1, 3, 10, 30])
def test_the_share_is_right_and_no_uncontended_row_has_the_cost_of_the_sibling(period_ms: float, share: float) -> None:
    row, reported, true = measured(period_ms * 1e6, share)
    assert reported == pytest.approx(true, abs=0.05)
    whole = [state.median for state in row.states if state.state == "uncontended"]
    if row.state == "uncontended" and row.median:
        whole.append(row.median)
    assert all(median == pytest.approx(COST_NS, rel=0.01) for median in whole)


def test_a_core_that_is_seen_uncontended_has_a_row_of_its_own() -> None:
    assert measured(30e6, 0.25)[0].state == "uncontended"
    assert measured(0.3e6, 0.25)[0].state != "uncontended"
