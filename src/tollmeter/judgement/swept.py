# SPDX-License-Identifier: Apache-2.0
"""The cost at each value of a setting, from runs at shuffled values with returns to the first value between them.

Each run is compared (`compare`) with the return before it and the return after it. Drift of the machine separates the
two returns, so the ratio of a row is the mean of both comparisons, which a steady drift does not change. Its interval
covers both. The row changed only if both comparisons say so and the adjustment of Benjamini and Hochberg over all
values confirms it. Runs are compared in time and not in cycles, since a setting may change the clock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp, inf, log
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec

from tollmeter.experiment.precision import Estimate
from tollmeter.judgement.compare import FALSE_DISCOVERIES, NOT_CALLED_CHANGED, Change, compare
from tollmeter.maths.distributions import exp_or_inf
from tollmeter.model import LEAST_CHANGE, PRECISION, Index, Record
from tollmeter.numbers.readings import RATES, is_time
from tollmeter.numbers.rows import Key, row_key
from tollmeter.numbers.stats import benjamini_hochberg

EffectVerdict = Literal["better", "worse", "same", "cannot tell"]


class SweptRun(NamedTuple):
    """One run of a sweep. value: value of the setting. made: index of the run, None if it was not measured."""

    value: str
    made: Index | None


class ValueEffect(Record, frozen=True):
    """The effect of one value of the setting. cost: geometric mean of the costs of the rows over their costs at the
    first value, with an interval as wide as if all rows had one common error; None if no row has a number in both.
    faster, slower: numbers of changed rows. changes: all compared rows."""

    value: str
    verdict: EffectVerdict = "cannot tell"
    cost: Estimate | None = None
    faster: int = 0
    slower: int = 0
    changes: tuple[Change, ...] = ()


def effects(runs: Sequence[SweptRun], least: float = LEAST_CHANGE) -> tuple[ValueEffect, ...]:
    """Returns the effect of each measured value other than the first, in the order of measuring. runs: in the order of
    measuring; the first value is that of the returns. least: relative change that matters."""
    merged = {run.value: _beside_returns(runs, place, least) for place, run in _others(runs)}
    adjusted = _over_all_values(merged)
    return tuple(_effect(value, [*changes.values()], least) for value, changes in adjusted.items())


def drift(runs: Sequence[SweptRun], least: float = LEAST_CHANGE) -> Estimate | None:
    """Returns the cost at the last return over the cost at the first return; None for fewer than two returns. runs,
    least: as in `effects`."""
    returns = [run.made for run in runs if run.value == runs[0].value and run.made is not None]
    return cost_of(compare(returns[0], returns[-1], least, machines=True).changes) if len(returns) > 1 else None


def best(several: Sequence[ValueEffect]) -> ValueEffect | None:
    """Returns the cheapest of the values that are better than the first one; None if none is."""
    better = [effect for effect in several if effect.verdict == "better" and effect.cost is not None]
    return min(better, key=lambda effect: effect.cost.value if effect.cost else inf, default=None)


def not_resolved_from(chosen: ValueEffect, several: Sequence[ValueEffect]) -> tuple[str, ...]:
    """Returns the other values whose cost interval overlaps that of the chosen value."""
    return tuple(
        effect.value for effect in several
        if effect is not chosen and effect.cost and chosen.cost and effect.cost.low <= chosen.cost.high
    )  # fmt: skip


def cost_of(changes: Sequence[Change]) -> Estimate | None:
    """Returns the geometric mean of the cost ratios, new over old: of times and rates if there are any, else of all
    rows; and of these only rows in equal core states if there are any. None without rows."""
    judged = [change for change in changes if change.new.better != "neither"]
    judged = [change for change in judged if is_time(change.new.unit)] or judged
    chosen = [change for change in judged if _is_like(change)] or judged
    if not chosen:
        return None
    ends = [_log_costs(change) for change in chosen]
    value, low, high = (fmean(of_all) for of_all in zip(*ends, strict=True))
    return Estimate(value=exp(value), low=exp(low), high=exp_or_inf(high))


def _is_like(change: Change) -> bool:
    """Returns whether both rows are of the same core state."""
    return change.old.state == change.new.state


def _log_costs(change: Change) -> tuple[float, float, float]:
    """Returns the logarithms of a cost ratio and of the ends of its interval. A rate gives the reciprocal of its
    cost."""
    ratio = change.ratio
    value, low, high = (log(end) if 0 < end < inf else -inf if end <= 0 else inf for end in
                        (ratio.value, ratio.low, ratio.high))  # fmt: skip
    is_rate = change.new.unit in RATES or change.new.better == "more"
    return (-value, -high, -low) if is_rate else (value, low, high)


def _others(runs: Sequence[SweptRun]) -> list[tuple[int, SweptRun]]:
    """Returns the measured runs at other values than the first, each with its index."""
    return [(place, run) for place, run in enumerate(runs) if run.value != runs[0].value and run.made is not None]


def _beside_returns(runs: Sequence[SweptRun], place: int, least: float) -> dict[Key, Change]:
    """Returns the changes of the rows of a run against the nearest returns before and after it, or against the only
    one. place: index of the run."""
    measured, first = runs[place].made, runs[0].value
    before = next((run.made for run in reversed(runs[:place]) if run.value == first and run.made), None)
    after = next((run.made for run in runs[place + 1 :] if run.value == first and run.made), None)
    views: dict[Key, list[Change]] = defaultdict(list)
    for beside in (before, after):
        if beside is not None and measured is not None:
            for change in compare(beside, measured, least, machines=True).changes:
                views[row_key(change.new)].append(change)
    return {key: _merged(comparisons) for key, comparisons in views.items()}


def _merged(views: Sequence[Change]) -> Change:
    """Returns one or two comparisons of a row as one. If only one of them is of equal core states, the ratio is its."""
    like = [view for view in views if _is_like(view)] or views
    ratio = Estimate(
        value=exp(fmean(log(view.ratio.value) for view in like)),
        low=min(view.ratio.low for view in like), high=max(view.ratio.high for view in like),
    )  # fmt: skip
    agree = len({view.verdict for view in views}) == 1
    reason = next((view.reason for view in views if view.reason), None)
    return msgspec.structs.replace(
        like[0], ratio=ratio, adjusted=max(view.adjusted for view in views),
        verdict=views[0].verdict if agree else "cannot tell",
        reason=reason or (None if agree else "the neighbouring returns disagree"),
    )  # fmt: skip


def _over_all_values(merged: dict[str, dict[Key, Change]]) -> dict[str, dict[Key, Change]]:
    """Returns the changes with p-values adjusted over all values: otherwise one of twenty values without an effect
    would be called changed."""
    for key in dict.fromkeys(key for changes in merged.values() for key in changes):
        values = [value for value, changes in merged.items() if key in changes]
        shares = benjamini_hochberg([merged[value][key].adjusted for value in values])
        for value, share in zip(values, shares, strict=True):
            change = merged[value][key]
            is_lost = share > FALSE_DISCOVERIES and change.verdict not in NOT_CALLED_CHANGED
            merged[value][key] = msgspec.structs.replace(
                change, adjusted=share, verdict="cannot tell" if is_lost else change.verdict,
                reason="one of many values" if is_lost else change.reason,
            )  # fmt: skip
    return merged


def _effect(value: str, changes: Sequence[Change], least: float) -> ValueEffect:
    """Returns the effect of a value from the changes of its rows."""
    cost = cost_of(changes)
    faster, slower = (sum(change.verdict == name for change in changes) for name in ("faster", "slower"))
    verdict: EffectVerdict = "cannot tell"
    within = max(least, PRECISION)
    if cost is not None:
        if cost.high < 1 and faster:
            verdict = "better"
        elif cost.low > 1 and slower:
            verdict = "worse"
        elif cost.low >= 1 - within and cost.high <= 1 + within:
            verdict = "same"
    return ValueEffect(value=value, verdict=verdict, cost=cost, faster=faster, slower=slower, changes=tuple(changes))
