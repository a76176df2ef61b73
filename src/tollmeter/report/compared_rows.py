# SPDX-License-Identifier: Apache-2.0
"""Rows and curves of several runs side by side, and the differences between the runs other than their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from tollmeter.experiment.core import LEAST_BUSY
from tollmeter.judgement.compare import PASSING_FACTS, Change, Comparison, Curve, Moved, explaining_boundaries
from tollmeter.model import Point, Results, Row, Value, assignments, first_few
from tollmeter.numbers.meanings import part_of
from tollmeter.numbers.readings import RATES
from tollmeter.numbers.rows import Key, row_key
from tollmeter.report import run_verdict, tables
from tollmeter.report.blocks import Cell, Column, Figure, Line, Table
from tollmeter.report.listing import value_in_words
from tollmeter.report.numbers import DASH, LEAST_TIMES, count, of_row, percent, plain, quantity, size, size_of_level

SIGNS = {"same": "~", "cannot tell": "?"}
_OF_TIME = ("ns", "cycle", *RATES)
"""Units of times and rates, whose change is printed as a multiple from twice as much on."""


@dataclass(frozen=True)
class Compared:
    """Compared runs, the reference first, and the comparison of each other run with it. by: the property whose values
    are compared in one run, which then represents each value. machines: whether machines are compared."""

    runs: tuple[Results, ...]
    labels: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    by: str = ""
    machines: bool = False

    def by_key(self) -> dict[Key, list[Change | None]]:
        """Returns the changes of each row, one for each run that is compared with the reference."""
        changes: dict[Key, list[Change | None]] = {}
        for place, comparison in enumerate(self.comparisons):
            for change in comparison.changes:
                changes.setdefault(self.key(change.old), [None] * len(self.comparisons))[place] = change
        return changes

    def key(self, row: Row) -> Key:
        """Returns the common key of both rows of a pair: without the property in which they differ."""
        return key_without(row, self.by)


def key_without(row: Row, by: str) -> Key:
    probe, abi, target, metric, parameters = row_key(row)
    kept = tuple((name, value) for name, value in parameters if name != by)
    return probe, "" if by == "abi" else abi, "" if by == "target" else target, metric, kept


def full_name(row: Row) -> str:
    """Returns the name of a row with every distinguishing property, in the order of the probe: globs of limits match
    it."""
    return _full_name(row.probe, row.metric, row.parameters, row.abi, row.target)


def point_name(point: Point, metric: str) -> str:
    """Returns the full name of a point's row."""
    return _full_name(point.probe, metric, point.values(), point.abi, point.target)


def _full_name(probe: str, metric: str, parameters: Mapping[str, Value], abi: str, target: str) -> str:
    return " ".join((probe, metric, *assignments(parameters.items()), abi, target))


class Naming:
    """Names of rows: with the parameters that differ, and metric, ABI and target where there are several."""

    def __init__(self, compared: Compared) -> None:
        self._results, self._by = compared.runs[0], compared.by
        self._values: dict[tuple[str, str], set[object]] = {}
        for row in (change.old for comparison in compared.comparisons for change in comparison.changes):
            parameters = {f" {name}": value for name, value in row.parameters.items()}
            for name, value in {"metric": row.metric, **parameters}.items():
                self._values.setdefault((row.probe, name), set()).add(value)
            for name in ("abi", "target"):
                self._values.setdefault(("", name), set()).add(getattr(row, name))

    def row(self, row: Row, *, without: str = "") -> str:
        """Returns the name of a row. without: a parameter to omit."""
        words = [row.probe, *([row.metric] if len(self._values[row.probe, "metric"]) > 1 else [])]
        words += [f"{name}={self.value(row, name)}" for name in row.parameters
                  if name not in (self._by, without) and len(self._values[row.probe, f" {name}"]) > 1]  # fmt: skip
        places = (name for name in ("abi", "target") if name != self._by and len(self._values["", name]) > 1)
        return " ".join([*words, *(getattr(row, name) for name in places)])

    def value(self, row: Row, name: str) -> str:
        """Returns a value as it is typed: `words_else_bytes`, and 16KiB for a size."""
        value = row.parameters.get(name)
        if isinstance(value, str) and name not in row.chosen:
            return value
        return value_in_words(self._results, row, name).replace(" ", "")


