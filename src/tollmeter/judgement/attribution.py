# SPDX-License-Identifier: Apache-2.0
"""What the difference between two ABIs on one program is made of.

A program's time is taken to be

    c I  +  p F  +  a I m(b)  +  the rest

with I instructions, F page faults and b bytes of footprint of one operation; p is the run's own price of a fault, m(b)
its own latency of a load that wanders through b bytes, as it was measured over size. What is not known beforehand - c,
the time of an instruction that waits for no memory, and a, the waiting loads in each instruction - is fitted to all
sizes of the program under both ABIs, least squares of relative errors, neither below nothing (Lawson and Hanson 1974).
So a part is told only where its numbers were measured, and the parts are never forced to add up: what they leave is
`unexplained`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from scipy.optimize import nnls

from tollmeter.judgement.verdict import is_known
from tollmeter.model import Book, Clock, Record, Row, Value
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning

PartName = Literal["instructions", "faults", "caches", "unexplained"]
_LEAST_POINTS = 3
_LEVEL_LOSES = 0.05
Parameters = tuple[tuple[str, Value], ...]


class Part(Record, frozen=True):
    """ns: what the second ABI saves by this, below nothing where it costs more; None where it cannot be told.
    reason: why.
    """

    name: PartName
    ns: float | None
    reason: str = ""


class Attribution(Record, frozen=True):
    """One program under two ABIs. memory: the second's resident peak as a multiple of the first's; None if not told.
    levels: the caches that hold more of it under the second. target: where it was timed. second_ns: None where no clock
    of its own timed the second: then the parts are what it would save by what was counted, and nothing is left over.
    thin: a time rests on too few visits for an interval.
    """

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


class Need(NamedTuple):
    """What one operation takes under one ABI; None: not measured. thin: its time rests on too few visits."""

    time_ns: float | None
    instructions: float | None
    faults: float | None
    footprint: float | None
    resident: float | None
    thin: bool = False


class Prices(NamedTuple):
    """What this run found memory to cost. sizes, latencies: of the walk, ascending; empty where there was none."""

    fault_ns: float | None
    sizes: Sequence[float]
    latencies: Sequence[float]

    def latency(self, footprint: float) -> float:
        """Of a load anywhere in the footprint: the mean of the walk's over all sizes up to it. The walk comes back to a
        line after all the others; a program that goes anywhere after any share of them with one chance, so that a level
        holds of its loads what it holds of its bytes (Mattson and others 1970)."""
        steps = np.append([size for size in self.sizes if size < footprint], footprint)
        heights = np.interp(np.log(steps), np.log(self.sizes), self.latencies)
        widths = np.diff(steps, prepend=0.0)
        return float(np.sum(widths * (heights + np.append(heights[0], heights[:-1])) / 2) / footprint)


class Fit(NamedTuple):
    """ns of an instruction that waits for nothing, and waiting loads in each instruction."""

    each_ns: float
    loads: float


def attributed(book: Book, first: str, second: str) -> tuple[Attribution, ...]:
    """All programs that were timed under both ABIs in one place by its own clock, or under the first alone and counted
    under both in a guest; the greatest relative difference first, and empty where there is none.
    """
    prices, abis = prices_of(book), (first, second)
    found = [told for group in _groups(book, abis) for told in _of_group(book, group, prices, abis)]
    timed = [(told.probe, told.parameters) for told in found]
    found += [told for told in _foretold(book, prices, abis) if (told.probe, told.parameters) not in timed]
    return tuple(sorted(found, key=lambda told: -abs(told.saved_ns) / told.first_ns))


# ---- what was measured --------------------------------------------------------------------------------------------


def prices_of(book: Book) -> Prices:
    """Of the machine's main ABI and small pages, which is what a program meets that asks for nothing."""
    rows = [row for row in book.index.rows if row.clock == "hardware"]
    rows = [row for row in rows if row.abi == main_abi(rows, book.index.machine.architecture) and row.target == HERE]
    faults = [row for row in with_meaning(rows, book.probes, "price-of-fault")
              if row.parameters.get("kind") == "anonymous_write"]  # fmt: skip
    walk = {float(row.parameters["size"]): row.median or 0.0
            for row in with_meaning(rows, book.probes, "latency-of-size")
            if row.parameters.get("pages", "small") == "small" and row.parameters.get("size")}  # fmt: skip
    sizes = sorted(walk)
    return Prices(faults[0].median if faults else None, sizes, [walk[size] for size in sizes])


