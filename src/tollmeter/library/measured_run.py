# SPDX-License-Identifier: Apache-2.0
"""The interface of a run for programs: open one, measure one, compare two."""

from __future__ import annotations

import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from tollmeter.catalog import unknown
from tollmeter.judgement.compare import Comparison
from tollmeter.judgement.compare import compare as compared
from tollmeter.library import places
from tollmeter.library.derive import TABLES, derived_table, open_index, open_run, raw_samples, remembered
from tollmeter.library.options import Options, cpus_text, path_of, texts, typed_budget, typed_names, typed_text
from tollmeter.model import LEAST_CHANGE, Failure, Finding, Index, Level, Machine, Opposed, Results, Row, RunInfo, Value
from tollmeter.report.numbers import count
from tollmeter.root import typed
from tollmeter.store.export import flat_parameters
from tollmeter.store.history import remember
from tollmeter.store.index import NAME as KEPT
from tollmeter.store.parquet import records_of_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class RunComparison(Comparison, frozen=True):
    """A comparison of two runs that a notebook shows, and that becomes a data frame."""

    def to_pandas(self) -> pd.DataFrame:
        """Returns a line for each change, with a column for each parameter. old, new: medians in `unit`; ratio, low,
        high: new over old. Raises Failure (5) if pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            raise _needs("pandas", "to_pandas") from error
        columns, lines = self._table()
        return pd.DataFrame.from_records(lines, columns=columns)

    def _table(self) -> tuple[list[str], list[dict[str, Any]]]:
        lines = [
            {
                "probe": change.new.probe, "abi": change.new.abi, "target": change.new.target,
                "metric": change.new.metric, "parameters": change.new.parameters, "unit": change.new.unit,
                "old": change.old.median, "new": change.new.median, "ratio": change.ratio.value,
                "low": change.ratio.low, "high": change.ratio.high, "verdict": change.verdict, "cause": change.cause,
            } for change in self.changes
        ]  # fmt: skip
        return _with_parameters(list(lines[0]) if lines else [], lines)

    def _repr_html_(self) -> str:
        from tollmeter.report import notebook

        return notebook.comparison_table(self)


def _with_parameters(columns: list[str], lines: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Returns columns and lines with a column for each parameter: of its name, or `parameter_NAME` if that is taken."""

    def own(line: dict[str, Any]) -> dict[str, Value]:
        named = line.get("parameters") or {}
        parameters: dict[str, Value] = msgspec.json.decode(named) if isinstance(named, str) else named
        return {f"parameter_{name}" if name in columns else name: value for name, value in parameters.items()}

    added = [own(line) for line in lines]
    return [*columns, *dict.fromkeys(name for each in added for name in each)], [
        line | each for line, each in zip(lines, added, strict=True)
    ]


