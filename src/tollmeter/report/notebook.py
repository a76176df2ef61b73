# SPDX-License-Identifier: Apache-2.0
"""A run or a comparison in a notebook's output cell: a short table, and for a run a link to its page. The size is
limited, since a saved notebook keeps every output."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from tollmeter.judgement.compare import Comparison, Verdict
from tollmeter.model import Index, Row, cell_text, printable
from tollmeter.report.compared_rows import change_verdict, ratio_figure
from tollmeter.report.numbers import of_row

MOST_BYTES, _MOST_ROWS = 40_000, 100
_NAMES = ("probe", "parameters", "ABI", "target", "metric", "median")
_ORDER: tuple[Verdict, ...] = ("slower", "faster", "differs", "cannot tell", "same")


def run_table(index: Index, link: str | None, command: str) -> str:
    """Returns HTML. link: link to the page, None without one; command: the command that writes one."""
    run = index.run
    head = f"{run.suite}, {run.started}, {run.converged} of {run.points} points converged, verdict: {run.verdict}"
    shown = _within_bytes(_line("td", _cells(row)) for row in _chosen(index.rows))
    page = (
        f'<a href="{_text(link)}">the page of the run</a>' if link else f"<code>{_text(command)}</code> writes the page"
    )
    return (
        f"<p><b>{_cell(run.id)}</b>: {_cell(head)}</p><table>{_line('th', _NAMES)}{''.join(shown)}</table>"
        f"<p>{len(shown)} of {len(index.rows)} rows; <code>run.rows</code> has all; {page}</p>"
    )


def comparison_table(compared: Comparison) -> str:
    """Returns the changes as HTML: slower and faster rows, then inconclusive rows, then the same."""
    numbers = Counter(change.verdict for change in compared.changes)
    counted = ", ".join(f"{numbers[name]} {name}" for name in _ORDER if numbers[name])
    ordered = sorted(compared.changes, key=lambda change: _ORDER.index(change.verdict))
    lines = _within_bytes(
        _line("td", (*_cells(change.old), str(of_row(change.new)), str(ratio_figure(change)), change_verdict(change)))
        for change in ordered[:_MOST_ROWS]
    )
    differences = "".join(f"<li>{_cell(difference)}</li>" for difference in compared.differences[:_MOST_ROWS])
    return (
        f"<p>{_cell(counted or 'no row in both runs')}; {len(compared.refused)} rows not compared</p>"
        f"<ul>{differences}</ul><table>{_line('th', (*_NAMES[:-1], 'old', 'new', 'new/old', 'verdict'))}"
        f"{''.join(lines)}</table><p>{len(lines)} of {len(compared.changes)} rows</p>"
    )


def _within_bytes(lines: Iterable[str]) -> list[str]:
    """Returns the first lines, as many as fit into MOST_BYTES."""
    lines_listed = list(lines)
    sizes = accumulate(len(line.encode()) for line in lines_listed)
    return [line for line, total in zip(lines_listed, sizes, strict=True) if total <= MOST_BYTES]


def _chosen(rows: Sequence[Row]) -> list[Row]:
    """Returns at most MOST_ROWS rows in the order of the run: the first row of each probe, then the second of each, and
    so on."""
    rows_of_probe: Counter[str] = Counter()
    ranks = []
    for row in rows:
        ranks.append(rows_of_probe[row.probe])
        rows_of_probe[row.probe] += 1
    return [rows[place] for place in sorted(sorted(range(len(rows)), key=ranks.__getitem__)[:_MOST_ROWS])]


def _cells(row: Row) -> tuple[str, ...]:
    parameters = ", ".join(f"{name} {value}" for name, value in row.parameters.items())
    median = str(of_row(row)) if row.status == "ok" else f"{row.status}: {row.reason or ''}"
    return row.probe, parameters, row.abi, row.target, row.metric, median


def _line(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_cell(cell)}</{tag}>' for cell in cells)}</tr>"


def _cell(text: str) -> str:
    return html.escape(cell_text(text))


def _text(text: str) -> str:
    return html.escape(printable(text))
