# SPDX-License-Identifier: Apache-2.0
"""Limits of rows: the largest slowdown for `toll gate`; and absolute limits for `toll run`, `toll gate`, `toll health`
and `toll fleet report`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

from tollmeter.experiment.limits import SAME_WITHIN
from tollmeter.judgement.verdict import has_interval
from tollmeter.library.options import share
from tollmeter.model import Failure, Machine, Metric, Outcome, Point, Probe, Results, Row
from tollmeter.numbers.meanings import WORST, meaning
from tollmeter.plan.values import with_bytes
from tollmeter.report.compared_rows import full_name, point_name
from tollmeter.report.numbers import quantity

NO_LIMIT = "none"


@dataclass(frozen=True)
class Bound:
    """An absolute limit of the rows that a glob matches. is_most: whether values may be at most `value`, else at least.
    unit: as written. resolved: the glob with the sizes in bytes of a machine's caches in place of their names."""

    glob: str
    is_most: bool
    value: float
    unit: str
    resolved: str = ""

    def on(self, machine: Machine) -> Bound:
        return replace(self, resolved=with_bytes(self.glob, machine))

    def level(self, name: str, unit: str) -> float | None:
        """Returns the limit in a row's unit; None if the limit does not name the row. Raises Failure (2) for another
        quantity."""
        if not fnmatchcase(name, self.resolved):
            return None
        scale = _scale_of(self.unit, unit)
        if scale is None:
            raise Failure(f"the limit {self.words} of {self.glob!r} has another unit than {name}: state it in {unit}")
        return self.value * scale

    def broken_by(self, row: Row, *, is_worst: bool = False) -> str:
        """Returns a sentence if a row is beyond the limit with its whole 95 % interval, which needs three visits; empty
        if it is not, or if the limit is for another row. is_worst: the row is a worst value, and is compared itself."""
        name = full_name(row)
        level = self.level(name, row.unit)
        if level is None or row.median is None or row.low is None or row.high is None:
            return ""
        near = row.low if self.is_most else row.high
        is_broken = self.excludes(row.median, level) if is_worst else has_interval(row) and self.excludes(near, level)
        return self.sentence(name, row.median, row.unit) if is_broken else ""

    def excludes(self, value: float, level: float) -> bool:
        return value > level if self.is_most else value < level

    def sentence(self, name: str, value: float, unit: str) -> str:
        return f"{name}: {quantity(value, unit)}, beyond the limit of {self.words}"

    @property
    def words(self) -> str:
        return f"{'at most' if self.is_most else 'at least'} {self.value:g} {self.unit}"


_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_OF_TIME = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def _scale_of(written: str, unit: str) -> float | None:
    """Returns the factor from a written unit to a row's unit; None for a unit of another quantity."""
    if unit == "ns":
        return _OF_TIME.get(written)
    return _PREFIXES.get(written.removesuffix(unit)) if written.endswith(unit) else None


