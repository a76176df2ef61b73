# SPDX-License-Identifier: Apache-2.0
"""A control loop whose rate scatters: whatever makes it scatter is in every number of the run."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.percent import in_percent

TOLERATED = 0.03
LEAST_READINGS = 20


def find(book: Book) -> Iterable[Finding]:
    """Where the middle half of all control-loop rates is wider than 3 % of their median."""
    rates = [rate for outcome in native_outcomes(book.outcomes) for rate in outcome.controls if rate > 0]
    if len(rates) < LEAST_READINGS:
        return
    lower, middle, upper = np.percentile(rates, [25, 50, 75])
    spread = float((upper - lower) / middle)
    if spread <= TOLERATED:
        return
    yield Finding(
        name="machine.control_loop_is_noisy",
        severity="warning",
        claim=f"the control loop's rate scatters by {in_percent(spread, 1)}: neighbours or the power management "
        "disturb the core",
        evidence=(
            Evidence(what="middle half of the control loop's rates", value=spread, unit="ratio"),
            Evidence(what="median rate of dependent additions", value=float(middle), unit="op/s"),
            Evidence(what="readings", value=float(len(rates)), unit="count"),
        ),
        remedy="trust ratios within this run more than its absolute times; stop what else runs and measure again",
    )
