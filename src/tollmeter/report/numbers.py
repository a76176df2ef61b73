# SPDX-License-Identifier: Apache-2.0
"""The only module that formats a number: with its unit, its interval, and only the digits that the interval supports.

Units are those of the protocol: ns, bytes (binary prefixes), rates a second (decimal prefixes). A missing or infinite
number is a dash."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace

from tollmeter.experiment.limits import LEAST_VISITS
from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Index, Level, Row, State, Toll
from tollmeter.numbers.units import DECIMALS, RATES, ROUNDED_UP, SIZES, TIMES, WORDS, Steps, in_percent
from tollmeter.report.blocks import Figure

NON_TEMPORAL = "nt"
"""Mix of non-temporal stores only."""
DASH = "–"
MINUS = "−"

ODD_BYTES = 1 << 16
"""Size in bytes from which a size that is odd in every unit is rounded to four digits."""
LISTED_TOLL = "system call"
"""Toll that a list of machines or runs shows."""


NOTHING = Figure(DASH)


def digits(median: float, low: float | None, high: float | None) -> int:
    """Returns the significant digits that a 95 % interval supports: three to within 3 %, else two; three without an
    interval."""
    half = wider_side(median, low, high)
    return 3 if half is None or half <= 0.03 else 2


def wider_side(median: float, low: float | None, high: float | None) -> float | None:
    """Returns the wider side of the interval as a share of the median; None without an interval."""
    if low is None or high is None or not math.isfinite(low) or not math.isfinite(high) or not median:
        return None
    return max(high - median, median - low, 0.0) / abs(median)


def plain(value: float, significant: int = 3) -> str:
    """Returns the digits without exponent. The integer part is never rounded away, and thousands are marked from 10,000
    on."""
    if value == 0:
        return "0"
    size = abs(value)
    decimals = max(0, significant - 1 - math.floor(math.log10(size)))
    text = f"{size:.{min(decimals, 6)}f}"
    if decimals and len(text.replace(".", "").lstrip("0")) > significant:
        text = f"{size:.{decimals - 1}f}"
    if size >= 9_999.5:
        text = f"{size:,.0f}"
    return (MINUS if value < 0 else "") + text


def percent(share: float) -> str:
    """Returns a share as a percentage, with one decimal below 1 % and none above."""
    value = abs(share) * 100
    if value >= 999.5:
        return ">999 %"
    return f"{value:.1f} %" if value < 0.95 else f"{value:.0f} %"


def plus_minus(median: float | None, low: float | None, high: float | None) -> str:
    half = wider_side(median, low, high) if median is not None and math.isfinite(median) else None
    return "" if half is None else f"±{percent(half)}"


LEAST_TIMES = 2
"""Ratio from which a change is printed as a multiple: 301 times, and not +30066 %."""


def ratio_in_words(ratio: float, low: float, high: float, of: str = "", decimals: int = 1) -> str:
    """Returns a ratio with its interval: `+1.2 % (+0.9 to +1.5 %)`, or `2.33 times as long (2.27 to 2.40)`. of: as
    long, as many; decimals: decimals of a percentage."""
    if ratio >= LEAST_TIMES:
        return f"{plain(ratio)} times{f' {of}' if of else ''} ({plain(low)} to {plain(high)})"
    change, least, most = (in_percent(end - 1, decimals, "+") for end in (ratio, low, high))
    return f"{change} ({least.removesuffix(' %')} to {most})"


WIDE = 0.2
"""Half-width of an interval, as a share, from which its ends are printed instead: ±302 % is unreadable."""


def _sure(figure: Figure, median: float, low: float | None, high: float | None, step: float) -> Figure:
    """Returns a figure with its interval as a percentage. If the interval is wide, returns its ends instead, with two
    digits, or three for a large number."""
    half = wider_side(median, low, high)
    if half is None or half <= WIDE or low is None or high is None:
        return replace(figure, sure=plus_minus(median, low, high))
    return Figure(" to ".join(plain(_rounded(end / step, 3), 2) for end in (low, high)), figure.unit)


def two_digits(value: float, unit: str) -> Figure:
    """Returns a short figure without an interval: 120 ns, 2.2 µs."""
    step = _last_digit(value, 2)
    rounded = round(value / step) * step
    return quantity(rounded, unit, rounded * (1 - WIDE / 2), rounded * (1 + WIDE / 2)).bare


def roughly(value: float | None, unit: str, samples: int) -> Figure:
    """Returns a number with too little data for an interval: two digits, and its number of samples."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return replace(guess(value, unit), sure=f"({count(samples, 'sample')})")


