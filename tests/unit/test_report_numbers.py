# SPDX-License-Identifier: Apache-2.0
"""Numbers as text: the unit fits, no digit is more than the interval bears, nothing is lost on the way."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollmeter.report import numbers
from tollmeter.report.blocks import Figure
from tollmeter.report.numbers import DASH

TO_NS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
TO_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def value_of(figure: Figure, units: dict[str, float] | dict[str, int]) -> float:
    return float(figure.number.replace(",", "").replace("−", "-")) * units[figure.unit]


@given(st.floats(min_value=0.01, max_value=1e12))
def test_a_time_says_what_it_was(ns: float) -> None:
    figure = numbers.time(ns)
    assert value_of(figure, TO_NS) == pytest.approx(ns, rel=0.006)


@given(st.floats(min_value=1.0, max_value=9e11))
def test_a_time_of_a_nanosecond_and_more_has_one_to_three_digits_before_the_point(ns: float) -> None:
    before = numbers.time(ns).number.split(".")[0]
    assert 1 <= len(before) <= 3 and before != "0"


@given(st.integers(min_value=1, max_value=1 << 45))
def test_an_exact_size_says_what_it_was(size: int) -> None:
    assert value_of(numbers.size(size), TO_BYTES) == pytest.approx(size, rel=0.0006)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (49152, "48 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1 MiB"),
        (983040, "960 KiB"),
        (100, "100 B"),
        (64, "64 B"),
        (1500, "1500 B"),
    ],
)
def test_sizes_as_people_write_them(size: int, text: str) -> None:
    assert str(numbers.size(size)) == text


@given(st.floats(min_value=1e-3, max_value=1e9), st.floats(min_value=1e-4, max_value=0.5))
def test_digits_end_where_the_interval_does(ns: float, share: float) -> None:
    figure = numbers.time(ns, ns * (1 - share), ns * (1 + share))
    for number in figure.number.split(" to "):
        significant = len(re.sub(r"[^0-9]", "", number).lstrip("0"))
        assert significant <= 3 or "." not in number
        assert share < 0.0301 or significant <= 2 or "." not in number


def test_a_wide_interval_stands_in_the_place_of_its_middle() -> None:
    assert str(numbers.time(467, 303, 745)) == "303 to 745 ns"
    assert str(numbers.time(540, 87, 1001)) == "87 to 1000 ns"
    assert str(numbers.quantity(37_000, "turns", 29_206, 45_734)) == "29,200 to 45,700 turns"
    assert str(numbers.time(467, 430, 500)) == "467 ns ±8 %"
    assert str(numbers.size(1 << 20, 0.5 * (1 << 20), 2 * (1 << 20))) == "0.50 to 2.0 MiB"


def test_a_count_has_no_digits_behind_its_point() -> None:
    assert [str(numbers.quantity(value, "count")) for value in (29.0, 0.5, 12_000.0)] == ["29", "0.500", "12,000"]


def test_a_guess_says_of_how_many_samples_it_is_and_no_more_digits() -> None:
    assert str(numbers.roughly(96.4, "ns", 2)) == "~ 96 ns (2 samples)"
    assert str(numbers.roughly(1234.0, "ns", 1)) == "~ 1.2 µs (1 sample)"
    assert numbers.roughly(None, "ns", 2) == numbers.NOTHING


def test_one_of_two_is_two_numbers() -> None:
    assert str(numbers.either(14.2, 137.4, "ns")) == "14 or 140 ns"
    assert str(numbers.either(129.6, 131.2, "ns")) == "130 ns", "it said 130 or 130"
    assert str(numbers.either(467.0, 22_800.0, "ns")) == "470 ns or 23 µs"


def test_the_wider_side_of_the_interval_counts() -> None:
    assert numbers.plus_minus(100, 99, 120) == "±20 %"
    assert numbers.plus_minus(100, 70, 101) == "±30 %"


@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["ns", "B", "B/s", "flop/s", "op/s", "cycle", "new"]),
)
def test_any_number_becomes_text(value: float, unit: str) -> None:
    text = str(numbers.quantity(value, unit))
    assert text
    assert (text == DASH) == (not math.isfinite(value))


def test_one_thing_is_no_plural() -> None:
    assert [numbers.count(many, "run") for many in (0, 1, 1234)] == ["0 runs", "1 run", "1,234 runs"]


def test_nothing_is_a_dash() -> None:
    assert str(numbers.quantity(None, "ns")) == DASH
    assert numbers.cycles(None) == numbers.count(None) == DASH


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (484e9, "B/s", "484 GB/s"),
        (3.2e9, "flop/s", "3.20 GFLOPS"),
        (1.78e6, "op/s", "1.78 M/s"),
        (4.0, "cycle", "4.00 cycles"),
        (2.5, "ratio", "2.50 ×"),
        (7.0, "parsec", "7.00 parsec"),
    ],
)
def test_each_unit_has_its_own_name(value: float, unit: str, text: str) -> None:
    assert str(numbers.quantity(value, unit)) == text


def test_cycles_show_a_decimal_where_a_stage_still_counts() -> None:
    assert [numbers.cycles(value) for value in (4.06, 14.61, 459.3, 336123.0)] == ["4.1", "14.6", "459", "336,000"]


def test_what_fits_has_two_digits_that_mean_something() -> None:
    assert [numbers.about(value) for value in (2_003_123.0, 7874.0, 12.3, 0.6)] == ["2,000,000", "7,900", "12", "0.60"]


def test_durations() -> None:
    assert [numbers.duration(seconds) for seconds in (3.21, 98.2, 250, 7500)] == [
        "3.2 s",
        "98 s",
        "4 min 10 s",
        "2 h 5 min",
    ]
    assert numbers.clock_face(52) == "0:52"


def test_a_ratio_has_no_more_digits_than_its_interval_bears_and_a_count_has_all() -> None:
    assert str(numbers.quantity(17522.8, "ratio", 17031.0, 18028.0)) == "17,500 × ±3 %"
    assert str(numbers.quantity(1374.0, "ratio", 1200.0, 1500.0)) == "1400 × ±13 %"
    assert str(numbers.quantity(17522.0, "fault", 17522.0, 17522.0)) == "17,522 faults ±0.0 %"


def test_a_ratio_in_words_is_a_percentage_below_twice_as_much_and_a_multiple_from_there_on() -> None:
    assert numbers.ratio_in_words(1.2, 1.1, 1.3, "as long") == "+20.0 % (+10.0 to +30.0 %)"
    assert numbers.ratio_in_words(0.5, 0.4, 0.6, decimals=2) == "-50.00 % (-60.00 to -40.00 %)"
    assert numbers.ratio_in_words(2.4, 2.0, 3.0, "as long") == "2.40 times as long (2.00 to 3.00)"
