# SPDX-License-Identifier: Apache-2.0
"""The samples of a run as text: for each probe its question, and a line for each sample, with the columns that vary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tollmeter.model import Results
from tollmeter.report.blocks import Block, Column, Line, Table
from tollmeter.store.parquet import ParquetTable, records_of_table

_OF_THE_RUN = ("probe", "executable_sha256", "run", "started", "host", "cpu", "kernel", "verdict")


def sample_blocks(table: ParquetTable, results: Results) -> Iterator[Block]:
    """Yields the samples by probe: its question, the common columns of all samples, and the others as a table. table:
    `raw_samples`."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in records_of_table(table):
        cells = {name: cell for name, cell in line.items() if name not in _OF_THE_RUN}
        lines[line["probe"]].append({**cells.pop("parameters"), **cells})
    for name, several in lines.items():
        yield f"{name}: {results.probes[name].question}" if name in results.probes else name
        yield from _samples(several)


def _samples(lines: Sequence[dict[str, Any]]) -> Iterator[Block]:
    names = dict.fromkeys(name for line in lines for name in line)
    cells = {name: [_text(line.get(name)) for line in lines] for name in names}
    varying = [name for name in names if len({*cells[name]}) > 1]
    same = [f"{name} {cells[name][0]}" for name in names if name not in varying and cells[name][0]]
    yield f"The same in all {len(lines)} samples: {', '.join(same)}."
    if varying:
        columns = [Column(name, right=all(map(_is_number, cells[name]))) for name in varying]
        yield Table(columns, [Line(line) for line in zip(*(cells[name] for name in varying), strict=True)])


def _is_number(cell: str) -> bool:
    return not cell or cell.lstrip("-").replace(".", "", 1).isdigit()


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
