# SPDX-License-Identifier: Apache-2.0
"""Work that is declared too large, numbers that are none, and a walk that is not random: refused, or told."""

from __future__ import annotations

import msgspec
import pytest

from support.builders import CLOCK_HZ, metric, outcome, probe, sample
from support.example_runs import healthy, with_rows
from tollmeter.findings.caches import walk_is_not_random
from tollmeter.model import Row, Work
from tollmeter.numbers.meanings import meaning
from tollmeter.numbers.plausible import without_implausible
from tollmeter.numbers.rows import rows

CYCLE_NS = 1e9 / CLOCK_HZ


def one(unit: str, work: Work, cycles: float, source: str = "body", **more: object) -> Row:
    probes = {"any.probe": probe(metric(unit=unit, source=source))}
    samples = [sample(max(1, round(1000 * cycles * CYCLE_NS))) for _ in range(4)]
    told = msgspec.structs.replace(outcome(samples), work=work)
    thousand = msgspec.structs.replace(
        told, work=msgspec.structs.replace(work, bytes=1000 * work.bytes, flops=1000 * work.flops,
                                           operations=1000 * work.operations)
    )  # fmt: skip
    (made,) = rows([msgspec.structs.replace(thousand, visit=visit, **more) for visit in range(3)], probes)
    return made


@pytest.mark.parametrize(
    ("unit", "work", "most"),
    [
        ("B/s", Work(bytes=100), 256),
        ("flop/s", Work(flops=20), 64),
        ("op/s", Work(operations=8), 16),
        ("ns", Work(operations=30), 64),
    ],
)
def test_ten_times_the_work_is_more_than_a_core_does(unit: str, work: Work, most: int) -> None:
    assert one(unit, work, cycles=1).status == "ok"
    ten = Work(bytes=10 * work.bytes, flops=10 * work.flops, operations=10 * work.operations)
    refused = one(unit, ten, cycles=1)
    assert (refused.status, refused.median) == ("unstable", None)
    assert "a cycle" in (refused.reason or "")
    assert most


@pytest.mark.parametrize("amount", [1e300, 1e305])
def test_work_without_end_makes_no_number(amount: float) -> None:
    made = one("B/s", Work(bytes=amount), cycles=1)
    assert made.status == "unstable"
    assert made.median is None


@pytest.mark.parametrize(
    ("low", "visits", "status"), [(1.0, 9, "ok"), (-1.0, 9, "unstable"), (-1.0, 2, "ok"), (1.0, 2, "ok")]
)
def test_a_switch_whose_interval_reaches_zero_has_no_number(low: float, visits: int, status: str) -> None:
    results = healthy()
    row = next(row for row in results.index.rows if meaning(row, results.probes) == "switch" and row.status == "ok")
    described = results.probes[row.probe]
    metrics = tuple(msgspec.structs.replace(metric, source="difference") for metric in described.metrics)
    probes = {row.probe: msgspec.structs.replace(described, metrics=metrics)}
    (kept,) = without_implausible(
        [msgspec.structs.replace(row, low=low, visits=visits)], probes, {row.target: CLOCK_HZ}
    )
    assert (kept.status, kept.median is None) == (status, status != "ok")


def walks(size: int, latency: float, chain: float) -> list[str]:
    results = healthy()
    kept = []
    for row in results.index.rows:
        means = next((m.means for m in results.probes[row.probe].metrics if m.name == row.metric), None)
        if means == "latency-of-size" and row.parameters["size"] == size:
            kept.append(msgspec.structs.replace(row, median=latency, low=latency * 0.99, high=latency * 1.01))
        if means == "load-of-chains":
            parameters = {**row.parameters, "chains": 1, "size": size}
            numbers = {"median": chain, "low": chain * 0.99, "high": chain * 1.01}
            kept.append(msgspec.structs.replace(row, parameters=parameters, **numbers))
    assert len({row.probe for row in kept}) == 2
    return [found.name for found in walk_is_not_random(with_rows(results, kept))]


def test_a_walk_that_is_fetched_ahead_contradicts_the_chains() -> None:
    size = max(int(row.parameters["size"]) for row in healthy().index.rows if row.probe == "memory.latency")
    assert walks(size, latency=3.0, chain=110.0) == ["memory.walk_is_not_random"]
    assert walks(size, latency=100.0, chain=110.0) == []
    assert walks(size, latency=60.0, chain=110.0) == []