def row_table(compared: Compared, keys: Iterable[Key]) -> Table | None:
    """Returns the table of rows; None without a row."""
    by_key, naming, lines = compared.by_key(), Naming(compared), []
    old, *others = compared.labels
    columns = [Column("Rows"), Column(old, True)]
    if len(others) == 1:
        columns += [Column(others[0], True), Column("ratio", True), Column("verdict")]
    else:
        columns += map(Column, others)
    for key in keys:
        changes = by_key[key]
        first = next(change for change in changes if change is not None)
        if len(changes) == 1:
            cells: list[Cell] = [of_row(first.new).bare, ratio_figure(first), change_verdict(first)]
        else:
            cells = [DASH if change is None else _with_sign(change) for change in changes]
        lines.append(Line((naming.row(first.old), of_row(first.old).bare, *cells)))
    return Table(columns, lines) if lines else None


def _with_sign(change: Change) -> Figure:
    figure = ratio_figure(change)
    return replace(figure, sure=f"{figure.sure} {SIGNS.get(change.verdict, change.verdict)}".strip())


def ratio_figure(change: Change) -> Figure:
    """Returns the ratio new over old, with its interval if there is one."""
    estimate = change.ratio
    if not isfinite(estimate.high) or estimate.low <= 0:
        return Figure(plain(estimate.value), "×")
    return quantity(estimate.value, "ratio", estimate.low, estimate.high)


def change_verdict(change: Change) -> str:
    """Returns `~` for the same, `?` for inconclusive with the visits to resolve it, else direction and size of the
    change."""
    if change.verdict in SIGNS:
        has = min(change.old.visits, change.new.visits)
        visits = f"{count(change.visits_wanted)} visits, has {has}" if change.visits_wanted else ""
        return f"{SIGNS[change.verdict]} {visits or change.reason or ''}".rstrip()
    return f"{direction(change)} {by_how_much(change)}{', machine' if change.cause == 'machine' else ''}"


def direction(change: Change) -> str:
    """Returns faster or slower for a time or a rate; less or more for memory and counts."""
    if change.verdict in ("faster", "slower") and change.new.unit not in _OF_TIME:
        return "more" if change.ratio.value > 1 else "less"
    return change.verdict


def by_how_much(change: Change) -> str:
    """Returns the size of a change: 12 %, or a multiple from twice as much on."""
    value = change.ratio.value
    return f"{plain(value, 2)} ×" if value >= LEAST_TIMES else percent(value - 1)


# ---- curves ---------------------------------------------------------------------------------------------------------


def curve_in_words(curve: Curve, naming: Naming, boundaries: Sequence[Moved]) -> str:
    """Returns a sentence: the boundaries that moved, and at how many values the curve changed, where, and by how
    much."""
    parts = []
    for moved in explaining_boundaries(curve, boundaries):
        old, new = (size_of_level(level).bare for level in (moved.old, moved.new))
        parts.append(f"{moved.old.level} boundary moved from {old} to {new}")
    plural = f"{curve.over}s" if curve.over == "size" else f"values of {curve.over}"
    for each in dict.fromkeys(map(direction, curve.changes)):
        changes = [change for change in curve.changes if direction(change) == each]
        by = [by_how_much(change) for change in sorted(changes, key=lambda change: abs(change.ratio.value - 1))]
        where = _span([naming.value(change.old, curve.over) for change in changes])
        parts.append(f"{each} at {len(changes)} of {len(curve.values)} {plural}, {where}, by {_span(by)}")
    blamed = " (machine)" if any(change.cause == "machine" for change in curve.changes) else ""
    return f"{naming.row(curve.changes[0].old, without=curve.over)}: {'; '.join(parts)}{blamed}"


def _span(texts: Sequence[str]) -> str:
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


# ---- differences ----------------------------------------------------------------------------------------------------

_MOST_NAMED = 6
"""Probes of a sentence that are named; the others are counted."""


