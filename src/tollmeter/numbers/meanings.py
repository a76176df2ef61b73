# SPDX-License-Identifier: Apache-2.0
"""Selects rows by the meaning of their metric, so that only a probe's own file names the probe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tollmeter.model import Metric, Outcome, Probe, Results, Row, Toll, Value
from tollmeter.model.described import NEEDS

HERE = "local"
BY_KERNEL = ("account", "resident-peak", "faults-of-operation")
"""Meanings of pages and faults that the system accounts to a process."""

CPU_TIME = "cpu-time"
ACCOUNTS = (CPU_TIME, *BY_KERNEL, "footprint")
"""Meanings of values that the system accounts to a process, and of the size on which they depend. They are printed
beside a time."""

WORST = "worst"
"""Meaning of a metric whose value is the greatest of a visit; its row states the greatest value of all visits."""

PROGRAM = "program"
"""Meaning of the time of a whole program. A gauge with this meaning is the time of one execution."""

TRAFFIC = "traffic-beside"
"""Meaning of the bytes a second that other CPUs move while a load is timed: the axis over which the latency is
drawn."""

BILLED = "billed"
"""Meaning of the CPU time of a kind of crossing in one run of a program, or of the whole run (docs/bill.md)."""

WORD_FAMILIES = {"amd64": "x86_64", "arm64": "aarch64"}


def is_timed(metric: Metric) -> bool:
    """Returns whether a metric is a time or a rate, of batches or of one execution, and not a value that the probe
    reports."""
    return metric.source != "gauge" or metric.means == PROGRAM


def metric_of(row: Row | Toll, probes: Mapping[str, Probe]) -> Metric | None:
    """Returns the metric of a row, as its probe describes it; None without a description."""
    probe = probes.get(row.probe)
    return next((metric for metric in probe.metrics if metric.name == row.metric), None) if probe else None


def meaning(row: Row | Toll, probes: Mapping[str, Probe]) -> str | None:
    """Returns the meaning by which an analysis selects this row; None without one, or if the row lacks a parameter that
    its meaning requires."""
    metric = metric_of(row, probes)
    if metric is None or metric.means is None:
        return None
    is_complete = all(isinstance(row.parameters.get(name), int) for name in NEEDS.get(metric.means, ()))
    return metric.means if is_complete else None


def part_of(results: Results, is_kept: Callable[[str, Mapping[str, Value]], bool]) -> Results:
    """Returns the results with only the rows that `is_kept` selects, by probe and parameters. Facts of the whole run
    are unchanged. Conclusions from several rows are removed, except the memory levels if all latencies are selected."""
    index = results.index

    def kept(records: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(record for record in records if is_kept(record.probe, record.parameters))

    rows, names = kept(index.rows), {row.probe for row in index.rows if is_kept(row.probe, row.parameters)}
    if len(rows) == len(index.rows):
        return results
    kept_latencies = len(with_meaning(rows, results.probes, "latency-of-size"))
    has_levels = kept_latencies == len(with_meaning(index.rows, results.probes, "latency-of-size"))
    part = msgspec.structs.replace(
        index, rows=rows, tolls=kept(index.tolls), lengths=kept(index.lengths), profiles=kept(index.profiles),
        modelled=kept(index.modelled), hierarchy=index.hierarchy if has_levels else (),
        inferred=index.inferred if has_levels else (), findings=(), withheld=(), opposed=(), study=None, kinds=(),
    )  # fmt: skip
    return msgspec.structs.replace(
        results, index=part, probes={name: probe for name, probe in results.probes.items() if name in names},
        distances=[each for each in results.distances if is_kept(each.probe, each.parameters)],
    )  # fmt: skip


def entries(probes: Mapping[str, Probe]) -> frozenset[str]:
    """Returns the names of the probes that time the shortest entry into the kernel and return."""
    return frozenset(name for name, probe in probes.items() if any(metric.means == "entry" for metric in probe.metrics))


def sizes_of(probe: Probe | None) -> frozenset[str]:
    """Returns the names of a probe's parameters that are sizes in bytes."""
    parameters = probe.parameters if probe else ()
    return frozenset(parameter.name for parameter in parameters if parameter.kind == "size")


def whole_number(row: Row, name: str) -> int:
    """Returns a parameter of a row that is a size or a count; 0 without one."""
    value = row.parameters.get(name)
    return value if isinstance(value, int) else 0


def with_meaning(rows: Iterable[Row], probes: Mapping[str, Probe], *meanings: str) -> list[Row]:
    """Returns the rows that have a number and one of the meanings, in their order."""
    return [row for row in rows if row.status == "ok" and row.median is not None and meaning(row, probes) in meanings]


def native(rows: Sequence[Row], architecture: str = "") -> list[Row]:
    """Returns the rows by the hardware clock of one machine and its main ABI: the ABI named after the architecture,
    else the one with most numbers (64-bit and plain names first). Rows of an emulator or of another machine are never
    included."""
    real = [row for row in rows if row.clock == "hardware"]
    place = main_place(row.target for row in real if row.status == "ok")
    abi = main_abi([row for row in real if row.target == place], architecture)
    return [row for row in real if (row.target, row.abi) == (place, abi)]


def main_place(targets: Iterable[str]) -> str | None:
    """Returns the main target of a run, among targets with a hardware clock: this machine, else the first by name; None
    without a target."""
    return min(targets, key=lambda target: (target != HERE, target), default=None)


def native_outcomes(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Returns the visits of the machine whose rows `native` returns."""
    real = [outcome for outcome in outcomes if outcome.clock.kind == "hardware"]
    place = main_place(outcome.point.target for outcome in real if outcome.status == "ok")
    return [outcome for outcome in real if outcome.point.target == place]


def main_abi(rows: Sequence[Row], architecture: str = "") -> str | None:
    """Returns the name of the machine's own ABI: the one named after the architecture, else the one with most numbers;
    None without rows."""
    counts = Counter(row.abi for row in rows if row.status == "ok")
    wished = WORD_FAMILIES.get(architecture.lower(), architecture)
    if wished in counts:
        return wished
    return max(counts, key=lambda abi: (counts[abi], "64" in abi, "-" not in abi, abi), default=None)
