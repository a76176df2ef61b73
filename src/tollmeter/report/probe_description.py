# SPDX-License-Identifier: Apache-2.0
"""The description of one probe for `toll list probes NAME`: its question, parameters and metrics."""

from __future__ import annotations

from collections.abc import Iterator

from tollmeter.model import Parameter, Probe
from tollmeter.report.blocks import Block, Column, Line, Table
from tollmeter.report.numbers import size
from tollmeter.root import typed

_SCALES = {"last-cache": "times the last cache", "cpus": "times the CPUs"}


def blocks(probe: Probe) -> Iterator[Block]:
    """Yields the question, the parameters and the metrics of a probe, and the command that measures it."""
    yield f"{probe.probe}: {probe.question}"
    if probe.library:
        yield f"It is built with {probe.library}."
    if probe.parameters:
        columns = [Column("parameter"), Column("values"), Column("meaning")]
        yield Table(
            columns, [Line((described.name, _values(described), described.summary)) for described in probe.parameters]
        )
    columns = [Column("metric"), Column("unit"), Column("meaning")]
    yield Table(columns, [Line((described.name, described.unit, described.summary)) for described in probe.metrics])
    yield f"`{typed('run', probe.probe)}` measures it; NAME=VALUE behind it chooses a value."


def _values(parameter: Parameter) -> str:
    """Returns the values of a parameter's default sweep, with the typical one marked."""
    if parameter.choices:
        listed = ", ".join(parameter.choices)
    elif parameter.values:
        listed = ", ".join(_value(parameter, value) for value in parameter.values)
    elif parameter.stop_scale in ("cpu-nodes", "memory-nodes"):
        listed = "the memory nodes" + (" with CPUs" if parameter.stop_scale == "cpu-nodes" else "")
    else:
        scale = _SCALES.get(parameter.stop_scale)
        stop = f"{parameter.stop} {scale}" if scale else _value(parameter, parameter.stop)
        listed = f"{_value(parameter, parameter.start)} to {stop}"
    typical = parameter.typical or ""
    usual = _value(parameter, int(typical)) if typical.isdecimal() else typical
    return f"{listed} (usual: {usual})" if usual else listed


def _value(parameter: Parameter, value: int) -> str:
    return str(size(value)) if parameter.kind == "size" else str(value)
