# SPDX-License-Identifier: Apache-2.0
"""What the difference between two ABIs on one program is made of.

A program's time is taken to be

    c I  +  p F  +  a W  +  b S  +  the rest

with I instructions and F page faults of one operation; p is the run's own price of a fault, W what its loads would wait
for memory if each waited alone, and S what it takes to read from end to end what a prefetcher foresees (waiting.py).
Where nobody saw how far apart its loads lie, W is I times the latency of a load anywhere in its footprint, and S is
nothing. What is not known beforehand is fitted to all sizes of the program under both ABIs, by least squares of
relative errors: c, the time of an instruction that waits for no memory, which is much the same at each size; a and b,
how much of the waiting is not hidden behind other work, each no more than all. So a part is reported only where its
numbers were measured, and the parts are never forced to add up: what they leave is `unexplained`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from tollmeter.judgement.verdict import is_known
from tollmeter.model import Clock, Record, Results, Row, Value
from tollmeter.numbers.meanings import main_abi, with_meaning
from tollmeter.studies.waiting import Apart, Fit, Observed, Prices, Waits, apart_of, fit, prices_of, shrunk, waits

PartName = Literal["instructions", "faults", "caches", "unexplained"]
_LEAST_POINTS = 3
_DRAWS, DEVIATIONS = 20, 1.96
"""Of the times of a program; and half of a 95 % interval in standard deviations."""
_LEVEL_LOSES = 0.05
LARGEST = 3
"""So many differences of a study are taken apart."""
Parameters = tuple[tuple[str, Value], ...]


class Part(Record, frozen=True):
    """ns: what the second ABI saves by this, negative where it costs more; None where unknown. reason: why. within_ns:
    half of its 95 % interval, by the intervals of the times alone."""

    name: PartName
    ns: float | None
    reason: str = ""
    within_ns: float = 0.0


class Attribution(Record, frozen=True):
    """One program under two ABIs. memory: the second's resident peak over the first's. levels: caches that hold more of
    it under the second. target: where it was timed. second_ns: None if not timed by its own clock: parts then follow
    from counts. thin: a time rests on too few visits."""

    probe: str
    parameters: dict[str, Value]
    abis: tuple[str, str]
    target: str
    first_ns: float
    second_ns: float | None
    memory: float | None
    levels: tuple[str, ...]
    parts: tuple[Part, ...]
    thin: bool = False

    @property
    def saved_ns(self) -> float:
        if self.second_ns is None:
            return sum(part.ns or 0.0 for part in self.parts)
        return self.first_ns - self.second_ns

    @property
    def is_whole(self) -> bool:
        """Whether saved_ns is all that is saved: the second was timed, or each part that makes up its time is known."""
        return self.second_ns is not None or all(part.ns is not None for part in self.parts[:-1])

    def is_of(self, probe: str, parameters: Mapping[str, Value]) -> bool:
        return self.probe == probe and parameters.items() <= self.parameters.items()


class Need(NamedTuple):
    """What one operation takes under one ABI; None: not measured. apart: bytes between its loads of a line. thin: its
    time rests on too few visits. within_ns: half of its time's interval."""

    time_ns: float | None
    instructions: float | None
    faults: float | None
    footprint: float | None
    resident: float | None
    apart: Apart | None
    thin: bool = False
    within_ns: float = 0.0


def attributed(results: Results, first: str, second: str) -> tuple[Attribution, ...]:
    """All programs timed under both ABIs in one place by its own clock, or counted under both in a guest; the greatest
    relative difference first."""
    prices, abis = prices_of(results), (first, second)
    attributions = [
        attribution for program in _programs(results) for attribution in _attributed(results, program, prices, abis)
    ]
    return tuple(sorted(attributions, key=lambda attribution: -abs(attribution.saved_ns) / attribution.first_ns))


# ---- what was measured --------------------------------------------------------------------------------------------


class Timed(NamedTuple):
    """The sizes of one program that were timed in one place, each under some ABIs."""

    probe: str
    target: str
    points: Mapping[Parameters, Mapping[str, Row]]