class Run:
    """A read-only run folder. All its values are immutable, and derived from its journal."""

    def __init__(self, folder: Path, index: Index) -> None:
        self.folder = folder
        self.index = index

    def __repr__(self) -> str:
        info = self.index.run
        rows = count(len(self.rows), "row")
        return f"<tollmeter.Run {info.id}: {rows}, {info.converged} of {info.points} points converged>"

    @property
    def info(self) -> RunInfo:
        return self.index.run

    @property
    def machine(self) -> Machine:
        return self.index.machine

    @property
    def rows(self) -> tuple[Row, ...]:
        """Returns all rows, one for each metric and point, including rows without a number, which have a reason."""
        return self.index.rows

    @property
    def hierarchy(self) -> tuple[Level, ...]:
        """Returns the measured memory levels, nearest first."""
        return self.index.hierarchy

    @property
    def opposed(self) -> tuple[Opposed, ...]:
        """Returns the ratio of each pair of an interleaved comparison; empty without `against`."""
        return self.index.opposed

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Returns claims about the machine that could be false, gravest first."""
        return self.index.findings

    @cached_property
    def results(self) -> Results:
        """Returns all results: descriptions, builds, and every sample of every visit."""
        return open_run(self.folder)

    def row(
        self, probe: str, metric: str | None = None, *, abi: str | None = None, place: str | None = None,
        **parameters: Value,
    ) -> Row:  # fmt: skip
        """Returns the row of a probe at these parameters, of its first metric unless named. abi, place (the row's
        `target`): required if the run has several. Raises Failure (2) if no row matches, with the nearest names, or
        if several match."""
        return find_row(self.rows, probe, {"metric": metric, "abi": abi, "target": place}, parameters)

    def to_json(self) -> bytes:
        """Returns the text that `toll show --format json` prints."""
        return msgspec.json.encode(self.index)

    def to_pandas(self, what: str = "rows") -> pd.DataFrame:
        """Returns a table of `toll export --what` as a data frame, with a column for each parameter of a row. Raises
        Failure (5) if pandas is not installed."""
        try:
            import pandas as pd
        except ImportError as error:
            raise _needs("pandas", "to_pandas") from error
        columns, lines = _with_parameters(*self._table(what))
        return pd.DataFrame.from_records(lines, columns=columns)

    def to_arrow(self, what: str = "rows") -> pa.Table:
        """Returns a table of `toll export --what` as an Arrow table. Raises Failure (5) if pyarrow is not installed."""
        try:
            import pyarrow as pa
        except ImportError as error:
            raise _needs("pyarrow", "to_arrow") from error
        return pa.Table.from_pylist(self._table(what)[1])

    def _table(self, what: str) -> tuple[list[str], list[dict[str, Any]]]:
        """Returns the columns, and a dictionary for each line."""
        if what not in TABLES:
            raise Failure(f"there is no table {what!r}; known: {', '.join(TABLES)}")
        table = flat_parameters(raw_samples(self.results) if what == "samples" else derived_table(what, self.index))
        return list(table[0]), [{name: line[name] for name in table[0]} for line in records_of_table(table)]

    def _repr_html_(self) -> str:
        """Returns a short table for a notebook, with a link to the page, which is written if it does not exist."""
        from tollmeter.report import notebook, page
        from tollmeter.report.tables import PAGE

        path: Path | None = self.folder.absolute() / PAGE
        if path is not None and not path.is_file():
            try:
                page.write_page(self.results, path)
            except Failure:
                path = None
        link = None
        if path is not None:
            # Relative to the program's folder where it is below that: a browser opens no file:// link of a notebook.
            shown = places.shown(path)
            link = path.as_uri() if shown.is_absolute() else quote(str(shown))
        return notebook.run_table(self.index, link, typed("report", str(self.folder)))


def _needs(package: str, function: str) -> Failure:
    """Returns a failure with the command that installs the package into this environment; the environment of a checkout
    has no pip."""
    pip = "pip" if find_spec("pip") else "tollmeter.installer"
    command = shlex.join([sys.executable, "-m", pip, "install", package])
    return Failure(f"{function}() needs {package}: `{command}`", 5)


def open(run: str | Path = places.LAST) -> Run:  # noqa: A001  that is what it does
    """Opens a folder, a run's name, LAST or LAST~1. Raises Failure: 2 if it is not a run or is of a newer format, 5 if
    it is damaged."""
    folder = places.find_run(str(run))
    return Run(folder, open_index(folder))


def derive(run: str | Path) -> Run:
    """Derives the run again from its journal, without the stored index."""
    folder = places.find_run(str(run))
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / folder.name
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(KEPT, "report.html"))
        index = open_run(copy).index
    return Run(folder, msgspec.structs.replace(index, run=msgspec.structs.replace(index.run, folder=str(folder))))


def measure(
    *words: str,
    budget: str | float | None = None,
    abi: str | Sequence[str] | None = None,
    target: str | Sequence[str] | None = None,
    precision: str | None = None,
    priority: str | None = None,
    clock: str | None = None,
    seed: int | None = None,
    cpus: str | Sequence[int] | None = None,
    folder: str | Path | None = None,
    peer: str | None = None,
    out: str | Path | None = None,
    against: str | Sequence[str] = (),
) -> Run:
    """Measures, and returns the run when it is complete. words, options: as for `toll run`; without words the default
    suite. budget: also a number of seconds.

    While it measures, it changes signal handlers and the thread's CPUs; outside the main thread no signal ends it.
    Raises Failure; and KeyboardInterrupt after a Ctrl-C, once the measured part is stored. SIGTERM and SIGHUP then have
    the program's own effect."""
    from tollmeter.conduct import Stopping
    from tollmeter.library.measure import measured, no_observers
    from tollmeter.library.prepare import prepared

    options = Options(
        texts("words", words), typed_names("abi", abi), typed_budget(budget), seed, cpus_text(cpus),
        path_of("out", out), "table", True, time.monotonic(), typed_names("target", target),
        typed_text("precision", precision), typed_text("priority", priority), texts("against", against),
        clock=typed_text("clock", clock), folder=path_of("folder", folder), peer=typed_text("peer", peer),
    )  # fmt: skip
    ready = prepared(options)
    with Stopping() as stopping:
        kept = measured(ready, options, no_observers, stopping).folder
    if stopping.signal == signal.SIGINT:
        raise KeyboardInterrupt(
            f"the run in {kept} was interrupted: `{typed('run', '--resume', str(kept))}` resumes it"
        )
    if stopping.signal is not None:
        signal.raise_signal(stopping.signal)
    run = open(kept)
    remember(places.RUNS, remembered(run.results))
    return run


