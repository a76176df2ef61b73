# SPDX-License-Identifier: Apache-2.0
"""Groups of tolls, the few tolls that represent all, and the toll ladder: the table with a dot and its interval in each
row.

The page draws the ladder without a script: positions on the log scale are shares of its width."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.model import Probe, Results, Toll
from tollmeter.numbers.meanings import meaning
from tollmeter.report.blocks import Column, Line, Table
from tollmeter.report.numbers import time, without_idle_zeros
from tollmeter.report.shown import best_known, own_groups
from tollmeter.report.tables import brief, toll_line, toll_table, was_contended

COMPUTING, _MEMORY, _KERNEL, _OTHERS = "computing", "memory", "kernel", "other processes"
VULNERABILITY = "vulnerability_"
GROUPS = (COMPUTING, _MEMORY, _KERNEL, _OTHERS)
_FAMILIES = {"memory": _MEMORY, "kernel": _KERNEL}


def toll_groups(results: Results) -> tuple[tuple[str, tuple[Toll, ...]], ...]:
    """Returns each group that has a line, in the order of the suite, or of GROUPS; within a group in the table's
    order."""
    groups_of_suite = own_groups(results)
    members: dict[str, list[Toll]] = {name: [] for name in (*groups_of_suite.values(), *GROUPS)}
    for toll in results.index.tolls:
        members[groups_of_suite.get(toll.probe) or toll_group(toll, results.probes)].append(toll)
    return tuple((name, tuple(tolls)) for name, tolls in members.items() if tolls)


def toll_group(toll: Toll, probes: Mapping[str, Probe]) -> str:
    """Returns the group of a toll: its family, or a separate group for kernel tolls that give the CPU to another
    process."""
    group = _FAMILIES.get(toll.probe.split(".")[0], COMPUTING)
    probe = probes.get(toll.probe)
    return _OTHERS if group == _KERNEL and probe is not None and (probe.switches or probe.roles) else group


def group_tables(results: Results) -> list[Table]:
    """Returns a table of tolls for each group that the suite names, with the table of mitigations after the group of
    the shortest system call. Empty if the suite names no group."""
    if not own_groups(results):
        return []
    tables = []
    for name, tolls in toll_groups(results):
        if table := brief(toll_table(results, tolls)):
            tables.append(replace(table, own_title=name.capitalize()))
        if _has_entry(results, tolls) and (mitigations := mitigations_table(results)):
            tables.append(mitigations)
    return tables


def mitigations_table(results: Results) -> Table | None:
    """Returns the table of the kernel's mitigations of this CPU's vulnerabilities; None if the kernel lists none, or if
    no group of the suite has the shortest system call."""
    if not any(
        _has_entry(results, tolls) for name, tolls in toll_groups(results) if name in own_groups(results).values()
    ):
        return None
    states = sorted(results.index.machine.facts.items())
    lines = [
        Line((name.removeprefix(VULNERABILITY).replace("_", " "), state))
        for name, state in states
        if name.startswith(VULNERABILITY) and state != "Not affected"
    ]
    columns = Column("Mitigations"), Column("what entries, switches and faults may pay for")
    return Table(columns, lines) if lines else None


def _has_entry(results: Results, tolls: Sequence[Toll]) -> bool:
    return any(meaning(toll, results.probes) == "entry" for toll in tolls)


# ---- ladder ---------------------------------------------------------------------------------------------------------

MOST_TICKS = 5
_MARGIN = 2.0
"""Percentage of the width that is free on either side, so that no dot is cut."""


@dataclass(frozen=True)
class Rung:
    """A line of the toll ladder, as in the toll table. remark: number of the shared remark below the table, from 1 on,
    with the toll's own words in its note. known: whether it is a best known toll, which is shown before the other lines
    are expanded. words: explanations of words in its name, by parameter. at, low, high: positions of its mark and of
    the interval's ends, in per cent of the scale; empty without a number. firm: whether it has enough visits."""

    line: Line
    known: bool
    remark: int
    words: str
    at: str = ""
    low: str = ""
    high: str = ""
    firm: bool = False


