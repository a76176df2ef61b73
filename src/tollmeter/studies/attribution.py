# SPDX-License-Identifier: Apache-2.0
"""The attribution of the difference between two ABIs on one program.

A program's time is modelled as

    c I  +  p F  +  a W  +  b S  +  the rest

with I instructions and F page faults of one operation; p is the run's own price of a fault, W the time that its loads
would wait for memory if each waited alone, and S the time to read sequentially the lines that a prefetcher predicts. If
its stack distances were not measured, W is I times the latency of a load anywhere in its footprint, and S is zero. The
unknowns are fitted to all sizes of the program under both ABIs, by least squares of relative errors: c, the time of an
instruction that waits for no memory; a and b, the shares of the waiting that other work does not hide, each at most
one. A part is reported only if its numbers were measured, and the parts are not forced to add up: the remainder is
`unexplained`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from tollmeter.experiment.limits import ALIKE, HARDLY, LEAST_VALUES, SAME_WITHIN
from tollmeter.judgement.verdict import has_interval
from tollmeter.maths.distributions import NORMAL
from tollmeter.maths.fits import bounded
from tollmeter.model import USUAL_LINE_BYTES, Clock, Distances, Record, Results, Row, Value
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning
from tollmeter.numbers.readings import NS_PER_SECOND

PartName = Literal["instructions", "faults", "caches", "unexplained"]
_DRAWS = 20
"""Number of draws of a program's times, from which the interval of each part is estimated."""
LARGEST = 3
"""Number of a study's differences that are attributed."""
UNCOUNTED = (
    "its instructions were not counted under both ABIs; an emulator counts them in a run with "
    "--target local,qemu-user, and of x32 --target local,guest"
)
Parameters = tuple[tuple[str, Value], ...]
Apart = Sequence[tuple[float, float, float]]
"""Stack distances of one operation's loads: bytes until a line is used again, number of loads that a prefetcher
predicts, and number of other loads."""
Waits = tuple[float, float]
"""Waits of one operation in ns: of loads that a prefetcher predicts, and of other loads."""


class AttributedPart(Record, frozen=True):
    """One part of a difference. ns: time that the second ABI saves in this part, negative if it costs more; None if
    unknown. reason: why it is unknown. within_ns: half of its 95 % interval, by the intervals of the times alone."""

    name: PartName
    ns: float | None
    reason: str = ""
    within_ns: float = 0.0


class Attribution(Record, frozen=True):
    """The attributed difference of one program under two ABIs. memory: the second ABI's resident peak over the first's.
    levels: caches that serve a larger share of it under the second ABI. target: target on which it was timed.
    second_ns: None if not timed by its own clock; parts then follow from counts. thin: a time has too few visits."""

    probe: str
    parameters: dict[str, Value]
    abis: tuple[str, str]
    target: str
    first_ns: float
    second_ns: float | None
    memory: float | None
    levels: tuple[str, ...]
    parts: tuple[AttributedPart, ...]
    thin: bool = False

    @property
    def saved_ns(self) -> float:
        if self.second_ns is None:
            return sum(part.ns or 0.0 for part in self.parts)
        return self.first_ns - self.second_ns

    @property
    def is_whole(self) -> bool:
        """Returns whether saved_ns is the whole saving: the second ABI was timed, or each part of its time is known."""
        return self.second_ns is not None or all(part.ns is not None for part in self.parts[:-1])

    def is_of(self, probe: str, parameters: Mapping[str, Value]) -> bool:
        return self.probe == probe and parameters.items() <= self.parameters.items()


class Need(NamedTuple):
    """The needs of one operation under one ABI; None: not measured. apart: stack distances of its loads. thin: its time
    has too few visits. within_ns: half of its time's interval."""

    time_ns: float | None
    instructions: float | None
    faults: float | None
    footprint: float | None
    resident: float | None
    apart: Apart | None
    thin: bool
    within_ns: float


Sizes = Mapping[Parameters, Sequence[Need]]
"""Needs of one program by size, under one ABI or more."""


