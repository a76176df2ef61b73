# SPDX-License-Identifier: Apache-2.0
"""A study's claim as a predicate: a relation, the published value and its tolerance. It holds where a whole interval
satisfies it, and fails where no part of the interval does. Of a published effect, the whole interval may show one of
the same sign and another size."""

from __future__ import annotations

from math import inf, nextafter
from typing import NamedTuple

from tollmeter.model import ClaimVerdict, Published, Relation
from tollmeter.numbers.units import short, span, three

TOLERANCES: dict[Relation, float] = {"about": 0.25, "change": 0.5, "same": 0.1, "crossing": 0.25}
"""Where the claim has none of its own. about, crossing: a share of the value, as a factor either way; change: a share
of the change; same: either way."""
_LEAST_SHARE = 0.25
"""Of the published difference from 1: a smaller one is no evidence of the same effect."""
_SCALED = ("about", "change")
"""Relations that state how large an effect is, so that a smaller or larger one can be told."""


class Judged(NamedTuple):
    """times: of a verdict `same direction`, how many times as large as published."""

    verdict: ClaimVerdict
    times: float | None = None
    reason: str | None = None


def relation_of(claim: Published) -> Relation:
    """The claim's own; of one that states a number alone, that the number is about right, or that a ratio is 1."""
    if claim.relation or claim.value is None:
        return claim.relation
    return "same" if claim.unit == "ratio" and claim.value == 1 else "about"


def is_judged(claim: Published) -> bool:
    """Whether the study prints something that a measurement could contradict."""
    return relation_of(claim) not in ("", "shown")


def bounds(claim: Published) -> tuple[float, float] | None:
    """Between which the claim holds; None where it claims nothing."""
    relation, value = relation_of(claim), 1.0 if claim.value is None else claim.value
    tolerance = TOLERANCES.get(relation, 0.0) if claim.tolerance is None else claim.tolerance
    if relation == "change":
        ends = sorted(1 + (value - 1) * (1 + share) for share in (-tolerance, tolerance))
        return ends[0], ends[1]
    several: dict[str, tuple[float, float]] = {
        "about": (value / (1 + tolerance), value * (1 + tolerance)),
        "crossing": (value / (1 + tolerance), value * (1 + tolerance)),
        "same": (value - tolerance, value + tolerance),
        "at least": (value - tolerance, inf),
        "at most": (-inf, value + tolerance),
        "more": (nextafter(1.0, inf), inf),
        "ordering": (nextafter(1.0, inf), inf),
        "less": (-inf, nextafter(1.0, -inf)),
    }
    return several.get(relation)


def in_words(claim: Published) -> str:
    """Where the claim holds: "8 to 12.5", "at most 1.2", "more than 1"; empty where it claims nothing."""
    ends = bounds(claim)
    if ends is None:
        return ""
    low, high = ends
    if low == -inf or high == inf:
        strict = relation_of(claim) in ("more", "less", "ordering")
        end, words = (high, ("at most", "less than")) if low == -inf else (low, ("at least", "more than"))
        return f"{words[strict]} {_plain(end, claim.unit)}"
    return f"{three(low)} to {three(high)}" if claim.unit in ("", "ratio") else span(low, high, claim.unit)


def _plain(value: float, unit: str) -> str:
    return three(value) if unit in ("", "ratio") else short(value, unit)


def judge(claim: Published, here: float, low: float, high: float) -> Judged:
    """What an interval says of a claim that states something."""
    ends = bounds(claim)
    assert ends is not None
    if ends[0] <= low and high <= ends[1]:
        return Judged("holds")
    overlaps = low < ends[1] and high > ends[0]
    shares = [_share(claim, number) for number in (low, here, high)]
    least = min(shares)
    if least > 0 and (least if overlaps else shares[1]) >= _LEAST_SHARE:
        return Judged("same direction", _times(claim, here))
    if overlaps:
        return Judged("cannot tell", reason=f"The interval, {three(low)} to {three(high)}, is too wide to judge by.")
    return Judged("does not hold")


def _share(claim: Published, number: float) -> float:
    """Of the published difference from 1; 0 where the claim states no size of an effect."""
    value = claim.value
    if claim.unit != "ratio" or relation_of(claim) not in _SCALED or value is None or value == 1:
        return 0.0
    return (number - 1) / (value - 1)


def _times(claim: Published, here: float) -> float | None:
    """Of a change, the change here over the published one; of a multiple, the multiple over the published one."""
    value = claim.value
    assert value is not None
    if relation_of(claim) == "change":
        return (here - 1) / (value - 1)
    if value > 1:
        return here / value
    return value / here if here else None
