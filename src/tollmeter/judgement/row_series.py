# SPDX-License-Identifier: Apache-2.0
"""Finds the change points of one row over the runs of one machine, each with the differences between the runs around
it.

Two runs are of one machine if the host name, the CPU (family, model, stepping) and the hypervisor are the same. Rows of
different clocks, revisions, units or core states are different series. A row that follows the core clock is a series in
cycles. `compare.of_rows` judges each change again by the levels on both sides of it, so that one rule defines a change
between two runs and among many: if it is unknown whether a row follows the clock, it changed if it changed in its unit
and in cycles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from math import exp, isfinite, log
from statistics import median
from typing import Any, NamedTuple

import msgspec

from tollmeter.experiment.limits import FLOOR_SD, LEAST_VISITS
from tollmeter.experiment.precision import LEAST_LAYOUTS, log_error
from tollmeter.judgement.compare import NOT_CALLED_CHANGED, Change, facts_that_differ, of_rows
from tollmeter.maths.distributions import KNOWN, NORMAL
from tollmeter.maths.fits import change_points, level, scatter
from tollmeter.model import LEAST_CHANGE, Build, Machine, Row, machine_key
from tollmeter.numbers.readings import NS_PER_SECOND, RATES
from tollmeter.numbers.rows import row_key

MachineKey = tuple[str, ...]


class Source(NamedTuple):
    """A run that contains rows. name: name of its folder. tollmeter: version that measured it. builds: returns its
    builds by probe and ABI; called only if something changed."""

    name: str
    started: datetime
    machine: Machine
    tollmeter: str
    builds: Callable[[], Mapping[tuple[str, str], Build]]


class SeriesPoint(NamedTuple):
    """A row of one run."""

    source: Source
    row: Row


class SeriesStep(NamedTuple):
    """A change of level. place: index of the first reading of the new level. change: the change between the levels
    before and after it. differences: differences between the runs before and at this index, each as part of a
    sentence."""

    place: int
    change: Change
    differences: tuple[str, ...]


class RowSeries(NamedTuple):
    """The readings of one row, the oldest first. in_cycles: whether they are compared in core cycles. steps: changes of
    level, the oldest first. left_out: number of runs of the machine whose row has no interval."""

    readings: tuple[SeriesPoint, ...]
    in_cycles: bool
    steps: tuple[SeriesStep, ...]
    left_out: int

    @property
    def row(self) -> Row:
        """Returns the last row, for the properties that all rows of the series have in common."""
        return self.readings[-1].row

    @property
    def machine(self) -> Machine:
        """Returns the machine of the last run."""
        return self.readings[-1].source.machine


def host_key(machine: Machine) -> MachineKey:
    """Returns the key of a machine: runs with equal keys may be in one series."""
    return machine.host, *machine_key(machine)


def row_series(readings: Iterable[SeriesPoint]) -> list[RowSeries]:
    """Returns the series of all rows, in the order of their first readings. Rows without an interval, and rows with too
    few visits or layouts for one, are left out."""
    groups: dict[tuple[Any, ...], list[SeriesPoint]] = defaultdict(list)
    left_out: Counter[tuple[Any, ...]] = Counter()
    for reading in readings:
        row = reading.row
        identity = (host_key(reading.source.machine), row_key(row), row.clock, row.unit, row.revision)
        has_interval = row.status == "ok" and row.median and row.low and row.high and isfinite(row.high)
        is_enough = row.visits >= LEAST_VISITS and row.layouts >= LEAST_LAYOUTS
        if has_interval and is_enough and (row.low or 0.0) > 0:
            groups[*identity, row.state].append(reading)
        else:
            left_out[identity] += 1
    return [_series(group, left_out[key[:-1]]) for key, group in groups.items()]


def _series(unordered: Sequence[SeriesPoint], left_out: int) -> RowSeries:
    """Returns the series of some readings of one row. Change points that a comparison of the levels does not confirm
    are removed."""
    readings = sorted(unordered, key=lambda reading: reading.source.started)
    in_cycles = all(reading.row.clock_hz for reading in readings)
    places = change_points(_logs(readings, in_cycles), [_error(reading.row) for reading in readings])
    while True:
        steps = _steps(readings, places, in_cycles)
        confirmed = [step.place for step in steps if step.change.verdict not in NOT_CALLED_CHANGED]
        if len(confirmed) == len(places):
            return RowSeries(tuple(readings), in_cycles, tuple(steps), left_out)
        places = confirmed


def _logs(readings: Sequence[SeriesPoint], in_cycles: bool) -> list[float]:
    """Returns the logarithm of each median, in its unit or in cycles."""
    return [log(reading.row.median or 1.0) + (_log_of_clock(reading) if in_cycles else 0.0) for reading in readings]


def _log_of_clock(reading: SeriesPoint) -> float:
    """Returns the logarithm to add to convert a time to cycles, or a rate to a rate per cycle; 0 for other units."""
    sign = 1 if reading.row.unit == "ns" else -1 if reading.row.unit in RATES else 0
    return sign * log((_clock_hz(reading) or NS_PER_SECOND) / NS_PER_SECOND)


def _clock_hz(reading: SeriesPoint) -> float | None:
    """Returns the core clock of a reading in Hz; None if unknown."""
    return reading.row.clock_hz or reading.source.machine.core_clock_hz


def cycles_of_point(reading: SeriesPoint) -> float | None:
    """Returns the core cycles of a time; None for other units."""
    row, clock_hz = reading.row, _clock_hz(reading)
    return row.median * clock_hz / NS_PER_SECOND if row.unit == "ns" and row.median and clock_hz else None


def _error(row: Row) -> float:
    """Returns the standard error of the logarithm of a row."""
    assert row.low and row.high
    return max(FLOOR_SD, log_error(row.low, row.high))


def _steps(readings: Sequence[SeriesPoint], places: Sequence[int], in_cycles: bool) -> list[SeriesStep]:
    """Returns the changes of level at these indices."""
    scattered = scatter(_logs(readings, in_cycles), [_error(reading.row) for reading in readings])
    parts = [readings[begin:end] for begin, end in pairwise([0, *places, len(readings)])]
    return [
        SeriesStep(place, _change(*pair, scattered), tuple(_differences(readings[place - 1], readings[place])))
        for place, pair in zip(places, pairwise(parts), strict=True)
    ]


def _change(before: Sequence[SeriesPoint], after: Sequence[SeriesPoint], scattered: float) -> Change:
    """Returns the change between two levels, each of several runs, by the rule for two runs. scattered: scatter of the
    readings, in multiples of their errors."""
    old, new = _level_row(before, scattered), _level_row(after, scattered)
    clocks = [_middle([reading.source.machine.core_clock_hz for reading in part]) for part in (before, after)]
    clock_ratio = clocks[1] / clocks[0] if clocks[0] and clocks[1] else None
    return of_rows({row_key(old): old}, {row_key(old): new}, clock_ratio, LEAST_CHANGE).changes[0]


def _level_row(readings: Sequence[SeriesPoint], scattered: float) -> Row:
    """Returns a row with the common level of several readings; if it follows the core clock, at the median clock.
    scattered: as in `_change`."""
    clock_hz = _middle([reading.row.clock_hz for reading in readings])
    middle, error = level(
        _logs(readings, clock_hz is not None), [_error(reading.row) for reading in readings], scattered
    )
    row = msgspec.structs.replace(readings[-1].row, clock_hz=clock_hz)
    if clock_hz:
        middle -= _log_of_clock(SeriesPoint(readings[-1].source, row))
    half = NORMAL * error
    return msgspec.structs.replace(
        row,
        median=exp(middle),
        low=exp(middle - half),
        high=exp(middle + half),
        error=error,
        freedom=KNOWN,
        runs_sd=0.0,
    )


def _middle(clocks: Sequence[float | None]) -> float | None:
    """Returns the median clock in Hz; None unless every run has one."""
    known = [clock for clock in clocks if clock]
    return median(known) if known and len(known) == len(clocks) else None


def _differences(old: SeriesPoint, new: SeriesPoint) -> list[str]:
    """Returns the differences that may explain a change, each as part of a sentence: facts of the machine that both
    runs have, the kernel, the build of the probe, and the version of Tollmeter."""
    facts = facts_that_differ(old.source.machine, new.source.machine)
    others = [*_of_build(old, new), ("Tollmeter", old.source.tollmeter, new.source.tollmeter)]
    all_differences = [*facts, *((name, before, after) for name, before, after in others if before != after)]
    return [
        f"{name.replace('vulnerability_', 'mitigation of ')} {before} to {after}"
        for name, before, after in all_differences
    ]


def _of_build(old: SeriesPoint, new: SeriesPoint) -> list[tuple[str, str, str]]:
    """Returns the compiler and flags of both builds; if these are equal, the executables."""
    builds = [reading.source.builds().get((reading.row.probe, reading.row.abi)) for reading in (old, new)]
    if builds[0] is None or builds[1] is None:
        return []
    before, after = builds[0], builds[1]
    if (before.compiler, before.flags) == (after.compiler, after.flags):
        return [("executable", before.sha256[:8], after.sha256[:8])]
    return [("compiler", before.compiler, after.compiler), ("flags", before.flags, after.flags)]
