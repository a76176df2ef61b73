# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says, and a sentence wherever nothing can stand beside one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from tollmeter.model import Book, Published, Row, RowOf, Suite
from tollmeter.numbers.meanings import main_abi, metric_of
from tollmeter.report.numbers import DASH, Figure, plain, quantity
from tollmeter.report.tables import Column, Line, Table, table

Here = Figure | str
COUNTED = "instructions"
NOT_TOGETHER = "No two of these rows were timed by one clock in one place."


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
    here, gap = _measured(book, claim)
    concerns = claim.row is None or here != DASH
    said = " ".join(part for part in (gap, _clock(book, claim, here), concerns and claim.correction) if part)
    return Answer(claim.what, claim.figure, here, said)


def _clock(book: Book, claim: Published, here: Here) -> str:
    """That a number was made by an emulator, wherever it was."""
    if claim.row is None or here == DASH:
        return ""
    places = {row.target for row in picked(book, claim.row) if row.clock == "virtual"}
    return " ".join(f"In virtual time of {target}." for target in sorted(places))


def _measured(book: Book, claim: Published) -> tuple[Here, str]:
    """What stands beside the claim, or a dash and the sentence that says why nothing does."""
    if claim.row is None:
        return DASH, claim.missing or "No probe measures this yet."
    rows = picked(book, claim.row)
    if not rows:
        return DASH, _why(book, claim, claim.row)
    if claim.over is None:
        return _shown(rows), ""
    others = picked(book, claim.over)
    if not others:
        return DASH, _why(book, claim, claim.over)
    found = _ratio(rows, others)
    return found, NOT_TOGETHER if found == DASH else ""


def picked(book: Book, wanted: RowOf) -> list[Row]:
    """Rows with a number that match all that is asked; the ABI `native` is the machine's own. A study tells of times: a
    count of the program's instructions, without its kernel's and without memory's share, is none."""
    matching = _matching(book, wanted)
    return [row for row in matching if row.status == "ok" and row.median is not None and row.clock != COUNTED]


def _matching(book: Book, wanted: RowOf) -> list[Row]:
    abi = main_abi(book.index.rows, book.index.machine.architecture) if wanted.abi == "native" else wanted.abi
    return [row for row in book.index.rows if (abi is None or row.abi == abi) and _matches(book, row, wanted)]


def _matches(book: Book, row: Row, wanted: RowOf) -> bool:
    metric = metric_of(row, book.probes)
    return (
        (wanted.probe is None or row.probe == wanted.probe)
        and (wanted.metric is None or row.metric == wanted.metric)
        and (wanted.target is None or fnmatchcase(row.target, wanted.target))
        and (wanted.means is None or (metric is not None and metric.means == wanted.means))
        and all(row.parameters.get(name) == value for name, value in wanted.parameters.items())
    )


def _why(book: Book, claim: Published, wanted: RowOf) -> str:
    """The row's own reason where there is a row; then the claim's; else why the probe was not run there at all."""
    return _own_reason(book, wanted) or claim.missing or _absence(wanted)


def _own_reason(book: Book, wanted: RowOf) -> str:
    """Why a row of this run has no number, or one that answers nothing; empty where the run has none. What cannot be
    done at one length or size cannot be at another; of another choice it says nothing."""
    choices = {name: value for name, value in wanted.parameters.items() if isinstance(value, str)}
    anywhere = msgspec.structs.replace(wanted, parameters=choices)
    same = _matching(book, wanted) or [row for row in _matching(book, anywhere) if row.status == "unsupported"]
    failed = next((row for row in same if row.status != "ok" and row.reason), None)
    if failed is not None:
        return f"{failed.probe} gave no number: {failed.reason}."
    counted = next((row for row in same if row.clock == COUNTED), None)
    if counted is None:
        return ""
    return (
        f"{counted.target} counts the program's own instructions: what its kernel does, and what memory costs, is not "
        "among them. A guest (--target guest) or a board times it."
    )


def _absence(wanted: RowOf) -> str:
    named = wanted.probe or wanted.means or "such a row"
    where = f" for {wanted.abi}" if wanted.abi and wanted.abi != "native" else ""
    return f"This run has no row of {named}{where}."


def _shown(rows: Sequence[Row]) -> Here:
    """One row with its interval; of several the least and the most."""
    if len(rows) == 1:
        row = rows[0]
        return quantity(row.median, row.unit, row.low, row.high)
    ranked = sorted(rows, key=lambda row: row.median or 0.0)
    low, high = (quantity(row.median, row.unit) for row in (ranked[0], ranked[-1]))
    return f"{low} to {high}"


def _ratio(rows: Sequence[Row], others: Sequence[Row]) -> Here:
    """Each row over the one of its clock and place at the same parameters, or over the only one: least and most."""
    ratios = [ratio for row in rows if (ratio := _over(row, others)) is not None]
    if not ratios:
        return DASH
    if len(ratios) == 1:
        return Figure(plain(ratios[0]), "×")
    return f"{plain(min(ratios))} to {plain(max(ratios))} ×"


def _over(row: Row, others: Sequence[Row]) -> float | None:
    comparable = [other for other in others if (other.target, other.clock) == (row.target, row.clock)]
    alone = comparable[0] if len(comparable) == 1 else None
    twin = next((other for other in comparable if other.parameters == row.parameters), alone)
    return row.median / twin.median if twin is not None and row.median and twin.median else None
