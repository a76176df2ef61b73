# SPDX-License-Identifier: Apache-2.0
"""Rates over vector length in words: the speed of each implementation of each ABI, the gain of one over another, and
the lengths at which a rate falls. A table has one clock and one target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from tollmeter.experiment.limits import CLEARLY
from tollmeter.inference.answers import middle, number
from tollmeter.inference.rate_falls import AXIS, RATE, times_as_fast
from tollmeter.model import Fall, Lengths, Modelled, Results, Row, Value
from tollmeter.numbers.meanings import main_abi, with_meaning
from tollmeter.report.blocks import Block, Cell, Column, Figure, Line, Table
from tollmeter.report.numbers import DASH, plain, quantity, size, time
from tollmeter.report.tables import CLOCKS

MOST_LENGTHS = 5
"""Highest number of lengths in a table."""
SAME = 0.03
"""Relative difference of rates up to which two ABIs are the same."""
_TRAPS = "trapped"
"""Name of the implementation whose instructions trap into the kernel."""


@dataclass(frozen=True)
class LengthSeries:
    """The rows of one implementation for one ABI, by length. way: name of the implementation."""

    abi: str
    way: str
    rows: dict[int, Row]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.abi, self.way)))


@dataclass(frozen=True)
class Section:
    """The rates of a probe at one precision, on one target by one clock. ways: names of the implementations, fastest
    first, as the probe lists them. first: whether it is the first section of its target and clock."""

    results: Results
    probe: str
    target: str
    clock: str
    precision: Value
    series: tuple[LengthSeries, ...]
    ways: tuple[str, ...]
    first: bool = False

    @property
    def lengths(self) -> list[int]:
        return sorted({n for series in self.series for n in series.rows})

    @property
    def title(self) -> str:
        return ", ".join(filter(None, (self.probe.split(".")[-1].replace("_", " "), str(self.precision))))

    @property
    def place(self) -> str:
        """Returns target and clock in words; empty for this machine's own."""
        clock_name = CLOCKS.get(self.clock, self.clock)
        return ", ".join(filter(None, ("" if self.target == "local" and not clock_name else self.target, clock_name)))

    @property
    def models(self) -> list[Modelled]:
        of_clock = self.results.index.modelled if self.clock == "instructions" else ()
        key = (self.probe, self.target, self.precision)
        return [
            model for model in of_clock if (model.probe, model.target, model.parameters.get("precision", "")) == key
        ]

    @property
    def several(self) -> bool:
        """Returns whether the section has several implementations or ABIs, or modelled misses."""
        return len(self.series) > 1 or any(model.reason is None for model in self.models)

    @property
    def blocks(self) -> list[Block]:
        """Returns the tables, and the sentences below them."""
        chosen, models = table_lengths(self.lengths), self.models
        gains, same = _gains(self, chosen)
        title = _titled(self, "instructions an operation" if self.clock == "instructions" else "")
        lines = [
            Line((series.name, *(_rate(series.rows.get(n)) for n in chosen)), _by_the_study(self, series))
            for series in self.series
        ]
        tables = (Table(_columns(title, chosen), lines), gains, _modelled_table(self.title, models))
        sentences = (same, *_knees(self), _of_clock(self), _modelled_sentence(self.results, models))
        return [*filter(None, tables), *filter(None, sentences)]


def sections(results: Results) -> tuple[Section, ...]:
    """Returns the sections: rows of the machine's own clock first; within a target, the kernel with most rows first."""
    ordered = _sections(results)
    first: dict[tuple[str, str], Section] = {}
    for section in ordered:
        first.setdefault((section.target, section.clock), section)
    return tuple(replace(section, first=first[section.target, section.clock] is section) for section in ordered)


def _by_the_study(section: Section, series: LengthSeries) -> str:
    """Returns a figure's name for an implementation on this target, if the study has one for the ABI: instructions of
    an emulated FPU are not the hardware's."""
    suite = section.results.suite
    lines = (line for figure in suite.figure for line in figure.line) if suite else ()
    key = (series.abi, section.target, series.way)
    named = (line.name for line in lines
             if (line.row.abi, line.row.target, line.row.parameters.get("way")) == key)  # fmt: skip
    return next(named, "").partition(", ")[2]


# ---- which rows stand together ----------------------------------------------------------------------------------


def _sections(results: Results) -> list[Section]:
    by_key: dict[tuple[str, str, str, Value], list[Row]] = {}
    for row in with_meaning(results.index.rows, results.probes, RATE):
        if isinstance(row.parameters.get(AXIS), int):
            key = (row.probe, row.target, row.clock, row.parameters.get("precision", ""))
            by_key.setdefault(key, []).append(row)
    every = [_section(results, key, rows) for key, rows in by_key.items()]
    useful = [section for section in every if len(section.lengths) > 1 or len(section.series) > 1]
    order = list(CLOCKS)
    return sorted(useful, key=lambda s: (order.index(s.clock), s.target, -sum(len(series.rows) for series in s.series)))


