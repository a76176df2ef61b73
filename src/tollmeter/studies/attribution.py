# SPDX-License-Identifier: Apache-2.0
"""The attribution of the difference between two ABIs on one program.

A program's time is modelled as

    c I  +  p F  +  a W  +  b S  +  the rest

I and F are the instructions and page faults of one operation, and p is the price of a fault in this run. W is the time
that the loads would wait for memory if each waited alone, and S the time to read sequentially the lines that a
prefetcher predicts. If the stack distances of the loads were not measured, W is I times the latency of a load anywhere
in the footprint, and S is zero.

Three unknowns are fitted to all sizes of the program under both ABIs, by least squares of relative errors: c, the time
of an instruction that waits for no memory, and a and b, the shares of the waiting that other work does not hide, each
at most one. A part is reported only if its numbers were measured. The parts are not forced to add up: the remainder is
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
"""Number of random draws of a program's times, from which the interval of each part is estimated."""
LARGEST = 3
"""Number of a study's differences that are attributed."""
UNCOUNTED = (
    "its instructions were not counted under both ABIs; an emulator counts them in a run with "
    "--target local,qemu-user, and of x32 --target local,guest"
)
Parameters = tuple[tuple[str, Value], ...]
Apart = Sequence[tuple[float, float, float]]
"""Stack distances of the loads of one operation: bytes until a line is used again, number of such loads that a
prefetcher predicts, and number of other such loads."""
Waits = tuple[float, float]
"""Waiting time of one operation in ns: of loads that a prefetcher predicts, and of other loads."""


class AttributedPart(Record, frozen=True):
    """One part of a difference. ns: time that the second ABI saves in this part, negative if it costs more; None if
    unknown. reason: why it is unknown. within_ns: half-width of its 95 % interval, from the intervals of the times
    alone."""

    name: PartName
    ns: float | None
    reason: str = ""
    within_ns: float = 0.0


class Attribution(Record, frozen=True):
    """The attributed difference of one program under two ABIs. target: target on which it was timed. first_ns,
    second_ns: time of one operation under each ABI. second_ns is None if no hardware clock timed the second ABI; the
    parts then follow from counts. memory: the second ABI's resident peak over the first's. levels: caches that serve a
    larger share of the footprint under the second ABI. thin: whether a time has too few visits for an interval."""

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
        """Returns the ns of one operation that the second ABI saves; the sum of the known parts if it was not timed."""
        if self.second_ns is None:
            return sum(part.ns or 0.0 for part in self.parts)
        return self.first_ns - self.second_ns

    @property
    def is_whole(self) -> bool:
        """Returns whether saved_ns is the whole saving: the second ABI was timed, or each part of its time is known."""
        return self.second_ns is not None or all(part.ns is not None for part in self.parts[:-1])

    def is_of(self, probe: str, parameters: Mapping[str, Value]) -> bool:
        """Returns whether the program is this probe with these parameters among its own."""
        return self.probe == probe and parameters.items() <= self.parameters.items()


class Need(NamedTuple):
    """The needs of one operation under one ABI; None: not measured. footprint: bytes that it reads. resident: peak of
    resident bytes. apart: stack distances of its loads. thin: whether its time has too few visits for an interval.
    within_ns: half-width of the interval of its time."""

    time_ns: float | None
    instructions: float | None
    faults: float | None
    footprint: float | None
    resident: float | None
    apart: Apart | None
    thin: bool
    within_ns: float


Sizes = Mapping[Parameters, Sequence[Need]]
"""Needs of one program by size, under one ABI or several."""


