# SPDX-License-Identifier: Apache-2.0
"""Numbers inside sentences: in the unit that keeps them short, and never with a power of ten."""

from __future__ import annotations

import pytest

from tollmeter.numbers.units import short, span, three


@pytest.mark.parametrize(("value", "said"), [(1640.3, "1,640"), (-0.0000799, "-0.0000799"), (4.44, "4.44"), (0.0, "0")])
def test_a_number_in_a_sentence_has_no_power_of_ten(value: float, said: str) -> None:
    assert three(value) == said


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (999.7, "ns", "1 µs"), (22_000, "ns", "22 µs"), (3e12, "ns", "3,000 s"), (0.25, "ns", "0.25 ns"),
        (65536, "B", "64 KiB"), (4.2e10, "B/s", "42 GB/s"), (13_400, "ratio", "13,400 ×"), (7, "count", "7"),
        (-250.0, "ns", "-250 ns"), (0.0, "flop/s", "0 FLOPS"),
    ],
)  # fmt: skip
def test_a_number_stands_in_the_multiple_that_keeps_it_short(value: float, unit: str, said: str) -> None:
    assert short(value, unit) == said


@pytest.mark.parametrize(
    ("low", "high", "unit", "said"),
    [(2.2e4, 4.88e6, "ns", "22 µs to 4.88 ms"), (16, 24, "ns", "16 to 24 ns"), (1, 2, "count", "1 to 2")],
)
def test_both_ends_have_their_own_unit_where_these_differ(low: float, high: float, unit: str, said: str) -> None:
    assert span(low, high, unit) == said
