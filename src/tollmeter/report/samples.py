# SPDX-License-Identifier: Apache-2.0
"""The samples of a run as text: under each probe's question a line for each sample, with the columns that vary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tollmeter.model import Results
from tollmeter.store.parquet import ParquetTable, Stretch

_OF_THE_RUN = ("probe", "executable_sha256", "run", "started", "host", "cpu", "kernel", "verdict")


class ProbeSamples(NamedTuple):
    """The samples of a probe. heading: the question. same: common columns of all samples, in a sentence. rows: cells as
    text, numbers right-aligned."""

    heading: str
    same: str
    names: tuple[str, ...]
    rows: list[tuple[str, ...]]


def by_probe(table: ParquetTable, results: Results) -> Iterator[ProbeSamples]:
    """Yields the samples by probe. table: `raw_samples`."""
    stretches: dict[str, list[Stretch]] = defaultdict(list)
    for stretch in table.stretches:
        shared = {name: cell for name, cell in stretch.shared.items() if name not in _OF_THE_RUN}
        stretches[stretch.shared["probe"]].append(stretch._replace(shared={**shared.pop("parameters"), **shared}))
    for name, own in stretches.items():
        probe = results.probes.get(name)
        yield _samples(f"{name}: {probe.question}" if probe else name, own)


def _samples(heading: str, stretches: Sequence[Stretch]) -> ProbeSamples:
    names = dict.fromkeys(name for stretch in stretches for name in stretch.shared)
    seen = {name: {_text(stretch.shared.get(name)) for stretch in stretches} for name in names}
    within = {name for stretch in stretches for name in stretch.columns}
    varying = tuple(name for name in names if name in within or len(seen[name]) > 1)
    rows = [
        tuple(_text(line.get(name)) for name in varying) for stretch in stretches for line in stretch.lines()
    ]  # fmt: skip
    same = [f"{name} {value}" for name in names if name not in varying and (value := _text(stretches[0].shared[name]))]
    return ProbeSamples(heading, f"The same in all {len(rows)} samples: {', '.join(same)}.", varying, _aligned(rows))


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [
        max(map(len, cells)) if all(cell.lstrip("-").replace(".", "", 1).isdigit() or not cell for cell in cells) else 0
        for cells in zip(*rows, strict=True)
    ]
    return [tuple(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)
