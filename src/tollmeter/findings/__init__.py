# SPDX-License-Identifier: Apache-2.0
"""Claims about the machine that could be false, and which of them a run supports.

A rule is a function with the decorator `rule` in a module of this package. It reads `Results` and yields claims.
It selects rows by meaning, never by a probe's name, and yields nothing where the rows that it needs are missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from typing import NamedTuple

from tollmeter.findings._evidence import RULES, Rule
from tollmeter.judgement.verdict import KERNEL
from tollmeter.model import Finding, Results, RunVerdict

_GRAVEST_FIRST = ("error", "warning", "note")

ABOUT_INTERFERENCE = (
    "machine.core_is_shared", "machine.time_is_stolen", "machine.control_loop_is_noisy",
    "machine.frequency_is_not_steady", "machine.another_run_measures", "machine.cpu_time_is_limited",
    "machine.evidence_is_missing", "machine.other_programs_work", "machine.run_is_held_back",
    "machine.system_calls_are_filtered", "machine.probes_are_traced",
)  # fmt: skip
"""A busy run shows these best."""
OF_ANY_RUN = ("machine.clock_is_wrong", "command.output_changes")
"""Delays of marks are part of the first one's own interval; no other program changes what a command prints."""


def rules() -> dict[str, Rule]:
    """Every rule by its name, in the order of the names."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(RULES.items()))


def subjects() -> dict[str, str]:
    """What each rule looks for, in a sentence: the first paragraph of its docstring."""
    return {name: " ".join((rule.__doc__ or "").split("\n\n")[0].split()) for name, rule in rules().items()}


def all_findings(results: Results) -> tuple[Finding, ...]:
    """Findings of all rules, gravest first, otherwise in the order of their names."""
    findings = [finding for rule in rules().values() for finding in rule(results)]
    return tuple(sorted(findings, key=lambda finding: (_GRAVEST_FIRST.index(finding.severity), finding.name)))


class Carried(NamedTuple):
    """findings: those that the run supports. held_back: names of the withheld ones, each once. problems: how many of
    these are of a severity above `note`."""

    findings: tuple[Finding, ...]
    held_back: tuple[str, ...]
    problems: int


def carried(
    verdict: RunVerdict, from_all: Sequence[Finding], from_known: Sequence[Finding], *, intercepted: bool = False
) -> Carried:
    """A short run has too few visits, and a busy one has measured its neighbours as well as the machine.

    from_all: findings from every row; from_known: from rows with enough visits for an interval. intercepted: whether a
    filter or a tracer ran before system calls, which does not affect findings about memory."""
    kept = tuple(
        finding for finding in from_known
        if _is_carried(verdict, finding.name) and not (intercepted and finding.name.startswith(KERNEL))
    )  # fmt: skip
    names = {finding.name for finding in kept}
    withheld = [finding for finding in (*from_all, *from_known) if finding.name not in names]
    problems = {finding.name for finding in withheld if finding.severity != "note"}
    return Carried(kept, tuple(dict.fromkeys(finding.name for finding in withheld)), len(problems))


def _is_carried(verdict: RunVerdict, name: str) -> bool:
    if verdict in ("busy", "held back"):
        return name in (*ABOUT_INTERFERENCE, *OF_ANY_RUN)
    return verdict != "too short" or name in OF_ANY_RUN
