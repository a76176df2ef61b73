# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says: whether each still holds, or why that cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.judgement.asked_rows import NOT_TOGETHER, VIRTUAL, own_reason, picked, with_mend
from tollmeter.judgement.compare import ratio_of
from tollmeter.judgement.gains import gains
from tollmeter.judgement.guest_exits import HOSTED, is_hosted
from tollmeter.judgement.relatives import relatives
from tollmeter.judgement.verdict import is_known
from tollmeter.model import Book, Claim, ClaimVerdict, Published, Row, RowOf, Study
from tollmeter.numbers.meanings import HERE
from tollmeter.numbers.row_of import KERNEL_COUNTS
from tollmeter.numbers.stats import Estimate
from tollmeter.numbers.units import three

TURNS, CONTROL_LOOP = "turns", "control-loop"
"""A time in turns of the control loop of its own machine and build: what carries from one machine to another."""

INSTRUCTIONS = "Virtual time counts instructions, and no time of another machine can be held against a count."
NO_NUMBER = "The study gives no number that could be held against this one."
NO_TURNS = "The control loop was not timed where this was."
THIN = "It rests on fewer than {} visits, and has no interval to judge by."
FACTOR = 2


class Measured(NamedTuple):
    """What stands beside a claim: one estimate a row, least first, or none and the sentence that says why. of: one of
    the rows: all are of its clock and place. thin: a row of it has too few visits for an interval. hosted: a row of it
    is its hypervisor's time, and no machine's.
    """

    values: Sequence[Estimate] = ()
    unit: str = ""
    gap: str = ""
    of: Row | None = None
    thin: bool = False
    hosted: bool = False


def study(book: Book) -> Study | None:
    """None for a run of no study."""
    suite = book.suite
    if suite is None or not suite.published:
        return None
    told = relatives(book)
    return Study(
        source=suite.source,
        claims=tuple(_judged(book, claim) for claim in suite.published),
        relatives=told,
        worth=gains(suite.worth, suite.mend, told) if suite.worth else "",
    )


def measured(book: Book, claim: Published) -> Measured:
    """By rows of one clock in one place, this machine's own first: another's would be another answer."""
    found = _measured(book, claim)
    if found.of is None:
        return found
    rows = [row for wanted in (claim.row, claim.over) if wanted for row in picked(book, wanted, claim.about)]
    used = [row for row in rows if (row.target, row.clock) == (found.of.target, found.of.clock)]
    return found._replace(thin=not all(map(is_known, used)), hosted=any(is_hosted(book, row) for row in used))


def _measured(book: Book, claim: Published) -> Measured:
    if claim.row is None:
        return Measured(gap=claim.missing or "No probe measures this yet.")
    rows, others = (picked(book, wanted, claim.about) for wanted in (claim.row, claim.over))
    if not rows:
        return Measured(gap=_why(book, claim, claim.row))
    if claim.unit == TURNS:
        return _in_turns(book, _of_one_place(rows))
    if claim.over is None:
        rows = _of_one_place(rows)
        return Measured(_ranked([_estimate(row) for row in rows]), rows[0].unit, of=rows[0])
    if not others:
        return Measured(gap=_why(book, claim, claim.over))
    rows = _of_one_place([row for row in rows if _twin(row, others) is not None])
    ratios = [ratio_of(twin, row) for row in rows if (twin := _twin(row, others)) is not None]
    return Measured(_ranked(ratios), "ratio", of=rows[0]) if ratios else Measured(gap=NOT_TOGETHER)


def _in_turns(book: Book, rows: Sequence[Row]) -> Measured:
    found = [turns for row in rows if (turns := in_turns(book, row)) is not None]
    return Measured(_ranked(found), TURNS, of=rows[0]) if found else Measured(gap=NO_TURNS)


def in_turns(book: Book, row: Row) -> Estimate | None:
    """A time as a multiple of one turn of the control loop of its own place, clock and ABI; None where the run has no
    such loop."""
    loops = [
        loop for loop in picked(book, RowOf(means=CONTROL_LOOP, abi=row.abi)) if loop.unit == "op/s" and
        (loop.target, loop.clock) == (row.target, row.clock)
    ]  # fmt: skip
    if not loops or row.unit != "ns" or (row.median or 0) <= 0:
        return None
    return ratio_of(msgspec.structs.replace(loops[0], unit="ns", **_inverse(loops[0])), row)


