# SPDX-License-Identifier: Apache-2.0
"""Judges the claims of a study. A claim is a relation, a value and a tolerance. It holds if the whole measured interval
satisfies the relation, and fails if no part of the interval does. A published effect may also be confirmed in its
direction but not its size, if the whole interval is outside. In all other cases the verdict is inconclusive, so that
noise does not change a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART, LEAST_VISITS
from tollmeter.model import (
    PRECISION,
    REAL_CLOCKS,
    Claim,
    ClaimVerdict,
    Condition,
    Opposed,
    Point,
    Published,
    Relation,
    Results,
    RowOf,
    Study,
    Suite,
    Tally,
)
from tollmeter.numbers.row_of import KERNEL_COUNTS
from tollmeter.numbers.units import short, span, three
from tollmeter.studies.attribution import largest
from tollmeter.studies.claim_rows import Measured, measured_claim, timed_by
from tollmeter.studies.matching_rows import HOSTED
from tollmeter.studies.relatives import gains, relatives

TOLERANCES: dict[Relation, float] = {"about": CLEARLY, "change": FAR_APART, "same": ALIKE, "crossing": CLEARLY}
"""Default tolerances of claims. about, crossing: share of the value, as a factor either way. change: share of the
change. same: difference either way."""
MORE = 1 + PRECISION
"""Smallest ratio that counts as more than 1: numbers with a smaller ratio are called the same
(judgement/compare.py)."""
_SCALED = ("about", "change")
"""Relations that state the size of an effect, so that a smaller or larger effect can be judged."""


def relation_of(claim: Published) -> Relation:
    """Returns the relation of a claim. A claim with only a value means that the value is about right; if it is a ratio
    of 1, that both sides are the same."""
    if claim.relation or claim.value is None:
        return claim.relation
    return "same" if claim.unit == "ratio" and claim.value == 1 else "about"


def is_judged(claim: Published) -> bool:
    """Returns whether the study states a value or relation that a measurement could contradict."""
    return relation_of(claim) not in ("", "shown")


def bounds(claim: Published) -> tuple[float, float] | None:
    """Returns the bounds between which the claim holds, in its unit; None if it states nothing that could be judged."""
    relation, value = relation_of(claim), 1.0 if claim.value is None else claim.value
    tolerance = TOLERANCES.get(relation, 0.0) if claim.tolerance is None else claim.tolerance
    if relation == "change":
        ends = sorted(1 + (value - 1) * (1 + share) for share in (-tolerance, tolerance))
        return ends[0], ends[1]
    by_relation: dict[str, tuple[float, float]] = {
        "about": (value / (1 + tolerance), value * (1 + tolerance)),
        "crossing": (value / (1 + tolerance), value * (1 + tolerance)),
        "same": (value - tolerance, value + tolerance),
        "at least": (value - tolerance, inf),
        "at most": (-inf, value + tolerance),
        "more": (MORE, inf),
        "ordering": (MORE, inf),
        "less": (-inf, 1 / MORE),
    }
    return by_relation.get(relation)


def _in_words(claim: Published) -> str:
    """Returns the values for which the claim holds: "8 to 12.5", "at most 1.2", "at least 1.03"; empty if it states
    nothing that could be judged."""
    ends = bounds(claim)
    if ends is None:
        return ""
    low, high = ends
    if low == -inf or high == inf:
        end, words = (high, "at most") if low == -inf else (low, "at least")
        return f"{words} {three(end) if claim.unit in ('', 'ratio') else short(end, claim.unit)}"
    return f"{three(low)} to {three(high)}" if claim.unit in ("", "ratio") else span(low, high, claim.unit)


def judge_interval(claim: Published, here: float, low: float, high: float) -> Claim:
    """Returns a claim judged by an interval. here: the measured value; low, high: its interval; all in the unit of the
    claim. For the verdict `same direction`, times is the measured effect (the difference of a ratio from 1) over the
    published one."""
    ends, value = bounds(claim), claim.value
    assert ends is not None
    failed = Claim(claim.what, claim.figure, value, here, low, high, claim.unit, "does not hold")
    if ends[0] <= low and high <= ends[1]:
        return msgspec.structs.replace(failed, verdict="holds")
    why = f"{WIDE} {three(low)} to {three(high)}, is too wide to judge by."
    undecided = msgspec.structs.replace(failed, verdict="cannot tell", reason=why)
    if low < ends[1] and high > ends[0]:
        return undecided
    if claim.unit == "ratio" and relation_of(claim) in _SCALED and value is not None and value != 1:
        # An effect is the difference from 1: a ratio of 1.3 has 0.3 of the effect of a ratio of 2.
        least, here_share, most = sorted((number - 1) / (value - 1) for number in (low, here, high))
        if least >= CLEARLY:
            return msgspec.structs.replace(failed, verdict="same direction", times=here_share)
        if most > CLEARLY:
            return undecided
    return failed


_ROOM = 2.0
"""Factor on the half-width of an interval that decides a claim before the run ends. Testing a 95 % interval after each
visit, and stopping at the first verdict, gives wrong verdicts; four standard errors leave one in ten thousand."""


def is_decided(claims: Sequence[Published], point: Point, against: Point, ratios: Sequence[Opposed]) -> bool:
    """Returns whether further visits of a pair change no verdict: each claim about the pair has a verdict that a wider
    interval would also give. False if no claim is about it. ratios: ratios of the pair."""
    claims_of_pair = [
        claim for claim in claims if is_judged(claim) and _is_of(claim.row, point) and _is_of(claim.over, against)
    ]
    return bool(claims_of_pair) and all(_has_verdict(claim, ratios) for claim in claims_of_pair)


def _is_of(wanted: RowOf | None, point: Point) -> bool:
    """Returns whether a point has a row that the selection names."""
    if wanted is None or wanted.probe != point.probe or wanted.abi not in (None, "native", point.abi):
        return False
    return wanted.parameters.items() <= point.values().items()


def _has_verdict(claim: Published, ratios: Sequence[Opposed]) -> bool:
    """Returns whether the ratio that a claim asks for decides it, even with a wider interval."""
    wanted = claim.row.metric if claim.row else None
    found = next((ratio for ratio in ratios if wanted in (None, ratio.metric)), None)
    if found is None or found.low <= 0:
        return False
    low, high = (found.ratio * (end / found.ratio) ** _ROOM for end in (found.low, found.high))
    return judge_interval(claim, found.ratio, low, high).verdict != "cannot tell"


# ---- study ----------------------------------------------------------------------------------------------------------

WIDE = "The interval,"
INSTRUCTIONS = "Virtual time counts instructions, which cannot be compared with a time of another machine."
NO_NUMBER = "The study prints neither a number nor a relation that could be judged."
SHOWN = "The published value is of another machine or another quantity: it is shown, and not judged."
THIN = "The number has fewer than {} visits, and no interval to judge by."
MIXED = "The two rows are of different states of the core: uncontended, contended or unknown."
STRICT = "This CPU does not trap on a misaligned access, and the study's does."
PREFETCH = "The study switched prefetching off, and this CPU prefetches."
FREE = "On this target an exception itself is free: only the instructions of its handler count."
ENTRIES = ("own-vector", "entry", "checked-entry", "trap")
_STRICT_ABIS = ("mips", "sparc")
_UNTIMED = (*KERNEL_COUNTS, "count")
"""Units of values that the kernel counts, which an emulated CPU does not change."""


class Answered(NamedTuple):
    """A claim with its verdict. found: the value that decided it. reasons: why there is no number or no verdict, which
    clock timed it, and unmet conditions. note: errors of the claim, or differences between our measurement and the
    study's."""

    claim: Claim
    found: Measured
    reasons: tuple[str, ...]
    note: str


