# SPDX-License-Identifier: Apache-2.0
"""Outcomes into rows: one row for each metric at each point.

* A wrong answer in any visit of a point takes the number from all of its rows: what computes wrongly once may have
  measured wrongly each time.
* Where some visits of a point came back and others did not, the number is made of those that did, and the row's
  reason names what is missing.
* Where none came back, the row has the status of the gravest visit and its reason.
* A number that breaks physics is refused: status `unstable`, the broken rule as reason, no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

import msgspec
import numpy as np

from tollmeter.analysis.plausible import judged
from tollmeter.analysis.readings import RATES, Reading, as_unit, core_clock_hz, costs, least_cost, reading
from tollmeter.analysis.stats import Array, Estimate, median_of_visits, modes, quartiles
from tollmeter.model import Failure, Metric, Outcome, Point, Probe, Row, Status, Value

GRAVEST_FIRST: tuple[Status, ...] = (
    "wrong_answer", "failed", "timeout", "infrastructure", "interrupted", "unsupported", "unstable",
)  # fmt: skip
LEAST_SAMPLES = 2
EMULATED = ("instructions", "virtual")

Key = tuple[str, str, str, str, tuple[tuple[str, Value], ...]]


def rows(outcomes: Sequence[Outcome], probes: Mapping[str, Probe]) -> tuple[Row, ...]:
    """All rows, ordered by probe, parameters (numbers as numbers), target, ABI, and the probe's order of metrics.

    Raises Failure (5) for a visit of a probe that has no description.
    """
    made = [row for group in by_point(outcomes) for row in rows_of_point(group, _described(group[0].point, probes))]
    return judged(made, probes, core_clocks_hz(outcomes))


def row_key(row: Row) -> Key:
    """What a row stands for, whichever run it is from: probe, ABI, target, metric, parameters by name."""
    return row.probe, row.abi, row.target, row.metric, tuple(sorted(row.parameters.items()))


def by_point(outcomes: Iterable[Outcome]) -> list[list[Outcome]]:
    """Outcomes of one point together, points and the visits of each in a fixed order."""
    groups: dict[Point, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.point, []).append(outcome)
    ordered = sorted(groups.items(), key=lambda item: _place(item[0]))
    return [sorted(group, key=lambda outcome: outcome.visit) for _, group in ordered]


def core_clocks_hz(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Core clock of each target: median over its visits by the hardware's clock."""
    rates: dict[str, list[float]] = {}
    for outcome in outcomes:
        rate = core_clock_hz(outcome)
        if rate is not None and outcome.status == "ok" and outcome.clock.kind == "hardware":
            rates.setdefault(outcome.point.target, []).append(rate)
    return {target: median(seen) for target, seen in rates.items()}


def rows_of_point(outcomes: Sequence[Outcome], probe: Probe) -> list[Row]:
    """The rows of one point, one for each metric; outcomes are all of that point and at least one."""
    good = [outcome for outcome in outcomes if outcome.status == "ok"]
    if len({outcome.clock.kind for outcome in good}) > 1:
        return _refused(outcomes, probe, "unstable", "its visits were timed by clocks of different kinds")
    missing = [outcome for outcome in outcomes if outcome.status != "ok"]
    if not good or any(outcome.status == "wrong_answer" for outcome in missing):
        gravest = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
        return _refused(outcomes, probe, gravest.status, gravest.reason or f"{gravest.status}, without a reason")
    readings = [reading(outcome, probe) for outcome in good]
    return [_row(readings, probe, metric, _missing_note(outcomes, missing)) for metric in probe.metrics]


def _described(point: Point, probes: Mapping[str, Probe]) -> Probe:
    if point.probe not in probes:
        raise Failure(f"there are visits of {point.probe} but no description of it", 5)
    return probes[point.probe]


def _place(point: Point) -> tuple[object, ...]:
    numbers_first = tuple((name, isinstance(value, str), value) for name, value in sorted(point.parameters))
    return point.probe, numbers_first, point.target, point.abi


def _missing_note(outcomes: Sequence[Outcome], missing: Sequence[Outcome]) -> str | None:
    if not missing:
        return None
    worst = min(missing, key=lambda outcome: GRAVEST_FIRST.index(outcome.status))
    return f"{len(missing)} of {len(outcomes)} visits gave nothing: {worst.reason or worst.status}"


def _refused(outcomes: Sequence[Outcome], probe: Probe, status: Status, reason: str) -> list[Row]:
    return [_bare(outcomes[0], probe, metric, status, reason) for metric in probe.metrics]


