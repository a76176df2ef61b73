# SPDX-License-Identifier: Apache-2.0
"""A study's claims on this machine: which points they are about, and sizes that are written in terms of its caches."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from tollmeter.model import Machine, Point, Program, RowOf, Suite, Value
from tollmeter.model.topology import RELATION
from tollmeter.plan.effort import is_counted
from tollmeter.plan.values import relative_bytes

UNCLAIMED = 2
_INSTRUCTIONS = "instructions"
"""What alone a claim is about that a count answers (studies/study.py)."""


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """The suite whose claims name the rows that this machine will have."""

    def value(written: Value) -> Value:
        number = relative_bytes(written, machine) if isinstance(written, str) else None
        return written if number is None else number

    def named(row: RowOf) -> RowOf:
        return replace(row, parameters={name: value(written) for name, written in row.parameters.items()})

    claims = [
        replace(claim, row=claim.row and named(claim.row), over=claim.over and named(claim.over),
                order=tuple(map(named, claim.order)))
        for claim in suite.published
    ]  # fmt: skip
    figures = [
        replace(figure, line=tuple(replace(line, row=named(line.row), over=line.over and named(line.over))
                                   for line in figure.line))
        for figure in suite.figure
    ]  # fmt: skip
    return replace(suite, published=tuple(claims), figure=tuple(figures))


def claim_rank(suite: Suite, point: Point) -> int:
    """0 for a point beside a published figure, 1 for a line of the study's tables, else UNCLAIMED, under any ABI and
    anywhere. Claims by meaning alone do not count, nor do counting targets, except for claims about instructions."""
    counted = is_counted(point)
    claims = [claim for claim in suite.published if not counted or claim.about == _INSTRUCTIONS]
    named = [row for claim in claims for row in (claim.row, claim.over, *claim.order) if row is not None and row.probe]
    values = point.values().items()

    def is_among(several: Iterable[RowOf | Program]) -> bool:
        return any(row.probe == point.probe and row.parameters.items() <= values for row in several)

    if RELATION in point.values():
        return UNCLAIMED
    if is_among(named):
        return 0
    return 1 if not counted and is_among(suite.program) else UNCLAIMED
