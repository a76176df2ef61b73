# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tollmeter.judgement.attempts import OWN_EXITS, exits_of
from tollmeter.judgement.studies import NO_NUMBER, Measured, judge, measured, own_reason, picked, timed_by
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
    """said: why there is no number here, or no verdict, or what the claim gets wrong; empty where none is so."""

    what: str
    published: str
    here: Here
    verdict: ClaimVerdict
    said: str


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
    shared = [reason for reason, count in Counter(map(_gap, answers)).items() if reason and count >= MANY]
    common = tuple(f"{sum(_gap(answer) == reason for answer in answers)} figures: {reason}" for reason in shared)
    pairs = zip(suite.published, answers, strict=True)
    unheld = sum(claim.value is None and answer.here != DASH for claim, answer in pairs)
    common += (f"{unheld} figure{'' if unheld == 1 else 's'}: {NO_NUMBER}",) if unheld else ()
    kept = tuple(replace(one, said=ABOVE) if _gap(one) in shared else one for one in answers)
    return Told(kept, common)


def not_redrawn(book: Book, suite: Suite, drawn: Sequence[str]) -> list[str]:
    """Of the study's figures those that no chart of this run stands for, and why. drawn: names of charts."""
    lost = [figure for figure in suite.figure if not any(name.startswith(f"{REDRAWN}{figure.name}") for name in drawn)]
    return [f"Not drawn anew: {figure.what}. {figure.missing or _too_few(book, figure)}" for figure in lost]


def _too_few(book: Book, figure: StudyFigure) -> str:
    """The reason of its first row that has none of its own; else that there are too few numbers."""
    told = (own_reason(book, line.row) for line in figure.line)
    return next(filter(None, told), "This run has too few numbers for it.")


def _gap(answer: Answer) -> str:
    return answer.said if answer.here == DASH else ""


def claims_table(answers: Sequence[Answer]) -> Table:
    """What was published beside what is here, and whether it holds; a number in brackets leads to `remarks`."""
    numbers = {said: number for number, said in remarks(answers)} | {ABOVE: ABOVE}
    rows = [Line((one.what, one.published, one.here, SHORT[one.verdict], numbers.get(one.said, ""))) for one in answers]
    columns = [Column("What"), Column("published"), Column("here", right=True), Column("verdict"), Column("")]
    return table("What", columns, rows)


def remarks(answers: Sequence[Answer]) -> list[tuple[str, str]]:
    """Each sentence once, however many answers lead to it."""
    said = dict.fromkeys(answer.said for answer in answers if answer.said not in ("", ABOVE))
    return [(f"({number})", sentence) for number, sentence in enumerate(said, start=1)]


def _answer(book: Book, claim: Published) -> Answer:
    """The correction is about what stands here: it goes beside a number, and where none can ever stand."""
    found = measured(book, claim)
    judged = judge(claim, found)
    here = _here(found)
    concerns = claim.row is None or here != DASH
    why = judged.reason if claim.value is not None and judged.reason != found.gap else ""
    parts = (
        found.gap,
        why,
        timed_by(book, found),
        _free(claim, found),
        _host(book, claim),
        concerns and claim.correction,
    )
    return Answer(claim.what, claim.figure, here, judged.verdict, " ".join(part.strip() for part in parts if part))


def _host(book: Book, claim: Published) -> str:
    """That each crossing of a guest's was its host's, where it was."""
    if claim.row is None or not any((exits_of(book, row) or 0.0) > OWN_EXITS for row in picked(book, claim.row)):
        return ""
    return "A hypervisor in software stood in between each time: its price, and not the hardware's."


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