@dataclass(frozen=True)
class Ladder:
    """The toll ladder. time, beside: headings of the column of the time, and of the next one. ticks: position in per
    cent, and label. remarks: remarks that several tolls share, by number. words: explanations of words in the names,
    by probe and parameter."""

    time: str
    beside: str
    ticks: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[Rung, ...]], ...]
    remarks: tuple[str, ...] = ()
    words: tuple[tuple[str, str], ...] = ()


def ladder(results: Results) -> Ladder | None:
    """Returns the ladder; None if no toll has a number. The scale has whole decades of nanoseconds, each with a line,
    and labels for as many as fit."""
    paid = [toll for toll in results.index.tolls if toll.value is not None and toll.value > 0]
    if not paid:
        return None
    exponents = [math.log10(toll.value) for toll in paid if toll.value]
    first, last = math.floor(min(exponents)), math.ceil(max(exponents))
    decades = range(first, max(last, first + 1) + 1)
    every = -(-len(decades) // MOST_TICKS)
    ticks = []
    for place, decade in enumerate(decades):
        figure = time(10.0**decade)
        words = "" if place % every else f"{without_idle_zeros(figure.number)} {figure.unit}"
        ticks.append((_at(10.0**decade, decades), words))
    both = any(was_contended(toll) for toll in paid)
    known = best_known(results)
    shared = _shared_remarks(results.index.tolls)

    def rung(toll: Toll) -> Rung:
        summaries = "; ".join(f"{name}: {summary}" for name, summary in _words(toll, results.probes).items())
        remark = shared.index(_stem(toll)) + 1 if _stem(toll) in shared else 0
        described = toll_line(toll, both=both), toll in known, remark, summaries
        if toll.value is None:
            return Rung(*described)
        firm = toll.visits >= LEAST_VISITS
        ends = (toll.low or toll.value, toll.high or toll.value) if firm else (toll.value, toll.value)
        at, low, high = (_at(ns, decades) for ns in (toll.value, *ends))
        return Rung(*described, at, low, high, firm)

    groups = tuple((name, tuple(map(rung, tolls))) for name, tolls in toll_groups(results))
    meanings = {f"{toll.probe} {name}": summary for toll in results.index.tolls
                for name, summary in _words(toll, results.probes).items()}  # fmt: skip
    columns = ("uncontended", "all samples") if both else ("time", "in cycles")
    return Ladder(*columns, tuple(ticks), groups, shared, tuple(meanings.items()))


def _stem(toll: Toll) -> str:
    """Returns the part of a toll's note before its numbers, which several tolls may share; empty without one."""
    return toll.note.partition(":")[0] if toll.value is not None and ":" in toll.note else ""


def _shared_remarks(tolls: Sequence[Toll]) -> tuple[str, ...]:
    counts = Counter(filter(None, map(_stem, tolls)))
    return tuple(stem for stem, number in counts.items() if number > 1)


def _words(toll: Toll, probes: Mapping[str, Probe]) -> dict[str, str]:
    """Returns the probe's explanations of the choices in a toll's name, by parameter."""
    probe = probes.get(toll.probe)
    metric = next((metric for metric in probe.metrics if metric.name == toll.metric), None) if probe else None
    return {parameter.name: parameter.summary for parameter in (probe.parameters if probe else ())
            if parameter.choices and metric and f"{{{parameter.name}}}" in (metric.toll or "")}  # fmt: skip


def _at(ns: float, decades: range) -> str:
    """Returns the position of a time on the logarithmic scale, in CSS percent. decades: log10 of the scale's ends in
    ns."""
    share = (math.log10(ns) - decades[0]) / (decades[-1] - decades[0]) if ns > 0 else 0.0
    return f"{_MARGIN + (100 - 2 * _MARGIN) * min(1.0, max(0.0, share)):.2f}%"
