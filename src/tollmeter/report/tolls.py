# SPDX-License-Identifier: Apache-2.0
"""Groups of tolls, the few that represent all, and the toll ladder: the table with a dot and its interval in each row.

The page draws the ladder without a script: places on the log scale are shares of its width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import Probe, Results, Toll
from tollmeter.numbers.meanings import meaning
from tollmeter.report.numbers import DASH, Figure, about, of_toll, time
from tollmeter.report.tables import beside, per_ms, shared_state

COMPUTING, MEMORY, KERNEL, OTHERS = "computing", "memory", "kernel", "other processes"
GROUPS = (COMPUTING, MEMORY, KERNEL, OTHERS)
FAMILIES = {"memory": MEMORY, "kernel": KERNEL}

BEST_KNOWN = {
    "clock-read": 1,
    "entry": 1,
    "price-of-fault": 1,
    "trap": 1,
    "switch": 1,
    "transfer-of-state": 1,
    "call-of-object": 2,
}
"""Meanings that a stranger looks for, and how many lines of each are worth a place among the few."""

MOST_LONERS, MOST_LINES = 2, 9


def grouped(results: Results) -> tuple[tuple[str, tuple[Toll, ...]], ...]:
    """Each group that has a line, in the order of GROUPS; within one as the table has them."""
    members: dict[str, list[Toll]] = {name: [] for name in GROUPS}
    for toll in results.index.tolls:
        members[group_of(toll, results.probes)].append(toll)
    return tuple((name, tuple(tolls)) for name, tolls in members.items() if tolls)


def group_of(toll: Toll, probes: Mapping[str, Probe]) -> str:
    """By family; tolls of the kernel that hand the CPU to another process have a group of their own."""
    group = FAMILIES.get(toll.probe.split(".")[0], COMPUTING)
    probe = probes.get(toll.probe)
    return OTHERS if group == KERNEL and probe is not None and (probe.switches or probe.roles) else group


def best_known(results: Results) -> tuple[Toll, ...]:
    """At most nine lines that represent the table, cheapest first: of each meaning those in the middle, and of tolls
    without a meaning that analysis uses the most expensive single lines."""
    paid = [toll for toll in results.index.tolls if toll.value is not None and toll.typical]
    chosen = []
    for means, most in BEST_KNOWN.items():
        chosen += _middle([toll for toll in paid if meaning(toll, results.probes) == means], most)
    loners = [toll for toll in paid if not meaning(toll, results.probes) and _is_single(toll, paid)]
    chosen += loners[-MOST_LONERS:]
    return tuple(toll for toll in paid if toll in chosen[:MOST_LINES])


def _middle(tolls: Sequence[Toll], most: int) -> list[Toll]:
    """So many of a ranked list, evenly spaced."""
    count = min(most, len(tolls))
    return [tolls[len(tolls) * (2 * place + 1) // (2 * count)] for place in range(count)]


def _is_single(toll: Toll, tolls: Sequence[Toll]) -> bool:
    return sum(other.probe == toll.probe for other in tolls) == 1


# ---- ladder ---------------------------------------------------------------------------------------------------------

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


def ladder(results: Results) -> Ladder | None:
    """None where no toll has a number."""
    paid = [toll for toll in results.index.tolls if toll.value is not None and toll.value > 0]
    if not paid:
        return None
    scale = _Scale.over(paid)
    both = any(shared_state(toll) for toll in paid)
    known = best_known(results)
    groups = tuple(
        (name, tuple(_rung(toll, scale, both, known=toll in known) for toll in tolls))
        for name, tolls in grouped(results)
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
