# SPDX-License-Identifier: Apache-2.0
"""Finds the number to compare with a published figure: a number of this run in the unit of the figure, or the reason
why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import exp, hypot, log
from typing import NamedTuple

import msgspec

from tollmeter.judgement.verdict import has_interval
from tollmeter.model import Bend, Published, Results, Row, RowOf, State
from tollmeter.numbers.meanings import HERE
from tollmeter.numbers.row_of import KERNEL_COUNTS
from tollmeter.numbers.stats import Estimate
from tollmeter.studies.choices import pairs, part_like
from tollmeter.studies.matching_rows import (
    NOT_TOGETHER,
    VIRTUAL,
    RatioOfRows,
    is_hosted,
    matching,
    own_reason,
    picked,
    ratio_of_rows,
    with_mend,
)

TURNS, CONTROL_LOOP = "turns", "control-loop"
"""Unit of a time in turns of the control loop of the same machine and build, which can be compared between machines."""

NO_TURNS = "The control loop was not timed on the target of this row."


class Measured(NamedTuple):
    """The value compared with a claim. values: one estimate for each row, lowest first; empty without one. unit: its
    unit. gap: why there is none. of: one of the rows; all have its clock and target. thin: whether a row has too few
    visits for an interval. hosted: whether a software hypervisor took part in a row's operation. mixed: whether the two
    rows of a ratio are of different core states. refuted: why the claim fails whatever the number is."""

    values: Sequence[Estimate] = ()
    unit: str = ""
    gap: str = ""
    of: Row | None = None
    thin: bool = False
    hosted: bool = False
    mixed: bool = False
    refuted: str = ""


def measured_claim(results: Results, claim: Published) -> Measured:
    """Returns the value for a claim, from rows of one clock on one target, preferably of this machine."""
    if claim.bend:
        number = _bend(results, claim, claim.bend)
    elif claim.order:
        number = _ordered(results, claim)
    elif claim.share:
        return _of_shares(results, claim)
    elif claim.row:
        number = _of_rows(results, claim, claim.row)
    else:
        number = Measured(gap=claim.missing or "No probe measures this yet.")
    if number.of is None:
        return number
    place = number.of.target, number.of.clock
    rows_of_claim = [picked(results, wanted, claim.about) for wanted in (claim.row, claim.over, *claim.order)]
    used = [row for rows in rows_of_claim for row in rows if (row.target, row.clock) == place]
    return number._replace(thin=not all(map(has_interval, used)), hosted=any(is_hosted(results, row) for row in used))


def _of_rows(results: Results, claim: Published, wanted: RowOf) -> Measured:
    """Returns the value from rows that the claim names: their medians, their times in turns, or their ratios to the
    rows of `over`."""
    rows, others = (picked(results, each, claim.about) for each in (wanted, claim.over))
    if not rows:
        return Measured(gap=_why(results, claim, wanted))
    if claim.over:
        if not others:
            return Measured(gap=_why(results, claim, claim.over))
        rows = _of_one_place([row for row in rows if _twin(row, others)])
        pairs = [(twin, row) for row in rows if (twin := _twin(row, others))]
        return _of_ratios([ratio_of_rows(results, *pair) for pair in pairs], rows, NOT_TOGETHER)
    rows = _of_one_place(rows)
    if claim.unit == TURNS:
        turns = [each for row in rows if (each := _turns(results, row))]
        return _of_ratios(turns, rows, NO_TURNS, TURNS)
    return Measured(sorted(map(_estimate, rows), key=_value), rows[0].unit, of=rows[0])


def _estimate(row: Row) -> Estimate:
    """Returns the median and the interval of a row; without an interval, the median alone."""
    value = row.median or 0.0
    low, high = (value if end is None else end for end in (row.low, row.high))
    return Estimate(value, low, high)


def _of_ratios(ratios: Sequence[RatioOfRows], rows: Sequence[Row], gap: str, unit: str = "ratio") -> Measured:
    """Returns the value from ratios. gap: the reason if there are none."""
    if not ratios:
        return Measured(gap=gap)
    estimates = sorted((each.ratio for each in ratios), key=_value)
    return Measured(estimates, unit, of=rows[0], mixed=any(each.mixed for each in ratios))


def _value(estimate: Estimate) -> float:
    return estimate.value


def _ordered(results: Results, claim: Published) -> Measured:
    """Returns the ratio of each row to the previous one, for rows of one target and clock."""
    rows_of_order = [picked(results, wanted, claim.about) for wanted in claim.order]
    for wanted, rows in zip(claim.order, rows_of_order, strict=True):
        if not rows:
            return Measured(gap=_why(results, claim, wanted))
    first = _of_one_place(rows_of_order[0])[0]
    chain = [row for rows in rows_of_order if (row := _twin(first, rows))]
    ratios = [ratio_of_rows(results, *pair) for pair in pairwise(chain)] if len(chain) == len(rows_of_order) else []
    return _of_ratios(ratios, [first], NOT_TOGETHER)


def _of_shares(results: Results, claim: Published) -> Measured:
    """Returns the ratio of the shares of a function in two profiles of this machine."""
    wanted_profiles = results.suite.beside if results.suite else None
    if results.suite and wanted_profiles:
        forms = next((share.here for share in wanted_profiles.shares if share.function == claim.share), ())
        for pair in (pair for pair in pairs(results, results.suite) if pair.left.target == HERE):
            left, right = (part_like(profile, forms) for profile in (pair.left, pair.right))
            rows = [
                row for row in picked(results, wanted_profiles.left) if (row.abi, row.target) == (pair.left.abi, HERE)
            ]
            if rows and min(left.low, right.low) > 0:
                ratio = left.value / right.value
                factor = exp(hypot(*(log(each.high / each.low) / 2 for each in (left, right))))
                return Measured([Estimate(ratio, ratio / factor, ratio * factor)], "ratio", of=rows[0])
    return Measured(gap=claim.missing or f"No two profiles of this machine have {claim.share}.")


# ---- where a curve bends ---------------------------------------------------------------------------------------------


def _bend(results: Results, claim: Published, bend: Bend) -> Measured:
    """Returns the position of a bend, as a multiple of the size of the cache that the system reports."""
    level = next((level for level in results.index.hierarchy if level.level == bend.level), None)
    sizes = results.index.machine.data_sizes().items()
    known = (bytes_ for number, bytes_ in sizes if bend.level.rstrip("d") == f"L{number}")
    system_bytes = level.os_size_bytes if level else next(known, None)
    if not system_bytes:
        return Measured(gap=claim.missing or f"The system does not report the size of {bend.level}.")
    if bend.rate is not None:
        return _fall(results, claim, bend.rate, system_bytes)
    if level is None:
        return Measured(gap=f"This run has no measured size of {bend.level}.")
    if level.size_bytes is None or level.size_low is None or level.size_high is None:
        return Measured(gap=f"The end of {level.level} is not resolved in this run.")
    ends = Estimate(*(end / system_bytes for end in (level.size_bytes, level.size_low, level.size_high)))
    return Measured([ends], "ratio", thin=bool(level.few_samples))


def _fall(results: Results, claim: Published, wanted: RowOf, system_bytes: int) -> Measured:
    """Returns the first fall of a rate; for a fall that the cache does not cause, a refutation."""
    rates = {(row.probe, row.metric, row.abi, row.target) for row in _of_one_place(picked(results, wanted))}
    for lengths in results.index.lengths:
        rate = lengths.probe, lengths.metric, lengths.abi, lengths.target
        if rate in rates and wanted.parameters.items() <= lengths.parameters.items():
            break
    else:
        return Measured(gap=_why(results, claim, wanted))
    if not lengths.falls:
        return Measured(unit="ratio", refuted=f"The rate does not fall up to N = {lengths.last_n:,}.")
    fall = lengths.falls[0]
    past = f"The rate falls past N = {fall.after_n:,}"
    if fall.cause == "unknown":
        return Measured(gap=f"{past}. No measurement shows whether a cache ends there.")
    low, high = fall.after_bytes / system_bytes, fall.by_bytes / system_bytes
    other = f"{past}, and does not wait for memory there." if fall.cause == "length" else ""
    return Measured([Estimate((low * high) ** 0.5, low, high)], "ratio", refuted=other)


# ---- times in turns --------------------------------------------------------------------------------------------------


def in_turns(results: Results, row: Row) -> Estimate | None:
    """Returns a time in turns of the control loop of the same target, clock and ABI; None if the run has no such
    loop."""
    turns = _turns(results, row)
    return turns.ratio if turns else None


def _turns(results: Results, row: Row) -> RatioOfRows | None:
    """Returns the ratio of the row to the period of the control loop, the inverse of its rate, in each state; None if
    the run has no such loop."""

    def inverse(rate: Row | State) -> dict[str, float | None]:
        median, low, high = (1e9 / end if end else None for end in (rate.median, rate.high, rate.low))
        return {"median": median, "low": low, "high": high}

    if row.unit != "ns" or (row.median or 0) <= 0:
        return None
    for loop in picked(results, RowOf(means=CONTROL_LOOP, abi=row.abi)):
        if (loop.unit, loop.target, loop.clock) == ("op/s", row.target, row.clock):
            states = tuple(msgspec.structs.replace(state, **inverse(state)) for state in loop.states)
            return ratio_of_rows(results, msgspec.structs.replace(loop, unit="ns", states=states, **inverse(loop)), row)
    return None


# ---- rows of one place -----------------------------------------------------------------------------------------------


def _of_one_place(rows: Sequence[Row]) -> list[Row]:
    """Returns the rows of one target and clock: the hardware clock before others, and this machine before other
    targets."""
    place = min(((row.clock != "hardware", row.target != HERE, row.target, row.clock) for row in rows), default=None)
    return [row for row in rows if place and (row.target, row.clock) == place[2:]]


def _why(results: Results, claim: Published, wanted: RowOf) -> str:
    """Returns why there is no number: the reason of a matching row, else the reason of the claim, else that the run has
    no such row."""
    anyhow = msgspec.structs.replace(wanted, metric=None, parameters={})
    lacking = wanted if matching(results, anyhow) else anyhow
    return own_reason(results, wanted) or claim.missing or f"This run has no row of {lacking.words()}."


def timed_by(results: Results, number: Measured) -> str:
    """Returns a sentence that names the emulator that timed a number; empty without one. For memory and faults the
    sentence names the guest kernel that counted them."""
    if number.of is None or number.of.clock != VIRTUAL:
        return ""
    if number.of.unit in (*KERNEL_COUNTS, "count"):
        return f"Counted by the kernel of {number.of.target}."
    return with_mend(f"In virtual time of {number.of.target}.", results)


def _twin(row: Row, others: Sequence[Row]) -> Row | None:
    """Returns the row of another list with equal clock, target, unit and parameters; else its only row of this clock,
    target and unit. None without one, or if either row has no number."""
    place = row.target, row.clock, row.unit
    comparable = [other for other in others if (other.target, other.clock, other.unit) == place]
    alone = comparable[0] if len(comparable) == 1 else None
    twin = next((other for other in comparable if other.parameters == row.parameters), alone)
    return twin if twin is not None and (row.median or 0) > 0 and (twin.median or 0) > 0 else None
