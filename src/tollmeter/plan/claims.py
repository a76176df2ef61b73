# SPDX-License-Identifier: Apache-2.0
"""A study's claims on this machine: which points they are about, and sizes that are written in terms of its caches."""

from __future__ import annotations

import msgspec

from tollmeter.model import Machine, Point, RowOf, StudyFigure, Suite, Value
from tollmeter.plan.values import relative_bytes


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """The suite whose claims name the rows that this machine will have."""
    claims = tuple(
        msgspec.structs.replace(claim, row=_row(claim.row, machine), over=_row(claim.over, machine))
        for claim in suite.published
    )
    return msgspec.structs.replace(suite, published=claims, figure=tuple(_figure(one, machine) for one in suite.figure))


def _figure(figure: StudyFigure, machine: Machine) -> StudyFigure:
    lines = (
        msgspec.structs.replace(line, row=_named(line.row, machine), over=_row(line.over, machine))
        for line in figure.line
    )
    return msgspec.structs.replace(figure, line=tuple(lines))


def _row(row: RowOf | None, machine: Machine) -> RowOf | None:
    return None if row is None else _named(row, machine)


def _named(row: RowOf, machine: Machine) -> RowOf:
    values = {name: _value(value, machine) for name, value in row.parameters.items()}
    return msgspec.structs.replace(row, parameters=values)


def _value(value: Value, machine: Machine) -> Value:
    number = relative_bytes(value, machine) if isinstance(value, str) else None
    return value if number is None else number


def is_claimed(suite: Suite, point: Point) -> bool:
    """Whether a published figure stands beside this point, under whatever ABI and wherever that runs. What a claim
    names by its meaning alone may be any point, and says nothing.
    """
    named = [row for claim in suite.published for row in (claim.row, claim.over) if row is not None and row.probe]
    return any(row.probe == point.probe and row.parameters.items() <= point.values().items() for row in named)