def _inverse(loop: Row) -> dict[str, float | None]:
    """A rate's time in ns, with its ends in their places."""
    median, low, high = (1e9 / end if end else None for end in (loop.median, loop.high, loop.low))
    return {"median": median, "low": low, "high": high}


def _judged(book: Book, claim: Published) -> Claim:
    return judge(claim, measured(book, claim))


def judge(claim: Published, found: Measured) -> Claim:
    """here: the middle one of several rows; low, high: the ends of them all."""
    values = found.values
    verdict, reason = _verdict(claim, found)
    return Claim(
        what=claim.what, figure=claim.figure, value=claim.value, verdict=verdict, reason=reason,
        here=values[(len(values) - 1) // 2].value if values else None,
        low=min((one.low for one in values), default=None),
        high=max((one.high for one in values), default=None),
        unit=found.unit or claim.unit,
    )  # fmt: skip


def _verdict(claim: Published, found: Measured) -> tuple[ClaimVerdict, str | None]:
    why = _why_not(claim, found)
    if why or claim.value is None:
        return "cannot tell", why
    low, high = min(one.low for one in found.values), max(one.high for one in found.values)
    if claim.unit == "ratio" and claim.value != 1:
        return _directed(claim.value, low, high)
    return ("holds" if low / FACTOR <= claim.value <= high * FACTOR else "does not hold"), None


def _why_not(claim: Published, found: Measured) -> str:
    """Why nothing here can be held against what was published; empty where something can."""
    if not found.values:
        return found.gap
    if found.thin:
        return THIN.format(LEAST_VISITS)
    if found.hosted:
        return HOSTED
    if claim.value is None:
        return NO_NUMBER
    if claim.unit != found.unit:
        return f"What was published is in {claim.unit}, and this is in {found.unit}."
    return INSTRUCTIONS if found.of and found.of.clock == VIRTUAL and claim.unit != "ratio" else ""


def _directed(published: float, low: float, high: float) -> tuple[ClaimVerdict, str | None]:
    """Whether one is more than the other, or less, as was published: by how much is another machine's."""
    if low > 1 or high < 1:
        if (low > 1) != (published > 1):
            return "does not hold", None
        near = low / FACTOR <= published <= high * FACTOR
        return "holds", None if near else f"The direction holds; the ratio is not near {published:g} here."
    if low <= published <= high:
        return "cannot tell", f"From {three(low)} to {three(high)}: that holds the published ratio, and 1 as well."
    return "does not hold", None


def _of_one_place(rows: Sequence[Row]) -> list[Row]:
    """Those by the hardware's clock before all others, this machine's before another's."""
    place = min(((row.clock != "hardware", row.target != HERE, row.target, row.clock) for row in rows), default=None)
    return [row for row in rows if place and (row.target, row.clock) == place[2:]]


def _why(book: Book, claim: Published, wanted: RowOf) -> str:
    """The row's own reason where there is a row; then the claim's; else why the probe was not run there at all."""
    return own_reason(book, wanted) or claim.missing or _absence(wanted)


def timed_by(book: Book, found: Measured) -> str:
    """That a time was made by an emulator. What a guest's kernel counts of memory and faults is what it would be."""
    if found.of is None or found.of.clock != VIRTUAL:
        return ""
    if found.of.unit in (*KERNEL_COUNTS, "count"):
        return f"Counted by the kernel of {found.of.target}."
    return with_mend(f"In virtual time of {found.of.target}.", book)


def _absence(wanted: RowOf) -> str:
    named = wanted.probe or wanted.means or "such a row"
    where = f" for {wanted.abi}" if wanted.abi and wanted.abi != "native" else ""
    return f"This run has no row of {named}{where}."


def _estimate(row: Row) -> Estimate:
    value = row.median or 0.0
    return Estimate(
        value=value, low=value if row.low is None else row.low, high=value if row.high is None else row.high
    )


def _ranked(values: Sequence[Estimate]) -> list[Estimate]:
    return sorted(values, key=lambda one: one.value)


def _twin(row: Row, others: Sequence[Row]) -> Row | None:
    """The row of its clock and place at the same parameters, or the only one there; none where either is nothing."""
    comparable = [other for other in others if (other.target, other.clock) == (row.target, row.clock)]
    alone = comparable[0] if len(comparable) == 1 else None
    twin = next((other for other in comparable if other.parameters == row.parameters), alone)
    return twin if twin is not None and (row.median or 0) > 0 and (twin.median or 0) > 0 else None
