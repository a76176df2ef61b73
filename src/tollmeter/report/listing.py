# SPDX-License-Identifier: Apache-2.0
"""The rows of a small run, unsummarised, since the user requested only a few points."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from msgspec.structs import replace as replace_in

from tollmeter.model import Results, Row, Value
from tollmeter.model.topology import RELATION
from tollmeter.numbers.meanings import sizes_of
from tollmeter.numbers.units import in_words
from tollmeter.report import run_verdict
from tollmeter.report.blocks import Block, Column, Line, Table, heading
from tollmeter.report.numbers import count, of_row, size
from tollmeter.report.tables import gaps, upper
from tollmeter.root import typed

MOST_ROWS = 40
_LOCAL = "local"


def listing(results: Results, most: int = MOST_ROWS, *, whole: bool = False) -> Table | None:
    """Returns the table of the rows with a number, with requested or distinguishing parameters, and with targets if
    they differ. whole: includes all rows; else only typical rows if there are many, with the command that prints the
    others. None without rows, or for more than `most`."""
    rows = [row for row in results.index.rows if row.status == "ok"]
    if not rows or (len(rows) > most < MOST_ROWS and not whole):
        return None
    typical = [row for row in rows if _is_typical(row, results)] or rows
    shown = rows if whole or len(rows) <= MOST_ROWS else typical[:MOST_ROWS]
    places = {_place(row) for row in shown}
    columns, lines = _one_probe(shown, results) if len({row.probe for row in shown}) == 1 else _several(shown, results)
    if len(places) == 1 and places != {_LOCAL}:
        columns[0] = Column(f"{columns[0].name} ({_place(shown[0])})")
    for name, values in (("ABI", [row.abi for row in shown]), ("where", [_place(row) for row in shown])):
        if len(set(values)) > 1:
            columns.append(Column(name))
            lines = [(*line, value) for line, value in zip(lines, values, strict=True)]
    table_lines = [Line((*line, of_row(row))) for line, row in zip(lines, shown, strict=True)]
    if len(rows) > len(shown):
        rest = typed("show", results.index.run.folder, "--format", "csv")
        table_lines[-1] = replace(table_lines[-1], note=f"and {count(len(rows) - len(shown), 'row')} more: `{rest}`")
    return Table([*columns, Column("median", True)], table_lines)


def rows_by_probe(results: Results) -> Iterator[Block]:
    """Yields the run's verdict, all rows with a number, by probe, each under its question, and the reason of each
    gap."""
    yield upper(run_verdict.verdict_sentence(results))
    for name in dict.fromkeys(row.probe for row in results.index.rows):
        rows = tuple(row for row in results.index.rows if row.probe == name)
        table = listing(replace_in(results, index=replace_in(results.index, rows=rows)), whole=True)
        if table is not None:
            yield heading(f"{name}: {results.probes[name].question}" if name in results.probes else name)
            yield table
    for _, reason, number in gaps(results.index.rows):
        yield f"{count(number, 'row')}: {reason}"


def _one_probe(rows: Sequence[Row], results: Results) -> tuple[list[Column], list[tuple[str, ...]]]:
    """Returns the columns and lines of one probe's rows, with a column for each displayed parameter."""
    varying = _varying(rows)
    names = list(dict.fromkeys(name for row in rows for name in _shown(row, varying, results)))
    lines = [(row.metric, *(value_in_words(results, row, name) for name in names)) for row in rows]
    return [Column(rows[0].probe), *map(Column, names)], lines


def _several(rows: Sequence[Row], results: Results) -> tuple[list[Column], list[tuple[str, ...]]]:
    """Returns the columns with the parameters after each probe's name, since each probe has other parameters."""
    varying = _varying(rows)
    lines: list[tuple[str, ...]] = []
    for row in rows:
        values = [f"{name} {value_in_words(results, row, name)}" for name in _shown(row, varying, results)]
        lines.append((f"{row.probe} {', '.join(values)}".rstrip(), row.metric))
    return [Column("Rows"), Column("metric")], lines


def _shown(row: Row, varying: set[tuple[str, str]], results: Results) -> list[str]:
    """Returns the parameters that were requested or distinguish the row; for several workers, the relation of their
    CPUs."""
    names = [name for name in row.parameters if (row.probe, name) in varying or _is_requested(name, row, results)]
    return [*(name for name in names if name != RELATION), *([RELATION] if row.relation else [])]


def _is_typical(row: Row, results: Results) -> bool:
    """Returns whether a row is at the requested values, or at the typical values of its probe."""
    probe = results.probes.get(row.probe)
    return all(
        parameter.typical is None
        or str(row.parameters.get(parameter.name)) == parameter.typical
        or _is_requested(parameter.name, row, results)
        for parameter in (probe.parameters if probe else ())
    )


def _place(row: Row) -> str:
    """Returns the target and clock of a row. The clock is printed only if neither target nor unit implies it."""
    return f"{row.target}, {row.clock}" if row.clock in ("virtual", "external") else row.target


def _is_requested(name: str, row: Row, results: Results) -> bool:
    """Returns whether a selection of the row's probe names the parameter."""
    selects = results.suite.select if results.suite else ()
    return any(name in select.parameters and fnmatchcase(row.probe, select.probe) for select in selects)


def _varying(rows: Sequence[Row]) -> set[tuple[str, str]]:
    """Returns probe and name of each parameter that has several values in the rows, or a value in only some of them."""
    names, values = defaultdict[str, set[str]](set), defaultdict[tuple[str, str], set[Value | None]](set)
    for row in rows:
        names[row.probe].update(row.parameters)
    for row in rows:
        for name in names[row.probe]:
            values[row.probe, name].add(row.parameters.get(name))
    return {key for key, several in values.items() if len(several) > 1}


def value_in_words(results: Results, row: Row, name: str) -> str:
    """Returns the value of a parameter; empty if this row has none of that name."""
    if name == RELATION:
        return row.relation or ""
    value = row.parameters.get(name, "")
    if isinstance(value, int) and name in sizes_of(results.probes.get(row.probe)):
        return str(size(value))
    return in_words(value) + (f" ({row.chosen[name]})" if name in row.chosen else "")