def attributed(results: Results, first: str, second: str) -> tuple[Attribution, ...]:
    """Returns the attributions of all programs that hardware timed under both ABIs on one target, or that were counted
    under both in a guest; the largest relative difference first. A program is a probe with one choice of its
    non-numeric parameters."""
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
    """Returns the largest differences of a study's programs between the main ABI and the study's, else another ABI.
    Programs of the study's tables come first, then primitives. Differences with an unknown part or too few visits are
    left out."""
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
    """Yields the attributions of one program: for sizes timed under both ABIs from their times; for sizes whose second
    ABI ran only in a guest, from the counts of the guest, with the unknowns fitted to the times of the other ABIs.
    points: rows by size and ABI."""
    first, second = abis
    both = {point: (rows[first], rows[second]) for point, rows in points.items() if {*abis} <= {*rows}}
    by_emulator = any(_count(results, row, "instructions") for rows in both.values() for row in rows)
    # Without an emulator of the CPU, a guest counts: its nanosecond is an instruction.
    kind: Clock = "instructions" if by_emulator else "virtual"
    timed = {point: _alike(*(_need(results, row, kind) for row in rows)) for point, rows in both.items()}
    draws = [(needs, _split(needs, needs, prices)) for needs in _draws(timed)]
    yield from _with_intervals(results, points, draws, abis)

    first_only = {point: rows for point, rows in points.items() if first in rows and point not in both}
    timed_needs = {
        point: [_need(results, row, "instructions") for row in rows.values()] for point, rows in first_only.items()
    }
    counted = {point: [_in_guest(results, rows[first], abi) for abi in abis] for point, rows in first_only.items()}
    predicted = {
        point: _alike(one, other._replace(time_ns=None)) for point, (one, other) in counted.items() if one and other
    }
    draws = [(needs, _split(needs, of_timed, prices))
             for needs, of_timed in zip(_draws(predicted), _draws(timed_needs), strict=True)]  # fmt: skip
    yield from _with_intervals(results, points, draws, abis)


def _with_intervals(
    results: Results,
    points: Mapping[Parameters, Mapping[str, Row]],
    draws: Sequence[tuple[Sizes, Mapping[Parameters, tuple[AttributedPart, ...]]]],
    abis: tuple[str, str],
) -> Iterator[Attribution]:
    """Yields the attributions of each size, with an interval of each part from the scatter of the draws. draws: needs
    and parts of the measured times, then of each draw."""
    needs, measured_parts = draws[0]
    for point, (one, other) in needs.items():
        parts = [
            part if part.ns is None else msgspec.structs.replace(part, within_ns=NORMAL * float(np.std(drawn)))
            for number, part in enumerate(measured_parts[point])
            for drawn in [[split[point][number].ns or 0.0 for _, split in draws[1:]]]
        ]
        row = points[point][abis[0]]
        yield Attribution(
            probe=row.probe, parameters=dict(point), abis=abis, target=row.target,
            first_ns=one.time_ns or 0.0, second_ns=other.time_ns,
            memory=other.resident / one.resident if one.resident and other.resident else None,
            levels=_levels(results, one, other), parts=tuple(parts), thin=one.thin or other.thin,
        )  # fmt: skip


def _levels(results: Results, one: Need, other: Need) -> tuple[str, ...]:
    """Returns the caches that would serve a larger share of a walk over the whole footprint under the second ABI."""
    if not one.footprint or not other.footprint:
        return ()
    sizes = {level.level: level.size_bytes for level in results.index.hierarchy if level.size_bytes}
    return tuple(
        name
        for name, size in sizes.items()
        if min(1.0, size / other.footprint) - min(1.0, size / one.footprint) > SAME_WITHIN
    )


# ---- measured needs -----------------------------------------------------------------------------------------------


def _need(results: Results, timed: Row, kind: Clock) -> Need:
    """Returns the needs of one operation, from its timed row and the rows beside it. The footprint is the bytes that
    the probe reports to read, else the resident peak. kind: clock of the target that counted the instructions."""

    def beside(means: str) -> float | None:
        """Returns the value of the row with this meaning that was measured together with the timed row."""
        rows = with_meaning(results.index.rows, results.probes, means)
        return next((row.median for row in rows if _point(row) == _point(timed)
                     and (row.target, row.clock) == (timed.target, timed.clock)), None)  # fmt: skip

    resident = beside("resident-peak")
    recorded = (distances.loads for distances in results.distances if _point(distances) == _point(timed))
    return Need(
        time_ns=timed.median,
        instructions=_count(results, timed, kind),
        faults=beside("faults-of-operation"),
        footprint=beside("footprint") or resident,
        resident=resident,
        apart=next(filter(None, recorded), None),
        thin=not has_interval(timed),
        within_ns=(timed.high - timed.low) / 2 if timed.high is not None and timed.low is not None else 0.0,
    )