def either(first: float, second: float, unit: str) -> Figure:
    """Returns a number that is one of two, in the unit of the second: 14 or 137 ns. Two numbers that print alike are
    one."""
    smaller, larger = two_digits(first, unit), two_digits(second, unit)
    if smaller == larger:
        return larger
    return Figure(f"{smaller.number if smaller.unit == larger.unit else smaller} or {larger.number}", larger.unit)


def _in_multiples(
    median: float | None,
    low: float | None,
    high: float | None,
    steps: Steps,
    *,
    least: float = ROUNDED_UP,
    unit: str = "",
) -> Figure:
    """Returns a figure in the largest step of a unit of which the median is at least the share `least`: with 0.9995,
    999.7 ns is 1.00 µs. unit: text after the name of the step."""
    if median is None or not math.isfinite(median):
        return NOTHING
    step, name = next((pair for pair in steps if abs(median) / pair[0] >= least), steps[-1])
    number = plain(median / step, digits(median, low, high))
    if steps is SIZES:
        number = re.sub(r"\.0+$", "", number)
    return _sure(Figure(number, name + unit), median, low, high, step)


def time(median: float | None, low: float | None = None, high: float | None = None) -> Figure:
    """Returns a time given in ns."""
    return _in_multiples(median, low, high, TIMES)


def _rate(median: float | None, unit: str = "B/s", low: float | None = None, high: float | None = None) -> Figure:
    """Returns a rate per second in decimal units: GB/s, GFLOPS, M/s."""
    return _in_multiples(median, low, high, DECIMALS, unit=RATES[unit])


def size(median: float | None, low: float | None = None, high: float | None = None) -> Figure:
    """Returns a size given in bytes, in powers of two. Without an interval it is exact, and is printed exactly in the
    largest unit that needs no rounding: 960 KiB, 1500 B; a large odd size is rounded to four digits."""
    if median is None or not math.isfinite(median) or (low is not None and high is not None):
        return _in_multiples(median, low, high, SIZES, least=0.9)
    for step, unit in SIZES[:-1]:
        if abs(median) >= step:
            number = plain(median / step, 4)
            if float(number.replace(",", "").replace(MINUS, "-")) * step == median or abs(median) >= ODD_BYTES:
                return Figure(without_idle_zeros(number), unit)
    return Figure(without_idle_zeros(plain(median, 4)), "B")


def without_idle_zeros(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def cycles(value: float | None, significant: int = 3) -> str:
    """Returns core cycles: one decimal below 20, where a pipeline stage still shows, else the significant digits."""
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) < (20 if significant > 2 else 10):
        return f"{value:.1f}"
    return f"{_rounded(value, significant):,.0f}"


def count(value: float | None, noun: str = "") -> str:
    """Returns a count of things, with thousands marked: `1 run`, `1,234 runs`."""
    if value is None or not math.isfinite(value):
        return DASH
    return f"{value:,.0f}{f' {noun}' if noun else ''}{'s' if noun and value != 1 else ''}"


def about(value: float) -> str:
    """Returns a count with two significant digits."""
    return plain(value, 2) if 0 < abs(value) < 10 else count(_rounded(value, 2))


def quantity(value: float | None, unit: str, low: float | None = None, high: float | None = None) -> Figure:
    """Returns any number of the protocol by its unit; an unknown unit is printed unchanged."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if unit == "ns":
        return time(value, low, high)
    if unit == "B":
        return size(value, low, high)
    if unit in RATES:
        return _rate(value, unit, low, high)
    if unit == "count" and low is None and value == int(value):
        return Figure(count(value))
    known = digits(value, low, high)
    figure = Figure(plain(_rounded(value, known) if unit == "ratio" else value, known), WORDS.get(unit, unit))
    return _sure(figure, value, low, high, 1.0)


def _rounded(value: float, significant: int) -> float:
    """Returns a count rounded to its last significant digit: 17,500 and not 17,523. Ratios are not rounded in this
    way."""
    step = _last_digit(value, significant)
    return round(value / step) * step if step > 1 else value


def _last_digit(value: float, significant: int) -> float:
    """Returns the value of the last significant digit: 10 for 1234 with three."""
    return 10.0 ** (math.floor(math.log10(abs(value))) - significant + 1) if value else 1.0


def scale_of(largest: float, unit: str) -> tuple[float, str]:
    """Returns the divisor and the unit's name that make numbers up to the largest short: 4e10 B/s is 40 GB/s."""
    steps = {"ns": TIMES, "B": SIZES}.get(unit, DECIMALS if unit in RATES else ((1.0, ""),))
    step, name = next(((step, name) for step, name in steps if largest >= step), steps[-1])
    return step, name + RATES[unit] if unit in RATES else name or WORDS.get(unit, unit)


