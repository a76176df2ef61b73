# SPDX-License-Identifier: Apache-2.0
"""Results of an inference: a number with its interval, yes or no, or unresolved with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp, hypot
from typing import Any

from tollmeter.experiment.limits import INEXPLICABLE, NEGLIGIBLE
from tollmeter.experiment.precision import log_error
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Inference, InferenceKind, Probe, Record, Row, Value
from tollmeter.numbers.meanings import with_meaning
from tollmeter.numbers.stats import Estimate

Probes = Mapping[str, Probe]
Parameters = tuple[tuple[str, Value], ...]


class InferredNumber(Record, frozen=True):
    """A number with its 95 % interval low..high. value: None if not resolved; `why` then names the missing evidence."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None


class YesOrNo(Record, frozen=True):
    """An answer of yes or no. holds: None if not resolved; `why` then names the missing evidence. ratio: the ratio that
    decides."""

    holds: bool | None = None
    ratio: Estimate | None = None
    why: str | None = None


def of_number(name: str, kind: InferenceKind, answer: InferredNumber | Estimate, unit: str, **more: Any) -> Inference:
    """Returns the record of an inferred number. more: further fields of the record."""
    reason = answer.why if isinstance(answer, InferredNumber) and answer.value is None else None
    return Inference(
        name=name, kind=kind, value=answer.value, low=answer.low, high=answer.high, unit=unit, reason=reason, **more
    )


def of_verdict(name: str, kind: InferenceKind, answer: YesOrNo, **more: Any) -> Inference:
    """Returns the record of an answer of yes or no. more: further fields of the record."""
    reason = answer.why if answer.holds is None else None
    return Inference(name=name, kind=kind, value=answer.holds, low=None, high=None, unit=None, reason=reason, **more)


def middle(row: Row) -> float:
    """Returns the median of a row that has a number."""
    assert row.median is not None
    return row.median


def relative_error(row: Row) -> float:
    """Returns the standard error of a row's median as a share of the median, from the 95 % interval. For an interval
    that reaches zero, as of a difference, returns the absolute error over the median. At least NEGLIGIBLE."""
    if row.low is None or row.high is None:
        return NEGLIGIBLE
    if row.low <= 0:
        return min(absolute_error(row) / abs(middle(row)), INEXPLICABLE)
    return max(log_error(row.low, row.high), NEGLIGIBLE)


def absolute_error(row: Row) -> float:
    """Returns the standard error of a row's median in its unit, from the 95 % interval."""
    low, high = row.low, row.high
    spread = 0.0 if low is None or high is None else (high - low) / 2 / NORMAL
    return max(spread, NEGLIGIBLE * abs(middle(row)))


def ratio(above: Row, below: Row) -> Estimate:
    """Returns the ratio of two rows that were measured separately, so that the squares of the errors of their
    logarithms add."""
    value = middle(above) / middle(below)
    wide = exp(NORMAL * hypot(relative_error(above), relative_error(below)))
    return Estimate(value=value, low=value / wide, high=value * wide)


def series(rows: Iterable[Row], axis: str) -> dict[Parameters, list[Row]]:
    """Returns the rows by their other parameters, each list in the order of the axis. Rows without the axis are left
    out. axis: name of a parameter."""
    by_others: dict[Parameters, list[Row]] = {}
    for row in rows:
        if isinstance(row.parameters.get(axis), int):
            others = tuple(sorted((name, value) for name, value in row.parameters.items() if name != axis))
            by_others.setdefault(others, []).append(row)
    return {
        others: sorted(by_others[others], key=lambda row: number(row, axis)) for others in sorted(by_others, key=str)
    }


def number(row: Row, parameter: str) -> int:
    """Returns a parameter of a row that is a size or a count. Raises KeyError if the row has no such number: the name
    is wrong, since a row has the parameters that its meaning requires (`NEEDS`)."""
    value = row.parameters[parameter]
    if not isinstance(value, int):
        raise KeyError(parameter)
    return value


def rows_meaning(rows: Sequence[Row], probes: Probes, means: str, **parameters: object) -> list[Row]:
    """Returns the rows that have a number, this meaning, and these values of parameters."""
    return [
        row
        for row in with_meaning(rows, probes, means)
        if all(row.parameters.get(name) == value for name, value in parameters.items())
    ]
