# SPDX-License-Identifier: Apache-2.0
"""Judges convergence: whether a point has converged, which sizes a curve lacks, how many points of a run have
converged, and which budget lets the others converge. A run asks between its rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, inf, log
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.core import clocks_of, contended_ns
from tollmeter.experiment.limits import ALIKE, CLEARLY, FEW, LEAST_FOR_SCATTER, LEAST_VISITS
from tollmeter.experiment.precision import is_limited, is_of_runs, visits_for
from tollmeter.experiment.taken import Taken, chunks
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Metric, Outcome, Point, Probe, Row, assignments
from tollmeter.numbers.counted import contradicted
from tollmeter.numbers.known import Known
from tollmeter.numbers.meanings import ACCOUNTS, WORST
from tollmeter.numbers.row_of import PointReadings, gauge_row, has_converged, metric_estimates
from tollmeter.numbers.rows import usable_visits
from tollmeter.numbers.series import Series
from tollmeter.numbers.units import span

MOST_FOR_UNCONTENDED = 2 * LEAST_FOR_SCATTER
"""Highest number of visits by which a point tries to measure its cost on an uncontended core. Without this limit some
points had 64 visits in a default run, while other points lacked three."""
MOST_ADDED, OF_A_GAP = 12, 3
"""Largest number of values that one review adds to a sweep, and to one gap of it."""
OF_TRAFFIC = 1 / MOST_ADDED
"""Largest step between neighbours of a curve of latency over traffic, as a share of the highest traffic. A step in
latency is at most a ratio of 1.25."""
_FLAT_TIMES = 8
"""Ratio of sizes over which a flat curve counts as complete: three doublings, since the hit rate of a cache falls over
two doublings beyond its capacity."""
NEVER_A_NUMBER = ("unsupported", "wrong_answer")


def visits_wanted(
    outcomes: Sequence[Outcome], probe: Probe, known: Known = Known(), *, by_scatter: bool = False
) -> float:
    """Returns the total number of visits that a point needs for its metrics. The present number suffices if the point
    has converged, or if a count contradicts the declared work, which no further visit corrects.

    The first metric counts, and each metric with a meaning or a line in the toll table, except the kernel's accounts of
    the process, which are as precise as the time. by_scatter: returns the number that may be promised to a user,
    infinite if no number gives the precision. By default returns the number after which convergence is judged again, or
    at which between-run variance dominates the interval."""
    visited = usable_visits(outcomes, probe, known) if outcomes else None
    if not isinstance(visited, PointReadings):
        return len(outcomes) + (0 if contradicted(outcomes, probe) else LEAST_VISITS)
    judged_metrics = [
        metric
        for place, metric in enumerate(probe.metrics)
        if not place or metric.toll or (metric.means and metric.means not in (*ACCOUNTS, WORST))
    ]
    return max(
        (_visits_for_metric(visited, metric, known, by_scatter=by_scatter) for metric in judged_metrics), default=0.0
    )


def is_counted_out(outcomes: Sequence[Outcome], probe: Probe) -> bool:
    """Returns whether one visit suffices for a point, since a count has no noise: instructions of an emulator, or a
    guest whose clock counts if the probe has the kernel's accounts, which repeat, or runs on a bare board, where
    nothing else runs (numbers.row_of.is_counted)."""
    kinds = {outcome.clock.kind for outcome in outcomes if outcome.status == "ok"}
    repeats = any(metric.means == "resident-peak" for metric in probe.metrics) or any(
        outcome.point.target.startswith("bare:") for outcome in outcomes
    )
    return "instructions" in kinds or ("virtual" in kinds and repeats)


def _visits_for_metric(visited: PointReadings, metric: Metric, known: Known, *, by_scatter: bool) -> float:
    """Returns the total number of visits that a metric needs. A refused number may be sound after twice the visits."""
    visits = len(visited.readings)
    if metric.source == "gauge":
        return _visits_for_gauge(visits, gauge_row(visited, metric, known), known, by_scatter=by_scatter)
    estimates = metric_estimates(visited, metric, known)
    if estimates.complaint or not estimates.by_mode:
        return visits + max(LEAST_VISITS, visits)
    head = estimates.by_mode[0]
    if has_converged(head.estimate, head.part.layouts, known.precision):
        return visits
    visits_in_state, low, high = len(head.part.counts), head.estimate.low, head.estimate.high
    half = log(high / low) / 2 if low > 0 else head.estimate.share_half_width()
    needed = visits_for(known.precision, visits_in_state, head.estimate.error or half / NORMAL, head.scatter)
    uncontended = _visits_for_uncontended(estimates.series, visited)
    limited = is_limited(known.precision, head.scatter.runs_sd)
    if limited and (by_scatter or uncontended < inf):
        needed = inf  # the cost on an uncontended core may have another limit
    if by_scatter:
        return max(visits + 1, min(visits / visits_in_state * needed, uncontended))
    if (
        limited
        and is_of_runs(half, head.scatter.runs_sd)
        and (uncontended == inf or visits_in_state >= MOST_FOR_UNCONTENDED)
    ):
        return max(visits, LEAST_VISITS)  # in a first run the usual variance of a shared cache exceeds that of visits
    if visits_in_state < LEAST_FOR_SCATTER < needed < inf:
        # Raised slowly for few visits, whose scatter a single outlier may dominate.
        needed = LEAST_FOR_SCATTER * (needed / LEAST_FOR_SCATTER) ** (visits_in_state / LEAST_FOR_SCATTER)
    return max(visits + 1, min(visits / visits_in_state * needed, uncontended))


def _visits_for_gauge(visits: int, row: Row, known: Known, *, by_scatter: bool) -> float:
    """Returns the total number of visits that a gauge needs. visits: number of visits so far."""
    if row.converged or row.status != "ok":
        return visits
    runs_sd = row.runs_sd or 0.0
    if not is_limited(known.precision, runs_sd):
        return visits + LEAST_VISITS
    half = log(row.high / row.low) / 2 if row.low and row.high else inf
    return inf if by_scatter else visits + (0 if is_of_runs(half, runs_sd) else LEAST_VISITS)


def _visits_for_uncontended(series: Series | None, visited: PointReadings) -> float:
    """Returns the total number of visits after which three, and one more, are expected to have measured the uncontended
    core, at the present frequency of such visits. The cost on an uncontended core scatters far less than the mixture.
    Infinite if this cost is already measured, or if the core's state was not."""
    if series is None or series.state is None or "uncontended" in series.parts:
        return inf
    visits = len(visited.readings)
    uncontended = sum(bool((read.states == "uncontended").any()) for read in visited.readings)
    return visits + max(1, LEAST_VISITS + 1 - uncontended) * (visits + 2) / (uncontended + 1)


