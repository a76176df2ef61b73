# SPDX-License-Identifier: Apache-2.0
"""A study's claims on this machine: sizes that are written in terms of its caches become bytes."""

from __future__ import annotations

import msgspec

from tollmeter.model import Machine, RowOf, Suite, Value
from tollmeter.plan.values import relative_bytes


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """The suite whose claims name the rows that this machine will have."""
    claims = tuple(
        msgspec.structs.replace(claim, row=_row(claim.row, machine), over=_row(claim.over, machine))
        for claim in suite.published
    )
    return msgspec.structs.replace(suite, published=claims)


def _row(row: RowOf | None, machine: Machine) -> RowOf | None:
    if row is None:
        return None
    values = {name: _value(value, machine) for name, value in row.parameters.items()}
    return msgspec.structs.replace(row, parameters=values)


def _value(value: Value, machine: Machine) -> Value:
    number = relative_bytes(value, machine) if isinstance(value, str) else None
    return value if number is None else number
