# SPDX-License-Identifier: Apache-2.0
"""The toll table: what each boundary costs on this machine, cheapest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tollmeter.analysis.meanings import metric_of, native
from tollmeter.model import Probe, Record, Row

NS_PER_MILLISECOND = 1e6
DOUBTFUL = 0.2


class Toll(Record, frozen=True):
    """One line. note: a second mode, or why to doubt the number; or empty."""

    label: str
    median_ns: float
    low_ns: float
    high_ns: float
    cycles: float | None
    per_millisecond: float
    note: str
    row: Row


def tolls(rows: Sequence[Row], probes: Mapping[str, Probe], core_clock_hz: float | None) -> tuple[Toll, ...]:
    """Every row with a number whose metric has a line in the table, by cost.

    Only rows of the machine's own clock and main ABI. A parameter that the line's template names may have any value;
    any other that has a typical value must be at it, or at the only one that was measured.
    """
    own = [row for row in native(rows) if row.status == "ok" and row.median and _template(row, probes)]
    lines = []
    for row in own:
        ns_per_unit = _ns_per_unit(row, core_clock_hz)
        if ns_per_unit and _is_typical(row, own, probes):
            lines.append(_toll(row, _label(_template(row, probes), row), ns_per_unit, core_clock_hz))
    return tuple(sorted(lines, key=lambda toll: (toll.median_ns, toll.label)))


def _template(row: Row, probes: Mapping[str, Probe]) -> str:
    metric = metric_of(row, probes)
    return metric.toll or "" if metric else ""


def _ns_per_unit(row: Row, core_clock_hz: float | None) -> float | None:
    if row.unit == "ns":
        return 1.0
    return 1e9 / core_clock_hz if row.unit == "cycle" and core_clock_hz else None


def _label(template: str, row: Row) -> str:
    """The template with {parameter} replaced; underscores of a word that names a choice become blanks."""
    return re.sub(r"\{(\w+)\}", lambda found: str(row.parameters.get(found[1], found[0])).replace("_", " "), template)


def _is_typical(row: Row, own: Sequence[Row], probes: Mapping[str, Probe]) -> bool:
    named = set(re.findall(r"\{(\w+)\}", _template(row, probes)))
    alike = [other for other in own if (other.probe, other.metric) == (row.probe, row.metric)]
    for parameter in probes[row.probe].parameters:
        typical, value = parameter.typical, row.parameters.get(parameter.name)
        if parameter.name in named or typical is None or value is None or str(value) == typical:
            continue
        if len({other.parameters.get(parameter.name) for other in alike}) > 1:
            return False
    return True


def _toll(row: Row, label: str, ns_per_unit: float, core_clock_hz: float | None) -> Toll:
    median, low, high = (float(end or 0) * ns_per_unit for end in (row.median, row.low, row.high))
    return Toll(
        label=label,
        median_ns=median,
        low_ns=low,
        high_ns=high,
        cycles=median * core_clock_hz / 1e9 if core_clock_hz else None,
        per_millisecond=NS_PER_MILLISECOND / median,
        note=_note(row, median, low, high, ns_per_unit),
        row=row,
    )


def _note(row: Row, median: float, low: float, high: float, ns_per_unit: float) -> str:
    if len(row.modes) == 2:
        other = max(row.modes, key=lambda mode: abs(mode * ns_per_unit - median)) * ns_per_unit
        return f"second mode {_duration(other)}"
    if (high - low) / 2 > DOUBTFUL * median:
        return f"{'visits differ' if row.visits > 1 else 'one visit'}: {_duration(low)} to {_duration(high)}"
    return row.reason or ""


def _duration(ns: float) -> str:
    """A time with three digits and the unit that keeps it short."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"