def attributed(results: Results, first: str, second: str) -> tuple[Attribution, ...]:
    """Returns all programs timed under both ABIs on one target by its own clock, or counted under both in a guest; the
    greatest relative difference first. Another value of a probe's choice is another program."""
    programs: dict[tuple[str, str, Parameters], dict[Parameters, dict[str, Row]]] = {}
    for row in with_meaning(results.index.rows, results.probes, "cpu-time"):
        if row.clock == "hardware":
            point = tuple(sorted(row.parameters.items()))
            choices = tuple((name, value) for name, value in point if isinstance(value, str))
            programs.setdefault((row.probe, row.target, choices), {}).setdefault(point, {})[row.abi] = row
    prices = prices_of(results)
    attributions = [
        each for points in programs.values() for each in _attributed(results, points, prices, (first, second))
    ]
    return tuple(sorted(attributions, key=lambda each: -abs(each.saved_ns) / each.first_ns))


def largest(results: Results) -> tuple[Attribution, ...]:
    """Returns the greatest differences of a study's programs, at the sizes of its tables, then of its primitives, under
    its ABI or another; without those that have an unknown part or too few visits."""
    suite = results.suite
    if suite is None or not suite.program:
        return ()
    programs = [program for program in suite.program if not program.primitive]
    main = main_abi(results.index.rows, results.index.machine.architecture) or ""
    others = (row.abi for row in results.index.rows if row.abi != main)
    for abi in dict.fromkeys((*filter(None, (suite.worth,)), *others)):
        complete = [each for each in attributed(results, main, abi) if each.is_whole and not each.thin]
        complete.sort(key=lambda each: not any(each.is_of(program.probe, program.parameters) for program in programs))
        if complete:
            return tuple(complete[:LARGEST])
    return ()


def _attributed(
    results: Results, points: Mapping[Parameters, Mapping[str, Row]], prices: Prices, abis: tuple[str, str]
) -> Iterator[Attribution]:
    """Yields attributions: for sizes timed under both ABIs from their times; for other sizes, whose second ABI only ran
    in a guest, from the guest's counts, at the prices of the ABIs that this machine timed."""
    first, second = abis
    both = {point: (rows[first], rows[second]) for point, rows in points.items() if {*abis} <= {*rows}}
    by_emulator = any(_count(results, row, "instructions") for rows in both.values() for row in rows)
    # Without an emulator of the CPU, a guest counts: its nanosecond is an instruction.
    kind: Clock = "instructions" if by_emulator else "virtual"
    timed = {point: _alike(*(_need(results, row, kind) for row in rows)) for point, rows in both.items()}
    draws = [(needs, _split(needs, needs, prices)) for needs in _draws(timed)]
    yield from _with_intervals(results, points, draws, abis)

    alone = {point: rows for point, rows in points.items() if first in rows and point not in both}
    seen = {point: [_need(results, row, "instructions") for row in rows.values()] for point, rows in alone.items()}
    counted = {point: [_in_guest(results, rows[first], abi) for abi in abis] for point, rows in alone.items()}
    foretold = {
        point: _alike(one, other._replace(time_ns=None)) for point, (one, other) in counted.items() if one and other
    }
    draws = [(needs, _split(needs, of_seen, prices))
             for needs, of_seen in zip(_draws(foretold), _draws(seen), strict=True)]  # fmt: skip
    yield from _with_intervals(results, points, draws, abis)


def _with_intervals(
    results: Results,
    points: Mapping[Parameters, Mapping[str, Row]],
    draws: Sequence[tuple[Sizes, Mapping[Parameters, tuple[AttributedPart, ...]]]],
    abis: tuple[str, str],
) -> Iterator[Attribution]:
    """Yields the parts of the measured times, each with an interval from draws of the times."""
    needs, as_they_are = draws[0]
    for point, (one, other) in needs.items():
        parts = [
            part if part.ns is None else msgspec.structs.replace(part, within_ns=NORMAL * float(np.std(drawn)))
            for place, part in enumerate(as_they_are[point])
            for drawn in [[split[point][place].ns or 0.0 for _, split in draws[1:]]]
        ]
        row = points[point][abis[0]]
        yield Attribution(
            probe=row.probe, parameters=dict(point), abis=abis, target=row.target,
            first_ns=one.time_ns or 0.0, second_ns=other.time_ns,
            memory=other.resident / one.resident if one.resident and other.resident else None,
            levels=_levels(results, one, other), parts=tuple(parts), thin=one.thin or other.thin,
        )  # fmt: skip


