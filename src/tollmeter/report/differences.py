# SPDX-License-Identifier: Apache-2.0
"""What differs between runs besides their numbers: hardware, kernel, options, compilers, revisions of probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tollmeter.judgement.compare import PASSING_FACTS
from tollmeter.model import Book
from tollmeter.report import tables, worth
from tollmeter.report.numbers import DASH, percent, size
from tollmeter.report.tables import Column, Line, Table, table

MOST_NAMED = 6
LEAST_CONTENDED = 0.05
"""A smaller share of the samples is no difference between runs."""


class Differences(NamedTuple):
    """differ: between runs; others: between systems, without volatile values; same: in common, in words."""

    differ: Table | None
    others: Table | None
    same: str


def differences(books: Sequence[Book], labels: Sequence[str]) -> Differences:
    """labels: the headings of the runs' columns."""
    every = [_facts(book) for book in books]
    differ = [name for name in every[0] if any(facts[name] != every[0][name] for facts in every)]
    same = [f"{name} {value}" for name, value in every[0].items() if name not in differ and value]
    systems = [book.index.machine.facts for book in books]
    names = sorted({name for facts in systems for name in facts} - {*PASSING_FACTS})
    others = [name for name in names if any(facts.get(name) != systems[0].get(name) for facts in systems)]
    return Differences(
        _side_by_side("What differs", differ, every, labels),
        _side_by_side("facts", others, systems, labels),
        "; ".join(same),
    )


def run_name(book: Book) -> str:
    return Path(book.index.run.folder).resolve().name


def _facts(book: Book) -> dict[str, str]:
    machine, run = book.index.machine, book.index.run
    numbered = [row for row in book.index.rows if row.status == "ok"]
    return {
        "run": run_name(book),
        "suite": run.suite,
        "options": _options(book),
        "CPU": tables.short_cpu(machine.cpu),
        "CPUs": str(machine.cpus),
        "memory": str(size(machine.memory_bytes)),
        "kernel": machine.kernel,
        "hypervisor": machine.hypervisor or "none seen",
        "core clock": f"{machine.core_clock_hz / 1e9:.2f} GHz" if machine.core_clock_hz else "",
        "pages": str(size(machine.page_bytes)),
        "ABIs": ", ".join(sorted({row.abi for row in numbered})),
        "compilers": ", ".join(sorted({build.compiler for build in book.builds})),
        "clocks": ", ".join(sorted({row.clock for row in numbered})),
        "contended samples": _contended(run.shared_share),
        "verdict": worth.called(run),
        "Tollmeter": run.tollmeter,
    }


def _contended(share: float | None) -> str:
    if share is None:
        return ""
    return percent(share) if share >= LEAST_CONTENDED else f"under {percent(LEAST_CONTENDED)}"


def _options(book: Book) -> str:
    """What was typed that changes how a row is measured."""
    cpus = ",".join(map(str, book.request.get("cpus", ())))
    budget = f"budget {book.request['budget_seconds']:g} s" if "budget_seconds" in book.request else ""
    precision = f"precision {100 * book.index.run.precision:g} %"
    words = (budget, precision, f"CPUs {cpus}" if cpus else "", " ".join(book.request.get("places", ())))
    return ", ".join(filter(None, words))


def _side_by_side(
    title: str, names: Sequence[str], every: Sequence[Mapping[str, str]], labels: Sequence[str]
) -> Table | None:
    lines = [Line((name.replace("_", " "), *(facts.get(name) or DASH for facts in every))) for name in names]
    return table(title, [Column(title), *map(Column, labels)], lines) if lines else None


def revisions(books: tuple[Book, Book]) -> dict[str, tuple[int, int]]:
    """The probes that have rows of different revisions in two runs: a revision changes what a number means."""
    first, second = ({row.probe: row.revision for row in book.index.rows} for book in books)
    return {name: (first[name], second[name]) for name in first if second.get(name, first[name]) != first[name]}


def not_compared(books: tuple[Book, Book]) -> list[str]:
    """Which probes are not compared, and which executables of the same probes are not the same."""
    moved = [f"{name} ({old} and {new})" for name, (old, new) in revisions(books).items()]
    sentences = (
        [f"Not compared, since a number of another revision means something else: {_named(moved)}."] if moved else []
    )
    first, second = ({(build.probe, build.abi): build.sha256 for build in book.builds} for book in books)
    both = [key for key in first if key in second]
    other = [f"{probe} for {abi}" for probe, abi in both if first[probe, abi] != second[probe, abi]]
    if other:
        sentences.append(f"{len(other)} of {len(both)} executables that both have are not the same: {_named(other)}.")
    return sentences


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
