# SPDX-License-Identifier: Apache-2.0
"""A comparison for other programs: JSON, and Markdown for a merge request."""

from __future__ import annotations

import msgspec

from tollmeter.judgement.compare import Comparison
from tollmeter.model import Machine, Record, RunInfo
from tollmeter.report.compared import blocks
from tollmeter.report.compared_rows import Compared
from tollmeter.report.markdown import MOST_CHARACTERS, grid_of, text
from tollmeter.report.tables import Table

FORMAT = 1


class ComparedRun(Record, frozen=True):
    """One run, or the rows of one run with one value of the property that is compared: then label is that value."""

    label: str
    run: RunInfo
    machine: Machine


class ComparisonDocument(Record, frozen=True):
    """What `toll compare --format json` prints. runs: the reference first; comparisons: of each other one with it. by:
    the property of the rows of one run, empty where runs are compared."""

    format: int
    by: str
    machines: bool
    runs: tuple[ComparedRun, ...]
    comparisons: tuple[Comparison, ...]


def as_json(compared: Compared) -> bytes:
    named = zip(compared.labels, compared.books, strict=True)
    runs = tuple(ComparedRun(label=label, run=book.index.run, machine=book.index.machine) for label, book in named)
    document = ComparisonDocument(
        format=FORMAT, by=compared.by, machines=compared.machines, runs=runs, comparisons=compared.comparisons
    )
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def as_markdown(compared: Compared, *, whole: bool) -> str:
    """Where all of it is longer than MOST_CHARACTERS, the last rows of the longest table are left out."""
    parts = blocks(compared, whole=whole)
    made = [text(part) if isinstance(part, str) else grid_of(part) for part in parts]
    over = sum(len(part) + 2 for part in made) - MOST_CHARACTERS
    if over > 0:
        longest = max(range(len(made)), key=lambda place: len(made[place]) * isinstance(parts[place], Table))
        made[longest] = _shortened(made[longest], len(made[longest]) - over)
    return "\n\n".join(made) + "\n"


def _shortened(grid: str, most: int) -> str:
    lines = grid.splitlines()
    note = f"{len(lines)} more rows are left out"
    while lines and sum(len(line) + 1 for line in lines) + len(note) + 8 > most:
        lines.pop()
    return "\n".join(lines) + f"\n\n{len(grid.splitlines()) - len(lines)} more rows are left out."
