# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from tollmeter.judgement.asked_rows import own_reason
from tollmeter.judgement.studies import NO_NUMBER, Measured, judge, measured, timed_by
from tollmeter.model import Book, ClaimVerdict, Published, StudyFigure, Suite
from tollmeter.report.numbers import DASH, Figure, quantity, two_digits
from tollmeter.report.tables import Column, Line, Table, table

Here = Figure | str
SHORT = {"holds": "holds", "does not hold": "does not", "cannot tell": "cannot tell"}
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

    what: str
    published: str
    here: Here
    verdict: ClaimVerdict
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
        """Holds here: 4 of 10 published figures; does not: 1; cannot tell: 5."""
        counts = Counter[str](answer.verdict for answer in self.answers)
        words = (("holds", "holds here"), ("does not hold", "does not"), ("cannot tell", "cannot tell"))
        told = [f"{said} {counts[verdict]}" for verdict, said in words if counts[verdict]]
        return f"Of {len(self.answers)} published figures: {', '.join(told)}."


def told(book: Book, suite: Suite) -> Told:
    """One answer for each published figure, in the study's order. A reason that three or more share stands above."""
    answers = [_answer(book, claim) for claim in suite.published]
    counts = Counter(reason for answer in answers for reason in answer.reasons)
    shared = {reason: count for reason, count in counts.items() if count >= MANY}
    common = tuple(f"{count} figures: {reason}" for reason, count in shared.items())
    pairs = zip(suite.published, answers, strict=True)
    unheld = sum(claim.value is None and answer.here != DASH for claim, answer in pairs)
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
        Line((one.what, one.published, one.here, SHORT[one.verdict], numbers.get(one.remark) or one.above * ABOVE))
        for one in answers
    ]
    columns = [Column("What"), Column("published"), Column("here", right=True), Column("verdict"), Column("")]
    return table("What", columns, rows)


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
    reasons = tuple(reason for reason in (found.gap, why, timed_by(book, found)) if reason)
    said = (_free(claim, found), (claim.correction or "").strip() if concerns else "")
    return Answer(claim.what, claim.figure, here, judged.verdict, reasons, " ".join(filter(None, said)))


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
