# SPDX-License-Identifier: Apache-2.0
"""Compares two runs of the same points: which rows changed, which are the same, and which are inconclusive.

A row changed if the p-value of its log ratio, adjusted by Benjamini and Hochberg (1995) over the whole table, is at
most FALSE_DISCOVERIES, and the change exceeds `least`. The standard error of the log ratio combines the errors of both
rows and the between-run variance, which a single run does not show: without this variance one row in six was called
changed when one machine was measured twice. A row is the same if two one-sided tests show that it differs by less than
SAME_WITHIN. All other rows are inconclusive. Rows of different core states are compared in a state that both have.

Times that follow the core clock are compared in cycles, since the clock of one machine varies by some per cent within
an hour. If it is unknown whether a time follows the clock, both the ns and the cycles must show a change. If the clock
changed between the runs, or the machines differ, a change of a value that does not follow the clock is attributed to
the machine and not to the code. So is a change of a row whose operation executes as many instructions in both runs.
Rows by clocks of different kinds, and of probes whose meaning changed, are never compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, exp, hypot, inf, log, sqrt
from typing import Literal

import msgspec

from tollmeter.experiment.limits import LEAST_VALUES, LEAST_VISITS, SAME_WITHIN
from tollmeter.experiment.precision import LEAST_LAYOUTS, log_error
from tollmeter.maths.distributions import KNOWN, LEVEL, NORMAL, combined, exp_or_inf, half_width, student_tails
from tollmeter.model import (
    LEAST_CHANGE,
    REAL_CLOCKS,
    Index,
    Level,
    Machine,
    Record,
    Row,
    StateName,
    Value,
)
from tollmeter.numbers.events import same_instructions
from tollmeter.numbers.readings import is_time
from tollmeter.numbers.rows import Key, row_key
from tollmeter.numbers.stats import Estimate, benjamini_hochberg

FALSE_DISCOVERIES = 0.05
"""Highest expected share of false changes among the rows that are called changed (Benjamini and Hochberg 1995)."""
_ALIKE = {
    "clock": "timed by clocks of different kinds",
    "unit": "in different units",
    "revision": "of different revisions of the probe",
    "chosen": "by different loops",
}
"""The fields that both rows of a pair must share, and the reason that is printed if they differ."""
NOT_CALLED_CHANGED = ("same", "cannot tell")
PASSING_FACTS = ("load_average", "swap_total")
"""Facts of a machine that change by the minute, or on which no timed code depends."""

DISTURBED = ("busy", "held back")
"""Verdicts of runs that other workloads disturbed: only their rows on an uncontended core are comparable."""
UNDISTURBED = ("uncontended", "first", "second")

SAME_INSTRUCTIONS = "equally many instructions for one operation: the machine changed and not the code"
"""Reason that `toll compare`, `history` and `gate` print for a change of a row that executes as many instructions in
both runs."""

TOO_WIDE = "the interval is too wide"
"""Reason of most inconclusive rows: the interval contains both no difference and one that matters."""

Verdict = Literal["faster", "slower", "differs", "same", "cannot tell"]
Cause = Literal["code", "machine"]


class Change(Record, frozen=True):
    """The change of one row between two runs. ratio: new over old, in the unit of the metric. adjusted: p-value
    adjusted for the number of rows. verdict: `differs` is for a metric without a better direction. cause: None if
    nothing changed. same_instructions: whether an operation executes an equal number of instructions in both runs, so
    that a change is due to the machine. reason: why the row is inconclusive. visits_wanted: visits in each run that
    would decide it, None if no number of visits does."""

    old: Row
    new: Row
    ratio: Estimate
    adjusted: float
    verdict: Verdict
    cause: Cause | None = None
    same_instructions: bool = False
    reason: str | None = None
    visits_wanted: int | None = None


class Refusal(Record, frozen=True):
    """A row of either run that is not compared, with the reason."""

    key: Key
    reason: str


class Comparison(Record, frozen=True):
    """The comparison of two runs. changes: compared rows. refused: rows that are not compared. control: ratio of the
    core clocks, new over old; None if one of the runs did not measure it. machine_moved: whether the core clocks differ
    by more than the relative change that matters. differences: differences between the machines, kernels and verdicts,
    each as part of a sentence."""

    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    control: float | None
    machine_moved: bool
    differences: tuple[str, ...] = ()


def compare(old: Index, new: Index, least: float = LEAST_CHANGE, *, machines: bool = False) -> Comparison:
    """Compares all rows that have a number in both runs. least: smallest relative change that matters; 0.01 is 1 %. A
    row is the same within 5 %, or within `least` if that is larger. machines: whether two machines are compared: times
    are then compared in ns and not in cycles, and no change has a cause."""
    clocks = new.machine.core_clock_hz, old.machine.core_clock_hz
    clock_ratio = clocks[0] / clocks[1] if clocks[0] and clocks[1] else None
    before, after = ({row_key(row): row for row in side.rows} for side in (old, new))
    differences = machine_differences(old.machine, new.machine)
    calm = all(side.run.verdict not in DISTURBED for side in (old, new))
    comparison = of_rows(before, after, clock_ratio, least, same_machine=not differences, machines=machines, calm=calm)
    verdicts = (("old", old.run.verdict), ("new", new.run.verdict))
    differences += [f"the {name} run is {verdict}" for name, verdict in verdicts if verdict != "quiet"]
    return msgspec.structs.replace(comparison, differences=tuple(differences))


def machine_differences(old: Machine, new: Machine) -> list[str]:
    """Returns the differences of two machines, each as part of a sentence. Each may explain a change in place of the
    code."""
    return [f"{name} {before} and {after}" for name, before, after in facts_that_differ(old, new)]


def facts_that_differ(old: Machine, new: Machine) -> list[tuple[str, str, str]]:
    """Returns the name, old value and new value of each fact that differs: hardware, kernel, mitigations, frequency
    policy. A fact that only one machine has is omitted."""
    names = ("host", "cpu", "cpus", "kernel", "hypervisor")
    facts = [(name, str(getattr(old, name)), str(getattr(new, name))) for name in names]
    both = sorted((old.facts.keys() & new.facts.keys()) - {*PASSING_FACTS})
    facts += [(name, old.facts[name], new.facts[name]) for name in both]
    return [(name, before, after) for name, before, after in facts if before != after]


def of_rows(
    old: Mapping[Key, Row], new: Mapping[Key, Row], clock_ratio: float | None, least: float, *,
    same_machine: bool = True, machines: bool = False, calm: bool = True,
) -> Comparison:  # fmt: skip
    """Compares rows. clock_ratio: ratio of the core clocks, new over old; None if unknown. least: smallest relative
    change that matters. same_machine: whether the machines have the same facts. machines: as in `compare`. calm:
    whether other workloads disturbed neither run."""
    why = {key: _why_not(old.get(key), new.get(key)) for key in sorted({**old, **new}, key=repr)}
    refused = tuple(Refusal(key=key, reason=reason) for key, reason in why.items() if reason)
    calm = calm or machines
    pairs = [in_one_core_state(row, new[key], calm=calm) for key, row in old.items() if why[key] is None]
    clock_moved = clock_ratio is not None and abs(clock_ratio - 1) > least
    ratios = [ratio_of(*pair) if machines else _at_one_clock(*pair, clock_ratio) for pair in pairs]
    adjusted = benjamini_hochberg([_p_value(ratio) for ratio in ratios])
    changes = []
    for (before, after), ratio, share in zip(pairs, ratios, adjusted, strict=True):
        verdict, reason = _judged(before, after, ratio, share, least, calm=calm)
        cause: Cause | None = None
        is_same_work = same_instructions(before.counters, after.counters, LEAST_CHANGE)
        if not machines and verdict not in NOT_CALLED_CHANGED:
            is_code = (
                not is_same_work
                and same_machine
                and ((before.clock_hz and after.clock_hz) or not clock_moved)
                and not before.shares
            )
            cause = "code" if is_code else "machine"
        changes.append(Change(
            old=before, new=after, ratio=ratio, adjusted=share, verdict=verdict, cause=cause, reason=reason or None,
            same_instructions=is_same_work,
        ))  # fmt: skip
    return Comparison(changes=tuple(changes), refused=refused, control=clock_ratio, machine_moved=clock_moved)


def in_state(row: Row, name: StateName | None) -> Row | None:
    """Returns the row in one state of the core; None if the row has too few samples in this state."""
    if row.state == name:
        return row
    other = next((state for state in row.states if state.state == name), None)
    return None if other is None else msgspec.structs.replace(
        row, state=name, median=other.median, low=other.low, high=other.high, error=other.error, freedom=other.freedom,
        runs_sd=other.runs_sd,
    )  # fmt: skip


def in_one_core_state(old: Row, new: Row, *, calm: bool = True) -> tuple[Row, Row]:
    """Returns both rows on an uncontended core if both have this state; else in the core state in which their ratio has
    the least standard error; unchanged if they share no state. calm: whether other workloads disturbed neither run. If
    so, costs beside a busy sibling are not used. If not, they may be, but they show no change, and neither does a value
    over all samples (`unproven`)."""
    names = dict.fromkeys([old.state, *(state.state for state in old.states)])
    sides = {
        name: (before, after) for name in names if (before := in_state(old, name)) and (after := in_state(new, name))
    }
    if calm:
        sides.pop("contended", None)
    if "uncontended" in sides:
        return sides["uncontended"]
    return min(sides.values(), key=lambda pair: ratio_error(*pair)[0], default=(old, new))


def undecided(old: Row, new: Row) -> str:
    """Returns why a pair of rows has no verdict, as part of a sentence; empty if it can have one."""
    few = min(old.visits, new.visits)
    if old.state != new.state:
        return f"core {_in_words(old.state)} in the old run and {_in_words(new.state)} in the new run"
    return f"{few} visit{'s' * (few != 1)}, and an interval takes {LEAST_VISITS}" if few < LEAST_VISITS else ""


def unproven(old: Row, new: Row, *, calm: bool) -> str:
    """Returns why two rows that differ do not prove a change of the code, as part of a sentence; empty if they do.
    calm: whether other workloads disturbed neither run."""
    if min(old.layouts, new.layouts) < LEAST_LAYOUTS:
        return "visits of one memory layout"
    if not calm and old.state not in UNDISTURBED and is_time(old.unit) and old.clock in REAL_CLOCKS:
        return "not on an uncontended core, and a run was disturbed"
    return ""


def _why_not(before: Row | None, after: Row | None) -> str | None:
    """Returns why two rows are not compared; None if they are."""
    if before is None or after is None:
        return "measured in the new run only" if before is None else "measured in the old run only"
    for row, run in ((before, "old"), (after, "new")):
        if row.status != "ok":
            return f"no number in the {run} run: {row.reason or row.status}"
        if row.median is None or row.median <= 0:
            return f"no positive value in the {run} run"
    values = ((phrase, getattr(before, name), getattr(after, name)) for name, phrase in _ALIKE.items())
    return next((f"{phrase}: {old} and {new}" for phrase, old, new in values if old != new), None)


def _at_one_clock(old: Row, new: Row, clock_ratio: float | None) -> Estimate:
    """Returns the ratio new over old at one clock. Two times that follow the core clock are compared in cycles of each
    run's clock. If the clock hardly moved within a run, it is unknown whether the time follows it: the ratio in ns or
    in cycles is used, whichever is nearer to 1. If one of them is slower and the other faster, the interval contains
    both. clock_ratio: ratio of the core clocks, new over old."""
    ratio = ratio_of(old, new)
    if not is_time(old.unit):
        return ratio
    clocks = new.clock_hz / old.clock_hz if new.clock_hz and old.clock_hz else clock_ratio or 1.0
    scale = clocks if old.unit == "ns" else 1 / clocks
    cycles = msgspec.structs.replace(ratio, value=ratio.value * scale, low=ratio.low * scale, high=ratio.high * scale)
    if new.clock_hz and old.clock_hz:
        return cycles
    if log(ratio.value) * log(cycles.value) < 0:
        low, high = min(ratio.low, cycles.low), max(ratio.high, cycles.high)
        return Estimate(value=1.0, low=low, high=high, error=log_error(low, high), freedom=KNOWN)
    return min(ratio, cycles, key=lambda view: abs(log(view.value)))


def ratio_of(old: Row, new: Row) -> Estimate:
    """Returns the ratio new over old of two medians, in their own unit."""
    assert old.median and new.median
    return ratio_around(log(new.median / old.median), *ratio_error(old, new))


def ratio_around(middle: float, error: float, freedom: float) -> Estimate:
    """Returns the ratio whose logarithm is `middle`, with its interval. error, freedom: standard error of the
    logarithm, and its degrees of freedom. If the error is infinite, so is the interval."""
    if error == inf:
        return Estimate(value=exp(middle), low=0.0, high=inf)
    half = half_width(error, freedom)
    low, high = exp(middle - half), exp_or_inf(middle + half)
    return Estimate(value=exp(middle), low=low, high=high, error=error, freedom=freedom)


def ratio_of_estimates(old: Estimate, new: Estimate, runs_sd: float) -> Estimate:
    """Returns the ratio new over old of two positive estimates. runs_sd: between-run standard deviation of the
    logarithm of each."""
    parts = [(each.error or 0.0, each.freedom or KNOWN) for each in (old, new)]
    return ratio_around(log(new.value / old.value), *combined([*parts, (sqrt(2) * runs_sd, KNOWN)]))


def ratio_error(old: Row, new: Row, of_runs: float = KNOWN) -> tuple[float, float]:
    """Returns the standard error of the log ratio of two rows, and its degrees of freedom. of_runs: degrees of freedom
    of the between-run variance."""
    parts = [(hypot(old.runs_sd, new.runs_sd), of_runs)]
    for row in (old, new):
        has_visits = row.error is not None and row.freedom
        parts.append((_row_error(row), row.freedom if has_visits else KNOWN))
    return combined(parts)


def _row_error(row: Row) -> float:
    """Returns the standard error of a row's logarithm by its own visits; from its interval if the row records none."""
    return row.error if row.error is not None else log_error(row.low or 0.0, row.high or 0.0)


