# SPDX-License-Identifier: Apache-2.0
"""A study's claims on this machine: which points they are about, and sizes that are written in terms of its caches."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tollmeter.model import Machine, Point, Program, Published, RowOf, StudyFigure, Suite, Value
from tollmeter.model.topology import RELATION
from tollmeter.plan.effort import is_counted
from tollmeter.plan.values import relative_bytes

UNCLAIMED = 2
_INSTRUCTIONS = "instructions"
"""What alone a claim is about that a count answers (studies/study.py)."""


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """The suite whose claims name the rows that this machine will have."""
    claims = tuple(_claim(claim, machine) for claim in suite.published)
    return msgspec.structs.replace(
        suite, published=claims, figure=tuple(_figure(figure, machine) for figure in suite.figure)
    )


def _claim(claim: Published, machine: Machine) -> Published:
    order = tuple(_named(row, machine) for row in claim.order)
    return msgspec.structs.replace(claim, row=_row(claim.row, machine), over=_row(claim.over, machine), order=order)


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


def claim_rank(suite: Suite, point: Point) -> int:
    """0 for a point beside a published figure, 1 for a line of the study's tables, else UNCLAIMED, under any ABI and
    anywhere. Claims by meaning alone do not count, nor do counting targets, except for claims about instructions."""
    counted = is_counted(point)
    claims = [claim for claim in suite.published if not counted or claim.about == _INSTRUCTIONS]
    named = [row for claim in claims for row in (claim.row, claim.over, *claim.order) if row is not None and row.probe]
    if _is_of(point, named):
        return 0
    return 1 if not counted and _is_of(point, suite.program) else UNCLAIMED


def _is_of(point: Point, several: Iterable[RowOf | Program]) -> bool:
    values = point.values().items()
    return RELATION not in point.values() and any(
        one.probe == point.probe and one.parameters.items() <= values for one in several
    )
