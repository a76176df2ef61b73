# SPDX-License-Identifier: Apache-2.0
"""How much of a run has converged, its widest rows, and what would narrow them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.core_clock import clocks_of
from tollmeter.experiment.core_states import contended_ns
from tollmeter.experiment.taken import Taken, parts
from tollmeter.judgement.settle import NEVER_A_NUMBER, is_counted_out, visits_wanted
from tollmeter.model import Outcome, Point, Probe, Row
from tollmeter.numbers.known import Known
from tollmeter.numbers.units import span

BUDGETS_S = (60, 90, 120, 180, 240, 300, 450, 600, 900, 1200, 1800, 3600)
_SHORT_BUDGETS_S = (10, 20, 30, 40, 50)
_WORTH_NAMING = 0.1
LIMITED = (
    "no longer budget narrows them, since runs of this machine differ by as much: --against compares two points inside "
    "one run"
)


class Settlement(NamedTuple):
    """points: that can have a number; settled: of these, converged to the precision. timed_share: of wall time, in
    timed batches. shared_share: of the time in them, beside a busy sibling; None where it is not known. open_s:
    wall time that each open point still wants, the least first; infinite where between-run variance is wider."""

    points: int
    settled: int
    timed_share: float
    shared_share: float | None
    open_s: tuple[float, ...]

    @property
    def limited(self) -> int:
        """Open points that no further visit makes narrower: runs of this machine differ by more."""
        return self.open_s.count(inf)


Missing = Sequence[tuple[Sequence[Outcome], float]]
"""The visits of each point that can have a number, and how many more it wants."""


def settlement(outcomes: Sequence[Outcome], missing: Missing, known: Known, seconds: float) -> Settlement:
    still = [(group, more) for group, more in missing if more > 0]
    of_points, shared = _timed_and_shared(outcomes, known)
    timed_s = sum(of_points.values()) / 1e9
    overhead = seconds / timed_s if timed_s else 1.0
    each_s = [of_points[group[0].point] / 1e9 / len(group) for group, _ in still]
    open_s = sorted(visits * cost * overhead for (_, visits), cost in zip(still, each_s, strict=True))
    share = min(1.0, timed_s / seconds) if seconds > 0 else 0.0
    return Settlement(len(missing), len(missing) - len(still), share, shared, tuple(open_s))


def missing(groups: Iterable[Sequence[Outcome]], probes: Mapping[str, Probe], known: Known) -> Missing:
    """groups: the visits of each point."""
    able = [group for group in groups if not any(outcome.status in NEVER_A_NUMBER for outcome in group)]
    return [(group, _missing(group, probes[group[0].point.probe], known)) for group in able]


def _missing(group: Sequence[Outcome], probe: Probe, known: Known) -> float:
    """Visits; none for a count."""
    return 0.0 if is_counted_out(group, probe) else visits_wanted(group, probe, known, sober=True) - len(group)


def _timed_and_shared(outcomes: Sequence[Outcome], known: Known) -> tuple[dict[Point, float], float | None]:
    """Nanoseconds in timed batches, by point; and for which share of them, where it is known, the sibling hyperthread
    was busy."""
    timed_ns: dict[Point, float] = defaultdict(float)
    contended = seen = 0.0
    for some in parts(outcomes):
        taken = Taken(outcome.samples for outcome in some)
        widths = np.array([known.widths.get((outcome.point.target, outcome.point.abi), 0.0) for outcome in some])
        busy_ns, seen_ns = contended_ns(taken, clocks_of(taken, some), widths)
        ends = np.concatenate([[0.0], np.cumsum(taken.timed_ns())])[taken.starts]
        for outcome, spent_ns in zip(some, np.diff(ends).tolist(), strict=True):
            timed_ns[outcome.point] += spent_ns
        contended, seen = contended + busy_ns, seen + seen_ns
    return timed_ns, contended / seen if seen else None


def sentence(summary: Settlement, rows: Sequence[Row], precision: float, seconds: float) -> str:
    """How many points have converged, the widest row, and what would narrow it."""
    said = f"{summary.settled} of {summary.points} points within {100 * precision:g} %"
    worst = max((row for row in rows if row.status == "ok" and row.median), key=_half, default=None)
    if summary.settled == summary.points or worst is None:
        return said
    assert worst.low is not None and worst.high is not None
    said += f"; worst: {_name(worst)}, {span(worst.low, worst.high, worst.unit)}"
    mend = _advice(summary, seconds)
    return f"{said}; {mend}" if mend else said


def _advice(summary: Settlement, seconds: float) -> str:
    """The shortest usual budget that settles all but a tenth of what any would; or more runs, where no budget does."""
    if summary.open_s and summary.limited == len(summary.open_s):
        return LIMITED
    reach = {budget: summary.settled + _settled_in(summary.open_s, budget - seconds) for budget in BUDGETS_S}
    longer = [budget for budget in BUDGETS_S if budget > seconds and reach[budget] > summary.settled]
    most = max((reach[budget] for budget in longer), default=0)
    for budget in longer:
        if most - reach[budget] <= _WORTH_NAMING * summary.points:
            return f"--budget {budget_text(budget)} would let {reach[budget]} converge"
    return ""


def budget_beyond(budget_s: float, seconds: float) -> float:
    """The shortest usual budget above `budget_s` that lasts as long as `seconds`; whole hours beyond all usual ones."""
    usual = (budget for budget in (*_SHORT_BUDGETS_S, *BUDGETS_S) if budget > budget_s and budget >= seconds)
    return float(next(usual, 3600 * ceil(max(seconds, budget_s + 1) / 3600)))


def budget_text(seconds: int) -> str:
    """As --budget takes it."""
    if seconds % 3600 == 0:
        return f"{seconds // 3600}h"
    return f"{seconds // 60}m" if seconds % 60 == 0 else f"{seconds}s"


def _settled_in(open_s: Sequence[float], left_s: float) -> int:
    count = 0
    for cost in open_s:
        left_s -= cost
        if left_s < 0 or cost == inf:
            break
        count += 1
    return count


def _half(row: Row) -> float:
    assert row.median and row.low is not None and row.high is not None
    return (row.high - row.low) / abs(row.median)


def _name(row: Row) -> str:
    words = [f"{name}={value}" for name, value in row.parameters.items()]
    return " ".join([row.probe, *words, row.abi])
