# SPDX-License-Identifier: Apache-2.0
"""The tables of the kernel's scaling: throughput of several workers, and costs of operations on pages that other
threads use."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.model import Inference, Results, Row, Value
from tollmeter.numbers.meanings import native, sizes_of, whole_number, with_meaning
from tollmeter.numbers.units import in_words
from tollmeter.report.blocks import Cell, Column, Line, Table
from tollmeter.report.numbers import DASH, of_row, quantity, size


def scaling_tables(results: Results) -> list[Table]:
    """Returns the tables; none for an operation that was not measured with a single worker too."""
    return [table for table in (_of_workers(results), _of_threads(results)) if table is not None]


def _rows(results: Results, means: str) -> list[Row]:
    index = results.index
    return with_meaning(native(index.rows, index.machine.architecture), results.probes, means)


# ---- operations -----------------------------------------------------------------------------------------------------


def _of_workers(results: Results) -> Table | None:
    """Returns a line for each operation, lowest efficiency of threads first. An operation without a row of the most
    workers has dashes in their columns: an efficiency of fewer workers is another quantity."""
    rows = {_of(row, "of", "share", "workers"): row for row in _rows(results, "throughput-of-workers")}
    inferred = [
        inference for inference in results.index.inferred if inference.kind in ("worker_efficiency", "cost_of_worker")
    ]
    known = {(inference.kind, *_of(inference, "of", "share", "workers")): inference for inference in inferred}
    worker_counts = {whole_number(row, "workers") for row in rows.values()}
    if 1 not in worker_counts:
        return None
    most = max(worker_counts)
    numbers = ("1 thread",) if most == 1 else (f"{most} threads", "efficiency", "as processes", "a thread adds")
    columns = [Column("Kernel scaling"), *(Column(name, True) for name in numbers)]

    def cells(operation: Value | None) -> list[Cell]:
        throughput = [in_words(operation), _cell(rows.get((operation, "threads", most)))]
        if most == 1:
            return throughput
        shares = [
            _share(known.get(("worker_efficiency", operation, share, most))) for share in ("threads", "processes")
        ]
        added = _added(known.get(("cost_of_worker", operation, "threads", None)))
        return [*throughput, *shares, added]

    def rank(operation: Value | None) -> float:
        efficiency = known.get(("worker_efficiency", operation, "threads", most))
        return float(efficiency.value) if efficiency and efficiency.value is not None else 1.0

    ordered = sorted(dict.fromkeys(operation for operation, _, _ in rows), key=rank)
    return _table(columns, [cells(operation) for operation in ordered], inferred if most == 1 else ())


def _of(record: Row | Inference, *names: str) -> tuple[Value | None, ...]:
    return tuple(record.parameters.get(name) for name in names)


def _cell(row: Row | None) -> Cell:
    return of_row(row) if row else DASH


def _share(efficiency: Inference | None) -> Cell:
    if efficiency is None or efficiency.value is None:
        return DASH
    return quantity(float(efficiency.value), "", efficiency.low, efficiency.high)


def _added(cost: Inference | None) -> Cell:
    """Returns the added cost of a further worker; if its interval contains zero, the upper bound."""
    if cost is None or cost.value is None or cost.low is None or cost.high is None:
        return DASH
    if cost.low > 0:
        return quantity(float(cost.value), cost.unit or "", cost.low, cost.high)
    return f"under {quantity(cost.high, cost.unit or '')}" if cost.high > 0 else "nothing"


def _table(columns: Sequence[Column], lines: Sequence[Sequence[Cell]], alone: Sequence[Inference]) -> Table:
    """Returns a table. alone: inferences of a single worker, whose reason is printed once."""
    reason = next((inference.reason for inference in alone if inference.reason), "")
    last = len(lines) - 1
    return Table(columns, [Line(tuple(cells), reason if place == last else "") for place, cells in enumerate(lines)])


# ---- pages in use ---------------------------------------------------------------------------------------------------


def _of_threads(results: Results) -> Table | None:
    """Returns the cost of removing a mapping with one thread and with all threads, and the added cost of a further CPU;
    None if not measured."""
    rows = _rows(results, "release-of-threads")
    thread_counts = {whole_number(row, "threads") for row in rows}
    if 1 not in thread_counts:
        return None
    most = max(thread_counts)
    sizes = sizes_of(results.probes.get(rows[0].probe))
    of_map = {(row.parameters.get("act"), whole_number(row, "size"), whole_number(row, "threads")): row for row in rows}
    added = {
        (inference.parameters.get("act"), inference.parameters.get("size")): inference
        for inference in results.index.inferred if "act" in inference.parameters
    }  # fmt: skip
    columns = [Column("Pages in use"), Column("1 thread", True)]
    columns += [Column(f"{most} threads", True), Column("a CPU adds", True)] if most > 1 else []
    lines = []
    for act, bytes_ in dict.fromkeys((act, bytes_) for act, bytes_, _ in of_map):
        name = f"{act} {size(bytes_) if 'size' in sizes else bytes_}"
        costs = [_cell(of_map.get((act, bytes_, number))) for number in sorted({1, most})]
        lines.append([name, *costs, *([_added(added.get((act, bytes_)))] if most > 1 else [])])
    return _table(columns, lines, tuple(added.values()) if most == 1 else ())
