# SPDX-License-Identifier: Apache-2.0
"""Computes the toll table: the cost of each boundary on this machine, cheapest first."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tollmeter.model import Probe, Row, State, Toll
from tollmeter.model.topology import RELATION
from tollmeter.numbers.meanings import metric_of, native
from tollmeter.numbers.units import in_percent, short


def tolls(rows: Sequence[Row], probes: Mapping[str, Probe], core_clock_hz: float | None) -> tuple[Toll, ...]:
    """Returns the lines with a number, cheapest first, and then the lines without one, with the reason. A boundary that
    this machine does not have has no line. core_clock_hz: None if unknown."""
    gaps = (
        Toll(
            toll=_label(_template(row, probes), row), probe=row.probe, metric=row.metric, abi=row.abi,
            target=row.target, parameters=row.parameters, value=None, low=None, high=None,
            reason=row.reason or row.status,
        )
        for row, typical in _chosen(native(rows), probes)
        if typical and row.status not in ("ok", "unsupported")
    )  # fmt: skip
    return (*(toll for _, toll in paid(rows, probes, core_clock_hz)), *gaps)


def paid(rows: Sequence[Row], probes: Mapping[str, Probe], core_clock_hz: float | None) -> tuple[tuple[Row, Toll], ...]:
    """Returns every row that has a line in the toll table and a number, with its line, ordered by cost. core_clock_hz:
    None if unknown.

    Only rows of the machine's own clock and main ABI are used. A parameter that the line's template names may have any
    value. Any other parameter must have its typical value, if there is one, since the template describes that. If the
    typical value was not requested, a single requested value gets a name of its own."""
    lines = []
    for row, typical in _chosen(native(rows), probes):
        ns_per_unit = 1.0 if row.unit == "ns" else None
        if row.unit == "cycle" and core_clock_hz:
            ns_per_unit = 1e9 / core_clock_hz
        if row.status == "ok" and row.median and ns_per_unit:
            name = _label(_template(row, probes), row) if typical else _own_name(row, probes)
            lines.append((row, _toll(row, name, typical, ns_per_unit, core_clock_hz)))
    return tuple(sorted(lines, key=lambda line: (line[1].value, line[1].toll)))


def _chosen(rows: Sequence[Row], probes: Mapping[str, Probe]) -> list[tuple[Row, bool]]:
    """Returns the rows of the table, with or without a number, each with whether all its parameters have their typical
    values. Of the rows of one metric these are the rows at the typical values. If there are none, they are all rows,
    provided that each other parameter has one value."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if _template(row, probes):
            groups.setdefault((row.probe, row.metric), []).append(row)
    chosen = []
    for group in groups.values():
        untypical = [_off_typical(row, probes) for row in group]
        typical = [(row, True) for row, names in zip(group, untypical, strict=True) if not names]
        any_untypical = set().union(*untypical)
        if typical or any(len({row.parameters.get(name) for row in group}) > 1 for name in any_untypical):
            chosen += typical
        else:
            chosen += [(row, False) for row in group]
    return chosen


def _off_typical(row: Row, probes: Mapping[str, Probe]) -> set[str]:
    """Returns the parameters without their typical value that the template of the line does not name."""
    named = _named(_template(row, probes))
    return {
        parameter.name
        for parameter in probes[row.probe].parameters
        if parameter.name not in named
        and None not in (parameter.typical, row.parameters.get(parameter.name))
        and str(row.parameters[parameter.name]) != parameter.typical
    }


def _template(row: Row, probes: Mapping[str, Probe]) -> str:
    """Returns the template of the toll line of a row; empty without one."""
    metric = metric_of(row, probes)
    return metric.toll or "" if metric else ""


def _named(template: str) -> set[str]:
    """Returns the names of the parameters in a template."""
    return set(re.findall(r"\{(\w+)\}", template))


def _label(template: str, row: Row) -> str:
    """Returns the line of a row: the template with each {parameter} replaced by its value, and underscores by blanks. A
    row of another pair of CPUs than the default names their relation."""
    words = re.sub(r"\{(\w+)\}", lambda match: str(row.parameters.get(match[1], match[0])), template)
    relation = f", {row.parameters[RELATION]}" if RELATION in row.parameters else ""
    return f"{words}{relation}".replace("_", " ")


def _own_name(row: Row, probes: Mapping[str, Probe]) -> str:
    """Returns the name of the probe with the values in which this row differs from what the template describes."""
    shown = _off_typical(row, probes) | _named(_template(row, probes))
    values = (f"{name} {value}".replace("_", " ") for name, value in row.parameters.items() if name in shown)
    return ", ".join((row.probe, *values))


def _toll(row: Row, name: str, typical: bool, ns_per_unit: float, core_clock_hz: float | None) -> Toll:
    """Returns the line of a row, in ns. name: the boundary in words. typical: whether all parameters have their typical
    values."""
    value, low, high = (float(end or 0) * ns_per_unit for end in (row.median, row.low, row.high))
    return Toll(
        toll=name, probe=row.probe, metric=row.metric, abi=row.abi, target=row.target, parameters=row.parameters,
        value=value, low=low, high=high, typical=typical,
        cycles=value * core_clock_hz / 1e9 if core_clock_hz else None,
        states=tuple(
            State(
                state=state.state, share=state.share, median=state.median * ns_per_unit,
                low=state.low * ns_per_unit, high=state.high * ns_per_unit,
            )
            for state in row.states
        ),
        note=_note(row, value, ns_per_unit), visits=row.visits, samples=row.samples,
    )  # fmt: skip


def _note(row: Row, value: float, ns_per_unit: float) -> str:
    """Returns the second mode of a row in words, else the remark of the row."""
    modes = {state.state: state for state in row.states if state.state in ("first", "second")}
    if row.state in modes and len(modes) == 2:
        other = modes["second" if row.state == "first" else "first"]
        return f"or {short(other.median * ns_per_unit, 'ns')}, in {in_percent(other.share)} of the samples"
    if len(row.modes) == 2:
        mode = max(row.modes, key=lambda mode: abs(mode * ns_per_unit - value)) * ns_per_unit
        return f"second mode {short(mode, 'ns')}"
    return row.reason or ""
