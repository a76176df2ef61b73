# SPDX-License-Identifier: Apache-2.0
"""Checks the claims of a study before a run: they name what their probes have, and their rows are planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from tollmeter.model import Failure, Point, Probe, Published, RowOf, Suite
from tollmeter.model.topology import RELATION
from tollmeter.plan import Plan
from tollmeter.plan.points import NATIVE


def rows_of(claim: Published) -> list[RowOf]:
    """Returns the rows that a claim names."""
    several = claim.row, claim.over, *claim.order, claim.bend.rate if claim.bend else None
    return [row for row in several if row is not None]


def check_claims(suite: Suite, probes: Mapping[str, Probe]) -> None:
    """Raises Failure (2) if a claim names a metric, parameter or choice that its probe does not have: it would never
    have a number. probes: the built ones; a claim about another probe is not checked."""
    for claim in suite.published:
        for row in rows_of(claim):
            probe = probes.get(row.probe or "")
            if probe and (fault := _fault(row, probe)):
                raise Failure(f"{suite.name}: claim '{claim.what}': {fault}")


def _fault(row: RowOf, probe: Probe) -> str:
    """Returns the first name of a row that the probe does not have, with those that it has; empty if it has all."""
    metrics = [metric.name for metric in probe.metrics]
    if row.metric and row.metric not in metrics:
        return f"{probe.probe} has no metric {row.metric!r}; it has {', '.join(metrics)}"
    choices = {parameter.name: parameter.choices for parameter in probe.parameters}
    for name, value in row.parameters.items():
        if name != RELATION and name not in choices:
            has = f"it has {', '.join(choices)}" if choices else "it has none"
            return f"{probe.probe} has no parameter {name!r}; {has}"
        if choices.get(name) and value not in choices[name]:
            return f"{name} of {probe.probe} has no value {value!r}; it has {', '.join(choices[name])}"
    return ""


def unplanned_claims(plan: Plan) -> Iterator[tuple[Published, RowOf]]:
    """Yields each claim of which a row is not planned, with the first such row. A curve plans all of its values, since
    a run adds those at which it bends."""
    points = [*plan.points(), *(curve.at(value) for curve in plan.curves() for value in curve.grid)]
    for claim in plan.suite.published:
        missing = (row for row in rows_of(claim) if not any(_is_row_of(row, point, plan.probes) for point in points))
        if row := next(missing, None):
            yield claim, row


def _is_row_of(row: RowOf, point: Point, probes: Mapping[str, Probe]) -> bool:
    """Returns whether a point will give a row that matches. The machine's own ABI is known only after the run."""
    own = point.values()
    return (
        row.probe in (None, point.probe)
        and row.abi in (None, NATIVE, point.abi)
        and (row.target is None or fnmatchcase(point.target, row.target))
        and row.parameters.items() <= own.items()
        and (RELATION not in own or RELATION in row.parameters)
        and any(
            row.metric in (None, metric.name) and row.means in (None, metric.means)
            for metric in probes[point.probe].metrics
        )
    )
