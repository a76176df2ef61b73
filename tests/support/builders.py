# SPDX-License-Identifier: Apache-2.0
"""Outcomes and rows made by hand, for tests of the analysis. Times in ns, rates a second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tollmeter.model import (
    Clock,
    ClockReading,
    Columns,
    Machine,
    Metric,
    Outcome,
    Parameter,
    Point,
    Probe,
    Row,
    RunInfo,
    Sample,
    Status,
    Value,
    Witness,
    Work,
)

KIB, MIB = 1 << 10, 1 << 20
CLOCK_HZ = 4e9
CALM = dict.fromkeys(("involuntary", "voluntary", "minor_faults", "major_faults", "steal_ticks"), 0)
"""Evidence of an undisturbed sample. A missing key is unknown."""
READING_NS = 70
"""Time of reading the clock, which every batch pays once."""


def grid(least: int, most: int, per_octave: int = 4) -> list[int]:
    """Returns sizes from `least` to `most`, with this number of equal steps in each doubling."""
    octaves = range(least.bit_length() - 1, most.bit_length())
    sizes = [(1 << octave) * (per_octave + step) // per_octave for octave in octaves for step in range(per_octave)]
    return [size for size in sizes if least <= size <= most]


def machine(**more: Any) -> Machine:
    """A machine of two CPUs of which no more is known."""
    facts = {"host": "h", "cpu": "c", "kernel": "k", "hypervisor": None, "cpus": 2, "memory_bytes": 1 << 34}
    return Machine(**{**facts, **more})


def run_info(**more: Any) -> RunInfo:
    """A run that has converged, of which no more is known."""
    facts = {"id": "r", "suite": "s", "started": "", "seconds": 1.0, "seed": 1, "status": "settled", "folder": "r"}
    return RunInfo(**{**facts, "tollmeter": "0", **more})


def metric(name: str = "cost", unit: str = "ns", **more: Any) -> Metric:
    better = "less" if unit in ("ns", "cycle") else "more"
    return Metric(name=name, unit=unit, better=better, summary=name, **more)


def probe(*metrics: Metric, name: str = "any.probe", parameters: Sequence[Parameter] = (), **more: Any) -> Probe:
    return Probe(
        probe=name,
        question="What does it cost?",
        revision=1,
        metrics=metrics or (metric(),),
        parameters=tuple(parameters),
        **more,
    )


def program(time: str) -> Probe:
    """Returns a probe with the metrics of the programs of datamodel/. time: name of the metric for the time of an
    operation."""
    accounts = (("cpu_time", "ns", "cpu-time"), ("resident_peak", "B", "resident-peak"),
                ("faults_each", "fault", "faults-of-operation"), ("footprint", "B", "footprint"))  # fmt: skip
    return probe(
        metric(time, means="program"),
        *(metric(name, unit, means=means, source="gauge") for name, unit, means in accounts),
        name="any.program",
        parameters=(Parameter(name="size", kind="count", summary="how large"),),
    )


def sample(
    cost: float, control: float | None = None, iterations: int = 1000, start: int = READING_NS, **more: Any
) -> Sample:
    """Returns a sample whose body takes `start` ns once and `cost` ns an iteration."""

    def pair(each: float) -> tuple[int, int]:
        return start + round(each * iterations), start + round(2 * each * iterations)

    seen = {"witness": Witness(**CALM), **more}
    return Sample(iterations=iterations, body=pair(cost), control=None if control is None else pair(control), **seen)


def outcome(
    samples: Iterable[Sample] = (),
    *,
    visit: int = 0,
    status: Status = "ok",
    parameters: dict[str, Value] | None = None,
    name: str = "any.probe",
    abi: str = "x86_64",
    controls: tuple[float, ...] = (CLOCK_HZ, CLOCK_HZ),
    work: Work | None = None,
    clock: Clock = "hardware",
    columns: Columns | None = None,
    **more: Any,
) -> Outcome:
    """Returns a visit. columns: a block that several visits share, like those of a journal."""
    taken = tuple(samples)
    point = Point(probe=name, abi=abi, target="local", parameters=tuple(sorted((parameters or {}).items())))
    return Outcome(
        visit=visit,
        round=visit,
        point=point,
        status=status,
        samples=(columns or Columns()).add(taken, [one.witness for one in taken]),
        controls=controls,
        work=work or Work(),
        clock=ClockReading(kind=clock, cost_ns=READING_NS),
        **more,
    )


def row(
    median: float | None,
    spread: float = 0.01,
    *,
    of: str = "any.probe",
    name: str = "cost",
    unit: str = "ns",
    parameters: dict[str, Value] | None = None,
    abi: str = "x86_64",
    clock: Clock = "hardware",
    status: Status = "ok",
    target: str = "local",
    **more: Any,
) -> Row:
    """Returns a row with an interval of `spread` to both sides."""
    numbers: dict[str, Any] = {}
    if median is not None:
        low, high = median * (1 - spread), median * (1 + spread)
        numbers = {"median": median, "low": low, "high": high, "minimum": low, "quartiles": (low, high)}
    return Row(
        probe=of,
        revision=1,
        abi=abi,
        target=target,
        clock=clock,
        parameters=parameters or {},
        metric=name,
        unit=unit,
        better="less" if unit in ("ns", "cycle") else "more",
        status=status,
        reason=None if status == "ok" else "because",
        visits=5,
        samples=35,
        **{"layouts": 3, **numbers, **more},
    )


def quiet(**seen: Any) -> Witness:
    return Witness(**{**CALM, "cpu_before": 1, "cpu_after": 1, "control_hz": CLOCK_HZ, **seen})
