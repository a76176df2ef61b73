# SPDX-License-Identifier: Apache-2.0
"""Checks the claims of a study before a run: whether their probes have what they name, and whether their rows are
planned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from tollmeter.model import Failure, Point, Probe, Published, RowOf, Suite
from tollmeter.model.topology import RELATION
from tollmeter.plan import Plan
from tollmeter.plan.points import NATIVE


def rows_of(claim: Published) -> list[RowOf]:
    """Returns the rows that a claim names."""
    rows = claim.row, claim.over, *claim.order, claim.bend.rate if claim.bend else None
    return [row for row in rows if row is not None]


def check_claims(suite: Suite, probes: Mapping[str, Probe]) -> None:
    """Raises Failure (2) if a claim names a metric, parameter or choice that its probe does not have, and so could
    never have a number. probes: the built ones; claims about other probes are not checked."""
    for claim in suite.published:
        for row in rows_of(claim):
            probe = probes.get(row.probe or "")
            if probe and (fault := _fault(row, probe)):
                raise Failure(f"{suite.name}: claim '{claim.what}': {fault}")


def _fault(row: RowOf, probe: Probe) -> str:
    """Returns which name of a row the probe does not have, and which it has; empty if it has all of them."""
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
    """Yields each claim with a row that is not planned, and the first such row. All values of a curve count as planned,
    since a run may add each of them."""
    points = [*plan.points(), *(curve.at(value) for curve in plan.curves() for value in curve.grid)]
    for claim in plan.suite.published:
        missing = (row for row in rows_of(claim) if not any(_is_row_of(row, point, plan.probes) for point in points))
        if row := next(missing, None):
            yield claim, row


def _is_row_of(row: RowOf, point: Point, probes: Mapping[str, Probe]) -> bool:
    """Returns whether a point gives a row that the claim asks for. Every ABI matches `native`, since the machine's own
    ABI is known only after the run."""
    parameters = point.values()
    return (
        row.probe in (None, point.probe)
        and row.abi in (None, NATIVE, point.abi)
        and (row.target is None or fnmatchcase(point.target, row.target))
        and row.parameters.items() <= parameters.items()
        and (RELATION not in parameters or RELATION in row.parameters)
        and any(
            row.metric in (None, metric.name) and row.means in (None, metric.means)
            for metric in probes[point.probe].metrics
        )
    )