def _section(results: Results, key: tuple[str, str, str, Value], rows: Sequence[Row]) -> Section:
    probe, target, clock, precision = key
    main = main_abi(rows, results.index.machine.architecture)
    parameters = results.probes[probe].parameters if probe in results.probes else ()
    ways = next((parameter.choices for parameter in parameters if parameter.name == "way"), ())
    by_name: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        way = str(row.parameters.get("way", ""))
        if clock != "instructions" or way != _TRAPS:
            by_name.setdefault((row.abi, way), {})[number(row, AXIS)] = row
    ranked = sorted(by_name, key=lambda name: (name[0] != main, name[0], ways.index(name[1]) if name[1] in ways else 0))
    series = tuple(LengthSeries(abi, way, by_name[abi, way]) for abi, way in ranked)
    return Section(results, probe, target, clock, precision, series, ways)


def table_lengths(lengths: Sequence[int]) -> list[int]:
    """Returns as many lengths as a table can hold: both ends and evenly spaced lengths between; powers of two if there
    are enough."""
    octaves = [n for n in lengths if n & (n - 1) == 0]
    usable = octaves if len(octaves) >= min(MOST_LENGTHS, len(lengths)) else list(lengths)
    if len(usable) <= MOST_LENGTHS:
        return usable
    step = (len(usable) - 1) / (MOST_LENGTHS - 1)
    return [usable[round(step * place)] for place in range(MOST_LENGTHS)]


# ---- tables -----------------------------------------------------------------------------------------------------


def _columns(title: str, lengths: Sequence[int]) -> list[Column]:
    return [Column(title), *(Column(f"{'' if place else 'N = '}{n:,}", True) for place, n in enumerate(lengths))]


def _titled(section: Section, what: str) -> str:
    return ", ".join(filter(None, (section.title, what)))


def _rate(row: Row | None) -> Cell:
    if row is None:
        return DASH
    return Figure(plain(middle(row))) if row.unit == "instruction" else quantity(row.median, row.unit)


def _gains(section: Section, chosen: Sequence[int]) -> tuple[Table | None, str]:
    """Returns the gains between series that differ in one property, implementation or ABI; and a sentence on ABIs that
    do not differ at any length."""
    alike: dict[tuple[str, str], list[LengthSeries]] = {}
    for series in section.series:
        heads = (same[0] for same in alike.values())
        first = next((head for head in heads if head.way == series.way and _is_same(head, series)), series)
        alike.setdefault((first.abi, first.way), []).append(series)
    lines = []
    for left, right, name in _pairs(section, [same[0] for same in alike.values()]):
        if ratios := _ratios(left, right):
            lines.append(Line((name, *(plain(ratios[n]) if n in ratios else DASH for n in chosen))))
    title = _titled(section, "times as few" if section.clock == "instructions" else "times as fast")
    gains = Table(_columns(title, chosen), lines) if lines else None
    names = [
        f"{f'{first.way}: ' if first.way else ''}{', '.join(series.abi for series in (first, *others))} and {last.abi}"
        for first, *others, last in (same for same in alike.values() if len(same) > 1)
    ]
    return gains, f"The same within {SAME * 100:.0f} % at every N: {'; '.join(names)}." if names else ""


def _ratios(left: LengthSeries, right: LengthSeries) -> dict[int, float]:
    return {n: times_as_fast(left.rows[n], right.rows[n]) for n in left.rows.keys() & right.rows.keys()}


def _is_same(left: LengthSeries, right: LengthSeries) -> bool:
    ratios = _ratios(left, right)
    return bool(ratios) and all(abs(ratio - 1) <= SAME for ratio in ratios.values())


def _pairs(section: Section, apart: Sequence[LengthSeries]) -> Iterator[tuple[LengthSeries, LengthSeries, str]]:
    """Yields the pairs to compare: each implementation over the next slower one of its ABI, then each ABI over the
    following ABIs, for each implementation. apart: the first of each set of equally fast ABIs."""
    for abi in dict.fromkeys(series.abi for series in section.series):
        for left, right in pairwise([series for series in section.series if series.abi == abi]):
            yield left, right, f"{abi}: {left.way} over {right.way}"
    for way in dict.fromkeys(series.way for series in apart):
        for left, right in combinations([series for series in apart if series.way == way], 2):
            yield left, right, f"{f'{way}: ' if way else ''}{left.abi} over {right.abi}"


# ---- sentences --------------------------------------------------------------------------------------------------


def _knees(section: Section) -> list[str]:
    """Returns sentences on the lengths at which rates fall; series of one implementation with equal falls, falls not
    caused by memory, or no fall share a sentence."""
    by_way: dict[str, list[Lengths]] = {}
    for curve in section.results.index.lengths:
        place = (curve.probe, curve.target, curve.clock, curve.parameters.get("precision", ""))
        if place == (section.probe, section.target, section.clock, section.precision):
            by_way.setdefault(str(curve.parameters.get("way", "")), []).append(curve)
    return [
        f"{' '.join(filter(None, (abis, way)))}: {words}."
        for way, curves in by_way.items()
        for abis, words in fallen(curves)
    ]


