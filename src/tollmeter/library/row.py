# SPDX-License-Identifier: Apache-2.0
"""One row of a run, by its probe, metric, ABI, target and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter

from tollmeter.catalog import unknown
from tollmeter.model import Failure, Row, Value

_MOST_SHOWN = 6
_KEYWORDS = {"metric": "metric", "abi": "abi", "target": "place"}
"""By a row's field, the parameter of `Run.row` that selects it."""


def find_row(rows: Sequence[Row], probe: str, fields: Mapping[str, str | None], parameters: Mapping[str, Value]) -> Row:
    """fields: metric, abi and target of the row; None for any, of metrics for the first. Raises Failure (2): with the
    nearest names for a name or value that no row has, and with what the rows differ in where several match."""
    matching = _having(rows, attrgetter("probe"), probe, "probe of this run")
    for field, name in fields.items():
        if name is not None:
            matching = _having(matching, attrgetter(field), name, f"{field} of {probe}")
    for name, value in parameters.items():
        if not any(name in row.parameters for row in matching):
            raise unknown(f"parameter of {probe}", name, sorted({own for row in matching for own in row.parameters}))
        matching = _having(matching, partial(_parameter, name), value, f"{name} of {probe}")
    if fields["metric"] is None:
        matching = [row for row in matching if row.metric == matching[0].metric]
    if len(matching) > 1:
        raise Failure(
            f"{len(matching)} rows of {probe} match; they differ in {' and in '.join(_differences(matching))}"
        )
    return matching[0]


def _parameter(name: str, row: Row) -> Value | None:
    return row.parameters.get(name)


def _having(rows: Sequence[Row], field: Callable[[Row], Value | None], wanted: Value, kind: str) -> list[Row]:
    matching = [row for row in rows if field(row) == wanted]
    if matching:
        return matching
    there = dict.fromkeys(value for row in rows if (value := field(row)) is not None)
    numbers = [value for value in there if isinstance(value, int)]
    if isinstance(wanted, int) and numbers:
        near = sorted(numbers, key=lambda value: abs(value - wanted))
        raise Failure(f"no {kind} is {wanted}; the nearest: {_listed(near)}")
    raise unknown(kind, str(wanted), [str(value) for value in there])


def _differences(rows: Sequence[Row]) -> Iterator[str]:
    """Each keyword of `Run.row` that selects among the rows, with its values."""
    for field, keyword in _KEYWORDS.items():
        yield from _difference(keyword, [getattr(row, field) for row in rows])
    for name in dict.fromkeys(name for row in rows for name in row.parameters):
        yield from _difference(name, [row.parameters.get(name) for row in rows])


def _difference(keyword: str, values: Sequence[Value | None]) -> Iterator[str]:
    several = dict.fromkeys(values)
    if len(several) > 1:
        yield f"{keyword}= ({_listed([*several])})"


def _listed(values: Sequence[Value | None]) -> str:
    return ", ".join(map(str, values[:_MOST_SHOWN])) + (", ..." if len(values) > _MOST_SHOWN else "")
