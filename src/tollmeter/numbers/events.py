# SPDX-License-Identifier: Apache-2.0
"""Computes the events of one operation, from the counts of the CPU's counters, of the kernel's accounts, and of the
traced copy in a first visit. Each rate is the slope over n and 2n iterations, as for a time, so that events that a
batch causes once cancel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from tollmeter.experiment.limits import FEW
from tollmeter.model import Counted, EventRate, EventSource, Metric, Outcome, Row

INSTRUCTIONS = "instructions"
HARDWARE: tuple[EventSource, ...] = ("pmu", "pmu in user mode")
_SOURCES = ("body", "control", "difference")
"""Sources of metrics that are computed from the batches of the timed worker alone."""


def event_rates(outcomes: Iterable[Outcome], metric: Metric) -> dict[str, EventRate]:
    """Returns the number of events of one operation, by event. Of several sources the first in _SOURCE_ORDER is used.
    outcomes: visits of one point."""
    if metric.source not in _SOURCES:
        return {}
    values_of_visits: dict[tuple[str, EventSource], list[float]] = defaultdict(list)
    for outcome in outcomes:
        for name, source, body, control in (*_of_counters(outcome), *_of_copy(outcome.counted)):
            values_of_visits[name, source].append(_of_metric(metric, body, control) / (outcome.work.operations or 1.0))
    rates: dict[str, EventRate] = {}
    for (name, source), values in sorted(values_of_visits.items(), key=lambda item: _SOURCE_ORDER.index(item[0][1])):
        rate = EventRate(source=source, value=median(values), low=min(values), high=max(values), visits=len(values))
        rates.setdefault(name, rate)
    return rates


_SOURCE_ORDER: tuple[EventSource, ...] = (*HARDWARE, "account", "trace")


def _of_metric(metric: Metric, body: float, control: float) -> float:
    """Returns the events of an iteration by the source of the metric."""
    return {"body": body, "control": control, "difference": body - control}[metric.source]


def _of_counters(outcome: Outcome) -> Iterator[tuple[str, EventSource, float, float]]:
    """Yields the name, source, and counts of the body and of the control for each event, by the counters or the
    kernel's accounts."""
    counts = outcome.events
    for name, value in counts.body.items() if counts else ():
        assert counts
        source: EventSource = "account" if counts.by == "account" else HARDWARE[0 if counts.kernel else 1]
        yield name, source, value, counts.control.get(name, 0.0)


def _of_copy(counted: Counted | None) -> Iterator[tuple[str, EventSource, float, float]]:
    """Yields the name, source, and counts of the body and of the control for the instructions of the traced copy, if
    they were counted."""
    if counted and counted.instructions:
        pairs = counted.instructions, counted.control_instructions or (0, 0)
        body, control = ((pair[1] - pair[0]) / counted.iterations for pair in pairs)
        yield INSTRUCTIONS, "trace", body, control


def without_silent(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Returns the rows without PMU events that are 0 in all rows of a target: an emulator, and some hypervisors, permit
    opening the counters but count nothing."""
    counting = {
        (row.target, name)
        for row in rows
        for name, rate in row.counters.items()
        if rate.source not in HARDWARE or max(abs(rate.low), abs(rate.high)) > 0
    }
    return tuple(
        row if all((row.target, name) in counting for name in row.counters)
        else msgspec.structs.replace(
            row, counters={name: rate for name, rate in row.counters.items() if (row.target, name) in counting}
        )
        for row in rows
    )  # fmt: skip


def missing_between(rows: Iterable[Row], event: str) -> tuple[int, int] | None:
    """Returns the largest size in bytes up to which loads hardly miss, and the smallest one from which nearly all do.
    None if the event was not counted on both sides. rows: walks by size."""
    sizes = {int(row.parameters["size"]): row.counters[event].value for row in rows if event in row.counters}
    few = [size for size, misses in sizes.items() if misses <= FEW]
    most = [size for size, misses in sizes.items() if misses >= 1 - FEW]
    return (max(few), min(most)) if few and most and max(few) < min(most) else None


def same_instructions(old: Mapping[str, EventRate], new: Mapping[str, EventRate], least: float) -> bool:
    """Returns whether two rows execute as many instructions for one operation, counted in one way: their ranges over
    the visits overlap, and the medians differ by at most `least`, as a share. A difference of their times is then due
    to the machine and not to the code."""
    before, after = old.get(INSTRUCTIONS), new.get(INSTRUCTIONS)
    if before is None or after is None or before.source != after.source or min(before.value, after.value) <= 0:
        return False
    overlap = before.low <= after.high and after.low <= before.high
    return overlap and abs(after.value / before.value - 1) <= least
