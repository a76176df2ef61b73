# SPDX-License-Identifier: Apache-2.0
"""A comparison for other programs: JSON, Markdown for a merge request, test cases, and Go's benchmark format."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import log
from typing import NamedTuple

import msgspec

from tollmeter.judgement.compare import Change, Comparison
from tollmeter.model import Machine, Record, RunInfo, Value
from tollmeter.report.ci_cases import Annotation, Case
from tollmeter.report.columns import clean
from tollmeter.report.compared import attribution, blocks
from tollmeter.report.compared_rows import Compared, full_name, ratio, verdict
from tollmeter.report.markdown import MOST_CHARACTERS, grid_of, text
from tollmeter.report.tables import Table

FORMAT = 1
_GO_UNITS = {"ns": "ns/op", "B": "B/op", "cycle": "cycles/op", "instruction": "instrs/op", "fault": "faults/op"}


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


def cases(compared: Compared) -> list[Case]:
    """One for each row and run: it fails where the row is slower and the machine does not explain it."""
    several = len(compared.comparisons) > 1
    return [
        _case(change, f" {label}" if several else "")
        for label, one in zip(compared.labels[1:], compared.comparisons, strict=True)
        for change in one.changes
    ]


def _case(change: Change, of: str) -> Case:
    name, probe = f"{full_name(change.old)}{of}", change.old.probe
    if change.verdict == "slower" and change.cause != "machine":
        return Case(name, probe, "failed", f"{verdict(change)}, ratio {ratio(change)}")
    if change.verdict == "cannot tell" or change.cause == "machine":
        return Case(name, probe, "skipped", verdict(change).removeprefix("? "))
    return Case(name, probe, "passed")


def annotated(compared: Compared) -> list[Annotation]:
    """An error for each row that is slower, the worst first; a warning for each run whose changes are the machine's."""
    blamed = (attribution(one, label) for label, one in zip(compared.labels[1:], compared.comparisons, strict=True))
    warnings = [Annotation("warning", "toll compare", sentence) for sentence in blamed if sentence]
    slower = [change for each in compared.comparisons for change in each.changes if change.verdict == "slower"]
    worst = sorted(
        (change for change in slower if change.cause != "machine"), key=lambda one: -abs(log(one.ratio.value))
    )
    return [*(Annotation("error", full_name(change.old), verdict(change)) for change in worst), *warnings]


def as_benchmarks(compared: Compared, values: Iterable[Iterable[VisitLine]]) -> Iterator[str]:
    """What `benchstat -col run FILE` reads: one line for each visit, and the run as a key of the file."""
    for label, book, lines in zip(compared.labels, compared.books, values, strict=True):
        machine = book.index.machine
        yield f"run: {label}\ncpu: {clean(machine.cpu)}\nkernel: {clean(machine.kernel)}\n"
        for line in lines:
            yield "".join(f"Benchmark{line.name} 1 {value:.9g} {_go_unit(line.unit)}\n" for value in line.values)


def _go_unit(unit: str) -> str:
    return _GO_UNITS.get(unit, unit)


class VisitLine(NamedTuple):
    """values: one for each visit. name: as Go names a benchmark, without its prefix."""

    name: str
    unit: str
    values: Sequence[float]


def go_name(probe: str, metric: str, parameters: Iterable[tuple[str, Value]], abi: str, target: str) -> str:
    """Without blanks: `Memory.latency/metric=load/size=4096/abi=x86_64/target=local`."""
    keys = (("metric", metric), *parameters, ("abi", abi), ("target", target))
    words = (probe[:1].upper() + probe[1:], *(f"{name}={value}" for name, value in keys))
    return "/".join(re.sub(r"[\s/]+", "_", clean(word)) for word in words)