def _p_value(ratio: Estimate) -> float:
    """Returns the two-sided p-value of the hypothesis that the rows are equal. ratio: at one clock."""
    distance = abs(log(ratio.value))
    if not ratio.error:
        return float(ratio.error is None or distance == 0)
    return student_tails(round(ratio.freedom, 1), distance / ratio.error)


def _judged(old: Row, new: Row, ratio: Estimate, adjusted: float, least: float, *, calm: bool) -> tuple[Verdict, str]:
    """Returns the verdict on a pair of rows, and the reason if it is inconclusive for a known reason. adjusted: p-value
    adjusted for the number of rows. least, calm: as in `of_rows`."""
    if reason := undecided(old, new):
        return "cannot tell", reason
    if adjusted <= FALSE_DISCOVERIES and abs(ratio.value - 1) > least:
        if reason := unproven(old, new, calm=calm):
            return "cannot tell", reason
        if new.better == "neither":
            return "differs", ""
        return "slower" if (ratio.value > 1) == (new.better == "less") else "faster", ""
    return "same" if is_within(ratio, max(least, SAME_WITHIN)) else "cannot tell", ""


def is_within(ratio: Estimate, margin: float) -> bool:
    """Returns whether two one-sided tests at 5 % show that a ratio differs from 1 by less than the margin: its 90 %
    interval lies within (Schuirmann 1987)."""
    if ratio.error is None:
        return False
    half = half_width(ratio.error, ratio.freedom, 2 * LEVEL) if ratio.error else 0.0
    return abs(log(ratio.value)) + half <= log(1 + margin)


