# SPDX-License-Identifier: Apache-2.0
"""The toll ladder: the toll table with a dot and its interval in each row, all on one log scale, in groups.

It is drawn by the page itself, without a script: places on the scale are shares of its width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import Book, Toll
from tollmeter.report.doubt import of_toll
from tollmeter.report.groups import best_known, grouped
from tollmeter.report.numbers import DASH, Figure, about, time
from tollmeter.report.tables import beside, per_ms, shared_state

MOST_TICKS = 5
MARGIN = 2.0
"""Per cent of the width on either side, so that no dot is cut."""


@dataclass(frozen=True)
class Mark:
    """Per cent of the scale's width. firm: it rests on visits enough."""

    at: str
    low: str
    high: str
    firm: bool


@dataclass(frozen=True)
class Rung:
    """mark: None for a toll without a number, whose reason is in note. known: shown where there is little room."""

    toll: str
    mark: Mark | None
    figure: Figure | str
    beside: Figure | str
    fit: str
    note: str
    known: bool


@dataclass(frozen=True)
class Ladder:
    """beside: what the column next to the time holds. ticks: place in per cent, and words."""

    beside: str
    ticks: tuple[tuple[str, str], ...]
    groups: tuple[tuple[str, tuple[Rung, ...]], ...]


def ladder(book: Book) -> Ladder | None:
    """None where no toll has a number."""
    paid = [toll for toll in book.index.tolls if toll.value is not None and toll.value > 0]
    if not paid:
        return None
    scale = _Scale.over(paid)
    both = any(shared_state(toll) for toll in paid)
    known = best_known(book)
    groups = tuple(
        (name, tuple(_rung(toll, scale, both, known=toll in known) for toll in tolls)) for name, tolls in grouped(book)
    )
    return Ladder("contended" if both else "in cycles", scale.ticks(), groups)


def _rung(toll: Toll, scale: _Scale, both: bool, *, known: bool) -> Rung:
    if toll.value is None:
        return Rung(toll.toll, None, DASH, DASH, DASH, f"no number: {toll.reason}", known)
    fit = about(per_ms(toll.value))
    return Rung(toll.toll, scale.mark(toll), of_toll(toll), beside(toll, both=both), fit, toll.note, known)


@dataclass(frozen=True)
class _Scale:
    """Whole decades of nanoseconds, as exponents of ten."""

    first: int
    last: int

    @classmethod
    def over(cls, tolls: Sequence[Toll]) -> _Scale:
        values = [toll.value for toll in tolls if toll.value]
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(first, max(last, first + 1))

    def mark(self, toll: Toll) -> Mark:
        value = toll.value or 0.0
        firm = toll.visits >= LEAST_VISITS
        low, high = (toll.low, toll.high) if firm else (value, value)
        return Mark(self._at(value), self._at(low or value), self._at(high or value), firm)

    def ticks(self) -> tuple[tuple[str, str], ...]:
        """Every decade a line; words for as many as have room."""
        decades = range(self.first, self.last + 1)
        every = -(-len(decades) // MOST_TICKS)
        return tuple(
            (self._at(10.0**decade), "" if place % every else _power(decade)) for place, decade in enumerate(decades)
        )

    def _at(self, ns: float) -> str:
        share = (math.log10(ns) - self.first) / (self.last - self.first) if ns > 0 else 0.0
        return f"{MARGIN + (100 - 2 * MARGIN) * min(1.0, max(0.0, share)):.2f}%"


def _power(decade: int) -> str:
    figure = time(10.0**decade)
    number = figure.number.rstrip("0").rstrip(".") if "." in figure.number else figure.number
    return f"{number} {figure.unit}"
