# SPDX-License-Identifier: Apache-2.0
"""Which findings a run supports. A finding is worth no more than its run: a short one has seen too little, and a busy
one has measured its neighbours as well as the machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tollmeter.judgement.verdict import KERNEL
from tollmeter.model import Finding, RunVerdict

OF_THE_DISTURBANCE = (
    "machine.core_is_shared",
    "machine.time_is_stolen",
    "machine.control_loop_is_noisy",
    "machine.frequency_is_not_steady",
    "machine.another_run_measures",
    "machine.cpu_time_is_limited",
    "machine.evidence_is_missing",
    "machine.other_programs_work",
    "machine.run_is_held_back",
    "machine.system_calls_are_filtered",
    "machine.probes_are_traced",
)
"""Findings about the interference itself, which a busy run shows best."""
OF_THE_MARKS = ("machine.clock_is_wrong",)
"""What delays the marks of a visit is part of this finding's own interval, so that any run carries it."""

OF_THE_OUTPUT = ("command.output_changes",)
"""No other program changes what a command prints."""


class Carried(NamedTuple):
    """findings: those that the run supports. held_back: names of the withheld ones, each once. problems: how many of
    these are of a severity above `note`."""

    findings: tuple[Finding, ...]
    held_back: tuple[str, ...]
    problems: int


def carried(
    verdict: RunVerdict, from_all: Sequence[Finding], from_known: Sequence[Finding], *, intercepted: bool = False
) -> Carried:
    """from_all: drawn from every row; from_known: from rows with enough visits for an interval. intercepted: whether a
    filter or a tracer ran before system calls, which does not affect findings about memory."""
    kept = tuple(
        finding for finding in from_known
        if _is_carried(verdict, finding.name) and not (intercepted and finding.name.startswith(KERNEL))
    )  # fmt: skip
    names = {finding.name for finding in kept}
    held = [finding for finding in (*from_all, *from_known) if finding.name not in names]
    problems = {finding.name for finding in held if finding.severity != "note"}
    return Carried(kept, tuple(dict.fromkeys(finding.name for finding in held)), len(problems))


def _is_carried(verdict: RunVerdict, name: str) -> bool:
    if name in (*OF_THE_MARKS, *OF_THE_OUTPUT):
        return True
    if verdict in ("busy", "held back"):
        return name in OF_THE_DISTURBANCE
    return verdict != "too short"
