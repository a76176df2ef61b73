# SPDX-License-Identifier: Apache-2.0
"""How surely a number is said: with its interval, as one of two, as a range, or as a guess that says of what."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.judgement.verdict import is_known
from tollmeter.model import Row, State, Toll
from tollmeter.report.numbers import Figure, either, quantity, roughly

HEAPS = ("first", "second")


def of_row(row: Row) -> Figure:
    if not is_known(row):
        return roughly(row.median, row.unit, row.samples)
    heaps = _heaps(row.states) if row.state in HEAPS else ()
    return either(*heaps, row.unit) if heaps else quantity(row.median, row.unit, row.low, row.high)


def of_toll(toll: Toll) -> Figure:
    if toll.visits < LEAST_VISITS:
        return roughly(toll.value, toll.unit, toll.samples)
    heaps = _heaps(toll.states)
    return either(*heaps, toll.unit) if heaps else quantity(toll.value, toll.unit, toll.low, toll.high)


def _heaps(states: Sequence[State]) -> tuple[float, float] | tuple[()]:
    """What a number is by turns, the less first."""
    found = sorted(state.median for state in states if state.state in HEAPS)
    return (found[0], found[1]) if len(found) == 2 else ()
