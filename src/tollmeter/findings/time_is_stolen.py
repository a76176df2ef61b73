# SPDX-License-Identifier: Apache-2.0
"""A hypervisor that gives the CPU to somebody else while it is measured."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.model import Book, Evidence, Finding
from tollmeter.numbers.meanings import native_outcomes
from tollmeter.numbers.percent import in_percent

TICK_NS = 1e7
TOLERATED = 0.01


def find(book: Book) -> Iterable[Finding]:
    """Where more than 1 % of the time of all samples on the machine's own clock was stolen."""
    samples = [sample for outcome in native_outcomes(book.outcomes) for sample in outcome.samples]
    stolen_ns = TICK_NS * sum(sample.witness.steal_ticks or 0 for sample in samples)
    measured_ns = sum(sum(sample.body) + sum(sample.control or ()) for sample in samples)
    if measured_ns <= 0 or stolen_ns / measured_ns <= TOLERATED:
        return
    hit = sum((sample.witness.steal_ticks or 0) > 0 for sample in samples)
    yield Finding(
        name="machine.time_is_stolen",
        severity="warning",
        claim=f"the hypervisor gave {in_percent(stolen_ns / measured_ns, 1)} of the measured time to others",
        evidence=(
            Evidence(what="time stolen during samples", value=stolen_ns, unit="ns"),
            Evidence(what="time of all samples", value=float(measured_ns), unit="ns"),
            Evidence(what="samples hit", value=float(hit), unit="count"),
        ),
        remedy="measure again at a quieter hour, or ask for dedicated CPUs",
    )
