# SPDX-License-Identifier: Apache-2.0
"""A chart as data, and the rows that may stand in one chart together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any

from tollmeter.analysis.meanings import main_abi, meaning, metric_of
from tollmeter.model import Book, Metric, Outcome, Parameter, Probe, Row

Spec = dict[str, Any]
Datum = dict[str, Any]


@dataclass(frozen=True)
class Chart:
    """spec is Vega-Lite without colours: look.config gives them. width "container" fills the page's column.

    general: it answers a question of the whole machine; otherwise it belongs to the one probe it draws.
    """

    name: str
    title: str
    question: str
    spec: Spec
    means: tuple[str, ...]
    probes: tuple[str, ...]
    general: bool = True


@dataclass(frozen=True)
class Bench:
    """What was measured in one place by one clock. Times of different clocks never share an axis."""

    book: Book
    target: str
    clock: str
    rows: tuple[Row, ...]

    @cached_property
    def abis(self) -> tuple[str, ...]:
        """The machine's own ABI first, then the others by name."""
        first = main_abi(self.rows, self.book.index.machine.architecture)
        return tuple(sorted({row.abi for row in self.rows}, key=lambda abi: (abi != first, abi)))

    @property
    def is_hardware(self) -> bool:
        return self.clock == "hardware"

    def meaning(self, *wanted: str) -> list[Row]:
        return [row for row in self.rows if meaning(row, self.book.probes) in wanted]

    def own(self, rows: Sequence[Row]) -> list[Row]:
        """The rows of the first ABI that has any."""
        for abi in self.abis:
            chosen = [row for row in rows if row.abi == abi]
            if chosen:
                return chosen
        return []

    def metric(self, row: Row) -> Metric | None:
        return metric_of(row, self.book.probes)

    def probe(self, row: Row) -> Probe | None:
        return self.book.probes.get(row.probe)

    def parameter(self, row: Row, name: str) -> Parameter | None:
        probe = self.probe(row)
        return next((p for p in probe.parameters if p.name == name), None) if probe else None

    @property
    def outcomes(self) -> list[Outcome]:
        return [o for o in self.book.outcomes if o.point.target == self.target and o.clock.kind == self.clock]


def benches(book: Book) -> list[Bench]:
    """The machine's own clock first, then by how much was measured."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in book.index.rows:
        if row.status == "ok" and row.median is not None and isfinite(row.median):
            groups.setdefault((row.target, row.clock), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (item[0][1] != "hardware", -len(item[1]), item[0]))
    return [Bench(book, target, clock, tuple(rows)) for (target, clock), rows in ordered]


def names(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(sorted({row.probe for row in rows}))


def varying(rows: Sequence[Row]) -> list[str]:
    """Names of parameters of which these rows hold more than one value, in the order of the first row."""
    seen: dict[str, set[object]] = {}
    for row in rows:
        for name, value in row.parameters.items():
            seen.setdefault(name, set()).add(value)
    return [name for name, values in seen.items() if len(values) > 1]


def series_by(rows: Sequence[Row], axis: str) -> Mapping[tuple[object, ...], list[Row]]:
    """Rows that differ along one parameter only, each series sorted along it."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        rest = tuple(sorted((name, value) for name, value in row.parameters.items() if name != axis))
        groups.setdefault((row.probe, row.metric, row.abi, rest), []).append(row)
    return {key: sorted(group, key=lambda r: (isinstance(r.parameters.get(axis), str), r.parameters.get(axis, 0)))
            for key, group in groups.items()}  # fmt: skip
