# SPDX-License-Identifier: Apache-2.0
"""What `toll gate` judges: two stored runs of one system, with a limit for each row; and the absolute limits that a run
is held to by `toll gate`, `toll health` and `toll fleet report`."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tollmeter.judgement.compare import machine_differences
from tollmeter.judgement.gate import USUAL_LIMIT, decide, of_change, of_pair
from tollmeter.judgement.verdict import has_interval
from tollmeter.library.command_metrics import judging
from tollmeter.library.comparing import compared
from tollmeter.library.options import TimeOptions, share
from tollmeter.library.timed import ratios
from tollmeter.model import Failure, Index, Machine, Opposed, Results, Row
from tollmeter.plan.values import with_bytes
from tollmeter.report.compared_rows import Compared, full_name
from tollmeter.report.gated import Gated, GatedCommands
from tollmeter.report.numbers import quantity
from tollmeter.report.timed import TIME

NO_LIMIT = "none"
_LONGEST = 60
_OF_A_NAME = "host"
"""Cloud machines of one kind have a name each."""


@dataclass(frozen=True)
class Bound:
    """What rows may be at most or at least, in the unit that is written."""

    glob: str
    is_most: bool
    value: float
    unit: str

    def level(self, name: str, unit: str, machine: Machine) -> float | None:
        """The limit in a row's unit; None for a row that it does not name. Raises Failure (2) for another quantity."""
        if not fnmatchcase(name, with_bytes(self.glob, machine)):
            return None
        scale = scale_of(self.unit, unit)
        if scale is None:
            raise Failure(f"the limit {self.words} of {self.glob!r} has another unit than {name}, {unit}")
        return self.value * scale

    def broken_by(self, row: Row, machine: Machine) -> str:
        """How a row is beyond it with its whole 95 % interval, which takes three visits; empty where it is not, or is
        another row."""
        name = full_name(row)
        level = self.level(name, row.unit, machine)
        if level is None or row.low is None or row.high is None or not has_interval(row):
            return ""
        is_broken = row.low > level if self.is_most else row.high < level
        return self.sentence(name, row.median or 0, row.unit) if is_broken else ""

    def sentence(self, name: str, value: float, unit: str) -> str:
        return f"{name}: {quantity(value, unit)}, {self.words}"

    @property
    def words(self) -> str:
        return f"{'at most' if self.is_most else 'at least'} {self.value:g} {self.unit}"