class Pair(NamedTuple):
    """One size under both ABIs."""

    one: Need
    other: Need


def _programs(results: Results) -> Iterator[Timed]:
    """Apart by the probe's choices: another choice is another program."""
    rows = [row for row in with_meaning(results.index.rows, results.probes, "cpu-time") if row.clock == "hardware"]
    programs: dict[tuple[str, str, Parameters], dict[Parameters, dict[str, Row]]] = {}
    for row in rows:
        point = tuple(sorted(row.parameters.items()))
        choices = tuple((name, value) for name, value in point if isinstance(value, str))
        programs.setdefault((row.probe, row.target, choices), {}).setdefault(point, {})[row.abi] = row
    for (probe, target, _), points in programs.items():
        yield Timed(probe, target, points)


def _counted_by(results: Results, rows: Sequence[Row]) -> Clock:
    """Where all were counted: by an emulator of the CPU, or in a guest, where a nanosecond is an instruction."""
    return "instructions" if all(_count(results, row, "instructions") for row in rows) else "virtual"


def _need(results: Results, timed: Row, kind: Clock) -> Need:
    """footprint: the bytes that the probe says it reads, else all that is resident."""
    resident = _beside(results, timed, "resident-peak")
    return Need(
        time_ns=timed.median,
        instructions=_count(results, timed, kind),
        faults=_beside(results, timed, "faults-of-operation"),
        footprint=_beside(results, timed, "footprint") or resident,
        resident=resident,
        apart=apart_of(results, timed),
        thin=not is_known(timed),
        within_ns=(timed.high - timed.low) / 2 if timed.high is not None and timed.low is not None else 0.0,
    )


def _beside(results: Results, timed: Row, means: str) -> float | None:
    """The row of that meaning that was measured with this one."""
    rows = [row for row in with_meaning(results.index.rows, results.probes, means) if _same_point(row, timed)]
    return next((row.median for row in rows if row.target == timed.target and row.clock == timed.clock), None)


def _count(results: Results, timed: Row, kind: Clock) -> float | None:
    """Instructions of one operation: of the probe's first metric, wherever it was counted so."""
    first = results.probes[timed.probe].metrics[0].name
    rows = (row for row in results.index.rows if row.metric == first and row.clock == kind and row.status == "ok")
    return next((row.median for row in rows if _same_point(row, timed)), None)


def _same_point(one: Row, other: Row) -> bool:
    return (one.probe, one.abi, one.parameters) == (other.probe, other.abi, other.parameters)


def _in_guest(results: Results, timed: Row, abi: str) -> Need | None:
    """What the point takes in the guest that counts, with the time of the machine itself."""
    like = msgspec.structs.replace(timed, abi=abi)
    rows = (row for row in with_meaning(results.index.rows, results.probes, "resident-peak") if row.clock == "virtual")
    there = next((row for row in rows if _same_point(row, like)), None)
    return (
        _need(results, msgspec.structs.replace(like, target=there.target, clock="virtual"), "virtual")
        if there
        else None
    )


# ---- splitting ----------------------------------------------------------------------------------------------------


class Known(NamedTuple):
    """What splits a program's sizes. fits: by size, or why unknown. waits: what a need's loads would wait."""

    fits: Mapping[Parameters, Fit] | str
    waits: Callable[[Need], Waits]
    prices: Prices

    def at(self, point: Parameters) -> Fit | str:
        return self.fits if isinstance(self.fits, str) else self.fits[point]


class Draw(NamedTuple):
    """needs: of both ABIs, by size; known: by the times of the same draw."""

    known: Known
    needs: Mapping[Parameters, Sequence[Need]]

    def split(self, point: Parameters) -> tuple[Part, ...]:
        one, other = self.needs[point]
        return split(one, other, self.known, self.known.at(point))


