# SPDX-License-Identifier: Apache-2.0
"""A hypervisor that gives the CPU to another guest while it is measured."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tollmeter.experiment.taken import Taken, parts
from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.percent import in_percent

TICK_NS = 1e7
TOLERATED = 0.01


def find(book: Book) -> Iterable[Finding]:
    """Where more than 1 % of the time of all samples on the machine's own clock was stolen."""
    ticks = hit = 0
    measured_ns = 0.0
    for some in parts(native_outcomes(book.outcomes)):
        taken = Taken(outcome.samples for outcome in some)
        seen = np.maximum(taken.column("steal_ticks"), 0.0)
        ticks, hit = ticks + int(seen.sum()), hit + int((seen > 0).sum())
        measured_ns += float(taken.timed_ns().sum())
    stolen_ns = TICK_NS * ticks
    if measured_ns <= 0 or stolen_ns / measured_ns <= TOLERATED:
        return
    yield Finding(
        name="machine.time_is_stolen",
        severity="warning",
        claim=f"the hypervisor gave {in_percent(stolen_ns / measured_ns, 1)} of the measured time to others",
        evidence=(
            Evidence(what="time stolen during samples", value=stolen_ns, unit="ns"),
            Evidence(what="time of all samples", value=measured_ns, unit="ns"),
            Evidence(what="samples hit", value=float(hit), unit="count"),
        ),
        remedy="measure again at a quieter hour, or ask for dedicated CPUs",
    )
