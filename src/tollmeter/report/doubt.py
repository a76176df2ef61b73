# SPDX-License-Identifier: Apache-2.0
"""The uncertainty of a number in words: its interval, one of two modes, a range, or an estimate of too few visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.judgement.verdict import is_known
from tollmeter.model import Level, Row, State, Toll
from tollmeter.report.numbers import (
    NOTHING,
    Figure,
    cycles,
    digits,
    either,
    quantity,
    rate,
    roughly,
    size,
    time,
    two_digits,
)

HEAPS = ("first", "second")


def of_row(row: Row) -> Figure:
    if not is_known(row):
        return roughly(row.median, row.unit, row.samples)
    modes = _two_modes(row.states) if row.state in HEAPS else ()
    return either(*modes, row.unit) if modes else quantity(row.median, row.unit, row.low, row.high)


def of_toll(toll: Toll) -> Figure:
    if toll.visits < LEAST_VISITS:
        return roughly(toll.value, toll.unit, toll.samples)
    modes = _two_modes(toll.states)
    return either(*modes, toll.unit) if modes else quantity(toll.value, toll.unit, toll.low, toll.high)


def of_level(level: Level) -> Figure:
    """Its latency; two of them where some of its sizes are answered from beyond it in some visits."""
    if level.few_samples or not level.latency_ns:
        return roughly(level.latency_ns, "ns", level.few_samples)
    beyond = [state for state in level.states if state.state == "second"]
    if beyond:
        return either(level.latency_ns, beyond[0].median, "ns")
    return time(level.latency_ns, level.latency_low, level.latency_high)


def size_of_level(level: Level) -> Figure:
    """How much it holds; of too few visits two digits."""
    if not level.few_samples or not level.size_bytes:
        return size(level.size_bytes, level.size_low, level.size_high)
    return guess(level.size_bytes, "B")


def reading_of_level(level: Level) -> Figure:
    """The rate that it is read at, with the digits that its interval bears; of too few visits two."""
    if level.read_bytes_per_second is None:
        return NOTHING
    if level.read_low is None:
        return guess(level.read_bytes_per_second, "B/s")
    return replace(rate(level.read_bytes_per_second, "B/s", level.read_low, level.read_high), sure="")


def cycles_of_level(level: Level) -> str:
    """No more digits than its latency has."""
    bears = 2 if level.few_samples else digits(level.latency_ns or 0.0, level.latency_low, level.latency_high)
    return cycles(level.latency_cycles, bears)


def cycles_of_toll(toll: Toll) -> str:
    few = toll.visits < LEAST_VISITS
    return cycles(toll.cycles, 2 if few else digits(toll.value or 0.0, toll.low, toll.high))


def guess(value: float, unit: str) -> Figure:
    """Of too few visits for an interval: two digits."""
    figure = two_digits(value, unit)
    return Figure(f"~ {figure.number}", figure.unit)


def in_a_sentence(figure: Figure) -> str:
    """With the digits of the tables, and without its uncertainty: 130 ns, 114 to 187 ns, about 96 ns."""
    return str(replace(figure, number=figure.number.replace("~ ", "about "), sure=""))


def _two_modes(states: Sequence[State]) -> tuple[float, float] | tuple[()]:
    """What a number is by turns, the less first."""
    medians = sorted(state.median for state in states if state.state in HEAPS)
    return (medians[0], medians[1]) if len(medians) == 2 else ()
