# SPDX-License-Identifier: Apache-2.0
"""Two runs of the same points: what changed, what did not, and what cannot be told.

A row changed where its two intervals part by more than both together allow, after Benjamini and Hochberg (1995) over
the whole table, and by as much as matters. The intervals hold what runs of one machine differ by, which no run sees:
without it one row in six of the same machine, measured again, was called changed. A row is the same where the interval
of the ratio lies within the precision that runs have: what two of them differ by alone makes it 1.7 % wide to either
side, so that nothing would ever be the same within 1 %. All else cannot be told; a whole core and a shared one are no
pair.

Where the control loop itself moved between the runs, the machine changed: no change is then attributed to the code.
Rows by clocks of different kinds are refused, never compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log
from typing import Literal

from scipy.special import ndtr

from tollmeter.experiment.core_states import core_hz
from tollmeter.experiment.precision import LEAST_VISITS
from tollmeter.model import PRECISION, Outcome, Probe, Record, Row
from tollmeter.numbers.rows import Key, row_key, rows
from tollmeter.numbers.stats import Estimate, adjusted_chances, hodges_lehmann_ratio

FALSE_DISCOVERIES = 0.05
UNCHANGED = ("same", "cannot tell")
_NORMAL = 1.959964

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


def compare(
    old_outcomes: Sequence[Outcome], new_outcomes: Sequence[Outcome], probes: Mapping[str, Probe], least: float = 0.01
) -> Comparison:
    """Compares all rows that both runs have a number for. least: relative change that matters, 0.01 is 1 %; a row is
    the same within 3 %, or what matters where that is more.

    Raises Failure (5) for visits of a probe that has no description.
    """
    old, new = ({row_key(row): row for row in rows(side, probes)} for side in (old_outcomes, new_outcomes))
    control = _control(old_outcomes, new_outcomes)
    return of_rows(old, new, control, least)


def of_rows(old: Mapping[Key, Row], new: Mapping[Key, Row], control: Estimate | None, least: float) -> Comparison:
    """The same of rows that are made already. control: ratio of the control loop's rates, new over old."""
    why = {key: _why_not(old.get(key), new.get(key)) for key in sorted({**old, **new}, key=repr)}
    refused = tuple(Refusal(key=key, reason=reason) for key, reason in why.items() if reason)
    pairs = [(row, new[key]) for key, row in old.items() if why[key] is None]
    moved = control is not None and _moved(control, least)
    ratios = [ratio_of(*pair) for pair in pairs]
    chances = [_chance(ratio) for ratio in ratios]
    adjusted = adjusted_chances(chances)
    verdicts = [
        _verdict(pair, *told, least) for pair, told in zip(pairs, zip(ratios, adjusted, strict=True), strict=True)
    ]
    changes = tuple(
        Change(
            old=before, new=after, ratio=ratio, adjusted=share, verdict=verdict,
            cause=None if verdict in UNCHANGED else "machine" if moved else "code",
        )
        for (before, after), ratio, share, verdict in zip(pairs, ratios, adjusted, verdicts, strict=True)
    )  # fmt: skip
    return Comparison(changes=changes, refused=refused, control=control, machine_moved=moved)


def _why_not(before: Row | None, after: Row | None) -> str | None:
    """Why a row is not compared; None where it is."""
    if before is None or after is None:
        return "measured in the new run only" if before is None else "measured in the old run only"
    for row, run in ((before, "old"), (after, "new")):
        if row.status != "ok":
            return f"no number in the {run} run: {row.reason or row.status}"
        if row.median is None or row.median <= 0:
            return f"no positive value in the {run} run"
    if before.clock != after.clock:
        return f"timed by clocks of different kinds: {before.clock} and {after.clock}"
    if before.unit != after.unit:
        return f"in different units: {before.unit} and {after.unit}"
    return None


def ratio_of(old: Row, new: Row) -> Estimate:
    """New over old. Of logarithms the half-widths add as squares."""
    assert old.median and new.median
    middle, half = log(new.median / old.median), (_half(old) ** 2 + _half(new) ** 2) ** 0.5
    return Estimate(value=exp(middle), low=exp(middle - half), high=exp(middle + half) if half < 700 else inf)


def _half(row: Row) -> float:
    """Half-width of a row's interval in logarithms; infinite where it reaches nothing."""
    if not row.low or not row.high or row.low <= 0 or row.low == inf:
        return inf
    return log(row.high / row.low) / 2


def _chance(ratio: Estimate) -> float:
    """That the two are the same, two-sided."""
    if ratio.low <= 0:
        return 1.0
    error = log(ratio.high / ratio.low) / 2 / _NORMAL
    distance = abs(log(ratio.value))
    return 2 * float(ndtr(-distance / error)) if error else float(distance == 0)


def _control(old_outcomes: Sequence[Outcome], new_outcomes: Sequence[Outcome]) -> Estimate | None:
    old, new = (
        [rate for outcome in side if outcome.clock.kind == "hardware" and (rate := core_hz(outcome))]
        for side in (old_outcomes, new_outcomes)
    )
    return hodges_lehmann_ratio(old, new) if old and new else None


def _moved(control: Estimate, least: float) -> bool:
    """Surely, and by as much as would matter in a row."""
    return abs(control.value - 1) > least and not control.low <= 1 <= control.high


def _verdict(pair: tuple[Row, Row], ratio: Estimate, adjusted: float, least: float) -> Verdict:
    if min(row.visits for row in pair) < LEAST_VISITS or pair[0].state != pair[1].state:
        return "cannot tell"
    if adjusted <= FALSE_DISCOVERIES and abs(ratio.value - 1) > least:
        return _direction(pair[1], ratio)
    within = max(least, PRECISION)
    return "same" if ratio.low >= 1 - within and ratio.high <= 1 + within else "cannot tell"


def _direction(row: Row, ratio: Estimate) -> Verdict:
    if row.better == "neither":
        return "differs"
    return "slower" if (ratio.value > 1) == (row.better == "less") else "faster"
