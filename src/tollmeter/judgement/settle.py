# SPDX-License-Identifier: Apache-2.0
"""What the conductor asks between rounds: is a point known well enough, and where does a curve want more points?"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

from tollmeter.experiment.precision import LEAST_VISITS, is_of_runs, visits_for
from tollmeter.model import Metric, Outcome, Probe
from tollmeter.numbers.gauges import gauge_row
from tollmeter.numbers.known import Known
from tollmeter.numbers.meanings import ACCOUNTS
from tollmeter.numbers.row_of import Told, is_known, speech
from tollmeter.numbers.rows import usable_visits
from tollmeter.numbers.series import Series

TELLING = 6
"""Visits from which a point's scatter can be estimated. Of three, one outlier is in two of the three pairs that give
the scatter, and such a point seems to need hundreds; and fewer cannot be bimodal (two_states.py)."""
BENT = 0.1
MOST_ADDED, OF_A_GAP = 12, 3
NEVER_A_NUMBER = ("unsupported", "wrong_answer")


def visits_wanted(outcomes: Sequence[Outcome], probe: Probe, known: Known = Known(), *, sober: bool = False) -> float:
    """Visits that all of the point's metrics want: as many as there are where these suffice, infinite where no number
    would. Of a metric that others are derived from: the first, and each with a meaning or a line in the toll table; but
    not the system's accounts of the process, which are shown beside a time and are as precise. sober: by their scatter
    alone, which may be promised; without, by what the next visits may show, which is nothing where between-run variance
    makes up the interval."""
    visited = usable_visits(outcomes, probe, known) if outcomes else None
    if not isinstance(visited, Told):
        return len(outcomes) + LEAST_VISITS
    used = [metric for place, metric in enumerate(probe.metrics) if not place or _is_used(metric)]
    return max((_wanted(visited, metric, known, sober=sober) for metric in used), default=0.0)


def is_counted_out(outcomes: Sequence[Outcome], probe: Probe) -> bool:
    """Whether one visit is enough: a count has no noise. In a guest whose clock counts too, a program runs for the
    kernel's accounting, which repeats (numbers.row_of.is_counted)."""
    kinds = {outcome.clock.kind for outcome in outcomes if outcome.status == "ok"}
    accounted = any(metric.means == "resident-peak" for metric in probe.metrics)
    return "instructions" in kinds or ("virtual" in kinds and accounted)


def _is_used(metric: Metric) -> bool:
    return bool(metric.toll or (metric.means and metric.means not in ACCOUNTS))


def _wanted(visited: Told, metric: Metric, known: Known, *, sober: bool) -> float:
    """A number that physics refused may be sound after as many visits again."""
    visits = len(visited.readings)
    if metric.source == "gauge":
        row = gauge_row(visited, metric, known)
        return visits if row.settled or row.status != "ok" else visits + LEAST_VISITS
    stated = speech(visited, metric, known)
    if stated.complaint or not stated.said:
        return visits + max(LEAST_VISITS, visits)
    head = stated.said[0]
    seen = len(head.part.counts)
    if is_known(head.estimate, head.part.layouts, known.precision):
        return visits
    half = log(head.estimate.high / head.estimate.low) / 2 if head.estimate.low > 0 else head.estimate.half_width()
    wanted = visits_for(known.precision, seen, half, head.scatter)
    if wanted == inf and not sober and seen >= TELLING and is_of_runs(half, head.scatter):
        return visits
    if sober:
        return max(visits + 1, visits / seen * wanted)
    return max(
        visits + 1, min(visits / seen * _believed(wanted, seen), _visits_for_uncontended(stated.series, visited))
    )


def _believed(wanted: float, seen: int) -> float:
    """The visits wanted, limited for few visits of one state: one outlier among them may be an outlier or the point
    itself."""
    return TELLING * (wanted / TELLING) ** (seen / TELLING) if seen < TELLING < wanted < inf else wanted


def _visits_for_uncontended(series: Series | None, visited: Told) -> float:
    """Visits of a mixture until the whole core was seen in three of them and one more, by how often it was: its cost
    there scatters by far less. Infinite where it was, or the core's state was not measured."""
    if series is None or series.state is None or "whole" in series.parts:
        return inf
    visits = len(visited.readings)
    seen = sum(bool((read.states == "whole").any()) for read in visited.readings)
    return visits + max(1, LEAST_VISITS + 1 - seen) * (visits + 2) / (seen + 1)


def refine(values: Sequence[tuple[int, float]], grid: Sequence[int]) -> list[int]:
    """Values of the grid to add to a sweep, at most twelve, ordered; none where the curve is straight in log-log.

    A gap between two neighbours gets points where the value changes across it and the curve bends at its ends, both by
    10 % and more: by the second difference of log value over log parameter times the shorter side, which is the error
    of a straight continuation. The strongest bend comes first. A gap is quartered, not halved, since a run has few
    rounds. values: (parameter, median)."""
    points = sorted((value, median) for value, median in values if value > 0 and median > 0)
    scored = []
    for gap in range(len(points) - 1):
        (low, before), (high, after) = points[gap : gap + 2]
        bend = min(_bend(points, gap), abs(log(after / before)))
        if bend > BENT:
            scored.append((bend, _quarters([value for value in grid if low < value < high])))
    added = [value for _, inside in sorted(scored, reverse=True) for value in inside]
    return sorted(added[:MOST_ADDED])


def _quarters(inside: Sequence[int]) -> list[int]:
    """Where a gap's values of the grid are cut into four, or all of them."""
    if len(inside) <= OF_A_GAP:
        return list(inside)
    return [inside[(len(inside) + 1) * part // (OF_A_GAP + 1) - 1] for part in range(1, OF_A_GAP + 1)]


def _bend(points: Sequence[tuple[int, float]], gap: int) -> float:
    """The sharper bend of a gap's two ends; an end of the sweep has none. Of two points alone anything may be true."""
    ends = [_second_difference(points, end) for end in (gap, gap + 1) if 0 < end < len(points) - 1]
    return max(ends, default=inf)


def _second_difference(points: Sequence[tuple[int, float]], place: int) -> float:
    (x0, y0), (x1, y1), (x2, y2) = ((log(x), log(y)) for x, y in points[place - 1 : place + 2])
    before, after = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
    return abs(after - before) * min(x1 - x0, x2 - x1)
