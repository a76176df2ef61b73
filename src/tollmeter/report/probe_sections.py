# SPDX-License-Identifier: Apache-2.0
"""The page's text about each probe, each finding's chart, and the origin of the numbers."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tollmeter.model import Cache, Finding, Results, Row
from tollmeter.model.topology import RELATION, listed
from tollmeter.report.charts import Chart
from tollmeter.report.numbers import count, size
from tollmeter.report.tables import Discarded, gaps
from tollmeter.root import typed

RUN_FACTS = ("id", "suite", "started", "status", "seed", "tollmeter", "folder")
TYPED = ("command", "anew", "places")
"""Parts of the request that the printed command contains."""
HINTS = (
    (r"cache|huge|page|tlb|latency|l[123]", "latency"),
    (r"bandwidth|prefetch|stream", "bandwidth"),
    (r"steal|noise|control|frequency|steady", "steadiness"),
    (r"copy|copies", "copy"),
    (r"trap|intercept", "traps"),
    (r"clock|vdso|gate|entry", "traps"),
)


@dataclass(frozen=True)
class Dossier:
    """The question, results, gaps, charts, and rows with a number of one probe. seen: revision, ABIs and discarded
    samples, in words. shown: its general charts; charts: its other charts. parameters: columns of its rows.

    gaps: status, reason, number of rows. places: whether the rows are of several targets or clocks. explain: the
    command that explains its numbers."""

    name: str
    anchor: str
    question: str
    seen: tuple[str, ...]
    gaps: list[tuple[str, str, int]]
    shown: tuple[Chart, ...]
    charts: tuple[Chart, ...]
    parameters: tuple[str, ...]
    places: bool
    rows: list[Row]
    explain: str


@dataclass(frozen=True)
class Family:
    """One family of probes or one group of the suite. charts: charts of several of its probes. lead: the chart of a
    group that is always open: the first chart of several probes, else of one. extent: number of questions and of
    numbers, in words."""

    anchor: str
    name: str
    probes: tuple[Dossier, ...]
    charts: tuple[Chart, ...]
    extent: str
    lead: Chart | None


def dossiers(results: Results, drawn: Sequence[Chart], discarded: Discarded) -> tuple[Dossier, ...]:
    """Returns one dossier for each probe that was described or has a row, by name."""
    rows: dict[str, list[Row]] = {name: [] for name in results.probes}
    for row in results.index.rows:
        rows.setdefault(row.probe, []).append(row)
    return tuple(_dossier(results, name, rows[name], drawn, _discarded(*discarded.get(name, (0, Counter()))))
                 for name in sorted(rows))  # fmt: skip


def families(probes: Iterable[Dossier], folded: Sequence[Chart], groups: Mapping[str, str]) -> tuple[Family, ...]:
    """Returns the families and groups of probes. folded: charts of the whole machine that are shown with the family of
    their first probe. groups: by probe, the group that the suite names in place of its family."""
    members_of: dict[str, list[Dossier]] = {name: [] for name in groups.values()}
    for probe in probes:
        members_of.setdefault(_group(probe.name, groups), []).append(probe)
    families_made = []
    for name, members in members_of.items():
        charts = tuple(chart for chart in folded if chart.probes and _group(chart.probes[0], groups) == name)
        numbers = sum(len(probe.rows) for probe in members)
        extent = f"{count(len(members), 'question')}, {count(numbers, 'number')}"
        group_charts = (
            (*charts, *(chart for probe in members for chart in probe.charts)) if name in groups.values() else ()
        )
        families_made.append(
            Family(_anchor(name), name, tuple(members), charts, extent, next(iter(group_charts), None))
        )
    return tuple(families_made)


def _group(probe: str, groups: Mapping[str, str]) -> str:
    return groups.get(probe) or probe.split(".", maxsplit=1)[0]


def _dossier(results: Results, name: str, rows: Sequence[Row], drawn: Sequence[Chart], discarded: str) -> Dossier:
    probe = results.probes.get(name)
    with_number = [row for row in rows if row.status == "ok"]
    names = dict.fromkeys(key for row in with_number for key in row.parameters if key != RELATION)
    parameters = (*names, *([RELATION] if any(row.relation for row in with_number) else []))
    abis = dict.fromkeys(row.abi for row in rows)
    summary = (f"revision {rows[0].revision}" if rows else "no row", ", ".join(abis), discarded)
    return Dossier(
        name=name,
        anchor=_anchor(name),
        question=probe.question if probe else "",
        seen=tuple(filter(None, summary)),
        gaps=gaps(rows),
        shown=tuple(chart for chart in drawn if chart.general and name in chart.probes),
        charts=tuple(chart for chart in drawn if not chart.general and name in chart.probes),
        parameters=parameters,
        places=len({(row.target, row.clock) for row in with_number}) > 1,
        rows=with_number,
        explain=typed("show", results.index.run.folder, "--explain", name),
    )


def _anchor(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)


def explain_words(row: Row) -> str:
    """Returns the words that select a row for `--explain`."""
    return shlex.join([row.probe, *(f"{name}={value}" for name, value in row.parameters.items() if name != RELATION)])


def _discarded(taken: int, why: Counter[str]) -> str:
    """Returns how many of a probe's samples were discarded and on what evidence; empty if no sample was taken."""
    if not taken or not why:
        return f"none of {count(taken)} samples discarded" if taken else ""
    reasons = ", ".join(f"{reason} {number}" for reason, number in why.most_common())
    return f"{count(why.total())} of {count(taken)} samples discarded: {reasons}"


