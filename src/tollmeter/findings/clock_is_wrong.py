# SPDX-License-Identifier: Apache-2.0
"""A target whose own clock runs fast or slow by the clock at the other end of a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tollmeter.experiment.precision import LEAST_VISITS, Estimate
from tollmeter.model import Book, Evidence, Finding, Outcome
from tollmeter.numbers.own_clock import own_ratio
from tollmeter.numbers.percent import in_percent

TOLERATED, BY_FEW_VISITS = 0.0025, 0.02
"""A crystal is off by 0.01 % at most, and one visit's ratio was off by up to 0.6 % on busy machines. A run of 5 s may
have one visit or two."""


def find(book: Book) -> Iterable[Finding]:
    """Where the ratio of the two clocks is surely more than 0.25 % off 1; by fewer than three visits, more than 2 %."""
    targets: dict[str, list[Outcome]] = {}
    for outcome in book.outcomes:
        if outcome.status == "ok" and outcome.marks and outcome.marks.own_ratio:
            targets.setdefault(outcome.point.target, []).append(outcome)
    for target, visits in targets.items():
        ratio = own_ratio(visits)
        tolerated = TOLERATED if len(visits) >= LEAST_VISITS else BY_FEW_VISITS
        if ratio and (ratio.low > 1 + tolerated or ratio.high < 1 - tolerated):
            yield _finding(target, ratio, visits)


def _finding(target: str, ratio: Estimate, visits: Sequence[Outcome]) -> Finding:
    inner, _, line = target.partition("+")
    way = "fast" if ratio.value > 1 else "slow"
    off = sorted(abs(end - 1) for end in (ratio.low, ratio.high))
    return Finding(
        name="machine.clock_is_wrong",
        severity="error",
        claim=f"the clock of {inner} runs {in_percent(abs(ratio.value - 1), 2)} {way} "
        f"({in_percent(off[0], 2)} to {in_percent(off[1], 2)}) by the clock at the other end of {line}",
        evidence=(
            Evidence(what="own time over the line's", value=ratio.value, unit="ratio"),
            Evidence(what="visits with marks", value=float(len(visits)), unit="count"),
        ),
        remedy="compare both clocks with a third one; times measured without this line have the same error",
    )
