# SPDX-License-Identifier: Apache-2.0
"""Computes the hierarchy and the tolls of each kind of core, on a machine that has several; and the latency of each
memory node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from tollmeter.experiment.precision import Estimate
from tollmeter.inference.answers import number, ratio
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import CoreKind, Index, KindAnswer, Machine, Outcome, Probe, Row
from tollmeter.model.topology import KIND, kind_name, kind_of, numbers, other_kinds
from tollmeter.numbers.meanings import HERE
from tollmeter.numbers.tolls import tolls


def core_kinds(
    index: Index, probes: Mapping[str, Probe], outcomes: Sequence[Outcome], clocks_hz: Mapping[str, float]
) -> tuple[KindAnswer, ...]:
    """Returns the answers by kind of core. The first kind is that of the timed worker's CPU, to which the hierarchy and
    tolls of the index belong. Empty if no point was planned on another kind. clocks_hz: core clock by target."""
    cpus = Counter(outcome.cpus[0] for outcome in outcomes if outcome.point.target == HERE and outcome.cpus)
    worker = cpus.most_common(1)[0][0] if cpus else -1
    measured = kind_of(index.machine.topology, worker)
    if measured is None or not any(outcome.point.target.startswith(KIND) for outcome in outcomes):
        return ()
    first = KindAnswer(
        kind=kind_name(measured), cpus=measured.cpus, target=HERE, core_clock_hz=index.machine.core_clock_hz,
        hierarchy=index.hierarchy, tolls=index.tolls,
    )  # fmt: skip
    answers = [first]
    for target, kind in other_kinds(index.machine.topology, worker).items():
        members = set(numbers(kind.cpus))
        known = (described.caches for described in index.machine.kinds if members.intersection(described.cpus))
        caches = next(known, index.machine.caches)
        machine = msgspec.structs.replace(index.machine, caches=caches, core_clock_hz=clocks_hz.get(target))
        of_kind = [row for row in index.rows if row.target == target]
        levels, paid = (
            hierarchy(of_kind, probes, machine),
            tolls(of_kind, probes, machine.core_clock_hz),
        )
        answers.append(KindAnswer(
            kind=kind_name(kind), cpus=kind.cpus, target=target, core_clock_hz=machine.core_clock_hz,
            hierarchy=tuple(levels), tolls=paid, reason="" if levels or paid else _reason(kind, of_kind, machine),
        ))  # fmt: skip
    return tuple(answers)


def _reason(kind: CoreKind, rows: Sequence[Row], machine: Machine) -> str:
    """Returns why a kind of core has neither hierarchy nor tolls."""
    if not set(numbers(kind.cpus)).intersection(machine.allowed_cpus):
        return "this process may use none of its CPUs"
    if gap := next((row.reason for row in rows if row.reason and row.status != "ok"), None):
        return gap
    return "its points were not visited within the budget" if rows else "its only CPU is the host process's"


# ---- memory nodes ----------------------------------------------------------------------------------------------------


class Remote(NamedTuple):
    """Two rows of latency by memory node. far: loads from another node's memory. near: loads from the memory of the
    CPU's own node. ratio: far over near."""

    far: Row
    near: Row
    ratio: Estimate


def is_under_load(row: Row) -> bool:
    """Returns whether all other CPUs of the node read the memory during this row."""
    return row.parameters.get("beside") == "reads"


def slowest_remote(rows: Iterable[Row]) -> Remote | None:
    """Returns the slowest load from another node, with the load from the own node of the CPU; None if no node has both.
    rows: rows of `latency-of-node` that have a number."""
    unloaded = [row for row in rows if isinstance(row.parameters.get("home"), int) and not is_under_load(row)]
    near_rows = {number(row, "node"): row for row in unloaded if number(row, "home") == number(row, "node")}
    pairs = [
        Remote(row, near, ratio(row, near))
        for row in unloaded
        if (near := near_rows.get(number(row, "node"))) is not None and near is not row
    ]
    return max(pairs, key=lambda pair: pair.ratio.value, default=None)
