# SPDX-License-Identifier: Apache-2.0
"""A core clock that was another one at the end of the run than at its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.percent import in_percent
from tollmeter.numbers.stats import hodges_lehmann_ratio

TOLERATED = 0.03
LEAST_READINGS = 8
PARTS = 3
MOST_READINGS = 1 << 14
"""More say no more, and the ratios of 400,000 take 7 s and 650 MB."""


def find(book: Book) -> Iterable[Finding]:
    """Where the control loop's rates of the run's last third differ from the first third's by more than 3 %, surely."""
    visits = sorted(native_outcomes(book.outcomes), key=lambda outcome: outcome.visit)
    rates = [rate for outcome in visits for rate in outcome.controls if rate > 0]
    rates = rates[:: len(rates) // MOST_READINGS + 1]
    third = len(rates) // PARTS
    if third < LEAST_READINGS:
        return
    yield from _drift(rates[:third], rates[-third:])


def _drift(first: Sequence[float], last: Sequence[float]) -> Iterable[Finding]:
    ratio = hodges_lehmann_ratio(first, last)
    if ratio.high >= 1 - TOLERATED and ratio.low <= 1 + TOLERATED:
        return
    direction = "faster" if ratio.value > 1 else "slower"
    yield Finding(
        name="machine.frequency_is_not_steady",
        severity="warning",
        claim=f"the core ran {in_percent(abs(ratio.value - 1), 1)} {direction} at the end of the run than at its "
        "beginning",
        evidence=(
            Evidence(what="core clock, last third of the run over its first", value=ratio.value, unit="ratio"),
            Evidence(what="least ratio, 95 %", value=ratio.low, unit="ratio"),
            Evidence(what="greatest ratio, 95 %", value=ratio.high, unit="ratio"),
        ),
        remedy="fix the frequency (governor performance, boost off) or let the machine warm up, and compare in cycles",
    )
