# SPDX-License-Identifier: Apache-2.0
"""The content of a chart as a sentence: beside it, and in its place for readers who cannot see it."""

from __future__ import annotations

from collections.abc import Sequence

from tollmeter.inference.hierarchy import disagrees
from tollmeter.model import Level, Machine
from tollmeter.report.charts.chart import Bench, Chart, Datum
from tollmeter.report.numbers import in_a_sentence, of_level, percent, plain, reading_of_level, size, size_of_level


def caption(chart: Chart, bench: Bench) -> str:
    """Its own sentence if it has one, that of the levels of memory where these are its subject, else its two ends."""
    if chart.caption:
        return chart.caption
    index = bench.results.index
    is_of_levels = chart.name in OF_LEVELS and bench.is_the_machine and index.hierarchy
    of_levels = OF_LEVELS[chart.name](index.hierarchy, index.machine) if is_of_levels else ""
    return of_levels or _ends(points(chart))


def points(chart: Chart) -> list[Datum]:
    """The data that carry a number in words: one for each mark that can be pointed at."""
    return [d for d in chart.drawing.marks if "value" in d and _height(d) is not None]


def _height(datum: Datum) -> float | None:
    """What its mark stands for; speeds are drawn as ratios, which the reader chooses."""
    height = datum.get("y", datum.get("speed"))
    return None if height is None else float(height)


def _ends(data: Sequence[Datum]) -> str:
    if len(data) < 2:
        return ""
    least, most = (end(data, key=lambda d: _height(d) or 0.0) for end in (min, max))
    return f"From {_named(least)} to {_named(most)}."


def _named(datum: Datum) -> str:
    fields = ("label", "panel", "series", "at", "pair", "a", "b")
    words = dict.fromkeys(str(datum[field]) for field in fields if datum.get(field) not in (None, ""))
    return f"{datum['value']} ({', '.join(words)})" if words else str(datum["value"])


def _latency(levels: Sequence[Level], machine: Machine) -> str:
    ends = [f"{level.level} ends at {size_of_level(level)}" for level in levels if level.size_bytes]
    far = levels[-1]
    parts = [", ".join(ends)] if ends else []
    if far.level == "memory" and far.latency_ns:
        parts.append(f"memory answers in {of_level(far)}")
    parted = [level for level in levels if disagrees(level, machine) and level.os_size_bytes]
    parts += [f"the system says {size(level.os_size_bytes)} of {level.level}" for level in parted]
    return "; ".join(parts) + "." if parts else ""


def _bandwidth(levels: Sequence[Level], _: Machine) -> str:
    known = [level for level in levels if level.read_bytes_per_second]
    if len(known) < 2:
        return ""
    first, last = known[0], known[-1]
    share = (last.read_bytes_per_second or 0.0) / (first.read_bytes_per_second or 1.0)
    near, far = (f"{in_a_sentence(reading_of_level(level))} from {level.level}" for level in (first, last))
    fastest = f"The fastest kernel reads {near}, {far}: {percent(share)} of it"
    return f"{fastest}. Drawn is the kernel that was measured at most sizes."


def _parallelism(levels: Sequence[Level], _: Machine) -> str:
    known = [f"{level.level} {plain(level.parallelism, 2)}" for level in levels if level.parallelism]
    return f"Loads under way at once: {', '.join(known)}." if known else ""


OF_LEVELS = {"latency": _latency, "bandwidth": _bandwidth, "parallelism": _parallelism}