def duration(seconds: float) -> str:
    """Returns wall time in words: 98 s, 4 min 10 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    if whole < 120:
        return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def clock_face(seconds: float) -> str:
    """Returns a remaining time as m:ss."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


# ---- doubt ----------------------------------------------------------------------------------------------------------

MODES = ("first", "second")
"""States of a bimodal number."""


def of_row(row: Row) -> Figure:
    if not has_interval(row):
        return roughly(row.median, row.unit, row.samples)
    states = row.states if row.state in MODES else ()
    return _one_or_two(row.median, row.low, row.high, row.unit, states)


def of_toll(toll: Toll) -> Figure:
    if toll.visits < LEAST_VISITS:
        return roughly(toll.value, toll.unit, toll.samples)
    return _one_or_two(toll.value, toll.low, toll.high, toll.unit, toll.states)


def _one_or_two(
    value: float | None, low: float | None, high: float | None, unit: str, states: Sequence[State]
) -> Figure:
    medians = sorted(state.median for state in states if state.state in MODES)
    return either(medians[0], medians[1], unit) if len(medians) == 2 else quantity(value, unit, low, high)


def of_level(level: Level) -> Figure:
    """Returns the latency of a level; two latencies if some of its sizes miss it in some visits."""
    if level.few_samples or not level.latency_ns:
        return roughly(level.latency_ns, "ns", level.few_samples)
    beyond = [state for state in level.states if state.state == "second"]
    if beyond:
        return either(level.latency_ns, beyond[0].median, "ns")
    return time(level.latency_ns, level.latency_low, level.latency_high)


def size_of_level(level: Level) -> Figure:
    """Returns the size of a level, with two digits for too few visits."""
    if not level.few_samples or not level.size_bytes:
        return size(level.size_bytes, level.size_low, level.size_high)
    return guess(level.size_bytes, "B")


def reading_of_level(level: Level) -> Figure:
    """Returns the read rate of a level, with the digits that its interval supports; two digits for too few visits."""
    if level.read_bytes_per_second is None:
        return NOTHING
    if level.read_low is None:
        return guess(level.read_bytes_per_second, "B/s")
    return _rate(level.read_bytes_per_second, "B/s", level.read_low, level.read_high).bare


def cycles_of_level(level: Level) -> str:
    """Returns a level's latency in cycles, with at most the digits of its latency in ns."""
    latency_digits = 2 if level.few_samples else digits(level.latency_ns or 0.0, level.latency_low, level.latency_high)
    return cycles(level.latency_cycles, latency_digits)


def cycles_of_toll(toll: Toll) -> str:
    known = 2 if toll.visits < LEAST_VISITS else digits(toll.value or 0.0, toll.low, toll.high)
    return cycles(toll.cycles, known)


def guess(value: float, unit: str) -> Figure:
    """Returns a figure with two digits and `~`, of a value from too few visits for an interval."""
    figure = two_digits(value, unit)
    return Figure(f"~ {figure.number}", figure.unit)


def in_a_sentence(figure: Figure) -> str:
    """Returns a figure with the digits of the tables and without its uncertainty: 130 ns, 114 to 187 ns, about
    96 ns."""
    return str(replace(figure, number=figure.number.replace("~ ", "about "), sure=""))


def share_of_writes(mix: str) -> float | None:
    """Returns the share of writes in a mix of lines read to lines written; None if the text is not a mix."""
    if mix == NON_TEMPORAL:
        return 1.0
    read, _, written = (part if part.isdigit() else "" for part in mix.partition(":"))
    lines = int(read or 0) + int(written or 0)
    return int(written) / lines if read and written and lines else None


def writes(mix: str) -> str:
    """Returns the share of writes of a mix, in words."""
    share = share_of_writes(mix)
    return mix if share is None else f"{100 * share:.0f} % writes" + ", non-temporal" * (mix == NON_TEMPORAL)


def numbers_of(index: Index) -> dict[str, str]:
    """Returns the numbers that a list of machines or runs shows: memory's latency and read rate, and a system call;
    empty if missing."""
    memory = index.hierarchy[-1] if index.hierarchy else None
    call = next((toll for toll in index.tolls if toll.toll == LISTED_TOLL and toll.value is not None), None)
    return {
        "load": str(of_level(memory).bare) if memory else "",
        "read": str(reading_of_level(memory).bare) if memory else "",
        "call": str(of_toll(call).bare) if call else "",
    }  # fmt: skip
