# SPDX-License-Identifier: Apache-2.0
"""The decision on a build in words: the rows that are slower by more than their limit, the smallest change that the
rows could show, or why there is no decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, inf
from statistics import median

from tollmeter.judgement.compare import SAME_INSTRUCTIONS
from tollmeter.judgement.gate import Decided, Decision, Outcome
from tollmeter.model import Opposed, first_few, json_document
from tollmeter.report.blocks import Block, Column, Line, Table
from tollmeter.report.ci_formats import MOST_ANNOTATIONS, Case, annotation
from tollmeter.report.compared_rows import Compared, full_name
from tollmeter.report.numbers import count, percent
from tollmeter.report.timed import TIME

_FORMAT = 1
_MOST_NAMED = 3
HOPELESS = 1.0
"""Slowdown, as a share, that a useful row can show: a row that shows only larger slowdowns detects no usual one."""


@dataclass(frozen=True)
class Gated:
    """The result of a gate. unlike: why the two runs cannot decide about the code, empty if they can. unused: globs of
    limits that no row matches. missing: rows of the reference without a number in the new run. broken: rows beyond
    an absolute limit."""

    compared: Compared
    decision: Decision
    unlike: tuple[str, ...]
    unused: tuple[str, ...]
    missing: tuple[str, ...]
    broken: tuple[str, ...] = ()


def sentences(gated: Gated) -> list[str]:
    """Returns the result first, then the smallest change that the rows could show, then problems."""
    decision, missing = gated.decision, gated.missing
    problems = []
    if missing:
        named = first_few(missing, _MOST_NAMED, "; ")
        rows = "row of the reference has" if len(missing) == 1 else "rows of the reference have"
        problems.append(f"{count(len(missing))} {rows} no number in this run: {named}.")
    problems += [f"No row with an interval matches {glob!r}, which the limits name." for glob in gated.unused]
    problems += [f"Beyond its limit: {row}." for row in gated.broken]
    if gated.unlike:
        why = f"Inconclusive: {'; '.join(gated.unlike)}. Only quiet runs of one system can show a change in the code."
        return [why, *problems]
    failed, within, inconclusive = (len(decision.of(outcome)) for outcome in ("slower", "within", "inconclusive"))
    judged = count(len(decision.rows), "row")
    result = (f"Of {judged} {count(failed)} {'is' if failed == 1 else 'are'} slower by more than the limit" if failed
              else f"No row of {count(len(decision.rows))} is slower by more than its limit")  # fmt: skip
    counted = (
        f"{result}; {count(within)} are shown to be within it, {count(inconclusive)} are inconclusive. "
        f"A build without a change fails with a chance of at most {percent(decision.budget)}."
    )
    slower = {row.judged.name for row in decision.of("slower")}
    same = [change for change in gated.compared.comparisons[0].changes if change.same_instructions]
    moved = sum(full_name(change.old) in slower for change in same)
    problems += [f"{count(moved)} of them {'has' if moved == 1 else 'have'} {SAME_INSTRUCTIONS}."] if moved else []
    reasons = [row.judged.reason for row in decision.rows if row.judged.reason]
    listed = "; ".join(f"{reasons.count(reason)}: {reason}" for reason in dict.fromkeys(reasons))
    excluded = [f"Not judged: {count(len(reasons), 'row')} ({listed})."] if reasons else []
    return [counted, _floor(decision), *excluded, *problems]


def _floor(decision: Decision) -> str:
    """Returns a sentence on the smallest change that the rows could show."""
    least = sorted(row.least for row in decision.rows if not row.judged.reason)
    if not least:
        return "No row can show a change."
    hopeless = sum(row >= HOPELESS for row in least)
    half = f", half of them from {percent(median(least))}" if median(least) < HOPELESS else ""
    rest = f"; {count(hopeless)} of {count(len(least))} show only a doubling or more" if hopeless else ""
    return f"The most precise row shows a change from {percent(least[0])} on{half}{rest}."


def blocks(gated: Gated) -> list[Block]:
    """Returns the decision in sentences, and the rows that fail, if the runs can decide."""
    slower = None if gated.unlike else _failures(gated.decision)
    return [*sentences(gated), *([slower] if slower else [])]


def _failures(decision: Decision) -> Table | None:
    """Returns the rows that fail, largest slowdown first."""
    columns = [Column("Slower"), *(Column(name, True) for name in ("by", "limit", "p", "shows from"))]
    lines = [Line((row.judged.name, _by(row), percent(row.judged.limit), f"{row.adjusted:.1g}", _shows(row)))
             for row in decision.of("slower")]  # fmt: skip
    return Table(columns, lines) if lines else None


def _by(decided: Decided) -> str:
    return percent(expm1(decided.judged.log_ratio))


def _shows(decided: Decided) -> str:
    return "nothing" if decided.least == inf else percent(decided.least)


def cases(decision: Decision, unlike: Sequence[str]) -> list[Case]:
    """Returns a test case for each row. unlike: why the runs cannot decide; no row then fails."""
    judged_cases = []
    for row in decision.rows:
        name, probe = row.judged.name, row.judged.name.partition(" ")[0]
        if row.outcome == "within":
            judged_cases.append(Case(name, probe, "passed"))
        elif row.outcome == "slower" and not unlike:
            judged_cases.append(Case(name, probe, "failed", _in_words(row)))
        else:
            undecided = f"inconclusive, it shows a change from {_shows(row)} on"
            judged_cases.append(Case(name, probe, "skipped", "; ".join(unlike) or row.judged.reason or undecided))
    return judged_cases


def _in_words(decided: Decided) -> str:
    return f"slower by {_by(decided)}, limit {percent(decided.judged.limit)}"


def annotated(decision: Decision, unlike: Sequence[str]) -> str:
    """Returns an annotation for each slower row; one warning if the runs cannot decide."""
    if unlike:
        return annotation("warning", "toll gate is inconclusive", "; ".join(unlike))
    slower = decision.of("slower")[:MOST_ANNOTATIONS]
    return "".join(annotation("error", row.judged.name, _in_words(row)) for row in slower)


def as_json(gated: Gated) -> bytes:
    """Returns the result with its reasons as JSON. The field `passes` is false if a row is beyond an absolute limit,
    else null if the runs cannot decide."""
    passes = False if gated.broken else None if gated.unlike else gated.decision.passes
    answer = {
        "format": _FORMAT, "passes": passes, "unlike": gated.unlike, "unused": gated.unused, "missing": gated.missing,
        "decision": gated.decision, "broken": gated.broken,
    }  # fmt: skip
    return json_document(answer)


# ---- two commands ---------------------------------------------------------------------------------------------------

_RESULTS: dict[Outcome, str] = {
    "slower": "{1} by more than the limit of {0}, in two measurements",
    "within": "within the limit of {}",
    "inconclusive": "inconclusive: it may be beyond the limit of {}; a longer --budget would decide",
}


def more_of(measured: Sequence[Opposed]) -> str:
    """Returns the word for a command beyond the limit, by the metric of its measured ratios."""
    metric = measured[-1].metric
    return "slower" if metric == TIME else f"higher in {metric}"


def sentences_of_commands(decision: Decision, measured: Sequence[Opposed], base: str) -> list[str]:
    """Returns the result first, then each measurement. measured: ratios, new over base; the last one decides."""
    (row,) = decision.rows
    new = row.judged.name
    sentences = [f"{new} is {_RESULTS[row.outcome].format(percent(row.judged.limit), more_of(measured))}."]
    for number, opposed in enumerate(measured, 1):
        change = f"{opposed.ratio:.3f} times the {opposed.metric} ({opposed.low:.3f} to {opposed.high:.3f})"
        sentences.append(f"Measurement {number}: {new} takes {change} of {base}, {opposed.blocks} blocks.")
    if len(measured) > 1 and decision.passes:
        sentences.append("A second measurement did not confirm that it is slower.")
    return sentences