def run_differences(runs: Sequence[Results], labels: Sequence[str]) -> tuple[Table | None, Table | None, str]:
    """Returns the differences between the runs; the differences between their systems, without volatile values; and
    their common facts in words. labels: headings of the runs' columns."""
    facts = [_facts(results) for results in runs]
    differ = [name for name in facts[0] if any(of_run[name] != facts[0][name] for of_run in facts)]
    same = [f"{name} {value}" for name, value in facts[0].items() if name not in differ and value]
    systems = [results.index.machine.facts for results in runs]
    names = sorted({name for system in systems for name in system} - {*PASSING_FACTS})
    others = [name for name in names if any(system.get(name) != systems[0].get(name) for system in systems)]
    tables_ = _side_by_side("What differs", differ, facts, labels), _side_by_side("facts", others, systems, labels)
    return *tables_, "; ".join(same)


def run_name(results: Results) -> str:
    return Path(results.index.run.folder).resolve().name


def _facts(results: Results) -> dict[str, str]:
    """Returns the facts of a run. options: typed options that change how a row is measured."""
    machine, run, request = results.index.machine, results.index.run, results.request
    numbered = [row for row in results.index.rows if row.status == "ok"]
    cpus, share = ",".join(map(str, request.get("cpus", ()))), run.contended_share
    options = (f"budget {request['budget_seconds']:g} s" if "budget_seconds" in request else "",
               f"precision {100 * run.precision:g} %", f"CPUs {cpus}" if cpus else "",
               " ".join(request.get("places", ())))  # fmt: skip
    contended = percent(share or 0.0) if (share or 0.0) >= LEAST_BUSY else f"under {percent(LEAST_BUSY)}"
    return {
        "run": run_name(results),
        "suite": run.suite,
        "options": ", ".join(filter(None, options)),
        "CPU": tables.cpu_of(machine),
        "CPUs": str(machine.cpus),
        "memory": str(size(machine.memory_bytes)),
        "kernel": machine.kernel,
        "hypervisor": machine.hypervisor or "none seen",
        "core clock": f"{machine.core_clock_hz / 1e9:.2f} GHz" if machine.core_clock_hz else "",
        "pages": str(size(machine.page_bytes)),
        "ABIs": ", ".join(sorted({row.abi for row in numbered})),
        "compilers": ", ".join(sorted({build.compiler for build in results.builds})),
        "clocks": ", ".join(sorted({row.clock for row in numbered})),
        "time contended": "" if share is None else contended,
        "verdict": run_verdict.called(run),
        "Tollmeter": run.tollmeter,
    }


def _side_by_side(
    title: str, names: Sequence[str], facts: Sequence[Mapping[str, str]], labels: Sequence[str]
) -> Table | None:
    lines = [Line((name.replace("_", " "), *(of_run.get(name) or DASH for of_run in facts))) for name in names]
    return Table([Column(title), *map(Column, labels)], lines) if lines else None


def revisions(runs: tuple[Results, Results]) -> dict[str, tuple[int, int]]:
    """Returns the probes with rows of different revisions in two runs: a revision changes the meaning of a number."""
    first, second = ({row.probe: row.revision for row in results.index.rows} for results in runs)
    return {name: (first[name], second[name]) for name in first if second.get(name, first[name]) != first[name]}


def comparable(runs: tuple[Results, Results]) -> tuple[Results, Results]:
    """Returns both runs without rows of probes whose revisions differ, and without memory levels derived from them."""
    moved = revisions(runs)
    first, second = (part_of(results, lambda probe, _: probe not in moved) for results in runs)
    return first, second


def not_compared(runs: tuple[Results, Results]) -> list[str]:
    """Returns sentences on the probes that are not compared, and on executables of one probe that differ."""
    sentences = []
    moved = [f"{name} ({old} and {new})" for name, (old, new) in revisions(runs).items()]
    if moved:
        probes = first_few(moved, _MOST_NAMED)
        sentences.append(f"Not compared, since a number of another revision means something else: {probes}.")
    first, second = ({(build.probe, build.abi): build.sha256 for build in results.builds} for results in runs)
    both = [key for key in first if key in second]
    other = [f"{probe} for {abi}" for probe, abi in both if first[probe, abi] != second[probe, abi]]
    if other:
        differ = f"{len(other)} of {len(both)} executables that both have are not the same"
        sentences.append(f"{differ}: {first_few(other, _MOST_NAMED)}.")
    return sentences