def chart_of(finding: Finding, drawn: Sequence[Chart]) -> Chart | None:
    """Returns the chart of a probe that the evidence names, else of the subject of the finding's name; None without
    one."""
    what = " ".join(item.what for item in finding.evidence)
    named = [chart for chart in drawn if any(re.search(rf"\b{re.escape(probe)}\b", what) for probe in chart.probes)]
    if named:
        return min(named, key=lambda chart: len(chart.probes))
    by_name = {chart.name: chart for chart in drawn}
    hinted = (name for pattern, name in HINTS if name in by_name and re.search(pattern, finding.name))
    return by_name.get(next(hinted, ""))


def command(results: Results) -> str:
    """Returns the command that repeats the measurement."""
    requested = results.request.get("command")
    if isinstance(requested, str) and requested:
        return requested
    if isinstance(requested, list | tuple) and requested:
        return shlex.join(str(word) for word in requested)
    return typed("run", results.index.run.suite, "--seed", str(results.index.run.seed))


def provenance(results: Results) -> list[tuple[str, str]]:
    """Returns the recorded facts of the machine and of the run, and the requested options, as names and values."""
    machine, run = results.index.machine, results.index.run
    lines = [
        ("host", machine.host),
        ("CPU", machine.cpu),
        ("architecture", machine.architecture),
        ("kernel", machine.kernel),
        ("hypervisor", machine.hypervisor or "none seen"),
        ("CPUs", f"{machine.cpus}, allowed: {listed(machine.allowed_cpus)}"),
        ("memory", str(size(machine.memory_bytes))),
        ("page", str(size(machine.page_bytes))),
        *((f"L{cache.level} {cache.kind}, as the system says", _cache(cache)) for cache in machine.caches),
        *sorted(machine.facts.items()),
        *((name, str(getattr(run, name))) for name in RUN_FACTS),
        *((f"requested: {name}", _list(value)) for name, value in results.request.items() if name not in TYPED),
    ]
    return [(name, value) for name, value in lines if value]


def _cache(cache: Cache) -> str:
    parts = (
        str(size(cache.size_bytes)) if cache.size_bytes else "size unknown",
        f"{cache.ways} ways" if cache.ways else "",
        f"lines of {cache.line_bytes} B" if cache.line_bytes else "",
        f"shared by CPUs {cache.shared_cpus}" if cache.shared_cpus else "",
        f"from {cache.source}" if cache.source else "",
    )
    return ", ".join(filter(None, parts))


def _list(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
