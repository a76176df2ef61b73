# SPDX-License-Identifier: Apache-2.0
"""The plan of a run in words: its duration, then each probe with the values of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tollmeter.model import Point, Probe, Published, RowOf, Value, first_few
from tollmeter.numbers.meanings import sizes_of
from tollmeter.numbers.units import in_words
from tollmeter.report.blocks import Column, Line, Table
from tollmeter.report.numbers import size

_MOST_VALUES = 4
_MOST_CLAIMS = 6
"""Highest number of claims in a sentence."""


def planned(
    points: Sequence[Point], probes: Mapping[str, Probe], expected_s: float, budget_s: float
) -> Iterator[str | Table]:
    """Yields the blocks of a plan: its duration and number of points, then the points of each probe. expected_s:
    seconds that all visits need. budget_s: seconds after which the run ends."""
    probed = dict.fromkeys(point.probe for point in points)
    many = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in
            ((len(points), "point"), (len(probed), "probe"))]  # fmt: skip
    short = "" if expected_s <= budget_s else ": the budget ends before all have converged"
    takes = f"About {expected_s:.0f} s" if expected_s >= 1 else "Less than 1 s"
    yield f"{takes} of {budget_s:.0f} s, {many[0]} of {many[1]}{short}."
    lines = [_line(name, [point for point in points if point.probe == name], probes.get(name)) for name in probed]
    places = {line.cells[3] for line in lines}
    columns = [Column("probe"), Column("points", True), Column("parameters"), Column("where")]
    kept = slice(3 if len(places) == 1 and points else 4)
    if len(places) == 1:
        yield f"All {places.pop()}."
    yield Table(columns[kept], [Line(line.cells[kept]) for line in lines])
    yield "--all lists every point and its CPUs."


def without_row(claims: Sequence[tuple[Published, RowOf]]) -> str:
    """Returns a sentence on claims of which a row is not planned, each with the row."""
    have = "1 claim has" if len(claims) == 1 else f"{len(claims)} claims have"
    named = [f"'{claim.what}' ({row.words()})" for claim, row in claims]
    return f"{have} no planned row: {first_few(named, _MOST_CLAIMS, '; ')}."


def _line(name: str, points: Sequence[Point], probe: Probe | None) -> Line:
    values: dict[str, dict[Value, None]] = {}
    for point in points:
        for parameter, value in point.parameters:
            values.setdefault(parameter, {})[value] = None
    named = (
        f"{parameter} {_values([*distinct], parameter in sizes_of(probe))}" for parameter, distinct in values.items()
    )
    abis, targets = (
        ", ".join(dict.fromkeys(getattr(point, property_name) for point in points))
        for property_name in ("abi", "target")
    )
    return Line((name, str(len(points)), "; ".join(named), f"{abis} on {targets}"))


def _values(values: Sequence[Value], is_size: bool) -> str:
    """Returns all values if they are few, else the range and the count of the numbers."""
    text = [str(size(value)) if is_size and isinstance(value, int) else in_words(value) for value in values]
    if len(text) <= _MOST_VALUES:
        return ", ".join(text)
    if not all(isinstance(value, int) for value in values):
        return first_few(text, _MOST_VALUES - 1)
    least, most = (text[values.index(chosen(values))] for chosen in (min, max))
    return f"{least} to {most} ({len(text)} values)"
