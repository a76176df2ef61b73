# SPDX-License-Identifier: Apache-2.0
"""Streams as probes print them, for tests of whatever reads them."""

from __future__ import annotations

from typing import Any

from tollmeter.model import Point, Visit
from tollmeter.protocol import seal

VISIT = Visit(
    id=3,
    point=Point(probe="kernel.loop", abi="x86_64", target="local", parameters=(("size", 4096), ("pages", "huge"))),
    round=1,
    cpus=(1,),
    samples=2,
    sample_ns=1000,
    seed=7,
    deadline_ms=900,
)


def visit_record(visit: Visit = VISIT) -> dict[str, Any]:
    return {
        "k": "visit",
        "visit": visit.id,
        "round": visit.round,
        "probe": visit.point.probe,
        "revision": 1,
        "abi": visit.point.abi,
        "target": visit.point.target,
        "parameters": visit.point.values(),
        "cpus": list(visit.cpus),
        "seed": visit.seed,
        "samples": visit.samples,
        "sample_ns": visit.sample_ns,
        "work": {"bytes": 64, "flops": 0, "bus_bytes": 0, "operations": 2},
    }


def samples(count: int) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for i in range(count):
        records.append(
            {"k": "sample", "i": i, "iterations": 100, "body": [1000 + i, 2000], "control": [10, 20], "lanes": []}
        )
        records.append({"k": "witness", "i": i, "involuntary": i, "control_hz": 4.1e9})
    return records


def visit_records(count: int = 2, visit: Visit = VISIT) -> list[dict[str, Any]]:
    control = {"k": "control", "when": "before", "adds": 4100, "ns": 1000}
    clock = {"k": "clock", "source": "monotonic_raw", "kind": "hardware", "resolution_ns": 1, "cost_ns": 20}
    gauge = {"k": "gauge", "metric": "entries", "value": 64}
    return [visit_record(visit), clock, control, *samples(count), {**control, "when": "after"}, gauge]


def whole(count: int = 2, visit: Visit = VISIT) -> bytes:
    return seal(visit_records(count, visit))
