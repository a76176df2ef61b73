# SPDX-License-Identifier: Apache-2.0
"""The toll table: one line a boundary, from the rows whose metric names a line for it."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence

from tollmeter.analysis.meanings import metric_of, native
from tollmeter.model import Probe, Record, Row, Value

NS_PER_MILLISECOND = 1e6
WIDE_INTERVAL = 0.10


class Toll(Record, frozen=True):
    """What one crossing costs: its row's estimate, in core cycles too where the core clock is known.

    per_millisecond: how many could be crossed in a millisecond. note: why to look twice, or empty.
    """

    label: str
    median_ns: float
    low_ns: float
    high_ns: float
    cycles: float | None
    per_millisecond: float
    note: str
    row: Row


def tolls(rows: Sequence[Row], probes: Mapping[str, Probe], core_clock_hz: float | None) -> tuple[Toll, ...]:
    """The lines of the machine's own ABI by the hardware's clock, cheapest first.

    A row is shown where every parameter that its line does not name stands at the parameter's typical value, or at one
    that stands for it: the only value that was measured.
    """
    own = [row for row in native(rows) if row.unit == "ns" and row.median and row.median > 0 and _line(row, probes)]
    shown = [row for row in own if _is_typical(row, own, probes)]
    paid = [_toll(row, _line(row, probes) or "", core_clock_hz) for row in shown]
    return tuple(sorted(paid, key=lambda toll: (toll.median_ns, toll.label)))


def label_of(template: str, parameters: Mapping[str, Value]) -> str:
    """The template with each `{parameter}` replaced by its value in words."""
    return template.format_map({name: str(value).replace("_", " ") for name, value in parameters.items()})


def _line(row: Row, probes: Mapping[str, Probe]) -> str | None:
    metric = metric_of(row, probes)
    return metric.toll if metric else None


def _named(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def _is_typical(row: Row, own: Iterable[Row], probes: Mapping[str, Probe]) -> bool:
    named = _named(_line(row, probes) or "")
    alike = [other for other in own if other.probe == row.probe and other.metric == row.metric]
    for parameter in probes[row.probe].parameters:
        if parameter.name in named or parameter.typical is None or parameter.name not in row.parameters:
            continue
        measured = {str(other.parameters.get(parameter.name)) for other in alike}
        if str(row.parameters[parameter.name]) != parameter.typical and len(measured) > 1:
            return False
    return True


def _toll(row: Row, template: str, core_clock_hz: float | None) -> Toll:
    median = row.median or 0.0
    low, high = row.low or median, row.high or median
    return Toll(
        label=label_of(template, row.parameters),
        median_ns=median,
        low_ns=low,
        high_ns=high,
        cycles=median * core_clock_hz / 1e9 if core_clock_hz else None,
        per_millisecond=NS_PER_MILLISECOND / median,
        note=_note(row, median, low, high),
        row=row,
    )


def _note(row: Row, median: float, low: float, high: float) -> str:
    if len(row.modes) == 2:
        other = max(row.modes, key=lambda mode: abs(mode - median))
        return f"second mode {other:.3g} ns"
    if (high - low) / 2 > WIDE_INTERVAL * median:
        return "not settled"
    return ""
