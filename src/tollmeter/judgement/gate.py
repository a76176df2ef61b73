# SPDX-License-Identifier: Apache-2.0
"""Decides whether a build passes: no row may be slower than the reference by more than its limit.

The permitted false alarms apply to the whole build: with 700 rows and 1 % for each row, a build without any change
would fail seven times. Holm's procedure (1979) over all judged rows limits the probability that any row fails by chance
to 1 %. If few layouts were visited, the error of a row has the tails of Student's t and not those of the normal
distribution, which matters for p-values of 1e-5.

`decide` takes ratios of the rows of two stored runs (`of_change`), or of interleaved pairs (`of_pair`)."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite, log, log1p
from typing import Literal

from tollmeter.judgement.compare import Change, ratio_error, undecided, unproven
from tollmeter.maths.distributions import LEVEL, exp_or_inf, half_width, student_reach, student_tails
from tollmeter.model import Opposed, Record
from tollmeter.numbers.readings import RATES

FALSE_ALARMS = 0.01
"""Probability that a build fails although no row is beyond its limit."""
RUNS_FREEDOM = 6.0
"""Degrees of freedom of the between-run variance, which is learned for each probe and not for each row. Of 433 rows of
two runs of one quiet machine, one differed by 7.6 standard errors, which is impossible for a normal distribution
(decision 35)."""

Outcome = Literal["slower", "within", "inconclusive"]


class GateRow(Record, frozen=True):
    """One ratio of costs, new over old. log_ratio: its logarithm. error, freedom: standard error of this logarithm, and
    its degrees of freedom. limit: highest permitted slowdown, as a share. reason: why it cannot be judged, empty if it
    can."""

    name: str
    log_ratio: float
    error: float
    freedom: float
    limit: float
    reason: str = ""


class Decided(Record, frozen=True):
    """The decision on one ratio. p_value: probability of this ratio or a higher one if the true ratio is at its limit.
    adjusted: p-value adjusted for all rows of the build (Holm). least: smallest slowdown, as a share, that would fail;
    infinite if none would."""

    judged: GateRow
    outcome: Outcome
    p_value: float
    adjusted: float
    least: float


class Decision(Record, frozen=True):
    """The decision on a build. rows: in input order. budget: permitted false-alarm probability of the whole build."""

    rows: tuple[Decided, ...]
    budget: float

    def of(self, outcome: Outcome) -> tuple[Decided, ...]:
        """Returns the rows with this outcome, largest slowdown first."""
        matching = (row for row in self.rows if row.outcome == outcome)
        return tuple(sorted(matching, key=lambda row: -row.judged.log_ratio))

    @property
    def passes(self) -> bool:
        return not self.of("slower")


def decide(rows: Sequence[GateRow]) -> Decision:
    """Returns the decision on all rows. A row fails if Holm's adjusted p-value is within the budget. It is within its
    limit if a one-sided test at 5 % shows that, as `toll compare` calls a row the same."""
    known = [row for row in rows if not row.reason]
    p_values = {id(row): _p_value(row) for row in known}
    share = FALSE_ALARMS / max(1, len(known))
    # Holm: each p-value times the number of those that are not smaller, and never below that of a smaller one.
    worst, adjusted = 0.0, {}
    for place, row in enumerate(sorted(known, key=lambda row: p_values[id(row)])):
        worst = max(worst, min(1.0, p_values[id(row)] * (len(known) - place)))
        adjusted[id(row)] = worst
    decided = []
    for row in rows:
        outcome: Outcome = "inconclusive"
        least = inf
        if not row.reason:
            if adjusted[id(row)] <= FALSE_ALARMS:
                outcome = "slower"
            elif row.log_ratio + half_width(row.error, row.freedom, 2 * LEVEL) <= log1p(row.limit):
                outcome = "within"
            # The ratio less 1 from which the row would fail by itself.
            reach = log1p(row.limit) + half_width(row.error, row.freedom, 2 * share)
            least = exp_or_inf(reach) - 1
        p_value, chance = p_values.get(id(row), 1.0), adjusted.get(id(row), 1.0)
        decided.append(Decided(judged=row, outcome=outcome, p_value=p_value, adjusted=chance, least=least))
    return Decision(rows=tuple(decided), budget=FALSE_ALARMS)


def _p_value(row: GateRow) -> float:
    """Returns the one-sided p-value of the hypothesis that a row is slower by at most its limit."""
    beyond = row.log_ratio - log1p(row.limit)
    if not row.error:
        return float(beyond <= 0)
    half = student_tails(row.freedom, beyond / row.error) / 2
    return half if beyond > 0 else 1 - half


# ---- rows of stored runs --------------------------------------------------------------------------------------------


def of_change(change: Change, name: str, limit: float) -> GateRow:
    """Returns the gate row of a change between two stored runs. limit: highest permitted slowdown, as a share."""
    sign = -1 if change.new.unit in RATES or change.new.better == "more" else 1
    reason = _why_not(change)
    error, freedom = (0.0, 1.0) if reason else ratio_error(change.old, change.new, RUNS_FREEDOM)
    return GateRow(
        name=name, log_ratio=sign * log(change.ratio.value), error=error, freedom=freedom, limit=limit, reason=reason
    )


def of_pair(pair: Opposed, name: str, limit: float) -> GateRow:
    """Returns the gate row of an interleaved pair. Its interval is Student's over its blocks. limit: as in
    `of_change`."""
    freedom = max(1.0, pair.blocks - 1.0)
    error = log(pair.high / pair.low) / 2 / student_reach(freedom)
    return GateRow(name=name, log_ratio=log(pair.ratio), error=error, freedom=freedom, limit=limit)


def _why_not(change: Change) -> str:
    """Returns why a change cannot be judged; empty if it can."""
    if change.new.better == "neither":
        return "neither more nor less is better"
    reason = undecided(change.old, change.new) or unproven(change.old, change.new, calm=True)
    return reason or ("" if isfinite(ratio_error(change.old, change.new)[0]) else "no interval")