@dataclass(frozen=True)
class Limits:
    """Limits of rows. usual: largest slowdown as a share, for rows that no glob matches. globs: largest slowdown by
    glob, of which the first match applies; None for rows that are not judged. bounds: absolute limits, which all
    apply."""

    usual: float = SAME_WITHIN
    globs: tuple[tuple[str, float | None], ...] = ()
    bounds: tuple[Bound, ...] = ()

    def on(self, machine: Machine) -> Limits:
        return replace(self, bounds=tuple(bound.on(machine) for bound in self.bounds))

    def broken(self, results: Results) -> list[str]:
        """Returns the rows of a run beyond an absolute limit. Raises Failure (2) if a unit does not match."""
        bounds = self.on(results.index.machine).bounds
        return [
            why
            for row in results.index.rows
            for bound in bounds
            if (why := bound.broken_by(row, is_worst=meaning(row, results.probes) == WORST))
        ]

    def unmatched(self, results: Results) -> list[str]:
        """Returns the globs of absolute limits that match no row of a run with an interval or a worst value."""
        judged = [row for row in results.index.rows if row.status == "ok"]
        names = [full_name(row) for row in judged if has_interval(row) or meaning(row, results.probes) == WORST]
        globs = {bound.glob: bound.resolved for bound in self.on(results.index.machine).bounds}
        return [written for written, glob in globs.items() if not any(fnmatchcase(name, glob) for name in names)]

    def check(self, points: Iterable[Point], probes: Mapping[str, Probe], machine: Machine) -> None:
        """Raises Failure (2) if there is no absolute limit, or if one has another unit than a row that it names."""
        if not self.bounds:
            raise Failure("--limits: the file has no absolute limit: at_most or at_least of [[rows]]")
        for point, bound in product(points, self.on(machine).bounds):
            for metric in probes[point.probe].metrics:
                bound.level(point_name(point, metric.name), metric.unit)

    def worst_levels(self, point: Point, probe: Probe) -> Iterator[tuple[Metric, Bound, float]]:
        """Yields the metrics of a point whose worst value no single visit may exceed, with the limit in their unit."""
        metrics = (metric for metric in probe.metrics if metric.means == WORST)
        for metric, bound in product(metrics, (bound for bound in self.bounds if bound.is_most)):
            level = bound.level(point_name(point, metric.name), metric.unit)
            if level is not None:
                yield metric, bound, level

    def excess(self, outcome: Outcome, probe: Probe) -> str:
        """Returns how the worst value of a visit exceeds a limit; empty if it does not."""
        for metric, bound, level in self.worst_levels(outcome.point, probe):
            value, name = outcome.gauges.get(metric.name), point_name(outcome.point, metric.name)
            if value is not None and bound.excludes(value, level):
                return f"visit {outcome.visit} ended the run: {bound.sentence(name, value, metric.unit)}"
        return ""

    def of(self, name: str) -> float | None:
        return next((limit for glob, limit in self.globs if fnmatchcase(name, glob)), self.usual)

    def unused(self, names: Sequence[str]) -> list[str]:
        """Returns the globs that match no row."""
        return [glob for glob, _ in self.globs if not any(fnmatchcase(name, glob) for name in names)]


def read_limits(usual: str | None, path: Path | None) -> Limits:
    """Returns the limits of a file. usual: typed limit, which replaces the file's default. Raises Failure (2) for an
    invalid limit."""
    table = _table(path) if path else {}
    written = usual or table.pop("limit", None)
    table.pop("limit", None)
    rows = table.pop("rows", [])
    entries = [_entry(entry, path) for entry in (rows if isinstance(rows, list) else [rows])]
    if table:
        raise Failure(f"{path}: unknown key {next(iter(table))!r}: known: limit, [[rows]]")
    return Limits(
        SAME_WITHIN if written is None else _limit(written, "--limit" if usual else f"{path}: limit"),
        tuple(_glob(entry, path) for entry in entries if "limit" in entry),
        tuple(bound for entry in entries for bound in _bounds(entry, path)),
    )


def _table(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path}: {error}") from error


def _entry(entry: object, path: Path | None) -> dict[str, str]:
    known = ("limit", *_BOUNDS)
    if not isinstance(entry, dict) or not isinstance(entry.get("row"), str) or not {*entry} <= {"row", *known}:
        raise Failure(f"{path}: each of [[rows]] has row, a glob, and some of {', '.join(known)}")
    if len(entry) == 1:
        raise Failure(f"{path}: {entry['row']!r} has no limit: {', '.join(known)}")
    return entry


def _glob(entry: dict[str, str], path: Path | None) -> tuple[str, float | None]:
    limit = None if entry["limit"] == NO_LIMIT else _limit(entry["limit"], f"{path}: limit of {entry['row']}")
    return entry["row"], limit


_BOUNDS = {"at_most": True, "at_least": False}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-zµ/]+)")


def _bounds(entry: dict[str, str], path: Path | None) -> Iterator[Bound]:
    for name, is_most in _BOUNDS.items():
        if name in entry:
            found = _QUANTITY.fullmatch(str(entry[name]))
            if not found:
                raise Failure(
                    f"{path}: {name} of {entry['row']}: expected a number and a unit, as '130 ns' or '40 GB/s'"
                )
            yield Bound(entry["row"], is_most, float(found[1]), found[2])


def _limit(written: object, option: str) -> float:
    if not isinstance(written, str):
        raise Failure(f"{option} {written!r}: expected a percentage such as '5%', or '{NO_LIMIT}'")
    return share(written, option)
