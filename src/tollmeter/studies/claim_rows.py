# SPDX-License-Identifier: Apache-2.0
"""What stands beside a published figure: this run's number in the figure's unit, or the reason that there is none."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import msgspec

from tollmeter.judgement.compare import ratio_of
from tollmeter.judgement.verdict import is_known
from tollmeter.model import Bend, Lengths, Level, Program, Published, Relative, Results, Row, RowOf, State
from tollmeter.numbers.meanings import HERE, main_abi, with_meaning
from tollmeter.numbers.row_of import KERNEL_COUNTS
from tollmeter.numbers.stats import Estimate
from tollmeter.studies.matching_rows import (
    COUNTED,
    NOT_TOGETHER,
    VIRTUAL,
    failure,
    is_hosted,
    matching,
    own_reason,
    picked,
    with_mend,
)

TURNS, CONTROL_LOOP = "turns", "control-loop"
"""A time in turns of the control loop of its own machine and build: what carries from one machine to another."""

NO_TURNS = "The control loop was not timed where this was."
_STATES = ("whole", "shared")


class Measured(NamedTuple):
    """What stands beside a claim: one estimate a row, least first, or why there is none. of: one row, with the clock
    and place of all. thin: a row has too few visits. hosted: a row is its hypervisor's time. mixed: one row of a ratio
    is of an uncontended core and the other is not. refuted: why the claim fails, whatever the number."""

    values: Sequence[Estimate] = ()
    unit: str = ""
    gap: str = ""
    of: Row | None = None
    thin: bool = False
    hosted: bool = False
    mixed: bool = False
    refuted: str = ""


def measured(results: Results, claim: Published) -> Measured:
    """By rows of one clock in one place, this machine's own first: another's would be another answer."""
    number = _bend(results, claim, claim.bend) if claim.bend else _measured(results, claim)
    if number.of is None:
        return number
    rows = [row for wanted in _wanted(claim) for row in picked(results, wanted, claim.about)]
    used = [row for row in rows if (row.target, row.clock) == (number.of.target, number.of.clock)]
    return number._replace(thin=not all(map(is_known, used)), hosted=any(is_hosted(results, row) for row in used))


def _wanted(claim: Published) -> list[RowOf]:
    return [wanted for wanted in (claim.row, claim.over, *claim.order) if wanted]


def _measured(results: Results, claim: Published) -> Measured:
    if claim.order:
        return _ordered(results, claim)
    if claim.row is None:
        return Measured(gap=claim.missing or "No probe measures this yet.")
    rows, others = (picked(results, wanted, claim.about) for wanted in (claim.row, claim.over))
    if not rows:
        return Measured(gap=_why(results, claim, claim.row))
    if claim.over is None:
        rows = _of_one_place(rows)
        alone = Measured(_ranked([_estimate(row) for row in rows]), rows[0].unit, of=rows[0])
        return _in_turns(results, rows) if claim.unit == TURNS else alone
    if not others:
        return Measured(gap=_why(results, claim, claim.over))
    rows = _of_one_place([row for row in rows if _twin(row, others) is not None])
    ratios = [_ratio(twin, row) for row in rows if (twin := _twin(row, others)) is not None]
    return _of_ratios(ratios, rows[0]) if ratios else Measured(gap=NOT_TOGETHER)


def _of_ratios(ratios: Sequence[tuple[Estimate, bool]], of: Row) -> Measured:
    return Measured(_ranked([ratio for ratio, _ in ratios]), "ratio", of=of, mixed=any(mixed for _, mixed in ratios))


def _ordered(results: Results, claim: Published) -> Measured:
    """Each row over the one before it, of one place and clock."""
    several = [picked(results, wanted, claim.about) for wanted in claim.order]
    lacking = next((wanted for wanted, rows in zip(claim.order, several, strict=True) if not rows), None)
    if lacking is not None:
        return Measured(gap=_why(results, claim, lacking))
    first = _of_one_place(several[0])[0]
    chain = [_twin(first, rows) for rows in several]
    rows = [row for row in chain if row is not None]
    if len(rows) < len(several):
        return Measured(gap=NOT_TOGETHER)
    return _of_ratios([_ratio(before, row) for before, row in pairwise(rows)], first)


def _ratio(old: Row, new: Row) -> tuple[Estimate, bool]:
    """New over old, both of one state of the core; with whether there is no such state."""
    for name in (old.state, *_STATES) if old.state == new.state else _STATES:
        sides = [_in_state(row, name) for row in (old, new)]
        if sides[0] is not None and sides[1] is not None:
            return ratio_of(sides[0], sides[1]), False
    return ratio_of(old, new), True


def _in_state(row: Row, name: str | None) -> Row | None:
    """The row as it is in one state of the core; None where it was not seen often enough in it."""
    if row.state == name:
        return row
    seen: State | None = next((state for state in row.states if state.state == name), None)
    if seen is None:
        return None
    return msgspec.structs.replace(row, state=seen.state, median=seen.median, low=seen.low, high=seen.high)


# ---- where a curve bends ---------------------------------------------------------------------------------------------


def _bend(results: Results, claim: Published, bend: Bend) -> Measured:
    """As a multiple of the cache's size, by the system."""
    level = next((level for level in results.index.hierarchy if level.level == bend.level), None)
    system_bytes = level.os_size_bytes if level else _system_bytes(results, bend.level)
    if not system_bytes:
        return Measured(gap=claim.missing or f"The system does not report the size of {bend.level}.")
    if bend.rate is not None:
        return _fall(results, claim, bend.rate, system_bytes)
    return _end_of(level, system_bytes) if level else Measured(gap=f"This run has no measured size of {bend.level}.")