class Group(NamedTuple):
    """The sizes of one program that were timed under both ABIs in one place."""

    probe: str
    target: str
    needs: Mapping[Parameters, tuple[Need, Need]]


def _groups(book: Book, abis: tuple[str, str]) -> Iterator[Group]:
    """Apart by the probe's choices: another choice is another program."""
    timed = [row for row in with_meaning(book.index.rows, book.probes, "cpu-time") if row.clock == "hardware"]
    places: dict[tuple[str, str, Parameters], dict[Parameters, dict[str, Row]]] = {}
    for row in timed:
        point = tuple(sorted(row.parameters.items()))
        choices = tuple((name, value) for name, value in point if isinstance(value, str))
        places.setdefault((row.probe, row.target, choices), {}).setdefault(point, {})[row.abi] = row
    for (probe, target, _), points in places.items():
        both = {point: found for point, found in points.items() if set(abis) <= set(found)}
        kind = _counted_by(book, both, abis)
        needs = {point: (_need(book, found[abis[0]], kind), _need(book, found[abis[1]], kind))
                 for point, found in both.items()}  # fmt: skip
        if needs:
            yield Group(probe, target, needs)


def _counted_by(book: Book, points: Mapping[Parameters, Mapping[str, Row]], abis: Sequence[str]) -> Clock:
    """Where both were counted: by an emulator of the CPU, or in a guest, where a nanosecond is an instruction."""
    rows = [found[abi] for found in points.values() for abi in abis]
    return "instructions" if all(_count(book, row, "instructions") for row in rows) else "virtual"


def _need(book: Book, timed: Row, kind: Clock) -> Need:
    """footprint: what the probe says that it wanders through, else all that is resident."""
    resident = _beside(book, timed, "resident-peak")
    return Need(
        time_ns=timed.median,
        instructions=_count(book, timed, kind),
        faults=_beside(book, timed, "faults-of-operation"),
        footprint=_beside(book, timed, "footprint") or resident,
        resident=resident,
        thin=not is_known(timed),
    )


def _beside(book: Book, timed: Row, means: str) -> float | None:
    """The row of that meaning that was measured with this one."""
    found = [row for row in with_meaning(book.index.rows, book.probes, means) if _same_point(row, timed)]
    return next((row.median for row in found if row.target == timed.target and row.clock == timed.clock), None)


def _count(book: Book, timed: Row, kind: Clock) -> float | None:
    """Instructions of one operation: of the probe's first metric, wherever it was counted so."""
    first = book.probes[timed.probe].metrics[0].name
    rows = (row for row in book.index.rows if row.metric == first and row.clock == kind and row.status == "ok")
    return next((row.median for row in rows if _same_point(row, timed)), None)


def _same_point(one: Row, other: Row) -> bool:
    return (one.probe, one.abi, one.parameters) == (other.probe, other.abi, other.parameters)


# ---- where the second has no time of its own ----------------------------------------------------------------------


def _foretold(book: Book, prices: Prices, abis: tuple[str, str]) -> Iterator[Attribution]:
    """By the counts of a guest, in which both ran, and by what such counts take on this machine under the first."""
    timed = [row for row in with_meaning(book.index.rows, book.probes, "cpu-time") if row.clock == "hardware"]
    programs: dict[tuple[str, str, Parameters], list[Row]] = {}
    for row in (row for row in timed if row.abi == abis[0]):
        choices = tuple((name, value) for name, value in sorted(row.parameters.items()) if isinstance(value, str))
        programs.setdefault((row.probe, row.target, choices), []).append(row)
    for (probe, target, _), rows in programs.items():
        fit = fitted([_need(book, row, "instructions") for row in rows], prices)
        for row in rows:
            one, other = (_in_guest(book, row, abi) for abi in abis)
            if one and other:
                group = Group(probe, target, {tuple(row.parameters.items()): (one, other._replace(time_ns=None))})
                yield from _told(book, group, prices, abis, fit)


