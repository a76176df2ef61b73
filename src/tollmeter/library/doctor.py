# SPDX-License-Identifier: Apache-2.0
"""The fitness of a machine to be measured, and its set-up: the findings of a run of the suite `doctor`, by rank, and
the settings that would change them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tollmeter.model import RANKS, Failure, Finding, Index, Machine, Setting
from tollmeter.report.compared_rows import full_name
from tollmeter.report.doctor import FileChange

SUITE, PRECISION = "doctor", "10%"
"""Suite and precision of a check. It tests for differences of a quarter or more, so a precision of 3 % would take time
from further tests."""
_MOST_FILES = 4096
"""Highest number of files of one setting: cpufreq has a policy for each CPU."""


def ranked_findings(index: Index) -> list[Finding]:
    """Returns the findings by rank, the gravest first."""
    return sorted(index.findings, key=lambda finding: RANKS.index(finding.rank))


def unjudged(index: Index) -> list[str]:
    """Returns the gaps for which a machine cannot be called fit although no finding says otherwise: rows without a
    number, with the reason, and problems that the run was too disturbed or short to judge."""
    why = [index.run.unanswered] if index.run.unanswered else []
    why += [
        f"{full_name(row)}: {row.reason or row.status}" for row in index.rows if row.status not in ("ok", "unsupported")
    ]
    names = ", ".join(index.withheld if index.run.withheld_problems else ())
    return [*why, *([f"withheld, since the run was disturbed or short: {names}"] if names else ())]


# ---- settings of this machine ---------------------------------------------------------------------------------------


def check_own(machine: Machine) -> None:
    """Raises Failure (2) if a run is of another machine: its script would hold the values of this one."""
    here = os.uname()
    if machine.host != here.nodename:
        raise Failure(f"the script changes {machine.host}, where the run was measured: write it on that machine")


def changes(findings: Sequence[Finding]) -> dict[FileChange, Finding]:
    """Returns the files whose content differs from the remedies of the findings, each with the first finding that names
    it."""
    finding_of_change: dict[FileChange, Finding] = {}
    for finding in findings:
        for setting in finding.settings:
            for change in changes_of(setting):
                if all(change.path != other.path for other in finding_of_change):
                    finding_of_change[change] = finding
    return finding_of_change


def changes_of(setting: Setting) -> Iterator[FileChange]:
    """Yields the changes of a setting, without files that cannot be read, already have the value, or do not
    permit it."""
    root = Path("/")
    for path in sorted(root.glob(setting.path.lstrip("/")))[:_MOST_FILES]:
        found = _value(path)
        permitted = _words(path.with_name(setting.among)) if setting.among else setting.values
        wanted = next((value for value in setting.values if value in permitted), None)
        if found and wanted and found != wanted:
            yield FileChange(str(path), found, wanted)


def _value(path: Path) -> str:
    """Returns the value in a file; the value in brackets if the file lists all values. Empty if it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
    chosen = re.search(r"\[([^\]]+)\]", text)
    return chosen[1] if chosen else text


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return []