def refine(
    values: Sequence[tuple[int, float]],
    grid: Sequence[int],
    intervals: Mapping[int, tuple[float, float]] = MappingProxyType({}),
) -> list[int]:
    """Returns values of the grid to add to a sweep, in ascending order: at most MOST_ADDED in its gaps, none where the
    curve is straight in log-log, and the next value beyond the sweep, until the cost has changed by less than 10 % over
    three doublings.

    A gap between two neighbours gets values if the cost changes by 10 % across it and the curve bends by 10 % at its
    ends. A bend is the second difference of log cost over log value, times the shorter side: the error of a straight
    continuation. The strongest bend comes first. A gap is divided by four and not by two, since a run has few rounds.
    If the interval of each end contains the cost of the other end, the change may be scatter, as in a cache that other
    guests use, and the gap is not refined. values: pairs (value, median). intervals: intervals of the medians, by
    value."""
    points = sorted((value, median) for value, median in values if value > 0 and median > 0)
    logs = [(log(value), log(median)) for value, median in points]
    bends = {}
    for place, ((x0, y0), (x1, y1), (x2, y2)) in enumerate(zip(logs, logs[1:], logs[2:], strict=False), 1):
        bends[place] = abs((y2 - y1) / (x2 - x1) - (y1 - y0) / (x1 - x0)) * min(x1 - x0, x2 - x1)
    scored = []
    for gap in range(len(points) - 1):
        (low, before), (high, after) = points[gap : gap + 2]
        # The sharper bend of the gap's two ends. An end of the sweep has none, so two points alone are always refined.
        sharper = max((bends[end] for end in (gap, gap + 1) if end in bends), default=inf)
        bend = min(sharper, abs(log(after / before)))
        if bend > ALIKE and not (_holds(intervals.get(low), after) and _holds(intervals.get(high), before)):
            inside = [value for value in grid if low < value < high]
            if len(inside) > OF_A_GAP:
                cuts = ((len(inside) + 1) * part // (OF_A_GAP + 1) for part in range(1, OF_A_GAP + 1))
                inside = [inside[cut - 1] for cut in cuts]
            scored.append((bend, inside))
    added = [value for _, inside in sorted(scored, reverse=True) for value in inside]
    return sorted(added[:MOST_ADDED]) + _further(points, grid)


def _holds(interval: tuple[float, float] | None, value: float) -> bool:
    """Returns whether there is an interval, and it contains the value."""
    return interval is not None and interval[0] <= value <= interval[1]


def refine_load(points: Sequence[tuple[int, float, float]], grid: Sequence[int]) -> list[int]:
    """Returns values of the grid to add to a curve of latency over traffic, in ascending order: the middle value of
    each gap across which the traffic changes by more than a twelfth of the highest, or the latency by more than a
    quarter; the widest gaps first, at most MOST_ADDED. Equal steps of the pace would crowd where memory is idle and
    where it is saturated.

    points: (pace, latency, traffic)."""
    ordered = sorted(point for point in points if min(point[1:]) > 0)
    most_traffic = max((traffic for _, _, traffic in ordered), default=0.0)
    halved = []
    for (low, before, traffic_before), (high, after, traffic_after) in pairwise(ordered):
        inside = [value for value in grid if low < value < high]
        width = max(
            abs(traffic_before - traffic_after) / most_traffic / OF_TRAFFIC, abs(log(after / before)) / log(1 + CLEARLY)
        )
        if inside and width > 1:
            halved.append((width, inside[len(inside) // 2]))
    return sorted(value for _, value in sorted(halved, reverse=True)[:MOST_ADDED])


def _further(points: Sequence[tuple[int, float]], grid: Sequence[int]) -> list[int]:
    """Returns the next value of the grid beyond the last point; none if the curve has become flat. A cache that the
    system does not report raises the latency beyond the planned end of the sweep."""
    ahead = [value for value in grid if points and value > points[-1][0]]
    tail = [median for value, median in points if value * _FLAT_TIMES >= points[-1][0]]
    return ahead[:1] if ahead and abs(log(tail[-1] / tail[0])) > ALIKE else []


# ---- how much of a run has converged ---------------------------------------------------------------------------------

MINUTE_S, HOUR_S = 60, 3600
BUDGETS_S = tuple(
    budget for step, end in pairwise((10, MINUTE_S, 10 * MINUTE_S, HOUR_S + 1)) for budget in range(step, end, step)
)
"""Budgets in seconds that a user is likely to type, in steps of ten seconds, of a minute and of ten minutes. A
suggested budget is one of these."""
LIMITED = (
    "a longer budget would not narrow them, since runs of this machine differ by as much; --against compares two "
    "points in one run"
)


class Settlement(NamedTuple):
    """The convergence of a run. points: number of points that can have a number. converged: number of these that
    converged to the precision. timed_share: share of wall time in timed batches. contended_share: share of timed
    batches beside a busy sibling; None if unknown. open_s: wall time in seconds that each other point still needs,
    ascending; infinite if between-run variance is wider than the precision."""

    points: int
    converged: int
    timed_share: float
    contended_share: float | None
    open_s: tuple[float, ...]

    @property
    def limited(self) -> int:
        """Returns the number of open points whose interval no further visit narrows, since between-run variance is
        wider than the precision."""
        return self.open_s.count(inf)


Missing = Sequence[tuple[Sequence[Outcome], float]]
"""The visits of each point that can have a number, with the number of further visits that it needs."""


def settlement(outcomes: Sequence[Outcome], missing: Missing, known: Known, seconds: float) -> Settlement:
    """Returns the convergence of a run. seconds: wall time of the measuring."""
    of_points, contended_share = _timed_and_contended(outcomes, known)
    timed_s = sum(of_points.values()) / 1e9
    overhead = seconds / timed_s if timed_s else 1.0
    open_s = sorted(
        visits * (of_points[group[0].point] / 1e9 / len(group)) * overhead for group, visits in missing if visits > 0
    )
    share = min(1.0, timed_s / seconds) if seconds > 0 else 0.0
    return Settlement(len(missing), len(missing) - len(open_s), share, contended_share, tuple(open_s))


def missing_visits(groups: Iterable[Sequence[Outcome]], probes: Mapping[str, Probe], known: Known) -> Missing:
    """Returns the visits of each point that can have a number, with the number of further visits that it needs. groups:
    visits of each point."""
    lacking = []
    for group in groups:
        probe = probes[group[0].point.probe]
        if not any(outcome.status in NEVER_A_NUMBER for outcome in group) and not contradicted(group, probe):
            is_enough = is_counted_out(group, probe)
            further = 0.0 if is_enough else visits_wanted(group, probe, known, by_scatter=True) - len(group)
            lacking.append((group, further))
    return lacking


def _timed_and_contended(outcomes: Sequence[Outcome], known: Known) -> tuple[dict[Point, float], float | None]:
    """Returns the ns in timed batches by point, and the share of all these ns in which the core was contended; None if
    unknown."""
    timed_ns: dict[Point, float] = defaultdict(float)
    contended_total_ns = known_total_ns = 0.0
    for chunk in chunks(outcomes):
        taken = Taken(outcome.samples for outcome in chunk)
        widths = np.array([known.widths.get((outcome.point.target, outcome.point.abi), 0.0) for outcome in chunk])
        busy_ns, seen_ns = contended_ns(taken, clocks_of(taken, chunk), widths)
        ends = np.concatenate([[0.0], np.cumsum(taken.timed_ns())])[taken.starts]
        for outcome, spent_ns in zip(chunk, np.diff(ends).tolist(), strict=True):
            timed_ns[outcome.point] += spent_ns
        contended_total_ns, known_total_ns = contended_total_ns + busy_ns, known_total_ns + seen_ns
    return timed_ns, contended_total_ns / known_total_ns if known_total_ns else None


def convergence_sentence(summary: Settlement, rows: Sequence[Row], precision: float, seconds: float) -> str:
    """Returns a sentence with the number of converged points, the row with the widest interval, and a way to narrow it.
    seconds: wall time of the measuring."""

    def relative_width(row: Row) -> float:
        assert row.median and row.low is not None and row.high is not None
        return (row.high - row.low) / abs(row.median)

    text = f"{summary.converged} of {summary.points} points within {100 * precision:g} %"
    known = [row for row in rows if row.status == "ok" and row.median and row.low]  # without rows that may be zero
    worst = max(known, key=relative_width, default=None)
    if summary.converged == summary.points or worst is None:
        return text
    assert worst.low is not None and worst.high is not None
    text += f"; worst: {_name(worst)}, {span(worst.low, worst.high, worst.unit)}"
    advice = _advice(summary, seconds)
    return f"{text}; {advice}" if advice else text


def _advice(summary: Settlement, seconds: float) -> str:
    """Returns a longer budget that lets more points converge, or the statement that none would; empty if there is
    nothing to advise."""
    if summary.open_s and summary.limited == len(summary.open_s):
        return LIMITED
    budget, settled = budget_for_most(summary, seconds)
    return f"--budget {budget_text(budget)} would let {settled} converge" if budget else ""


def budget_for_most(summary: Settlement, seconds: float) -> tuple[int, int]:
    """Returns the shortest usual budget above `seconds` with which nine tenths of all points that any usual budget lets
    converge do so, and the number of converged points; zeros if no budget lets more points converge."""
    reach = {budget: summary.converged + _settled_in(summary.open_s, budget - seconds) for budget in BUDGETS_S}
    longer = [budget for budget in BUDGETS_S if budget > seconds and reach[budget] > summary.converged]
    most = max((reach[budget] for budget in longer), default=0)
    enough = (budget for budget in longer if most - reach[budget] <= FEW * summary.points)
    return next(((budget, reach[budget]) for budget in enough), (0, 0))


def budget_beyond(budget_s: float, seconds: float) -> float:
    """Returns the shortest usual budget in seconds above `budget_s` that is at least `seconds`; whole hours beyond all
    usual ones."""
    candidates = (budget for budget in BUDGETS_S if budget > budget_s and budget >= seconds)
    return float(next(candidates, HOUR_S * ceil(max(seconds, budget_s + 1) / HOUR_S)))


def budget_text(seconds: int) -> str:
    """Returns a number of seconds in the form that --budget takes."""
    if seconds % HOUR_S == 0:
        return f"{seconds // HOUR_S}h"
    return f"{seconds // MINUTE_S}m" if seconds % MINUTE_S == 0 else f"{seconds}s"


def _settled_in(open_s: Sequence[float], left_s: float) -> int:
    """Returns the number of open points that converge in left_s seconds, the cheapest first."""
    for count, cost in enumerate(open_s):
        left_s -= cost
        if left_s < 0 or cost == inf:
            return count
    return len(open_s)


def _name(row: Row) -> str:
    """Returns the name of a row in a sentence: probe, parameters and ABI."""
    return " ".join([row.probe, *assignments(row.parameters.items()), row.abi])