def _system_bytes(results: Results, name: str) -> int | None:
    """Of a data cache by its name: L1d, L2."""
    caches = (cache for cache in results.index.machine.caches if cache.kind != "instruction")
    return next((cache.size_bytes for cache in caches if name.rstrip("d") == f"L{cache.level}"), None)


def _end_of(level: Level, system_bytes: int) -> Measured:
    if level.size_bytes is None or level.size_low is None or level.size_high is None:
        return Measured(gap=f"The end of {level.level} is not resolved in this run.")
    low, value, high = (end / system_bytes for end in (level.size_low, level.size_bytes, level.size_high))
    return Measured([Estimate(value, low, high)], "ratio", thin=bool(level.few_samples))


def _fall(results: Results, claim: Published, wanted: RowOf, system_bytes: int) -> Measured:
    """The first fall of a rate; of one that is not its cache's, that it is not."""
    rates = {(row.probe, row.metric, row.abi, row.target): row for row in _of_one_place(picked(results, wanted))}
    lengths = next((lengths for lengths in results.index.lengths if _is_of(lengths, rates, wanted)), None)
    if lengths is None:
        return Measured(gap=_why(results, claim, wanted))
    if not lengths.falls:
        return Measured(unit="ratio", refuted=f"The rate does not fall up to N = {lengths.last_n:,}.")
    fall = lengths.falls[0]
    if fall.cause == "unknown":
        return Measured(
            gap=f"The rate falls past N = {fall.after_n:,}. No measurement shows whether a cache ends there."
        )
    low, high = fall.after_bytes / system_bytes, fall.by_bytes / system_bytes
    other = f"The rate falls past N = {fall.after_n:,}, and does not wait for memory there."
    return Measured(
        [Estimate((low * high) ** 0.5, low, high)], "ratio", refuted=other if fall.cause == "length" else ""
    )


def _is_of(lengths: Lengths, rates: dict[tuple[str, str, str, str], Row], wanted: RowOf) -> bool:
    key = lengths.probe, lengths.metric, lengths.abi, lengths.target
    return key in rates and wanted.parameters.items() <= lengths.parameters.items()


# ---- times in turns --------------------------------------------------------------------------------------------------


def _in_turns(results: Results, rows: Sequence[Row]) -> Measured:
    several = [turns for row in rows if (turns := _turns(results, row)) is not None]
    if not several:
        return Measured(gap=NO_TURNS)
    return _of_ratios(several, rows[0])._replace(unit=TURNS)


def in_turns(results: Results, row: Row) -> Estimate | None:
    """A time in turns of the control loop of its place, clock and ABI; None if the run has no such loop."""
    turns = _turns(results, row)
    return turns[0] if turns else None