# ---- why a row is inconclusive ---------------------------------------------------------------------------------------

_CERTAIN = 1.5
"""Factor by which a change must exceed the 95 % half-width to be called one if many rows are judged together."""
_OTHER_STATES = {"all": "as this machine gives it", None: "of unknown state", "unknown": "of unknown state",
                 "first": "bimodal", "second": "bimodal"}  # fmt: skip


def _in_words(state: StateName | None) -> str:
    """Returns the state of a core in words."""
    return _OTHER_STATES.get(state) or str(state)


def explained(comparison: Comparison) -> Comparison:
    """Returns the comparison with an explanation of each inconclusive row: a reason, or the width of the interval and
    the number of visits to resolve it."""
    changes = [
        change if change.verdict != "cannot tell" else msgspec.structs.replace(
            change, reason=change.reason or TOO_WIDE, visits_wanted=visits_to_decide(change)
        )
        for change in comparison.changes
    ]  # fmt: skip
    return msgspec.structs.replace(comparison, changes=tuple(changes))


def visits_to_decide(change: Change) -> int | None:
    """Returns the number of visits in each run with which the row would be the same or changed, at its present ratio;
    None if between-run variance is too large for any number."""
    if change.old.state != change.new.state:
        return None
    runs_variance = max((NORMAL * row.runs_sd) ** 2 for row in (change.old, change.new))
    scatter = sum((NORMAL * _row_error(row)) ** 2 * row.visits for row in (change.old, change.new))
    distance = abs(log(change.ratio.value))
    # Largest half-width (logarithm) at which the present ratio has a verdict: same if the interval lies within 5 %,
    # changed if it excludes 1.
    half_that_decides = max(log(1 + SAME_WITHIN) - distance, distance / _CERTAIN)
    visits_variance = half_that_decides**2 - 2 * runs_variance
    visits = min(change.old.visits, change.new.visits)
    return (
        max(LEAST_VISITS, visits + 1, ceil(scatter / visits_variance))
        if visits_variance > 0 and scatter < inf
        else None
    )