def _attributed(results: Results, program: Timed, prices: Prices, abis: tuple[str, str]) -> Iterator[Attribution]:
    """Of the sizes that were timed under both from their times. Of the others, whose second ABI ran in a guest alone,
    from the guest's counts, by what such counts take on this machine under whichever ABIs were timed."""
    both = {point: rows for point, rows in program.points.items() if set(abis) <= set(rows)}
    kind = _counted_by(results, [rows[abi] for rows in both.values() for abi in abis])
    pairs = {point: _pair(*(_need(results, rows[abi], kind) for abi in abis)) for point, rows in both.items()}
    draws = [Draw(known_of(needs, (), prices), needs) for needs in _draws(pairs)]
    yield from _split_all(results, program, draws, abis)
    first = {point: rows for point, rows in program.points.items() if abis[0] in rows and point not in both}
    seen = {point: [_need(results, row, "instructions") for row in rows.values()] for point, rows in first.items()}
    there = {point: [_in_guest(results, rows[abis[0]], abi) for abi in abis] for point, rows in first.items()}
    pairs = {point: _pair(one, other._replace(time_ns=None)) for point, (one, other) in there.items() if one and other}
    both_draws = zip(_draws(seen), _draws(pairs), strict=True)
    draws = [Draw(known_of(timed, pairs.values(), prices), needs) for timed, needs in both_draws]
    yield from _split_all(results, program, draws, abis)


def _pair(one: Need, other: Need) -> Pair:
    """Where only one ABI's loads were seen, the other's objects are scaled by the size of what it walks through."""
    if one.apart and not other.apart and one.footprint and other.footprint:
        other = other._replace(apart=shrunk(one.apart, one.footprint / other.footprint))
    return Pair(one, other)


def _draws(sizes: Mapping[Parameters, Sequence[Need]]) -> list[dict[Parameters, list[Need]]]:
    """The sizes as they are, and then with each time drawn anew from its interval."""
    random = np.random.default_rng(0)

    def drawn(need: Need) -> Need:
        off_ns = random.normal(0.0, need.within_ns / DEVIATIONS)
        return need._replace(time_ns=need.time_ns and max(need.time_ns + off_ns, need.time_ns / 10))

    as_they_are = {point: list(needs) for point, needs in sizes.items()}
    return [as_they_are, *({point: list(map(drawn, needs)) for point, needs in sizes.items()} for _ in range(_DRAWS))]


def _split_all(results: Results, program: Timed, draws: Sequence[Draw], abis: tuple[str, str]) -> Iterator[Attribution]:
    for point, (one, other) in draws[0].needs.items():
        parts, *others = (draw.split(point) for draw in draws)
        yield Attribution(
            probe=program.probe, parameters=dict(point), abis=abis, target=program.target,
            first_ns=one.time_ns or 0.0, second_ns=other.time_ns,
            memory=other.resident / one.resident if one.resident and other.resident else None,
            levels=_levels(results, one, other), parts=tuple(map(_with_interval, parts, zip(*others, strict=True))),
            thin=one.thin or other.thin,
        )  # fmt: skip


def _with_interval(part: Part, drawn: Sequence[Part]) -> Part:
    if part.ns is None:
        return part
    return msgspec.structs.replace(part, within_ns=DEVIATIONS * float(np.std([one.ns or 0.0 for one in drawn])))


def known_of(seen: Mapping[Parameters, Sequence[Need]], beside: Iterable[Pair], prices: Prices) -> Known:
    """seen: what was timed, at all sizes. beside: what is to be split and was not. How far apart loads lie is gone by
    where it is known of all of them: two measures do not fit one program."""
    every = [need for needs in seen.values() for need in needs]
    near = all(need.apart for needs in (every, *beside) for need in needs)

    def waited(need: Need) -> Waits:
        if near:
            return waits(need.apart or (), prices)
        return 0.0, (need.instructions or 0.0) * prices.latency(need.footprint or 1.0)

    why = _why_not(every, prices)
    return Known(why or _fitted(seen, prices, waited), waited, prices)


def _why_not(every: Sequence[Need], prices: Prices) -> str:
    if not all(need.instructions and need.footprint for need in every):
        return "its instructions were not counted under both ABIs"
    if not prices.load.sizes:
        return "this run measured no latency over size"
    if len({need.footprint for need in every}) < _LEAST_POINTS:
        return "two sizes of the program or more are needed to distinguish them"
    return ""