def _levels(results: Results, one: Need, other: Need) -> tuple[str, ...]:
    """Returns the levels that serve a larger share of a walk over the whole footprint under the second ABI."""
    if not one.footprint or not other.footprint:
        return ()
    sizes = {level.level: level.size_bytes for level in results.index.hierarchy if level.size_bytes}
    return tuple(
        name
        for name, size in sizes.items()
        if min(1.0, size / other.footprint) - min(1.0, size / one.footprint) > SAME_WITHIN
    )


# ---- what was measured --------------------------------------------------------------------------------------------


def _need(results: Results, timed: Row, kind: Clock) -> Need:
    """Returns the needs of one operation. The footprint is the bytes that the probe reports to read, else all resident
    bytes."""

    def beside(means: str) -> float | None:
        """Returns the value of the row with this meaning that was measured together with the timed row."""
        rows = with_meaning(results.index.rows, results.probes, means)
        return next((row.median for row in rows if _point(row) == _point(timed)
                     and (row.target, row.clock) == (timed.target, timed.clock)), None)  # fmt: skip

    resident = beside("resident-peak")
    seen = (distances.loads for distances in results.distances if _point(distances) == _point(timed))
    return Need(
        time_ns=timed.median,
        instructions=_count(results, timed, kind),
        faults=beside("faults-of-operation"),
        footprint=beside("footprint") or resident,
        resident=resident,
        apart=next(filter(None, seen), None),
        thin=not has_interval(timed),
        within_ns=(timed.high - timed.low) / 2 if timed.high is not None and timed.low is not None else 0.0,
    )


def _count(results: Results, timed: Row, kind: Clock) -> float | None:
    """Returns the instructions of one operation of the probe's first metric, on any target that counted them."""
    first = results.probes[timed.probe].metrics[0].name
    rows = (row for row in results.index.rows if row.metric == first and row.clock == kind and row.status == "ok")
    return next((row.median for row in rows if _point(row) == _point(timed)), None)


def _point(row: Row | Distances) -> tuple[str, str, dict[str, Value]]:
    return row.probe, row.abi, row.parameters


def _in_guest(results: Results, timed: Row, abi: str) -> Need | None:
    """Returns the needs of the point in the counting guest, with the time of the machine itself; None without one."""
    here = msgspec.structs.replace(timed, abi=abi)
    for row in with_meaning(results.index.rows, results.probes, "resident-peak"):
        if row.clock == "virtual" and _point(row) == _point(here):
            return _need(results, msgspec.structs.replace(here, target=row.target, clock="virtual"), "virtual")
    return None


def _alike(one: Need, other: Need) -> tuple[Need, Need]:
    """Returns the needs of both ABIs in comparable form. If the loads of only one ABI were recorded, its distances,
    scaled by the size of the walk, also serve the other ABI, since the objects between two loads of a line are the same
    in both."""
    if one.apart and not other.apart and one.footprint and other.footprint:
        by = one.footprint / other.footprint
        other = other._replace(apart=[(size / by, foreseen, others) for size, foreseen, others in one.apart])
    return one, other


def _draws(sizes: Sizes) -> list[Sizes]:
    """Returns the sizes unchanged, followed by copies in which each time is drawn from its interval."""
    random = np.random.default_rng(0)

    def drawn(need: Need) -> Need:
        off_ns = random.normal(0.0, need.within_ns / NORMAL)
        return need._replace(time_ns=need.time_ns and max(need.time_ns + off_ns, need.time_ns / 10))

    return [sizes, *({point: [*map(drawn, needs)] for point, needs in sizes.items()} for _ in range(_DRAWS))]


