# SPDX-License-Identifier: Apache-2.0
"""Conditions of a run that are known before it begins, by the rules for facts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tollmeter.conduct import Watch
from tollmeter.findings import all_findings
from tollmeter.model import DISTORTING, INDEX_FORMAT, Finding, Index, Machine, Results, RunInfo, Surroundings
from tollmeter.notices import notify
from tollmeter.report.tables import upper

_BEFORE_CALLS = ("machine.system_calls_are_filtered", "machine.probes_are_traced")
"""Findings that are reported before a run that will time system calls. all_findings ranks them as notes then, since no
system call is timed yet."""


def tell_worst(watch: Watch, machine: Machine, *, calls: bool) -> None:
    """Reports the gravest condition that prevents or distorts measuring and is known before measuring. calls: whether
    system calls will be timed."""
    if sentence := worst_known(known_conditions(watch.seen(), machine, calls=calls)):
        notify(sentence)


def known_conditions(surroundings: Surroundings, machine: Machine, *, calls: bool) -> list[Finding]:
    """Returns the conditions that prevent or distort measuring and are known before it, gravest first. calls: whether
    system calls will be timed."""
    # The load and pressure of other programs during the run are not known yet.
    before = msgspec.structs.replace(surroundings, others=None, pressure=None)
    run = RunInfo(
        id="", suite="", started="", seconds=0, seed=0, status="", tollmeter="", folder="", surroundings=before
    )  # fmt: skip
    known = Results(index=Index(format=INDEX_FORMAT, run=run, machine=machine, rows=()), probes={})
    facts = [
        finding for finding in all_findings(known)
        if finding.is_fact and (finding.rank in DISTORTING or (calls and finding.name in _BEFORE_CALLS))
    ]  # fmt: skip
    return sorted(facts, key=lambda finding: finding.rank != "prevents")


def worst_known(conditions: Sequence[Finding]) -> str:
    """Returns the first condition as a sentence; empty without one."""
    if not conditions:
        return ""
    worst, others = conditions[0], len(conditions) - 1
    effect = "prevents a part of this" if worst.rank == "prevents" else "distorts this"
    more = f" (`toll doctor` names {others} more)" if others else ""
    return f"known before it begins, and {effect}: {worst.claim}{more}. {upper(worst.remedy)}."
