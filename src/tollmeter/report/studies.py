# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tollmeter.judgement.studies import Measured, measured, picked
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
    numbers = {id(answer): number for number, answer in enumerate((a for a in told if a.said), start=1)}
    rows = [
        Line((answer.what, answer.published, answer.here, f"({numbers[id(answer)]})" if answer.said else ""))
        for answer in told
    ]
    return table("What", [Column("What"), Column("published"), Column("here", right=True), Column("")], rows)


def remarks(told: Sequence[Answer]) -> list[tuple[str, str]]:
    return [(f"({number})", answer.said) for number, answer in enumerate((a for a in told if a.said), start=1)]


def _answer(book: Book, claim: Published) -> Answer:
    """The correction is about what stands here: it goes beside a number, and where none can ever stand."""
    found = measured(book, claim)
    here = _here(found)
    concerns = claim.row is None or here != DASH
    said = " ".join(part for part in (found.gap, _clock(book, claim, here), concerns and claim.correction) if part)
    return Answer(claim.what, claim.figure, here, said)


def _clock(book: Book, claim: Published, here: Here) -> str:
    """That a number was made by an emulator, wherever it was."""
    if claim.row is None or here == DASH:
        return ""
    places = {row.target for row in picked(book, claim.row) if row.clock == "virtual"}
    free = f" {FREE}" if claim.row.means in ENTRIES else ""
    return " ".join(f"In virtual time of {target}.{free}" for target in sorted(places))


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