def fallen(curves: Sequence[Lengths]) -> Iterator[tuple[str, str]]:
    """Yields ABIs, and a sentence on how their rates change with length. Each sentence is yielded once, with all its
    ABIs. curves: curves of one implementation."""
    falls = [(curve.abi, fall) for curve in curves for fall in curve.falls]
    of_length = [fall for _, fall in falls if fall.cause == "length"]
    length_abis = dict.fromkeys(abi for abi, fall in falls if fall.cause == "length")
    flat = [curve for curve in curves if not curve.falls]
    sentences = [(_fall(fall), abi) for abi, fall in falls if fall.cause == "memory"]
    sentences += [(_fall_of_length(of_length), abi) for abi in length_abis]
    sentences += [(_fall(fall), abi) for abi, fall in falls if fall.cause == "unknown"]
    sentences += [(_no_fall(flat), curve.abi) for curve in flat]
    abis: dict[str, list[str]] = {}
    for sentence, abi in sentences:
        abis.setdefault(sentence, []).append(abi)
    yield from ((", ".join(several), sentence) for sentence, several in abis.items())


def _fall(fall: Fall) -> str:
    """Returns the length of a fall, its memory, and the cache that ends there; or the missing evidence for a cause."""
    if fall.cause == "memory":
        held = f", {size(fall.after_bytes)} of vectors" if fall.after_bytes else ""
        why = f"{held}: {' or '.join(fall.levels)}"
    elif not fall.least_ns:
        why = ", for an unknown cause: the hardware's instruction was not timed over the same vectors"
    elif fall.lost_ns > (1 + CLEARLY) * fall.least_ns:
        why = f", by more than memory or wrong guesses of branches cost: {_times([fall.lost_ns])} an operation"
    else:
        why = ", near the end of no cache that is known"
    slower = f"{plain(fall.slower)} times the time by N = {fall.by_n:,}"
    return f"the rate falls past N = {fall.after_n:,}{why} ({slower})"


def _fall_of_length(falls: Sequence[Fall]) -> str:
    """Returns why memory is not the cause of a fall, and the likely cause."""
    lengths = {fall.after_n for fall in falls}
    past = " to ".join(f"{n:,}" for n in sorted({min(lengths), max(lengths)}))
    lost = _times([fall.lost_ns for fall in falls])
    least = _times([max(fall.least_ns for fall in falls)])
    return (
        f"the rate falls past N = {past}, and not for memory: an operation loses {lost}, where the hardware's own way "
        f"through the same vectors takes {least} in all. The cause is likelier wrong predictions of the branches that "
        "depend on the values: of a short vector, which repeats, the core predicts them"
    )


def _no_fall(flat: Sequence[Lengths]) -> str:
    first, last = min(curve.first_n for curve in flat), max(curve.last_n for curve in flat)
    return f"no knee from N = {first:,} to {last:,}: an operation takes {_times([curve.usual_ns for curve in flat])}"


def _times(ns: Sequence[float]) -> str:
    """Returns one time, or the lowest and the highest."""
    return " to ".join(str(time(end).bare) for end in sorted({min(ns), max(ns)}))


def _of_clock(section: Section) -> str:
    if section.clock == "virtual":
        return (
            f"{section.target} is emulated: its time counts instructions as nanoseconds and sees no caches. No knee "
            "can show, and nothing here is compared with another clock."
        )
    if section.clock == "instructions":
        sentence = f"{section.target} counts the program's own instructions: no time, and no caches"
        unseen = f"; what a kernel does for a trap is not among them, so the {_TRAPS} way is left out"
        return f"{sentence}{unseen if _TRAPS in section.ways else ''}."
    return ""


# ---- what a study's cache would miss --------------------------------------------------------------------------------


def _modelled_table(kernel: str, models: Sequence[Modelled]) -> Table | None:
    """Returns misses of an operation by length, with a line for each implementation of each ABI; None without a
    model."""
    by_name: dict[str, dict[int, Modelled]] = {}
    for model in models:
        if model.reason is None:
            name = " ".join(filter(None, (model.abi, str(model.parameters.get("way", "")))))
            by_name.setdefault(name, {})[int(str(model.parameters[AXIS]))] = model
    lengths = sorted({n for by_length in by_name.values() for n in by_length})
    lines = [
        Line((name, *(plain(by_length[n].misses or 0) if n in by_length else DASH for n in lengths)))
        for name, by_length in by_name.items()
    ]
    title = f"{kernel}, modelled misses an operation"
    return Table(_columns(title, lengths), lines) if lines else None


def _modelled_sentence(results: Results, models: Sequence[Modelled]) -> str:
    """Returns the description of the model, and why a part of it is missing."""
    cache = results.suite.modelled if results.suite else None
    if not models or cache is None:
        return ""
    reasons = dict.fromkeys(model.reason for model in models if model.reason)
    missing = f" Not modelled: {'; '.join(filter(None, reasons))}." if reasons else ""
    return (
        f"Modelled, not measured: lines that a data cache of {size(cache.bytes)} would load, {cache.line} bytes each "
        f"in {cache.ways} ways, told the program's own addresses, and emptied at each trap. {cache.assumed}{missing}"
    )