def study(results: Results) -> Study | None:
    """Returns the answers to the study of a run; None if the run is of no study."""
    suite = results.suite
    if suite is None or not suite.published:
        return None
    programs = relatives(results)
    claims = tuple(answer.claim for answer in answered_claims(results, suite))
    # The ABI of the study, else the one that this run compares with the main ABI.
    abis = [relative.abi for relative in programs]
    about = suite.worth if suite.worth in abis or not abis else abis[0]
    return Study(
        source=suite.source,
        claims=claims,
        relatives=programs,
        worth=gains(about, suite.mend, programs, _by_counts(results, suite)) if suite.worth else "",
        tally=tally(claims),
    )


def _by_counts(results: Results, suite: Suite) -> list[tuple[str, float]]:
    """Returns the programs that were counted but not timed, each with the share of its time that the ABI of the suite
    saves."""
    return [
        (program.what, attribution.saved_ns / attribution.first_ns)
        for attribution in largest(results)
        if attribution.second_ns is None and attribution.abis[1] == suite.worth and attribution.first_ns
        for program in suite.program
        if not program.primitive and attribution.is_of(program.probe, program.parameters)
    ]


def answered_claims(results: Results, suite: Suite) -> list[Answered]:
    """Returns one answer for each published figure, in the order of the study. A correction refers to the number here,
    so it is included if there is a number, or if there can never be one."""
    answers = []
    for claim in suite.published:
        number = measured_claim(results, claim)
        judged = judge(claim, number)
        why = judged.reason if judged.reason not in (number.gap, NO_NUMBER) else ""
        unmet = judged.unmet if number.values else ()
        reasons = tuple(filter(None, (number.gap, why, timed_by(results, number), *unmet)))
        counted = number.of is not None and number.of.clock == "virtual"
        exceptions_are_free = FREE if counted and claim.row and claim.row.means in ENTRIES else ""
        correction = (claim.correction or "").strip() if claim.row is None or number.values else ""
        answers.append(Answered(judged, number, reasons, " ".join(filter(None, (exceptions_are_free, correction)))))
    return answers