# ---- changes over a size or a stride ---------------------------------------------------------------------------------

# Changes of one probe over a size or a stride belong together: one moved cache boundary changes a dozen rows.

LEAST_CHANGES = 2
BESIDE_BOUNDARY = 2.0
"""Largest ratio of a size to a moved boundary at which a curve changes: misses begin at half of a capacity, and reach
memory's share at twice the capacity."""


class Curve(Record, frozen=True):
    """The rows of one metric over one numeric parameter, several of which changed. over: name of the parameter. values:
    its values in all compared rows. changes: the changed rows, by value."""

    over: str
    values: tuple[int, ...]
    changes: tuple[Change, ...]


class Moved(Record, frozen=True):
    """A memory level whose capacities in two runs have intervals that do not overlap."""

    old: Level
    new: Level


def curves(changes: Sequence[Change]) -> tuple[Curve, ...]:
    """Returns the curves of which at least LEAST_CHANGES rows changed."""
    by_metric: dict[tuple[str, str, str, str], list[Change]] = defaultdict(list)
    for change in changes:
        row = change.new
        by_metric[row.probe, row.metric, row.abi, row.target].append(change)
    return tuple(curve for changes_of_metric in by_metric.values() for curve in _curves_of(changes_of_metric))


def _curves_of(changes: Sequence[Change]) -> Iterator[Curve]:
    """Yields the curves of one metric over the numeric parameter with the most values, one for each combination of the
    other parameters."""
    values_of: dict[str, set[int]] = defaultdict(set)
    for change in changes:
        for parameter, value in change.new.parameters.items():
            if isinstance(value, int):
                values_of[parameter].add(value)
    varied = max(values_of, key=lambda parameter: len(values_of[parameter]), default="")
    groups: dict[tuple[tuple[str, Value], ...], list[Change]] = defaultdict(list)
    for change in changes:
        if varied in change.new.parameters:
            others = sorted((name, value) for name, value in change.new.parameters.items() if name != varied)
            groups[tuple(others)].append(change)
    for group in groups.values():
        ordered = sorted(group, key=lambda change: int(change.new.parameters[varied]))
        changed = tuple(change for change in ordered if change.verdict not in NOT_CALLED_CHANGED)
        if len(ordered) >= LEAST_VALUES and len(changed) >= LEAST_CHANGES:
            values = tuple(int(change.new.parameters[varied]) for change in ordered)
            yield Curve(over=varied, values=values, changes=changed)


