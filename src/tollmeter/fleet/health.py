# SPDX-License-Identifier: Apache-2.0
"""The health of a machine by a run of the suite `health`: its rows against a reference run or a dataset of its peers,
against absolute limits, and its memory nodes against each other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from math import expm1
from pathlib import Path

from tollmeter.fleet.collecting import judged_machines
from tollmeter.fleet.judged import LEAST_NODES, JudgedModel, is_rate
from tollmeter.fleet.matrix import is_dataset
from tollmeter.fleet.report import node_reasons
from tollmeter.library.derive import add_to_dataset
from tollmeter.library.gating import gated
from tollmeter.library.limits import Limits
from tollmeter.library.places import find_run
from tollmeter.model import Failure, Results, Row
from tollmeter.numbers.each_cpu import MEANS as EACH_CPU
from tollmeter.numbers.meanings import meaning
from tollmeter.report.compared_rows import full_name
from tollmeter.report.numbers import percent, quantity
from tollmeter.store.export import machine_name

SUITE = "health"
PRECISION = "5%"
_SLOW_CPU, _CONTENDED_CPU = "machine.a_cpu_is_slow", "machine.a_cpu_is_contended"
_TABLES = ("rows", "machines")


def health(results: Results, reference: str | None, limits: Limits) -> tuple[list[str], list[str]]:
    """Returns the reasons to drain a machine, rows beyond a limit first; and the gaps for which it cannot be called
    healthy. results: its run of the suite. reference: a run or a dataset of peers, or None. Raises Failure: 2 if the
    reference is neither a run nor a dataset, or if a limit has another unit than its row."""
    slow, contended = _unlike_cpus(results)
    slower = [*limits.broken(results), *slow, *unlike_nodes(results.index.rows, limits.usual)]
    unmeasured = [
        f"no row with an interval matches {glob!r}, which the limits name" for glob in limits.unmatched(results)
    ]
    unmeasured += [*contended, *_without_interval(checked_rows(results))]
    if reference is not None:
        beside = _beside_peers if is_dataset(Path(reference)) else _beside_run
        slower_than_reference, missing = beside(results, reference, limits)
        slower += slower_than_reference
        unmeasured += missing
    return slower, unmeasured


def check_reference(reference: str) -> None:
    """Checks the reference before measuring. Raises Failure (2) if it is neither a run nor a dataset."""
    if not is_dataset(Path(reference)):
        find_run(reference)


def checked_rows(results: Results) -> list[Row]:
    """Returns the rows that are compared with earlier runs: all but those of the sweep over all CPUs, which compares
    CPUs with each other."""
    return [row for row in results.index.rows if meaning(row, results.probes) != EACH_CPU]


def _unlike_cpus(results: Results) -> tuple[list[str], list[str]]:
    """Returns claims that name slow CPUs, and the reasons why other CPUs could not be judged. A busy run names none."""
    claims: dict[str, list[str]] = {}
    for finding in results.index.findings:
        claims.setdefault(finding.name, []).append(finding.claim)
    withheld = ["CPUs differ, and the run was too busy or too short to name one"]
    return claims.get(_SLOW_CPU, []), [
        *claims.get(_CONTENDED_CPU, []), *(withheld if _SLOW_CPU in results.index.withheld else ())
    ]  # fmt: skip


def _without_interval(rows: Sequence[Row]) -> Iterator[str]:
    """Yields the rows of this machine that did not converge."""
    for row in rows:
        if row.status != "unsupported" and not row.converged:
            is_wide = row.low is not None and row.high is not None and row.low > 0
            width = f"±{percent((row.high / row.low) ** 0.5 - 1)}" if is_wide and row.high and row.low else ""
            yield f"{full_name(row)}: {row.reason or width or f'{row.visits} visits'}"


# ---- the machine's own parts ----------------------------------------------------------------------------------------


def unlike_nodes(rows: Iterable[Row], limit: float) -> Iterator[str]:
    """Yields memory nodes that are slower to their own CPUs than every other node is to its own, by more than the
    limit."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        parameters = row.parameters
        if row.low and row.high and "node" in parameters and parameters["node"] == parameters.get("home"):
            rest = tuple((name, value) for name, value in parameters.items() if name not in ("node", "home"))
            alike.setdefault((row.probe, row.metric, row.abi, row.target, rest), []).append(row)
    for several in alike.values():
        for row in several:
            others = [other for other in several if other is not row]
            if others and all(_is_slower(row, other, limit) for other in others):
                ends = (end(others, key=lambda row: row.median or 0) for end in (min, max))
                peers = " to ".join(dict.fromkeys(map(_value, ends)))
                yield f"memory node {row.parameters['node']}: {_value(row)}, peers {peers}"


def _value(row: Row) -> str:
    return str(quantity(row.median or 0, row.unit))


def _is_slower(row: Row, other: Row, limit: float) -> bool:
    """Returns whether a row is slower by the whole intervals of both."""
    if not (row.low and row.high and other.low and other.high):
        return False
    return other.low > row.high * (1 + limit) if is_rate(row) else row.low > other.high * (1 + limit)


# ---- a reference ----------------------------------------------------------------------------------------------------


def _beside_run(results: Results, reference: str, limits: Limits) -> tuple[list[str], list[str]]:
    compared = gated(reference, results.index.run.folder, limits)
    if compared.unlike:
        return [], [f"beside {reference}: {'; '.join(compared.unlike)}"]
    failed = compared.decision.of("slower")
    more = [f"{row.judged.name} {percent(expm1(row.judged.log_ratio))} slower than the reference" for row in failed]
    return more, [f"{name}: no number, which the reference has" for name in compared.missing]


def _beside_peers(results: Results, dataset: str, _: Limits) -> tuple[list[str], list[str]]:
    """Returns sentences on rows that are slower than those of the peers, and on gaps. Runs of this machine in the
    dataset are left out."""
    own_name = machine_name(results.index.machine)
    with tempfile.TemporaryDirectory() as scratch:
        for table in _TABLES:
            (Path(scratch) / table).mkdir()
            for machine in (Path(dataset) / table).glob("machine=*"):
                if machine.name != f"machine={own_name}":
                    (Path(scratch) / table / machine.name).symlink_to(machine.resolve())
        add_to_dataset(Path(results.index.run.folder), Path(scratch), _TABLES)
        try:
            models = judged_machines([scratch])
        except Failure as failure:
            return [], [f"beside {dataset}: {failure.sentence}"]
    return _of_own(own_name, models)


def _of_own(own_name: str, models: Sequence[JudgedModel]) -> tuple[list[str], list[str]]:
    model = next(judged for judged in models if own_name in judged.model.nodes)
    if len(model.model.nodes) < LEAST_NODES:
        alike = f"only {len(model.model.nodes) - 1} nodes have the same CPU, kernel and caches"
        return [], [f"{alike}; {LEAST_NODES - 1} are needed"]
    return node_reasons(model, own_name), []