def _turns(results: Results, row: Row) -> tuple[Estimate, bool] | None:
    loops = [
        loop for loop in picked(results, RowOf(means=CONTROL_LOOP, abi=row.abi)) if loop.unit == "op/s" and
        (loop.target, loop.clock) == (row.target, row.clock)
    ]  # fmt: skip
    if not loops or row.unit != "ns" or (row.median or 0) <= 0:
        return None
    return _ratio(_period(loops[0]), row)


def _period(loop: Row) -> Row:
    """A rate's time in ns, with its ends in their places, in each state."""
    states = [msgspec.structs.replace(state, **_inverse(state)) for state in loop.states]
    return msgspec.structs.replace(loop, unit="ns", states=tuple(states), **_inverse(loop))


def _inverse(rate: Row | State) -> dict[str, float | None]:
    median, low, high = (1e9 / end if end else None for end in (rate.median, rate.high, rate.low))
    return {"median": median, "low": low, "high": high}


# ---- rows of one place -----------------------------------------------------------------------------------------------


def _of_one_place(rows: Sequence[Row]) -> list[Row]:
    """Those by the hardware's clock before all others, this machine's before another's."""
    place = min(((row.clock != "hardware", row.target != HERE, row.target, row.clock) for row in rows), default=None)
    return [row for row in rows if place and (row.target, row.clock) == place[2:]]


def _why(results: Results, claim: Published, wanted: RowOf) -> str:
    """The row's own reason where there is a row; then the claim's; else why the probe was not run there at all."""
    return own_reason(results, wanted) or claim.missing or _absence(wanted)


def timed_by(results: Results, number: Measured) -> str:
    """That a time was made by an emulator. What a guest's kernel counts of memory and faults is what it would be."""
    if number.of is None or number.of.clock != VIRTUAL:
        return ""
    if number.of.unit in (*KERNEL_COUNTS, "count"):
        return f"Counted by the kernel of {number.of.target}."
    return with_mend(f"In virtual time of {number.of.target}.", results)


def _absence(wanted: RowOf) -> str:
    named = wanted.probe or wanted.means or "such a row"
    where = f" for {wanted.abi}" if wanted.abi and wanted.abi != "native" else ""
    return f"This run has no row of {named}{where}."


def _estimate(row: Row) -> Estimate:
    value = row.median or 0.0
    return Estimate(
        value=value, low=value if row.low is None else row.low, high=value if row.high is None else row.high
    )


def _ranked(values: Sequence[Estimate]) -> list[Estimate]:
    return sorted(values, key=lambda one: one.value)


def _twin(row: Row, others: Sequence[Row]) -> Row | None:
    """The row of its clock, place and unit at the same parameters, or the only one there; none if either is nothing."""
    place = row.target, row.clock, row.unit
    comparable = [other for other in others if (other.target, other.clock, other.unit) == place]
    alone = comparable[0] if len(comparable) == 1 else None
    twin = next((other for other in comparable if other.parameters == row.parameters), alone)
    return twin if twin is not None and (row.median or 0) > 0 and (twin.median or 0) > 0 else None


# ---- relatives ------------------------------------------------------------------------------------------------------

Measure = Literal["memory", "asked", "time", "instructions", "counted"]
MEANS = {"memory": "resident-peak", "asked": "asked", "time": "cpu-time", "instructions": "cpu-time"}
"""What is counted of a program alone is its probe's first metric."""
_CLOCKS = {
    "memory": ("hardware", VIRTUAL), "asked": (COUNTED,), "time": ("hardware",), "instructions": (VIRTUAL,),
    "counted": (COUNTED,),
}  # fmt: skip
_PER_CENT = re.compile(r"([+−-]?\d+(?:\.\d+)?) %")


def relatives(results: Results) -> tuple[Relative, ...]:
    """Programs in the suite's order, memory first; none for a suite of no programs."""
    suite = results.suite
    main = main_abi(results.index.rows, results.index.machine.architecture)
    if suite is None or main is None:
        return ()
    measures: tuple[Measure, ...] = ("memory", "asked", "time", "instructions", "counted")
    return tuple(
        _relative(results, program, measure, (abi, main))
        for measure in measures
        for program in suite.program
        for abi in _others(results, program, main)
        if measure in _measures(results, {abi, main})
    )


