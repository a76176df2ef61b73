# SPDX-License-Identifier: Apache-2.0
"""The samples of a run as text: for each probe its question, and a line for each sample, with the columns that vary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tollmeter.model import Results
from tollmeter.store.parquet import ParquetTable, records_of_table

_OF_THE_RUN = ("probe", "executable_sha256", "run", "started", "host", "cpu", "kernel", "verdict")


class ProbeSamples(NamedTuple):
    """The samples of a probe. heading: the question. same: common columns of all samples, in a sentence. rows: cells as
    text, numbers right-aligned."""

    heading: str
    same: str
    names: tuple[str, ...]
    rows: list[tuple[str, ...]]


def samples_by_probe(table: ParquetTable, results: Results) -> Iterator[ProbeSamples]:
    """Yields the samples by probe. table: `raw_samples`."""
    lines: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in records_of_table(table):
        own = {name: cell for name, cell in line.items() if name not in _OF_THE_RUN}
        lines[line["probe"]].append({**own.pop("parameters"), **own})
    for name, several in lines.items():
        probe = results.probes.get(name)
        yield _samples(f"{name}: {probe.question}" if probe else name, several)


def _samples(heading: str, lines: Sequence[dict[str, Any]]) -> ProbeSamples:
    names = dict.fromkeys(name for line in lines for name in line)
    seen = {name: {_text(line.get(name)) for line in lines} for name in names}
    varying = tuple(name for name in names if len(seen[name]) > 1)
    rows = [tuple(_text(line.get(name)) for name in varying) for line in lines]
    same = [f"{name} {value}" for name in names if name not in varying and (value := _text(lines[0][name]))]
    return ProbeSamples(heading, f"The same in all {len(rows)} samples: {', '.join(same)}.", varying, _aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [
        max(map(len, cells)) if all(cell.lstrip("-").replace(".", "", 1).isdigit() or not cell for cell in cells) else 0
        for cells in zip(*rows, strict=True)
    ]
    return [tuple(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