def _fitted(
    seen: Mapping[Parameters, Sequence[Need]], prices: Prices, waited: Callable[[Need], Waits]
) -> dict[Parameters, Fit]:
    def observed(need: Need) -> Observed:
        time_ns = need.time_ns or 0.0
        computed_ns = time_ns - (need.faults or 0.0) * (prices.fault_ns or 0.0)
        return Observed(time_ns, computed_ns, need.instructions or 0.0, waited(need))

    return dict(zip(seen, fit([[observed(need) for need in needs] for needs in seen.values()]), strict=True))


def split(one: Need, other: Need, known: Known, fitted: Fit | str) -> tuple[Part, ...]:
    """What the second saves, part by part, and what that leaves."""
    named = [*_computed(one, other, known, fitted), _faulted(one, other, known.prices)]
    explained_ns = sum(part.ns for part in named if part.ns is not None)
    if one.time_ns is None or other.time_ns is None:
        return (*named, Part(name="unexplained", ns=None, reason="no clock of its own timed the second"))
    return (*named, Part(name="unexplained", ns=one.time_ns - other.time_ns - explained_ns))


def _computed(one: Need, other: Need, known: Known, fitted: Fit | str) -> Iterator[Part]:
    names: tuple[PartName, PartName] = ("instructions", "caches")
    if isinstance(fitted, str):
        yield from (Part(name=name, ns=None, reason=fitted) for name in names)
        return
    fewer = (one.instructions or 0.0) - (other.instructions or 0.0)
    yield Part(name="instructions", ns=fitted.each_ns * fewer)
    waited = [fitted.waited_ns(known.waits(need)) for need in (one, other)]
    yield Part(name="caches", ns=waited[0] - waited[1])


def _faulted(one: Need, other: Need, prices: Prices) -> Part:
    if one.faults is None or other.faults is None:
        return Part(name="faults", ns=None, reason="its faults were not counted under both ABIs")
    if one.faults == other.faults:
        return Part(name="faults", ns=0.0)
    if prices.fault_ns is None:
        return Part(name="faults", ns=None, reason="this run measured no price of a fault")
    return Part(name="faults", ns=prices.fault_ns * (one.faults - other.faults))


def _levels(results: Results, one: Need, other: Need) -> tuple[str, ...]:
    """Of which a walk over the whole footprint meets a larger share under the second."""
    if not one.footprint or not other.footprint:
        return ()
    sizes = {level.level: level.size_bytes for level in results.index.hierarchy if level.size_bytes}
    share = {name: (min(1.0, size / one.footprint), min(1.0, size / other.footprint)) for name, size in sizes.items()}
    return tuple(name for name, (before, after) in share.items() if after - before > _LEVEL_LOSES)


def largest(results: Results) -> tuple[Attribution, ...]:
    """The greatest differences of a study's programs, then of its primitives, under its ABI or another; without those
    that have an unknown part or too few visits."""
    if results.suite is None or not results.suite.program:
        return ()
    main = main_abi(results.index.rows, results.index.machine.architecture) or ""
    about = [results.suite.worth] if results.suite.worth else []
    others = dict.fromkeys((*about, *(row.abi for row in results.index.rows if row.abi != main)))
    candidates = (
        [attribution for attribution in attributed(results, main, abi) if attribution.is_whole and not attribution.thin]
        for abi in others
    )
    return next(
        (tuple(sorted(attributions, key=_is_below(results))[:LARGEST]) for attributions in candidates if attributions),
        (),
    )


def _is_below(results: Results) -> Callable[[Attribution], bool]:
    """Whether it is none of the study's programs, at the size that stands in its tables."""
    programs = [program for program in results.suite.program if not program.primitive] if results.suite else []

    def is_below(attribution: Attribution) -> bool:
        return not any(attribution.is_of(program.probe, program.parameters) for program in programs)

    return is_below
