# SPDX-License-Identifier: Apache-2.0
"""Formats values: units of the record protocol and their multiples, with three digits.

Times are in ns, sizes in bytes with binary prefixes, rates per second with decimal prefixes."""

from __future__ import annotations

from decimal import Decimal

from tollmeter.experiment.limits import KIB


def in_percent(share: float, decimals: int = 0, sign: str = "") -> str:
    """Returns a share in percent. sign: as in a format specification; "+" for a change. A value that is not finite is
    printed unchanged."""
    return f"{share:{sign}.{decimals}%}".replace("%", " %")


def in_words(name: object) -> str:
    """Returns the name of a choice or a state as text: "non-canonical store" for non_canonical_store."""
    return str(name).replace("non_", "non-").replace("_", " ")


Steps = tuple[tuple[float, str], ...]


def _steps(ratio: float, *names: str) -> Steps:
    """Returns the multiples of a unit, the largest first. ratio: ratio of each multiple to the next smaller one. names:
    names of the multiples, from the unit upwards."""
    return tuple((ratio**power, name) for power, name in enumerate(names))[::-1]


THOUSAND = 1000.0
TIMES = _steps(THOUSAND, "ns", "µs", "ms", "s")
SIZES = _steps(float(KIB), "B", "KiB", "MiB", "GiB", "TiB")
DECIMALS = _steps(THOUSAND, "", "k", "M", "G", "T")
RATES = {"B/s": "B/s", "bit/s": "bit/s", "flop/s": "FLOPS", "op/s": "/s"}
WORDS = {"cycle": "cycles", "instruction": "instructions", "fault": "faults", "ratio": "×", "count": "",
         "turns": "turns"}  # fmt: skip
ROUNDED_UP = 1 - 1 / (2 * THOUSAND)
"""Share of a multiple from which three digits round up to it: 999.7 ns is 1.00 µs."""


def short(value: float, unit: str) -> str:
    """Returns a value with three digits and a unit: 22 µs."""
    step, name = _multiple(value, unit)
    return f"{three(value / step)} {name}".rstrip()


def span(low: float, high: float, unit: str) -> str:
    """Returns both ends of an interval; a common unit is printed once: 22 µs to 4.88 ms."""
    first, last = short(low, unit), short(high, unit)
    name = _multiple(high, unit)[1]
    return f"{first.removesuffix(f' {name}')} to {last}" if name == _multiple(low, unit)[1] else f"{first} to {last}"


def three(value: float) -> str:
    """Returns three digits in plain notation, without a power of ten."""
    return f"{Decimal(f'{value:.3g}'):,f}"


def _multiple(value: float, unit: str) -> tuple[float, str]:
    """Returns the largest multiple of a unit that the value reaches, and its name."""
    steps = {"ns": TIMES, "B": SIZES}.get(unit, DECIMALS if unit in RATES else ((1.0, WORDS.get(unit, unit)),))
    step, name = next(((step, name) for step, name in steps if abs(value) >= ROUNDED_UP * step), steps[-1])
    return step, name + RATES.get(unit, "")
