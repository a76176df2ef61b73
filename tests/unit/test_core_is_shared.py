# SPDX-License-Identifier: Apache-2.0
"""A sibling that is busy for part of a modelled run is named, with its share and its price; an empty one is not."""

from __future__ import annotations

import pytest

from support.builders import CLOCK_HZ, machine, metric, outcome, probe, quiet, run_info, sample
from tollmeter.findings.interference import core_is_shared
from tollmeter.judgement.convergence import settlement
from tollmeter.model import Finding, Index, Outcome, Results, Sample
from tollmeter.numbers.rows import known_of, rows

PROBES = {"any.probe": probe(metric(means="entry"))}
WHOLE, SHARED = 4.0, 2.4


def seen(cost: float, width: float) -> Sample:
    """A sample between two looks at a core that did so many additions in a cycle."""
    hz = width * CLOCK_HZ
    return sample(cost, witness=quiet(control_before_hz=CLOCK_HZ, width_before_hz=hz, width_hz=hz))


def run(busy: int) -> list[Outcome]:
    """Four points, five visits each, ten samples a visit; beside the last so many of them somebody makes all 30 %
    dearer."""
    alone = 10 - busy
    return [
        outcome(
            [seen(100.0, WHOLE)] * alone + [seen(130.0, SHARED)] * busy, visit=visit, parameters={"point": point}
        )
        for point in range(4)
        for visit in range(5)
    ]  # fmt: skip


def found(outcomes: list[Outcome]) -> list[Finding]:
    known = known_of(outcomes, PROBES)
    told = run_info(seconds=10.0, contended_share=settlement(outcomes, [], known, 10.0).contended_share)
    index = Index(format=3, run=told, machine=machine(), rows=rows(outcomes, PROBES, known))
    return list(core_is_shared(Results(index=index, probes=PROBES)))


def test_a_busy_sibling_is_named_with_its_share_and_its_price() -> None:
    (one,) = found(run(busy=5))
    evidence = {item.what: item.value for item in one.evidence}
    assert one.name == "machine.core_is_shared"
    assert evidence["share of the time in timed batches on a contended core"] == pytest.approx(1.3 / 2.3, rel=1e-3)
    assert evidence["the same on a contended core"] == pytest.approx(1.3, rel=0.01)
    assert "30 %" in one.claim


def test_an_empty_sibling_is_not_accused() -> None:
    assert found(run(busy=0)) == []
