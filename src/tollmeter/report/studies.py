# SPDX-License-Identifier: Apache-2.0
"""A study's answer: its published figures with this machine's, a sentence for each gap, and its listing of attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence

from tollmeter.experiment.limits import ALIKE, MOSTLY
from tollmeter.model import Claim, Relation, Results, Suite, Tally
from tollmeter.numbers.units import in_percent
from tollmeter.report.blocks import Block, Column, Figure, Line, Table, heading
from tollmeter.report.numbers import DASH, MINUS, count, plain, quantity, two_digits
from tollmeter.report.programs import answer_blocks, program_blocks
from tollmeter.studies.attempts import VALID, Attempt, TargetListing, Test, attempted_listing
from tollmeter.studies.claim_rows import Measured
from tollmeter.studies.matching_rows import why_none
from tollmeter.studies.study import NO_NUMBER, WIDE, Answered, answered_claims

MANY = 3
"""Fewest claims with a common reason for which it is printed once, above the table."""
_ABOVE = "above"
"""Word that refers to a reason above the table."""
REDRAWN = "published-"
"""Prefix of the names of charts of published values."""


def tally_in_words(counts: Tally) -> str:
    """Returns counts of published figures by verdict; empty if the study printed none that could be judged."""
    several = (
        (counts.holds, "hold" if counts.holds != 1 else "holds"),
        (counts.same_direction, "have the same direction only" if counts.same_direction != 1 else
         "has the same direction only"),
        (counts.does_not_hold, "do not hold" if counts.does_not_hold != 1 else "does not hold"),
        (counts.cannot_tell, "cannot be judged here"),
    )  # fmt: skip
    total = sum(number for number, _ in several)
    counted = ", ".join(f"{number} {words}" for number, words in several if number)
    return f"Of {count(total, 'published figure')}: {counted}." if total else ""


def study_blocks(results: Results, suite: Suite) -> list[Block]:
    """Returns the whole answer, without rates over length, which other runs have too."""
    return [
        heading(suite.question),
        *([f"Source: {suite.source}"] if suite.source else []),
        *claim_blocks(results, suite),
        *listings(results),
        *program_blocks(results),
        *answer_blocks(results, suite),
    ]


def claim_blocks(results: Results, suite: Suite) -> list[Block]:
    """Returns the published figures with the measured ones, in the study's order, and the remarks on them. A reason
    that three or more share is printed above the table, and omitted from their remarks."""
    judged = answered_claims(results, suite)
    counts = Counter(reason for answer in judged for reason in answer.reasons)
    shared = {reason: number for reason, number in counts.items() if number >= MANY}
    unheld = sum(answer.claim.reason == NO_NUMBER for answer in judged)
    sentences = [f"{number} figures: {reason}" for reason, number in shared.items()]
    sentences += [f"{count(unheld, 'figure')}: {NO_NUMBER}"] if unheld else []
    remarks = dict.fromkeys(remark for answer in judged if (remark := _remark(answer, shared)))
    numbers = {remark: f"({number})" for number, remark in enumerate(remarks, start=1)}
    claims = [_claims_table(judged, shared, numbers)] if judged else []
    return [*sentences, *claims, *(f"{number} {remark}" for remark, number in numbers.items())]


def _remark(answer: Answered, shared: Container[str]) -> str:
    """Returns the reasons that are not printed above the table, and the note."""
    remark = " ".join(filter(None, (*(reason for reason in answer.reasons if reason not in shared), answer.note)))
    return f"As said {_ABOVE}. {remark}" if remark and _is_above(answer, shared) else remark


def _is_above(answer: Answered, shared: Container[str]) -> bool:
    return any(reason in shared for reason in answer.reasons)


def _claims_table(judged: Sequence[Answered], shared: Container[str], numbers: Mapping[str, str]) -> Table:
    """Returns the published values with the measured ones, and whether each claim holds. numbers: numbers of the
    remarks."""
    rows = [
        Line((
            answer.claim.what, answer.claim.figure, _here(answer.found), verdict_in_words(answer.claim),
            answer.claim.holds_at or DASH,
            numbers.get(_remark(answer, shared)) or _is_above(answer, shared) * _ABOVE,
        ))
        for answer in judged
    ]  # fmt: skip
    columns = [
        Column("What"), Column("published"), Column("here", right=True), Column("verdict"),
        Column("holds at", spare=1), Column(""),
    ]  # fmt: skip
    return Table(columns, rows)


def not_redrawn(results: Results, suite: Suite, drawn: Sequence[str]) -> list[str]:
    """Returns the study's figures that no chart of this run represents, and why. drawn: names of charts."""
    lost = [figure for figure in suite.figure if not any(name.startswith(f"{REDRAWN}{figure.name}") for name in drawn)]
    return [f"Not drawn anew: {figure.what}. {why_none(results, figure)}" for figure in lost]


def word_of(claim: Claim) -> str:
    """Returns the verdict of a claim's line in a chart: inconclusive if a narrower interval would decide."""
    if claim.verdict != "cannot tell":
        return claim.verdict
    is_wide = (claim.reason or "").startswith(WIDE)
    return "not measured" if claim.here is None else "inconclusive" if is_wide else "not judged"


