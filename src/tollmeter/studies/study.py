# SPDX-License-Identifier: Apache-2.0
"""A study's published figures beside what this machine says: whether each still holds, or why that cannot be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import REAL_CLOCKS, Book, Claim, Condition, Published, Study, Suite, Tally
from tollmeter.numbers.row_of import KERNEL_COUNTS
from tollmeter.studies import predicate
from tollmeter.studies.attribution import largest
from tollmeter.studies.claim_rows import Measured, measured, timed_by
from tollmeter.studies.gains import gains
from tollmeter.studies.guest_exits import HOSTED
from tollmeter.studies.predicate import Judged
from tollmeter.studies.relatives import relatives

INSTRUCTIONS = "Virtual time counts instructions, and no time of another machine can be held against a count."
NO_NUMBER = "The study prints neither a number nor a relation that could be judged."
SHOWN = "What was published is of another machine or another quantity: it is shown, and not judged."
THIN = "It rests on fewer than {} visits, and has no interval to judge by."
MIXED = "The two rows are of different states of the core: uncontended, contended or unknown."
STRICT = "This CPU does not trap on a misaligned access, and the study's does."
PREFETCH = "The study switched prefetching off, and this CPU prefetches."
FREE = "There an exception itself is free: only the instructions of its handler's path count."
ENTRIES = ("own-vector", "entry", "checked-entry", "trap")
_STRICT_ABIS = ("mips", "sparc")
_UNTIMED = (*KERNEL_COUNTS, "count")
"""Units of what a kernel counts: an emulated CPU does not change it."""


class Answered(NamedTuple):
    """A claim with its verdict, and what it was judged by. reasons: why there is no number or no verdict, by whose
    clock, and which conditions are not met; note: what the claim gets wrong, or how our measurement differs."""

    claim: Claim
    found: Measured
    reasons: tuple[str, ...]
    note: str


def study(book: Book) -> Study | None:
    """None for a run of no study."""
    suite = book.suite
    if suite is None or not suite.published:
        return None
    programs = relatives(book)
    claims = tuple(answer.claim for answer in answered(book, suite))
    return Study(
        source=suite.source,
        claims=claims,
        relatives=programs,
        worth=gains(suite.worth, suite.mend, programs, _by_counts(book, suite)) if suite.worth else "",
        tally=tally(claims),
    )


def _by_counts(book: Book, suite: Suite) -> list[tuple[str, float]]:
    """What the suite's ABI would save of the time of programs, where it was counted and not timed."""
    taken = [
        attribution
        for attribution in largest(book)
        if attribution.second_ns is None and attribution.abis[1] == suite.worth and attribution.first_ns
    ]
    return [
        (program.what, attribution.saved_ns / attribution.first_ns)
        for attribution in taken
        for program in suite.program
        if not program.primitive and attribution.is_of(program.probe, program.parameters)
    ]


def answered(book: Book, suite: Suite) -> list[Answered]:
    """One for each published figure, in the study's order."""
    return [_answered(book, claim) for claim in suite.published]


def _answered(book: Book, claim: Published) -> Answered:
    """The correction is about the number here: it goes beside a number, and where none can ever be."""
    measured_number = measured(book, claim)
    judged = judge(claim, measured_number)
    why = judged.reason if judged.reason not in (measured_number.gap, NO_NUMBER) else ""
    stated = judged.unmet if measured_number.values else ()
    reasons = tuple(reason for reason in (measured_number.gap, why, timed_by(book, measured_number), *stated) if reason)
    correction = (claim.correction or "").strip() if claim.row is None or measured_number.values else ""
    return Answered(
        judged, measured_number, reasons, " ".join(filter(None, (_free(claim, measured_number), correction)))
    )


def _free(claim: Published, number: Measured) -> str:
    """Where an emulator counts instructions, entering its kernel costs none."""
    counted = number.of is not None and number.of.clock == "virtual"
    return FREE if counted and claim.row and claim.row.means in ENTRIES else ""


def tally(claims: Iterable[Claim]) -> Tally:
    """Of the figures that the study printed, each once."""
    counts = Counter[str](claim.verdict.replace(" ", "_") for claim in claims if claim.counted)
    return Tally(**counts)


def judge(claim: Published, number: Measured) -> Claim:
    """here: the middle one of several rows; low, high: the ends of them all."""
    values = number.values
    here = values[(len(values) - 1) // 2].value if values else None
    low, high = (
        min((estimate.low for estimate in values), default=None),
        max((estimate.high for estimate in values), default=None),
    )
    verdict, times, reason = _verdict(claim, number, here, low, high)
    return Claim(
        what=claim.what, figure=claim.figure, value=claim.value, verdict=verdict, reason=reason, here=here, low=low,
        high=high, unit=number.unit or claim.unit, holds_at=predicate.in_words(claim), times=times,
        unmet=tuple(filter(None, (_stated(condition) for condition in claim.requires))),
        counted=claim.counted and predicate.is_judged(claim),
    )  # fmt: skip


def _verdict(
    claim: Published, number: Measured, here: float | None, low: float | None, high: float | None
) -> Judged:  # fmt: skip
    if not predicate.is_judged(claim) or not number.refuted:
        why = _why_not(claim, number)
        if why or here is None or low is None or high is None:
            return Judged("cannot tell", reason=why)
    if number.refuted:
        return Judged("does not hold", reason=number.refuted)
    assert here is not None and low is not None and high is not None
    return predicate.judge(claim, here, low, high)


def _why_not(claim: Published, number: Measured) -> str:
    """Why nothing here can be held against what was published; empty where something can."""
    if not number.values:
        return number.gap
    if number.thin:
        return THIN.format(LEAST_VISITS)
    if number.hosted:
        return HOSTED
    if not predicate.is_judged(claim):
        return SHOWN if claim.relation == "shown" else NO_NUMBER
    if claim.unit and claim.unit != number.unit:
        return f"What was published is in {claim.unit}, and this is in {number.unit}."
    blocked = next(
        filter(None, (_blocks(condition, claim, number) for condition in ("own clock", *claim.requires))), ""
    )
    return blocked or (MIXED if number.mixed else "")


def _blocks(condition: Condition, claim: Published, number: Measured) -> str:
    """Why a condition prevents a verdict here, or empty. A count answers claims that accept counts."""
    if number.of is None:
        return ""
    if condition == "strict CPU":
        return "" if number.of.abi.startswith(_STRICT_ABIS) else STRICT
    counts = claim.about == "instructions" and condition not in claim.requires
    timed = number.of.clock in REAL_CLOCKS or number.of.unit in _UNTIMED
    return "" if condition != "own clock" or counts or timed else INSTRUCTIONS


def _stated(condition: Condition) -> str:
    """A condition that no program can restore, and that is stated beside the verdict."""
    return PREFETCH if condition == "prefetch off" else ""