# ---- splitting ----------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """A fit of one size. each_ns: time of an instruction that waits for no memory. shown: for each kind of waiting, the
    share that other work does not hide."""

    each_ns: float
    shown: Waits


def _split(pairs: Sizes, seen: Sizes, prices: Prices) -> dict[Parameters, tuple[AttributedPart, ...]]:
    """Returns the savings of the second of each pair by part, with the remainder. seen: the timed needs at all sizes.
    Stack distances are used only if known for all needs, since two measures do not fit one program."""
    counted = {point: needs for point, needs in seen.items() if all(map(_is_counted, needs))}
    timed = [need for needs in counted.values() for need in needs]
    near = all(need.apart for needs in (timed, *pairs.values()) for need in needs)

    def waits(need: Need) -> Waits:
        if near:
            return prices.waits(need.apart or ())
        return 0.0, (need.instructions or 0.0) * prices.latency(need.footprint or 1.0)

    unknown = ""
    if not prices.load.sizes:
        unknown = "this run measured no latency over size"
    elif len({need.footprint for need in timed}) < LEAST_VALUES:
        unknown = "counts at two sizes of the program or more are needed to distinguish them"
    fits = {} if unknown else _fit(counted, waits, prices.fault_ns or 0.0)
    return {
        point: _parts(one, other, prices, UNCOUNTED if point not in counted else unknown or fits[point], waits)
        for point, (one, other) in pairs.items()
    }


def _is_counted(need: Need) -> bool:
    return bool(need.instructions and need.footprint)


def _parts(
    one: Need, other: Need, prices: Prices, fit: Fit | str, waits: Callable[[Need], Waits]
) -> tuple[AttributedPart, ...]:
    """Returns the parts of a difference. fit: or the reason why it is unknown."""
    instructions = AttributedPart(name="instructions", ns=None, reason=str(fit))
    caches = AttributedPart(name="caches", ns=None, reason=str(fit))
    if isinstance(fit, Fit):
        fewer = (one.instructions or 0.0) - (other.instructions or 0.0)
        waited = [
            sum(share * wait for share, wait in zip(fit.shown, waits(need), strict=True)) for need in (one, other)
        ]
        instructions = AttributedPart(name="instructions", ns=fit.each_ns * fewer)
        caches = AttributedPart(name="caches", ns=waited[0] - waited[1])
    if one.faults is None or other.faults is None:
        faults = AttributedPart(name="faults", ns=None, reason="its faults were not counted under both ABIs")
    elif one.faults == other.faults:
        faults = AttributedPart(name="faults", ns=0.0)
    elif prices.fault_ns is None:
        faults = AttributedPart(name="faults", ns=None, reason="this run did not measure the cost of a page fault")
    else:
        faults = AttributedPart(name="faults", ns=prices.fault_ns * (one.faults - other.faults))
    if one.time_ns is None or other.time_ns is None:
        rest = AttributedPart(name="unexplained", ns=None, reason="the second ABI was not timed by a hardware clock")
    else:
        explained_ns = sum(part.ns for part in (instructions, caches, faults) if part.ns is not None)
        rest = AttributedPart(name="unexplained", ns=one.time_ns - other.time_ns - explained_ns)
    return instructions, caches, faults, rest


def _fit(seen: Sizes, waits: Callable[[Need], Waits], fault_ns: float) -> dict[Parameters, Fit]:
    """Returns the time of an instruction, and the visible share of waiting for memory, from the times at several sizes.

    The work is equal under each ABI, so that the time of an instruction is one unknown for both; between sizes it
    differs as the mix of instructions does. So it is fitted for each size, and shrunk towards its value at other sizes
    (ridge regression: Hoerl and Kennard 1970). With one value for all sizes, the waiting of a program that scans more
    at larger sizes would be attributed to computing."""
    sizes = len(seen)
    timed = [(place, need) for place, needs in enumerate(seen.values()) for need in needs]
    instructions = np.array([need.instructions or 0.0 for _, need in timed])
    time_ns = np.array([need.time_ns or 0.0 for _, need in timed])
    computed_ns = time_ns - np.array([(need.faults or 0.0) * fault_ns for _, need in timed])
    # Unknowns: an instruction's time, the shares of both kinds of waiting, and each size's deviation of that time.
    of_size = np.array(
        [[need.instructions or 0.0 if size == place else 0.0 for size in range(sizes)] for place, need in timed]
    )
    terms = np.column_stack([instructions, [waits(need) for _, need in timed], of_size]) / time_ns[:, None] / HARDLY
    alike = np.hstack([np.zeros((sizes, 3)), np.eye(sizes) / (ALIKE * float(np.median(computed_ns / instructions)))])
    solution = bounded(
        np.vstack([terms, alike]),
        np.append(computed_ns / time_ns / HARDLY, np.zeros(sizes)),
        [0.0, 0.0, 0.0, *[-np.inf] * sizes],
        [np.inf, 1.0, 1.0, *[np.inf] * sizes],
    )
    each_ns, foreseen, others = map(float, solution[:3])
    return {
        point: Fit(each_ns + float(more), (foreseen, others)) for point, more in zip(seen, solution[3:], strict=True)
    }


# ---- waiting --------------------------------------------------------------------------------------------------------


class PriceCurve(NamedTuple):
    """The time of a load over the bytes until its line is used again, ascending; empty if not measured."""

    sizes: Sequence[float]
    ns: Sequence[float]

    def beyond_nearest(self, size: float) -> float:
        """Returns the time of a load less that of a load at the shortest distance, which is part of every loading
        instruction."""
        return max(0.0, float(np.interp(np.log(size), np.log(self.sizes), self.ns)) - self.ns[0])


class Prices(NamedTuple):
    """The memory prices of this run. load: price of a dependent load at random; line: price of a line read
    sequentially."""

    fault_ns: float | None
    load: PriceCurve
    line: PriceCurve

    def latency(self, footprint: float) -> float:
        """Returns the latency of a load anywhere in the footprint: the mean of the walk's over all sizes up to it. If
        reuse distances are uniform, a level serves the share of the loads that it holds of the bytes."""
        steps = np.append([size for size in self.load.sizes if size < footprint], footprint)
        heights = np.interp(np.log(steps), np.log(self.load.sizes), self.load.ns)
        widths = np.diff(steps, prepend=0.0)
        return float(np.sum(widths * (heights + np.append(heights[0], heights[:-1])) / 2) / footprint)

    def waits(self, apart: Apart) -> Waits:
        """Returns the waits of one operation. Predictable loads add none if sequential reading was not measured."""
        foreseen = sum(count * self.line.beyond_nearest(size) for size, count, _ in apart) if self.line.sizes else 0.0
        return foreseen, sum(count * self.load.beyond_nearest(size) for size, _, count in apart)


def prices_of(results: Results) -> Prices:
    """Returns the prices of the machine's main ABI and small pages, the default of programs."""
    rows = [row for row in results.index.rows if row.clock == "hardware"]
    main = main_abi(rows, results.index.machine.architecture)
    rows = [row for row in rows if row.abi == main and row.target == HERE]
    faults = [row.median for row in with_meaning(rows, results.probes, "price-of-fault")
              if row.parameters.get("kind") == "anonymous_write"]  # fmt: skip
    walks = {float(row.parameters["size"]): row.median or 0.0
             for row in with_meaning(rows, results.probes, "latency-of-size")
             if row.parameters.get("pages", "small") == "small"}  # fmt: skip
    reads = with_meaning(rows, results.probes, "read-bandwidth-of-size")
    # The last of each size is of the fastest loop, which lets memory be what is waited for.
    rates = dict(sorted((float(row.parameters["size"]), row.median) for row in reads if row.median))
    return Prices(
        fault_ns=faults[0] if faults else None,
        load=PriceCurve(sorted(walks), [ns for _, ns in sorted(walks.items())]),
        line=PriceCurve([*rates], [USUAL_LINE_BYTES / rate * NS_PER_SECOND for rate in rates.values()]),
    )
