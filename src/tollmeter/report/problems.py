# SPDX-License-Identifier: Apache-2.0
"""Whether the machine is set up well, in one line: the problems that were found, or why the run cannot show them.

A finding is a problem by its severity: a note is none."""

from __future__ import annotations

from dataclasses import dataclass

from tollmeter.model import Book, Finding
from tollmeter.numbers.meanings import native
from tollmeter.report import tables, worth

MOST_NAMED = 3
NOT_JUDGED = "problems not judged"


@dataclass(frozen=True)
class Problems:
    """lead: how many, none, or that it was not judged. named: the claims of the gravest, in the order of the findings.
    rest: how many more there are, what was looked at, or why the run could not look at all."""

    lead: str
    named: tuple[str, ...]
    rest: str

    def __str__(self) -> str:
        named = f": {'; '.join(self.named)}" if self.named else ""
        return f"{self.lead}{named}{self.rest}"


def problems(book: Book) -> Problems:
    """`No problem found` only of a run that could have found one."""
    findings = [finding for finding in tables.findings(book) if finding.severity != "note"]
    limit = _limit(book)
    if not findings:
        rest = f": {limit}" if limit else f" (measured: {', '.join(_families(book))})"
        return Problems(tables.upper(NOT_JUDGED) if limit else "No problem found", (), rest)
    more = f"; and {len(findings) - MOST_NAMED} more" if len(findings) > MOST_NAMED else ""
    rest = f"{more}. Other {NOT_JUDGED}: {limit}" if limit else more
    lead = f"{len(findings)} problem{'' if len(findings) == 1 else 's'}"
    return Problems(lead, tuple(map(_brief, findings[:MOST_NAMED])), rest)


def _brief(finding: Finding) -> str:
    """The claim without its explanation, which is printed with the findings."""
    return finding.claim.partition(": ")[0]


def _families(book: Book) -> list[str]:
    """Of the probes that timed this machine by its own clock: rules look at no other rows."""
    own = native(book.index.rows, book.index.machine.architecture)
    return sorted({row.probe.partition(".")[0] for row in own if row.status == "ok"})


def _limit(book: Book) -> str:
    """Why problems may have gone unseen; empty where the run carries every problem that its rows give."""
    if worth.is_under_way(book.index.run):
        return "the run is still being measured"
    if not worth.has_numbers(book):
        return "no row has a number"
    if not _families(book):
        return "nothing was timed on this machine by its own clock"
    withheld = len(book.index.held_back)
    is_limited = book.index.run.withheld_problems > 0 or book.index.run.verdict in worth.WHY_WITHHELD
    why = worth.why_withheld(book) if is_limited else ""
    counted = f" ({withheld} finding{'' if withheld == 1 else 's'} withheld)" if withheld else ""
    return f"{why}{counted}" if why else ""