def both_in_words(claim: Claim, relation: Relation) -> str:
    """Returns the measured and the published value in one unit: a change in per cent if the study states one."""

    def in_unit(value: float) -> str:
        if relation != "change":
            return str(quantity(value, claim.unit))
        return f"{MINUS if value < 1 else '+'}{plain(100 * abs(value - 1), 2)} %"

    here = "" if claim.here is None else in_unit(claim.here)
    is_bare = claim.unit == "ratio" and relation != "change"  # as the study has it: 2, and not 2.00
    stated = "" if claim.value is None else f"{claim.value:g} ×" if is_bare else in_unit(claim.value)
    published = stated and f"published {stated}"
    return ", ".join(filter(None, (here, published)))


def verdict_in_words(claim: Claim) -> str:
    """Returns the verdict in words: a dash for a figure that cannot be judged; a figure that another line counts is
    marked."""
    if claim.verdict == "cannot tell" and not claim.holds_at:
        return DASH
    judged = f"same direction, {two_digits(claim.times, '').number} times as large" if claim.times else claim.verdict
    judged = "cannot be judged here" if claim.verdict == "cannot tell" else judged
    return judged if claim.counted else f"{judged}, not counted"


def _here(measured: Measured) -> Figure | str:
    """Returns one number with its interval; for several rows the lowest and the highest."""
    if not measured.values:
        return DASH
    least, most = measured.values[0], measured.values[-1]
    if measured.thin:
        return f"~ {two_digits(least.value, measured.unit)}"
    if len(measured.values) == 1:
        return quantity(least.value, measured.unit, least.low, least.high)
    first, last = quantity(least.value, measured.unit), quantity(most.value, measured.unit)
    return f"{first.number} to {last}" if first.unit == last.unit else f"{first} to {last}"


# ---- attempts -------------------------------------------------------------------------------------------------------

FREE = (
    "In virtual time each instruction takes 1 ns, and an exception itself nothing: what counts is the instructions of "
    "the handler's path."
)
_MARKS = {"valid": "", "suspect": "?", "differs": "!", "unseen": ""}
_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def listings(results: Results) -> list[Block]:
    """Returns a table for each target, and the sentences below it."""
    blocks: list[Block] = []
    for listing in attempted_listing(results):
        title = f"Listing ({listing.target}, {listing.abi}, {listing.clock})"
        columns = [Column(title), Column("loops a second, by attempt"), Column("each", right=True), Column("")]
        lines = [_line(test) for test in listing.tests]
        virtual = FREE if listing.clock == "virtual" else ""
        differs = [f"{test.listed.test}: {test.listed.differs}" for test in listing.tests if test.listed.differs]
        sentences = filter(None, (lesson(listing), virtual, _left(listing), *dict.fromkeys(differs)))
        blocks += [Table(columns, lines), *sentences]
    return blocks


def by_attempt(attempts: Sequence[Attempt]) -> str:
    """Returns all attempts in one unit; `?` after a suspect one, `!` after one whose control loop differs."""
    most = max((attempt.loops_hz for attempt in attempts), default=0.0)
    scale, letter = next((pair for pair in _SCALES if most >= pair[0]), _SCALES[-1])
    return " ".join(f"{attempt.loops_hz / scale:.4g}{_MARKS[attempt.state]}" for attempt in attempts) + f" {letter}/s"


def _line(test: Test) -> Line:
    """Returns the line of a test. Its time is that of one loop, from the test's row."""
    row = test.row
    each = quantity(row.median if row.unit == "ns" else 1e9 / row.median, "ns") if row.median else DASH
    states = {attempt.state for attempt in test.attempts}
    worst = next((state for state in ("differs", "suspect", "valid") if state in states), "")
    state = f"{worst}, {test.again} again" if test.again else worst
    return Line((f"{test.listed.test:<3} {test.listed.what}", by_attempt(test.attempts), each, state))


def lesson(listing: TargetListing) -> str:
    """Returns a sentence on the state of the machine during the attempts on a target, from the control loop around
    them."""
    if not listing.control_hz:
        return "No control loop was seen around these: nothing says whether the machine was in one state."
    states = [attempt.state for test in listing.tests for attempt in test.attempts]
    usual = f"The control loop around all attempts: {listing.control_hz / 1e9:.3g} G additions a second"
    if "differs" in states:
        flagged = states.count("differs")
        return (
            f"{usual}, and more than {in_percent(ALIKE)} off around {flagged} of {len(states)}, each time: those "
            "ran in another state of the machine, are marked ! and excluded from every median."
        )
    if "suspect" in states:
        return (
            f"{usual}, {in_percent(VALID)} to {in_percent(ALIKE)} off around {states.count('suspect')} of "
            f"{len(states)}: marked ?, valid if other attempts agree."
        )
    return f"{usual}, within {in_percent(VALID)} each time: one state of the machine, and the tests may be compared."


def _left(listing: TargetListing) -> str:
    """Returns a sentence on the tests whose round trips left the guest for its host, so that their times are those of a
    hypervisor; empty if there are none."""
    left = [test for test in listing.tests if (test.exits or 0.0) > MOSTLY]
    if not left:
        return ""
    least, most = (pick(test.exits or 0.0 for test in left) for pick in (min, max))
    names = ", ".join(dict.fromkeys(test.listed.test for test in left))
    return (
        f"{names}: each round trip left the guest {least:.1f} to {most:.1f} times for its host. This /dev/kvm is "
        "a hypervisor in software: these are its prices and not the hardware's."
    )
