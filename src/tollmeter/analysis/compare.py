# SPDX-License-Identifier: Apache-2.0
"""Two runs of the same points: what changed, what did not, and what cannot be told.

A visit is one observation: the median of its samples. A row changed where three things agree: Welch's test on the logs
of the visits' medians, after Benjamini and Hochberg over the whole table; the Mann-Whitney test, which no outlier and
no shape of the noise misleads, but which five visits cannot bring below what a table of hundreds asks for; and an
effect that is at least as large as what matters. It is the same where the interval of the ratio lies within that. All
else cannot be told.

Where the control loop itself moved between the runs, the machine changed: no change is then attributed to the code.
Rows by clocks of different kinds are refused, never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Literal

from tollmeter.analysis.readings import as_unit, core_clock_hz, costs, reading
from tollmeter.analysis.rows import Key, by_point, counted, row_key, rows
from tollmeter.analysis.stats import Estimate, benjamini_hochberg, hodges_lehmann_ratio, mann_whitney, welch
from tollmeter.model import Metric, Outcome, Probe, Record, Row

FALSE_DISCOVERIES = 0.05
RANK_P = 0.05
UNCHANGED = ("same", "cannot tell")

Verdict = Literal["faster", "slower", "differs", "same", "cannot tell"]
Cause = Literal["code", "machine"]


class Change(Record, frozen=True):
    """One row in both runs. ratio: new over old in the metric's unit. adjusted: least false-discovery rate.

    verdict `differs` is for a metric of which neither more nor less is better. cause: None where nothing changed.
    """

    old: Row
    new: Row
    ratio: Estimate
    adjusted: float
    verdict: Verdict
    cause: Cause | None = None


class Refusal(Record, frozen=True):
    """A row that stands in either run and is not compared, and why."""

    key: Key
    reason: str


class Comparison(Record, frozen=True):
    """control: ratio of the control loop's rates, new over old; None where it was not measured in both."""

    changes: tuple[Change, ...]
    refused: tuple[Refusal, ...]
    control: Estimate | None
    machine_moved: bool


class _Side(Record, frozen=True):
    """One run: its rows, and the medians of the visits behind each, in the metric's unit."""

    rows: dict[Key, Row]
    medians: dict[Key, list[float]]


def compare(
    old_outcomes: Sequence[Outcome], new_outcomes: Sequence[Outcome], probes: Mapping[str, Probe], least: float = 0.01
) -> Comparison:
    """Compares all rows that both runs have a number for. least: relative change that matters, 0.01 is 1 %.

    Raises Failure (5) for visits of a probe that has no description.
    """
    old, new = _side(old_outcomes, probes), _side(new_outcomes, probes)
    refused = [
        Refusal(key=key, reason=why)
        for key in sorted(old.rows | new.rows, key=repr)
        if (why := _why_not(old, new, key))
    ]
    left_out = {refusal.key for refusal in refused}
    keys = [key for key in old.rows if key not in left_out]
    control = _control(old_outcomes, new_outcomes)
    moved = control is not None and _moved(control, least)
    medians = [(old.medians[key], new.medians[key]) for key in keys]
    adjusted = benjamini_hochberg([welch(before, after) for before, after in medians])
    told = zip(keys, medians, adjusted, strict=True)
    verdicts = [_verdict(new.rows[key], pair, share, least) for key, pair, share in told]
    changes = tuple(
        Change(
            old=old.rows[key], new=new.rows[key], ratio=hodges_lehmann_ratio(*pair), adjusted=share, verdict=verdict,
            cause=None if verdict in UNCHANGED else "machine" if moved else "code",
        )
        for key, pair, share, verdict in zip(keys, medians, adjusted, verdicts, strict=True)
    )  # fmt: skip
    return Comparison(changes=changes, refused=tuple(refused), control=control, machine_moved=moved)


def _side(outcomes: Sequence[Outcome], probes: Mapping[str, Probe]) -> _Side:
    table = {row_key(row): row for row in rows(outcomes, probes)}
    medians: dict[Key, list[float]] = {}
    for group in by_point(outcomes):
        probe, point = probes[group[0].point.probe], group[0].point
        for metric in probe.metrics:
            key: Key = (point.probe, point.abi, point.target, metric.name, tuple(sorted(point.parameters)))
            medians[key] = [value for outcome in group if (value := _visit_median(outcome, probe, metric)) is not None]
    return _Side(rows=table, medians=medians)


def _visit_median(outcome: Outcome, probe: Probe, metric: Metric) -> float | None:
    """In the metric's unit; None for a visit without a positive one, of which a ratio can be made."""
    if outcome.status != "ok":
        return None
    if metric.source == "gauge":
        return value if (value := outcome.gauges.get(metric.name, 0.0)) > 0 else None
    cost = costs(reading(outcome, probe), metric)
    middle = median(cost.tolist()) if cost is not None and len(cost) else 0.0
    shown = counted(metric) if outcome.clock.kind == "instructions" else metric
    return as_unit(middle, shown) if middle > 0 else None


def _why_not(old: _Side, new: _Side, key: Key) -> str | None:
    """Why a row is not compared; None where it is."""
    if key not in old.rows or key not in new.rows:
        return "measured in the new run only" if key in new.rows else "measured in the old run only"
    before, after = old.rows[key], new.rows[key]
    for row, run in ((before, "old"), (after, "new")):
        if row.status != "ok":
            return f"no number in the {run} run: {row.reason or row.status}"
    if before.clock != after.clock:
        return f"timed by clocks of different kinds: {before.clock} and {after.clock}"
    if before.unit != after.unit:
        return f"in different units: {before.unit} and {after.unit}"
    return None if old.medians[key] and new.medians[key] else "no visit with a positive value"


def _control(old_outcomes: Sequence[Outcome], new_outcomes: Sequence[Outcome]) -> Estimate | None:
    old, new = (
        [rate for outcome in side if outcome.clock.kind == "hardware" and (rate := core_clock_hz(outcome))]
        for side in (old_outcomes, new_outcomes)
    )
    return hodges_lehmann_ratio(old, new) if old and new else None


def _moved(control: Estimate, least: float) -> bool:
    """Surely, and by as much as would matter in a row."""
    return abs(control.value - 1) > least and not control.low <= 1 <= control.high


def _verdict(row: Row, medians: tuple[list[float], list[float]], adjusted: float, least: float) -> Verdict:
    ratio = hodges_lehmann_ratio(*medians)
    sure = adjusted <= FALSE_DISCOVERIES and mann_whitney(*medians) <= RANK_P
    if sure and abs(ratio.value - 1) > least:
        return _direction(row, ratio)
    return "same" if ratio.low >= 1 - least and ratio.high <= 1 + least else "cannot tell"


def _direction(row: Row, ratio: Estimate) -> Verdict:
    if row.better == "neither":
        return "differs"
    return "slower" if (ratio.value > 1) == (row.better == "less") else "faster"