def _measures(results: Results, abis: Collection[str]) -> tuple[Measure, Measure]:
    """What this run can compare two ABIs by: a user-mode emulator has neither the memory nor the time of a program."""
    rows = [row for row in results.index.rows if row.abi in abis and row.status == "ok"]
    timed = {row.clock for row in with_meaning(rows, results.probes, "cpu-time")}
    if "hardware" in timed:
        return "memory", "time"
    only_counted = not timed and any(row.clock == COUNTED for row in rows)
    return ("asked", "counted") if only_counted else ("memory", "instructions")


def published_ratio(relative: Relative) -> float | None:
    """Its published change in per cent as a ratio; None where the study gives none."""
    match = _PER_CENT.search(relative.published)
    return 1 + float(match[1].replace("−", "-")) / 100 if match else None


def _others(results: Results, program: Program, main: str) -> Iterator[str]:
    """The ABI that the suite is about first."""
    about = results.suite.worth if results.suite else ""
    seen = dict.fromkeys(row.abi for row in results.index.rows if row.probe == program.probe and row.abi != main)
    yield from sorted(seen, key=lambda abi: (abi != about, abi))


def _relative(results: Results, program: Program, measure: Measure, abis: tuple[str, str]) -> Relative:
    """abis: of the numerator and of the denominator."""
    abi, main = abis
    pairs = list(_pairs(results, program, measure, abis))
    bare = Relative(what=program.what, primitive=program.primitive, measure=measure, abi=abi, over=main, target=None,
                    value=None, low=None, high=None, published=_published(results, program, measure, abi))  # fmt: skip
    if not pairs:
        return msgspec.structs.replace(bare, reason=_relatives_why(results, program, measure, abis))
    row, twin = pairs[0]
    ratio = ratio_of(twin, row)
    thin = measure not in ("instructions", "counted") and not (is_known(row) and is_known(twin))
    return msgspec.structs.replace(
        bare, target=row.target, value=ratio.value, low=ratio.low, high=ratio.high, thin=thin
    )


def _published(results: Results, program: Program, measure: Measure, abi: str) -> str:
    """Whether the study describes one ABI alone."""
    about = (results.suite.worth if results.suite else "") or abi
    return (program.memory if measure in ("memory", "asked") else program.time) if abi == about else ""


def _pairs(results: Results, program: Program, measure: Measure, abis: tuple[str, str]) -> Iterator[tuple[Row, Row]]:
    """This machine itself first, then by name. Each ABI has a user-mode emulator of its own, and all count alike."""
    ones, others = (_rows(results, program, measure, abi) for abi in abis)
    for one in sorted(ones, key=lambda row: (row.target != HERE, row.target)):
        for other in others:
            together = one.clock == COUNTED or one.target == other.target
            if together and (one.clock, one.parameters) == (other.clock, other.parameters):
                yield one, other


def _rows(results: Results, program: Program, measure: Measure, abi: str) -> Sequence[Row]:
    if measure == "counted":
        known = results.probes.get(program.probe)
        rows = [row for row in results.index.rows if known and row.metric == known.metrics[0].name]
    else:
        rows = with_meaning(results.index.rows, results.probes, MEANS[measure])
    return [
        row
        for row in rows
        if (row.probe, row.abi) == (program.probe, abi)
        and all(row.parameters.get(name) == value for name, value in program.parameters.items())
        and (row.median or 0) > 0
        and row.clock in _CLOCKS[measure]
    ]


def _relatives_why(results: Results, program: Program, measure: Measure, abis: tuple[str, str]) -> str:
    if measure == "asked" and _rows(results, program, "counted", abis[0]):
        return f"{program.probe} does not count what it asks of malloc."
    for abi in abis:
        if _rows(results, program, measure, abi):
            continue
        wanted = RowOf(probe=program.probe, abi=abi, parameters=program.parameters)
        is_timed = any(row.clock == "hardware" for row in matching(results, wanted))
        if measure == "time" and not is_timed and results.suite and abi == results.suite.worth and results.suite.mend:
            return failure(results, wanted) or results.suite.mend
        return own_reason(results, wanted) or f"This run has no row of {program.probe} for {abi}."
    return NOT_TOGETHER