def _count(results: Results, timed: Row, kind: Clock) -> float | None:
    """Returns the instructions of one operation of the probe's first metric, on any target that counted them."""
    first = results.probes[timed.probe].metrics[0].name
    rows = (row for row in results.index.rows if row.metric == first and row.clock == kind and row.status == "ok")
    return next((row.median for row in rows if _point(row) == _point(timed)), None)


def _point(row: Row | Distances) -> tuple[str, str, dict[str, Value]]:
    """Returns the point of a row or of stack distances, on any target."""
    return row.probe, row.abi, row.parameters


def _in_guest(results: Results, timed: Row, abi: str) -> Need | None:
    """Returns the needs that a counting guest measured at the point of the timed row under this ABI, with the time of
    the timed row; None without a row of a guest."""
    here = msgspec.structs.replace(timed, abi=abi)
    for row in with_meaning(results.index.rows, results.probes, "resident-peak"):
        if row.clock == "virtual" and _point(row) == _point(here):
            return _need(results, msgspec.structs.replace(here, target=row.target, clock="virtual"), "virtual")
    return None


def _alike(one: Need, other: Need) -> tuple[Need, Need]:
    """Returns the needs of both ABIs, each with stack distances if either has them. Distances of the first ABI are
    scaled by the ratio of the footprints to serve the second, since the same objects lie between two loads of a
    line."""
    if one.apart and not other.apart and one.footprint and other.footprint:
        footprint_ratio = one.footprint / other.footprint
        other = other._replace(
            apart=[(size / footprint_ratio, foreseen, others) for size, foreseen, others in one.apart]
        )
    return one, other


def _draws(sizes: Sizes) -> list[Sizes]:
    """Returns the sizes unchanged, followed by copies in which each time is drawn at random from its interval."""
    random = np.random.default_rng(0)

    def drawn(need: Need) -> Need:
        """Returns the needs with a time drawn from its interval."""
        off_ns = random.normal(0.0, need.within_ns / NORMAL)
        return need._replace(time_ns=need.time_ns and max(need.time_ns + off_ns, need.time_ns / 10))

    return [sizes, *({point: [*map(drawn, needs)] for point, needs in sizes.items()} for _ in range(_DRAWS))]