def compare(
    old: Run | str | Path, new: Run | str | Path, least: float = LEAST_CHANGE, *, machines: bool = False
) -> RunComparison:
    """Compares all rows that have a number in both runs. least: relative change that matters, 0.01 is 1 %. machines:
    compares two machines, in time and not in cycles, without causes of changes."""
    before, after = (run if isinstance(run, Run) else open(run) for run in (old, new))
    return RunComparison(**msgspec.structs.asdict(compared(before.index, after.index, least, machines=machines)))


# ---- one row --------------------------------------------------------------------------------------------------------

_MOST_SHOWN = 6
_KEYWORDS = {"metric": "metric", "abi": "abi", "target": "place"}
"""Parameter of `Run.row` that selects a row, by the row's field."""


def find_row(rows: Sequence[Row], probe: str, fields: Mapping[str, str | None], parameters: Mapping[str, Value]) -> Row:
    """Returns the row of a probe at these parameters. fields: metric, abi and target of the row; None for any, and for
    the first metric. Raises Failure (2): with the nearest names for an unknown name or value, and with the
    differences of the rows if several match."""
    matching = _having(rows, attrgetter("probe"), probe, "probe", "in this run")
    for field, name in fields.items():
        if name is not None:
            matching = _having(matching, attrgetter(field), name, field, f"of {probe}")
    for name, value in parameters.items():
        if not any(name in row.parameters for row in matching):
            known = sorted({parameter for row in matching for parameter in row.parameters})
            raise unknown("parameter", name, known, place=f"of {probe}")
        matching = _having(matching, partial(_parameter, name), value, "value", f"for {name} of {probe}")
    if fields["metric"] is None:
        matching = [row for row in matching if row.metric == matching[0].metric]
    if len(matching) > 1:
        raise Failure(
            f"{len(matching)} rows of {probe} match; they differ in {' and in '.join(_differences(matching))}"
        )
    return matching[0]


def _parameter(name: str, row: Row) -> Value | None:
    return row.parameters.get(name)


def _having(
    rows: Sequence[Row], field: Callable[[Row], Value | None], wanted: Value, kind: str, place: str
) -> list[Row]:
    matching = [row for row in rows if field(row) == wanted]
    if matching:
        return matching
    available = dict.fromkeys(value for row in rows if (value := field(row)) is not None)
    numbers = [value for value in available if isinstance(value, int)]
    if isinstance(wanted, int) and numbers:
        near = sorted(numbers, key=lambda value: abs(value - wanted))
        raise Failure(f"there is no {kind} {wanted} {place}; the nearest: {_listed(near)}")
    raise unknown(kind, str(wanted), [str(value) for value in available], place=place)


def _differences(rows: Sequence[Row]) -> Iterator[str]:
    """Yields each keyword of `Run.row` that distinguishes the rows, with its values."""
    values = {keyword: dict.fromkeys(getattr(row, field) for row in rows) for field, keyword in _KEYWORDS.items()}
    for name in dict.fromkeys(name for row in rows for name in row.parameters):
        values[name] = dict.fromkeys(row.parameters.get(name) for row in rows)
    for keyword, several in values.items():
        if len(several) > 1:
            yield f"{keyword}= ({_listed([*several])})"


def _listed(values: Sequence[Value | None]) -> str:
    return ", ".join(map(str, values[:_MOST_SHOWN])) + (", ..." if len(values) > _MOST_SHOWN else "")
