# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tollmeter.judgement.studies import Measured, measured, timed_by
from tollmeter.model import Book, Published, Suite
from tollmeter.report.numbers import DASH, Figure, plain, quantity
from tollmeter.report.tables import Column, Line, Table, table

Here = Figure | str
FREE = "There an exception itself is free: only the instructions of its handler's path count."
ENTRIES = ("own-vector", "entry", "checked-entry", "trap")


@dataclass(frozen=True)
class Answer:
    """said: why there is no number here, or what the claim gets wrong; empty where neither is so."""

    what: str
    published: str
    here: Here
    said: str


def answers(book: Book, suite: Suite) -> tuple[Answer, ...]:
    """One for each published figure, in the study's order."""
    return tuple(_answer(book, claim) for claim in suite.published)


def claims_table(told: Sequence[Answer]) -> Table:
    """What was published beside what is here; a number in brackets leads to what `remarks` says."""
    numbers = {said: number for number, said in remarks(told)}
    rows = [Line((answer.what, answer.published, answer.here, numbers.get(answer.said, ""))) for answer in told]
    return table("What", [Column("What"), Column("published"), Column("here", right=True), Column("")], rows)


def remarks(told: Sequence[Answer]) -> list[tuple[str, str]]:
    """Numbered as they are met; what several claims share is said once."""
    said = dict.fromkeys(answer.said for answer in told if answer.said)
    return [(f"({number})", text) for number, text in enumerate(said, start=1)]


def _answer(book: Book, claim: Published) -> Answer:
    """The correction is about what stands here: it goes beside a number, and where none can ever stand."""
    found = measured(book, claim)
    here = _here(found)
    concerns = claim.row is None or here != DASH
    parts = (found.gap, timed_by(book, found), _free(claim, found), concerns and claim.correction)
    said = " ".join(part for part in parts if part)
    return Answer(claim.what, claim.figure, here, said)


def _free(claim: Published, found: Measured) -> str:
    """Where an emulator counts instructions, entering its kernel costs none."""
    counted = found.of is not None and found.of.clock == "virtual"
    return FREE if counted and claim.row and claim.row.means in ENTRIES else ""


def _here(found: Measured) -> Here:
    """One number with its interval, a ratio without; of several rows the least and the most."""
    if not found.values:
        return DASH
    least, most = found.values[0], found.values[-1]
    if found.unit == "ratio":
        several = f"{plain(least.value)} to {plain(most.value)} ×"
        return several if len(found.values) > 1 else Figure(plain(least.value), "×")
    if len(found.values) == 1:
        return quantity(least.value, found.unit, least.low, least.high)
    return f"{quantity(least.value, found.unit)} to {quantity(most.value, found.unit)}"