# ---- splitting ----------------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """The fitted unknowns of one size. each_ns: time of an instruction that waits for no memory. shown: for each kind
    of waiting, the share that other work does not hide."""

    each_ns: float
    shown: Waits


def _split(pairs: Sizes, timed_sizes: Sizes, prices: Prices) -> dict[Parameters, tuple[AttributedPart, ...]]:
    """Returns the parts of the saving of the second of each pair, with the remainder, by size. pairs: needs under both
    ABIs. timed_sizes: the timed needs to which the unknowns are fitted. Stack distances are used only if all needs have
    them, since the two models of waiting do not give comparable times."""
    counted = {point: needs for point, needs in timed_sizes.items() if all(map(_is_counted, needs))}
    timed = [need for needs in counted.values() for need in needs]
    has_distances = all(need.apart for needs in (timed, *pairs.values()) for need in needs)

    def waits(need: Need) -> Waits:
        """Returns the waiting time of one operation in ns, by stack distances or by its footprint."""
        if has_distances:
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
    """Returns the parts of a difference, with the remainder last. fit: the fitted unknowns, or why they are unknown."""
    instructions = AttributedPart(name="instructions", ns=None, reason=str(fit))
    caches = AttributedPart(name="caches", ns=None, reason=str(fit))
    if isinstance(fit, Fit):
        fewer = (one.instructions or 0.0) - (other.instructions or 0.0)
        waited_ns = [
            sum(share * wait for share, wait in zip(fit.shown, waits(need), strict=True)) for need in (one, other)
        ]
        instructions = AttributedPart(name="instructions", ns=fit.each_ns * fewer)
        caches = AttributedPart(name="caches", ns=waited_ns[0] - waited_ns[1])
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


def _fit(timed_sizes: Sizes, waits: Callable[[Need], Waits], fault_ns: float) -> dict[Parameters, Fit]:
    """Returns for each size the time of an instruction, and the shares of the waiting that other work does not hide.

    Both ABIs do the same work, so the time of an instruction is one unknown for both. Between sizes it differs, as the
    mix of instructions does, so it is fitted for each size and shrunk towards its value at other sizes (ridge
    regression: Hoerl and Kennard 1970). With one value for all sizes, the waiting of a program that scans more at
    larger sizes would be attributed to instructions. fault_ns: price of a fault."""
    sizes = len(timed_sizes)
    timed = [(place, need) for place, needs in enumerate(timed_sizes.values()) for need in needs]
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
        point: Fit(each_ns + float(deviation_ns), (foreseen, others))
        for point, deviation_ns in zip(timed_sizes, solution[3:], strict=True)
    }


# ---- waiting --------------------------------------------------------------------------------------------------------


class PriceCurve(NamedTuple):
    """The time of a load in ns over the bytes until its line is used again, ascending; empty if not measured."""

    sizes: Sequence[float]
    ns: Sequence[float]

    def beyond_nearest(self, size: float) -> float:
        """Returns the time of a load at this distance (bytes) less the time at the shortest distance, which is part of
        the time of every load instruction. At least 0."""
        return max(0.0, float(np.interp(np.log(size), np.log(self.sizes), self.ns)) - self.ns[0])


class Prices(NamedTuple):
    """The memory prices of this run in ns. fault_ns: a page fault; None if not measured. load: a dependent load in
    random order. line: a line read sequentially."""

    fault_ns: float | None
    load: PriceCurve
    line: PriceCurve

    def latency(self, footprint: float) -> float:
        """Returns the latency in ns of a load anywhere in the footprint (bytes): the mean latency of the walks over all
        sizes up to it. With uniform reuse distances, each level serves the share of the loads that it holds of the
        bytes."""
        steps = np.append([size for size in self.load.sizes if size < footprint], footprint)
        heights = np.interp(np.log(steps), np.log(self.load.sizes), self.load.ns)
        widths = np.diff(steps, prepend=0.0)
        return float(np.sum(widths * (heights + np.append(heights[0], heights[:-1])) / 2) / footprint)

    def waits(self, apart: Apart) -> Waits:
        """Returns the waiting time of one operation in ns. Loads that a prefetcher predicts add none if sequential
        reading was not measured."""
        foreseen = sum(count * self.line.beyond_nearest(size) for size, count, _ in apart) if self.line.sizes else 0.0
        return foreseen, sum(count * self.load.beyond_nearest(size) for size, _, count in apart)


def prices_of(results: Results) -> Prices:
    """Returns the prices by rows of the machine's main ABI with small pages, which programs use by default."""
    rows = [row for row in results.index.rows if row.clock == "hardware"]
    main = main_abi(rows, results.index.machine.architecture)
    rows = [row for row in rows if row.abi == main and row.target == HERE]
    faults = [row.median for row in with_meaning(rows, results.probes, "price-of-fault")
              if row.parameters.get("kind") == "anonymous_write"]  # fmt: skip
    walks = {float(row.parameters["size"]): row.median or 0.0
             for row in with_meaning(rows, results.probes, "latency-of-size")
             if row.parameters.get("pages", "small") == "small"}  # fmt: skip
    reads = with_meaning(rows, results.probes, "read-bandwidth-of-size")
    # The last rate of each size is the highest: that loop is limited by memory and not by its instructions.
    rates = dict(sorted((float(row.parameters["size"]), row.median) for row in reads if row.median))
    return Prices(
        fault_ns=faults[0] if faults else None,
        load=PriceCurve(sorted(walks), [ns for _, ns in sorted(walks.items())]),
        line=PriceCurve([*rates], [USUAL_LINE_BYTES / rate * NS_PER_SECOND for rate in rates.values()]),
    )