def tally(claims: Iterable[Claim]) -> Tally:
    """Returns the tally of the figures that the study printed, each once."""
    counts = Counter[str](claim.verdict.replace(" ", "_") for claim in claims if claim.counted)
    return Tally(**counts)


def judge(claim: Published, number: Measured) -> Claim:
    """Returns the judged claim. Of several rows, `here` is their median, and low and high are the outermost ends; all
    three are equal without an interval."""
    values = number.values
    here = values[(len(values) - 1) // 2].value if values else None
    low = min((estimate.low for estimate in values), default=None)
    high = max((estimate.high for estimate in values), default=None)
    if number.thin:
        low = high = here
    is_refuted = is_judged(claim) and number.refuted
    why = number.refuted if is_refuted else _why_not(claim, number)
    if is_refuted or why or here is None or low is None or high is None:
        verdict: ClaimVerdict = "does not hold" if is_refuted else "cannot tell"
        judged = Claim(claim.what, claim.figure, claim.value, here, low, high, claim.unit, verdict, why)
    else:
        judged = judge_interval(claim, here, low, high)
    return msgspec.structs.replace(
        judged, unit=number.unit or claim.unit, holds_at=_in_words(claim),
        # This condition is stated with the verdict, since no program can restore it.
        unmet=tuple(PREFETCH for condition in claim.requires if condition == "prefetch off"),
        counted=claim.counted and is_judged(claim) and claim.is_answerable,
    )  # fmt: skip


def _why_not(claim: Published, number: Measured) -> str:
    """Returns why no value here can be compared with the published one; empty if there is one that can."""
    if not number.values:
        return number.gap
    if number.thin:
        return THIN.format(LEAST_VISITS)
    if number.hosted:
        return HOSTED
    if not is_judged(claim):
        return SHOWN if claim.relation == "shown" else NO_NUMBER
    if claim.unit and claim.unit != number.unit:
        return f"The published value is in {claim.unit}, the measured value in {number.unit}."
    blocked = [_blocks(condition, claim, number) for condition in ("own clock", *claim.requires)]
    return next(filter(None, blocked), MIXED if number.mixed else "")


def _blocks(condition: Condition, claim: Published, number: Measured) -> str:
    """Returns why a condition of the study prevents a verdict; empty if it does not. A count answers claims that accept
    counts."""
    if number.of is None:
        return ""
    if condition == "strict CPU":
        return "" if number.of.abi.startswith(_STRICT_ABIS) else STRICT
    counts = claim.about == "instructions" and condition not in claim.requires
    timed = number.of.clock in REAL_CLOCKS or number.of.unit in _UNTIMED
    return "" if condition != "own clock" or counts or timed else INSTRUCTIONS