def _bare(outcome: Outcome, probe: Probe, metric: Metric, status: Status, reason: str | None, **more: object) -> Row:
    point = outcome.point
    return Row(
        probe=probe.probe, revision=probe.revision, abi=point.abi, target=point.target, clock=outcome.clock.kind,
        parameters=point.values(), metric=metric.name, unit=metric.unit, better=metric.better,
        status=status, reason=reason, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def _row(readings: Sequence[Reading], probe: Probe, asked: Metric, note: str | None) -> Row:
    if asked.source == "gauge":
        return _gauge_row(readings, probe, asked, note)
    clock = readings[0].outcome.clock.kind
    if asked.unit == "cycle" and clock in EMULATED:
        return _bare(readings[0].outcome, probe, asked, "unsupported", "an emulator counts instructions, and no cycles")
    metric = counted(asked) if clock == "instructions" else asked
    series = [(read, cost) for read in readings if (cost := costs(read, asked)) is not None]
    counts = {
        "visits": len(series),
        "samples": sum(len(cost) for _, cost in series),
        "set_aside": sum(len(read.set_aside) for read in readings),
    }
    first = readings[0].outcome
    complaint = _too_little(readings, asked, counts["samples"])
    if complaint:
        return _bare(first, probe, metric, "unstable", complaint, **counts)
    visits = [cost for _, cost in series]
    estimate = median_of_visits([visit.tolist() for visit in visits])
    complaint = _breaks_physics(estimate, metric)
    if complaint:
        return _bare(first, probe, metric, "unstable", complaint, **counts)
    least = [least_cost(read, asked) for read, _ in series]
    return _bare(first, probe, metric, "ok", note, **_numbers(estimate, visits, least, metric), **counts)


def counted(metric: Metric) -> Metric:
    """The same metric where the clock counts instructions: what one operation costs of them, and for a rate what one
    of its units costs, since there is no second that it could be divided by.
    """
    return msgspec.structs.replace(metric, unit="instruction", better="less")


def _too_little(readings: Sequence[Reading], metric: Metric, samples: int) -> str | None:
    """Why there is no estimate, if so."""
    if samples >= LEAST_SAMPLES:
        return None
    aside = Counter(why for read in readings for why in read.set_aside)
    if aside:
        why, _ = aside.most_common(1)[0]
        return f"{samples} usable samples: {aside.total()} set aside, most for this: {why}"
    usable = sum(len(read.iterations) for read in readings)
    if usable < LEAST_SAMPLES:
        return f"{usable} usable samples"
    needs = {"control": "a control", "difference": "a control", "companions": "companions", "together": "companions"}
    part = needs.get(metric.source) or ("the core clock" if metric.unit == "cycle" else f"work in {metric.unit[:-2]}")
    return f"the visits carry nothing of what it is made of: {part}"


def _breaks_physics(estimate: Estimate, metric: Metric) -> str | None:
    """Nothing takes no time, and a part takes no longer than the whole."""
    if estimate.value > 0:
        lost = estimate.low <= 0 and metric.source != "difference"
        return f"its time is not told from nothing: {_reach(estimate, metric)}" if lost else None
    if metric.source != "difference":
        return f"twice the work took no longer: {estimate.value:.3g} {_cost_unit(metric)} for one"
    if estimate.high < 0:
        return f"the control took longer than the whole, by {-estimate.value:.3g} {_cost_unit(metric)}"
    return f"not told from nothing: at most {estimate.high:.3g} {_cost_unit(metric)}"


def _reach(estimate: Estimate, metric: Metric) -> str:
    return f"{estimate.low:.3g} to {estimate.high:.3g} {_cost_unit(metric)}"


def _cost_unit(metric: Metric) -> str:
    return "ns" if metric.unit in RATES else metric.unit


def _numbers(estimate: Estimate, visits: Sequence[Array], least: Sequence[float], metric: Metric) -> dict[str, object]:
    """The estimate in the metric's unit. For a rate the ends change places, and so does what `least` means:
    the minimum is the lowest of the visits' undisturbed rates. No minimum is above the median."""
    pooled = np.concatenate(visits)
    found = modes([visit.tolist() for visit in visits])
    ends = (estimate.low, estimate.high)
    if metric.unit not in RATES:
        low, high = ends
        lowest = min((cost for cost in least if cost > 0), default=estimate.value)
    else:
        high, low = (as_unit(end, metric) for end in ends)
        lowest = as_unit(max(*least, estimate.value), metric)
        pooled = as_rates(pooled)
        found = tuple(as_unit(mode, metric) for mode in reversed(found))
    value = as_unit(estimate.value, metric)
    return {
        "median": value, "low": low, "high": high, "minimum": min(lowest, value),
        "quartiles": quartiles(pooled.tolist()), "modes": found,
    }  # fmt: skip


def as_rates(cost: Array) -> Array:
    """Costs in ns as rates a second; a sample without a positive cost has no rate and is left out."""
    return np.asarray(1e9 / cost[cost > 0])


def _gauge_row(readings: Sequence[Reading], probe: Probe, metric: Metric, note: str | None) -> Row:
    """A gauge has one value a visit, given by the probe itself."""
    first = readings[0].outcome
    values = [read.outcome.gauges[metric.name] for read in readings if metric.name in read.outcome.gauges]
    finite = [value for value in values if np.isfinite(value)]
    if not finite:
        return _bare(first, probe, metric, "unstable", "the probe gave no value")
    estimate = median_of_visits([[value] for value in finite])
    return _bare(
        first, probe, metric, "ok", note, median=estimate.value, low=estimate.low, high=estimate.high,
        minimum=min(finite), quartiles=quartiles(finite), modes=modes([[value] for value in finite]),
        visits=len(finite), samples=len(finite),
    )  # fmt: skip
