# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from tollmeter.model import Book, Claim, Published, StudyFigure, Suite, Tally
from tollmeter.report.numbers import DASH, Figure, quantity, two_digits
from tollmeter.report.tables import Column, Line, Table, table
from tollmeter.studies.asked_rows import own_reason
from tollmeter.studies.claim_rows import Measured, measured, timed_by
from tollmeter.studies.study import NO_NUMBER, judge, tally

Here = Figure | str
MANY = 3
ABOVE = "above"
REDRAWN = "published-"
"""What the name of a chart begins with that holds what was published."""
FREE = "There an exception itself is free: only the instructions of its handler's path count."
ENTRIES = ("own-vector", "entry", "checked-entry", "trap")


@dataclass(frozen=True)
class Answer:
    """reasons: why there is no number here, or no verdict, and by whose clock. said: what the claim gets wrong. above:
    whether a reason of it stands above them all."""

    claim: Claim
    here: Here
    reasons: tuple[str, ...] = ()
    said: str = ""
    above: bool = False

    @property
    def remark(self) -> str:
        own = " ".join(filter(None, (*self.reasons, self.said)))
        return f"As said {ABOVE}. {own}" if own and self.above else own


@dataclass(frozen=True)
class Told:
    """A study's answers. common: what holds for many of them, once each; the answers say it no more."""

    answers: tuple[Answer, ...]
    common: tuple[str, ...]

    @property
    def tally(self) -> str:
        return tally_in_words(tally(answer.claim for answer in self.answers))


def tally_in_words(counts: Tally) -> str:
    """Of 10 published figures 4 hold here; 1 has the same direction, 1 does not hold, 4 cannot be judged. Empty where
    the study printed none that could be judged."""
    several = (
        (counts.holds, "hold" if counts.holds != 1 else "holds"),
        (counts.same_direction, "have the same direction only" if counts.same_direction != 1 else
         "has the same direction only"),
        (counts.does_not_hold, "do not hold" if counts.does_not_hold != 1 else "does not hold"),
        (counts.cannot_tell, "cannot be judged here"),
    )  # fmt: skip
    total = sum(number for number, _ in several)
    said = ", ".join(f"{number} {words}" for number, words in several if number)
    return f"Of {total} published figure{'' if total == 1 else 's'}: {said}." if total else ""


def told(book: Book, suite: Suite) -> Told:
    """One answer for each published figure, in the study's order. A reason that three or more share stands above."""
    answers = [_answer(book, claim) for claim in suite.published]
    counts = Counter(reason for answer in answers for reason in answer.reasons)
    shared = {reason: count for reason, count in counts.items() if count >= MANY}
    common = tuple(f"{count} figures: {reason}" for reason, count in shared.items())
    unheld = sum(answer.claim.reason == NO_NUMBER for answer in answers)
    common += (f"{unheld} figure{'' if unheld == 1 else 's'}: {NO_NUMBER}",) if unheld else ()
    return Told(tuple(_less(answer, shared) for answer in answers), common)


def _less(answer: Answer, shared: Container[str]) -> Answer:
    own = tuple(reason for reason in answer.reasons if reason not in shared)
    return replace(answer, reasons=own, above=len(own) < len(answer.reasons))


def not_redrawn(book: Book, suite: Suite, drawn: Sequence[str]) -> list[str]:
    """Of the study's figures those that no chart of this run stands for, and why. drawn: names of charts."""
    lost = [figure for figure in suite.figure if not any(name.startswith(f"{REDRAWN}{figure.name}") for name in drawn)]
    return [f"Not drawn anew: {figure.what}. {figure.missing or _too_few(book, figure)}" for figure in lost]


def _too_few(book: Book, figure: StudyFigure) -> str:
    """The reason of its first row that has none of its own; else that there are too few numbers."""
    told = (own_reason(book, line.row) for line in figure.line)
    return next(filter(None, told), "This run has too few numbers for it.")


def claims_table(answers: Sequence[Answer]) -> Table:
    """What was published beside what is here, and whether it holds; a number in brackets leads to `remarks`."""
    numbers = {said: number for number, said in remarks(answers)}
    rows = [
        Line((
            one.claim.what, one.claim.figure, one.here, verdict_in_words(one.claim), one.claim.holds_at or DASH,
            numbers.get(one.remark) or one.above * ABOVE,
        ))
        for one in answers
    ]  # fmt: skip
    columns = [
        Column("What"), Column("published"), Column("here", right=True), Column("verdict"),
        Column("holds at", spare=1), Column(""),
    ]  # fmt: skip
    return table("What", columns, rows)


def verdict_in_words(claim: Claim) -> str:
    """A dash for what the study prints nothing of that could be judged."""
    if claim.verdict == "cannot tell":
        return "cannot be judged here" if claim.holds_at else DASH
    return (
        f"same direction, {two_digits(claim.times, '')} times as large".replace("  ", " ")
        if claim.times
        else claim.verdict
    )


def remarks(answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """Each sentence once, however many answers lead to it."""
    said = dict.fromkeys(answer.remark for answer in answers if answer.remark)
    return [(f"({number})", sentence) for number, sentence in enumerate(said, start=1)]


def _answer(book: Book, claim: Published) -> Answer:
    """The correction is about what stands here: it goes beside a number, and where none can ever stand."""
    found = measured(book, claim)
    judged = judge(claim, found)
    here = _here(found)
    concerns = claim.row is None or here != DASH
    why = judged.reason if judged.reason not in (found.gap, NO_NUMBER) else ""
    stated = judged.unmet if here != DASH else ()
    reasons = tuple(reason for reason in (found.gap, why, timed_by(book, found), *stated) if reason)
    said = (_free(claim, found), (claim.correction or "").strip() if concerns else "")
    return Answer(judged, here, reasons, " ".join(filter(None, said)))


def _free(claim: Published, found: Measured) -> str:
    """Where an emulator counts instructions, entering its kernel costs none."""
    counted = found.of is not None and found.of.clock == "virtual"
    return FREE if counted and claim.row and claim.row.means in ENTRIES else ""


def _here(found: Measured) -> Here:
    """One number with its interval; of several rows the least and the most."""
    if not found.values:
        return DASH
    least, most = found.values[0], found.values[-1]
    if found.thin:
        return f"~ {two_digits(least.value, found.unit)}"
    if len(found.values) == 1:
        return quantity(least.value, found.unit, least.low, least.high)
    first, last = quantity(least.value, found.unit), quantity(most.value, found.unit)
    return f"{first.number} to {last}" if first.unit == last.unit else f"{first} to {last}"
