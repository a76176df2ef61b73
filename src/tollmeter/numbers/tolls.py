# SPDX-License-Identifier: Apache-2.0
"""The toll table: what each boundary costs on this machine, cheapest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tollmeter.model import Probe, Record, Row
from tollmeter.numbers.meanings import metric_of, native

NS_PER_MILLISECOND = 1e6
DOUBTFUL = 0.2


class Toll(Record, frozen=True):
    """One line. typical: it is what the probe's own words say, and not a point that stands under its own name. note:
    a second mode, or why to doubt the number; or empty.
    """

    label: str
    typical: bool
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
    any other that has a typical value must be at it, since the template's words are about that. Where the typical value
    was not asked for, the only value that was stands under its own name.
    """
    lines = []
    for row, typical in _chosen(native(rows), probes):
        ns_per_unit = _ns_per_unit(row, core_clock_hz)
        if row.status == "ok" and row.median and ns_per_unit:
            label = _label(_template(row, probes), row) if typical else _own_name(row, probes)
            lines.append(_toll(row, label, typical, ns_per_unit, core_clock_hz))
    return tuple(sorted(lines, key=lambda toll: (toll.median_ns, toll.label)))


def untold(rows: Sequence[Row], probes: Mapping[str, Probe]) -> tuple[tuple[str, str], ...]:
    """Lines that should be in the table and have no number, with the reason: label, reason. What this machine cannot
    do at all is no line."""
    return tuple(
        (_label(_template(row, probes), row), row.reason or row.status)
        for row, typical in _chosen(native(rows), probes)
        if typical and row.status not in ("ok", "unsupported")
    )


def _chosen(rows: Sequence[Row], probes: Mapping[str, Probe]) -> list[tuple[Row, bool]]:
    """The rows of the table, with or without a number, and whether each is at every typical value."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if _template(row, probes):
            groups.setdefault((row.probe, row.metric), []).append(row)
    return [found for group in groups.values() for found in _standing(group, probes)]


def _standing(group: Sequence[Row], probes: Mapping[str, Probe]) -> list[tuple[Row, bool]]:
    """Of one metric's rows, those at the typical values; else all, where each parameter has one value only."""
    off = [_off_typical(row, probes) for row in group]
    typical = [(row, True) for row, names in zip(group, off, strict=True) if not names]
    moved = set().union(*off)
    if typical or any(len({row.parameters.get(name) for row in group}) > 1 for name in moved):
        return typical
    return [(row, False) for row in group]


def _off_typical(row: Row, probes: Mapping[str, Probe]) -> set[str]:
    """Parameters that the line's words keep silent about, and that are not what the words are about."""
    named = _named(_template(row, probes))
    return {
        parameter.name
        for parameter in probes[row.probe].parameters
        if parameter.name not in named
        and None not in (parameter.typical, row.parameters.get(parameter.name))
        and str(row.parameters[parameter.name]) != parameter.typical
    }


def _template(row: Row, probes: Mapping[str, Probe]) -> str:
    metric = metric_of(row, probes)
    return metric.toll or "" if metric else ""


def _named(template: str) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", template))


def _ns_per_unit(row: Row, core_clock_hz: float | None) -> float | None:
    if row.unit == "ns":
        return 1.0
    return 1e9 / core_clock_hz if row.unit == "cycle" and core_clock_hz else None


def _label(template: str, row: Row) -> str:
    """The template with {parameter} replaced; underscores of a word that names a choice become blanks."""
    return re.sub(r"\{(\w+)\}", lambda found: str(row.parameters.get(found[1], found[0])).replace("_", " "), template)


def _own_name(row: Row, probes: Mapping[str, Probe]) -> str:
    """The probe, and the values that tell this point from the one that the words are about."""
    told = _off_typical(row, probes) | _named(_template(row, probes))
    values = (f"{name} {value}".replace("_", " ") for name, value in row.parameters.items() if name in told)
    return ", ".join((row.probe, *values))


def _toll(row: Row, label: str, typical: bool, ns_per_unit: float, core_clock_hz: float | None) -> Toll:
    median, low, high = (float(end or 0) * ns_per_unit for end in (row.median, row.low, row.high))
    return Toll(
        label=label,
        typical=typical,
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