def moved(old: Sequence[Level], new: Sequence[Level]) -> tuple[Moved, ...]:
    """Returns the levels of both hierarchies whose capacity intervals do not overlap."""
    after = {level.level: level for level in new}
    pairs = [(level, after[level.level]) for level in old if level.level in after]
    return tuple(Moved(old=first, new=second) for first, second in pairs if _are_apart(first, second))


def _are_apart(first: Level, second: Level) -> bool:
    """Returns whether the intervals of both sizes are known and do not overlap."""
    if first.size_low is None or first.size_high is None or second.size_low is None or second.size_high is None:
        return False
    return first.size_high < second.size_low or second.size_high < first.size_low


def explaining_boundaries(curve: Curve, boundaries: Sequence[Moved]) -> tuple[Moved, ...]:
    """Returns the moved boundaries that may explain the changes of a curve over size: a changed size is near to the
    boundary."""
    sizes = [int(change.new.parameters[curve.over]) for change in curve.changes] if curve.over == "size" else []
    beside = []
    for boundary in boundaries:
        ends = [level.size_bytes for level in (boundary.old, boundary.new) if level.size_bytes]
        if ends and any(min(ends) / BESIDE_BOUNDARY <= size <= max(ends) * BESIDE_BOUNDARY for size in sizes):
            beside.append(boundary)
    return tuple(beside)