def _in_guest(book: Book, timed: Row, abi: str) -> Need | None:
    """What the point takes in the guest that counts, with the time of the machine itself."""
    like = msgspec.structs.replace(timed, abi=abi)
    rows = (row for row in with_meaning(book.index.rows, book.probes, "resident-peak") if row.clock == "virtual")
    there = next((row for row in rows if _same_point(row, like)), None)
    return (
        _need(book, msgspec.structs.replace(like, target=there.target, clock="virtual"), "virtual") if there else None
    )


# ---- splitting ----------------------------------------------------------------------------------------------------


def _of_group(book: Book, group: Group, prices: Prices, abis: tuple[str, str]) -> Iterator[Attribution]:
    fit = fitted([need for pair in group.needs.values() for need in pair], prices)
    yield from _told(book, group, prices, abis, fit)


def _told(book: Book, group: Group, prices: Prices, abis: tuple[str, str], fit: Fit | str) -> Iterator[Attribution]:
    for point, (one, other) in group.needs.items():
        yield Attribution(
            probe=group.probe, parameters=dict(point), abis=abis, target=group.target,
            first_ns=one.time_ns or 0.0, second_ns=other.time_ns,
            memory=other.resident / one.resident if one.resident and other.resident else None,
            levels=_levels(book, one, other), parts=split(one, other, prices, fit),
            thin=one.thin or other.thin,
        )  # fmt: skip


def fitted(needs: Sequence[Need], prices: Prices) -> Fit | str:
    """From all sizes under both ABIs, or the sentence that says why it cannot be told."""
    counted = [need for need in needs if need.instructions and need.footprint]
    if len(counted) < len(needs):
        return "its instructions were not counted under both ABIs"
    if not len(prices.sizes):
        return "this run measured no latency over size"
    if len({need.footprint for need in counted}) < _LEAST_POINTS:
        return "it takes the program at two sizes or more to tell them apart"
    terms = np.array([[need.instructions, _waits(need, prices)] for need in counted])
    left = np.array([(need.time_ns or 0.0) - (need.faults or 0.0) * (prices.fault_ns or 0.0) for need in counted])
    times = np.array([need.time_ns or 0.0 for need in counted])
    (each_ns, loads), _ = nnls(terms / times[:, None], left / times)
    return Fit(float(each_ns), float(loads))


def _waits(need: Need, prices: Prices) -> float:
    return (need.instructions or 0.0) * prices.latency(need.footprint or 1.0)


def split(one: Need, other: Need, prices: Prices, fit: Fit | str) -> tuple[Part, ...]:
    """What the second saves, part by part, and what that leaves."""
    named = [*_computed(one, other, prices, fit), _faulted(one, other, prices)]
    known = sum(part.ns for part in named if part.ns is not None)
    if one.time_ns is None or other.time_ns is None:
        return (*named, Part(name="unexplained", ns=None, reason="no clock of its own timed the second"))
    return (*named, Part(name="unexplained", ns=one.time_ns - other.time_ns - known))


def _computed(one: Need, other: Need, prices: Prices, fit: Fit | str) -> Iterator[Part]:
    names: tuple[PartName, PartName] = ("instructions", "caches")
    if isinstance(fit, str):
        yield from (Part(name=name, ns=None, reason=fit) for name in names)
        return
    fewer = (one.instructions or 0.0) - (other.instructions or 0.0)
    yield Part(name="instructions", ns=fit.each_ns * fewer)
    yield Part(name="caches", ns=fit.loads * (_waits(one, prices) - _waits(other, prices)))


def _faulted(one: Need, other: Need, prices: Prices) -> Part:
    if one.faults is None or other.faults is None:
        return Part(name="faults", ns=None, reason="its faults were not counted under both ABIs")
    if one.faults == other.faults:
        return Part(name="faults", ns=0.0)
    if prices.fault_ns is None:
        return Part(name="faults", ns=None, reason="this run measured no price of a fault")
    return Part(name="faults", ns=prices.fault_ns * (one.faults - other.faults))


def _levels(book: Book, one: Need, other: Need) -> tuple[str, ...]:
    """Of which a walk over the whole footprint meets a larger share under the second."""
    if not one.footprint or not other.footprint:
        return ()
    sizes = {level.level: level.size_bytes for level in book.index.hierarchy if level.size_bytes}
    share = {name: (min(1.0, size / one.footprint), min(1.0, size / other.footprint)) for name, size in sizes.items()}
    return tuple(name for name, (before, after) in share.items() if after - before > _LEVEL_LOSES)