_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_OF_TIME = {"ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}


def scale_of(written: str, unit: str) -> float | None:
    """How many of a row's unit one of the written unit is; None where it is another quantity."""
    if unit == "ns":
        return _OF_TIME.get(written)
    return _PREFIXES.get(written.removesuffix(unit)) if written.endswith(unit) else None


@dataclass(frozen=True)
class Limits:
    """The largest slowdown, as a share, by the first glob that matches (None: not judged), or the usual one. bounds:
    absolute limits, all of which hold."""

    usual: float = USUAL_LIMIT
    globs: tuple[tuple[str, float | None], ...] = ()
    bounds: tuple[Bound, ...] = ()

    def broken(self, index: Index) -> list[str]:
        """The rows of a run beyond an absolute limit. Raises Failure (2) where a unit does not fit."""
        return [why for row in index.rows for bound in self.bounds if (why := bound.broken_by(row, index.machine))]

    def unmatched(self, index: Index) -> list[str]:
        """The globs of absolute limits that match no row of a run."""
        names = [full_name(row) for row in index.rows]
        globs = {bound.glob: with_bytes(bound.glob, index.machine) for bound in self.bounds}
        return [written for written, glob in globs.items() if not any(fnmatchcase(name, glob) for name in names)]

    def of(self, name: str) -> float | None:
        return next((limit for glob, limit in self.globs if fnmatchcase(name, glob)), self.usual)

    def unused(self, names: Sequence[str]) -> list[str]:
        """The globs that match no row."""
        return [glob for glob, _ in self.globs if not any(fnmatchcase(name, glob) for name in names)]


def gated(base: str, new: str, limits: Limits) -> Gated:
    """Raises Failure as `compared`."""
    comparison = compared([base, new], None, machines=False)
    changes = [(full_name(change.old), change) for change in comparison.comparisons[0].changes]
    limited = [(name, change, limit) for name, change in changes if (limit := limits.of(name)) is not None]
    judged = [of_change(change, name, limit) for name, change, limit in limited]
    new_index = comparison.runs[1].index
    unused = (*limits.unused([name for name, _ in changes]), *limits.unmatched(new_index))
    apart = unlike((comparison.runs[0], comparison.runs[1]))
    if all(row.reason for row in judged):
        apart = (*apart, "no row has enough visits in both runs")
    broken = tuple(limits.broken(new_index))
    return Gated(comparison, decide(judged), apart, unused, missing(comparison, limits), broken)


def missing(comparison: Compared, limits: Limits) -> tuple[str, ...]:
    """The rows of the reference that are to be judged and have no number in the new run: a build that breaks a probe is
    not faster."""
    base, new = ({full_name(row) for row in results.index.rows if row.status == "ok"} for results in comparison.runs)
    return tuple(sorted(name for name in base - new if limits.of(name) is not None))


def unlike(runs: tuple[Results, Results]) -> tuple[str, ...]:
    """Only two quiet runs of one CPU model, kernel and system setting show a change of the code."""
    base, new = (results.index for results in runs)
    systems = [part for part in machine_differences(base.machine, new.machine) if not part.startswith(f"{_OF_A_NAME} ")]
    named = (("base", base.run.verdict), ("new", new.run.verdict))
    short = (part if len(part) <= _LONGEST else f"{part.partition(' ')[0]} differs" for part in systems)
    return (*short, *(f"the {name} run is {verdict}" for name, verdict in named if verdict != "quiet"))


def read_limits(usual: str | None, path: Path | None) -> Limits:
    """usual: as typed, in place of the file's own. Raises Failure (2) for what is no limit."""
    table = _table(path) if path else {}
    written = usual or table.pop("limit", None)
    table.pop("limit", None)
    rows = table.pop("rows", [])
    entries = [_entry(entry, path) for entry in (rows if isinstance(rows, list) else [rows])]
    if table:
        raise Failure(f"{path}: unknown key {next(iter(table))!r}: known: limit, [[rows]]")
    return Limits(
        USUAL_LIMIT if written is None else _limit(written, "--limit" if usual else f"{path}: limit"),
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


# ---- two commands ---------------------------------------------------------------------------------------------------

SEPARATOR = "--"
MEASURED_AT_MOST = 2

Measure = Callable[[Sequence[str], TimeOptions], Sequence[Opposed]]


def two_commands(words: Sequence[str]) -> tuple[str, str]:
    """BASE -- NEW. A side of one word is a command line, one of several its words. Raises Failure (2)."""
    if words.count(SEPARATOR) != 1:
        raise Failure("expected two commands: `toll gate -- BASE -- NEW`")
    middle = words.index(SEPARATOR)
    base, new = words[:middle], words[middle + 1 :]
    if not base or not new:
        raise Failure("one of the two commands is empty: `toll gate -- BASE -- NEW`")
    base_line, new_line = (side[0] if len(side) == 1 else shlex.join(side) for side in (base, new))
    return base_line, new_line


def gated_commands(base: str, new: str, options: TimeOptions, measure: Measure = ratios) -> GatedCommands:
    """options.precision: the limit, how much more time NEW may take, or how much more of options.metrics, as a share.
    It fails where two measurements find it slower: processes that start anew have other memory layouts. Raises
    Failure as `timed`, and 1 where the two cannot be compared."""
    metric = judging(options.metrics) or TIME
    measured: list[Opposed] = []
    decision = decide([])
    for _ in range(MEASURED_AT_MOST):
        measured.append(_ratio(measure([base, new], options), metric))
        decision = decide([of_pair(measured[-1], new, options.precision)])
        if decision.passes:
            break
    return GatedCommands(base, new, options.precision, tuple(measured), decision)


def _ratio(several: Sequence[Opposed], metric: str) -> Opposed:
    """Raises Failure (1) where the pair has no ratio."""
    ratio = next((change for change in several if change.metric == metric), None)
    if ratio is None:
        why = "it was 0 in too many runs" if any(change.metric == TIME for change in several) else "too few runs"
        raise Failure(f"the two commands have no ratio of {metric}: {why} in the budget", 1)
    return ratio
