# SPDX-License-Identifier: Apache-2.0
"""The table of the instruction side: the cost of a misprediction and of a load after a store, and the capacity of each
structure, with published values of this core."""

from __future__ import annotations

from tollmeter.model import Inference, Results
from tollmeter.numbers.meanings import native, with_meaning
from tollmeter.report.blocks import Cell, Column, Figure, Line, Table
from tollmeter.report.microarchitecture import microarchitecture, published_size
from tollmeter.report.numbers import count, of_row, plus_minus, size

COSTS = {"mispredicted-branch": "mispredicted branch", "load-after-store": "load after store, {load}"}
UNRESOLVED = "not resolved"


def instruction_table(results: Results) -> Table | None:
    """Returns the table; None if the run measured none of its lines."""
    index = results.index
    own = native(index.rows, index.machine.architecture)
    lines = [
        Line((words.format(**row.parameters), of_row(row), ""))
        for means, words in COSTS.items()
        for row in with_meaning(own, results.probes, means)
    ]
    for held in index.inferred:
        if held.kind == "held":
            structure = str(held.parameters["structure"])
            lines.append(Line((held.name, _held(held), published_size(index.machine, structure)), held.reason or ""))
    core = microarchitecture(index.machine)
    columns = [
        Column("Instruction side"),
        Column("measured", True),
        Column(f"published of {core}" if core else "published", True),
    ]
    return Table(columns, lines) if lines else None


def _held(held: Inference) -> Cell:
    """Returns a number of bytes, or of jumps, pages or instructions."""
    if held.value is None:
        return UNRESOLVED
    if held.unit == "B":
        return size(held.value, held.low, held.high)
    return Figure(count(float(held.value)), "", plus_minus(float(held.value), held.low, held.high))
