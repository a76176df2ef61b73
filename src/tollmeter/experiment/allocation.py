# SPDX-License-Identifier: Apache-2.0
"""Where the next visits are worth most."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Generic, NamedTuple, TypeVar

from tollmeter.experiment.precision import LEAST_VISITS

P = TypeVar("P", bound=Hashable)


class Wish(NamedTuple, Generic[P]):
    """A point that has not converged. seen: visits so far; wanted: visits in all, estimated from its scatter; infinite
    where no number would suffice. visit_s: wall time of one visit."""

    point: P
    seen: int
    wanted: float
    visit_s: float

    def to_settle_s(self) -> float:
        return max(1.0, self.wanted - self.seen) * self.visit_s

    def to_interval_s(self) -> float:
        return (LEAST_VISITS - self.seen) * self.visit_s


def next_visits(wishes: Sequence[Wish[P]], left_s: float) -> list[P]:
    """The points that the next round visits once.

    First those without an interval, the cheapest first: as many as get one in half of the time that is left, and one at
    least. Without that limit one more visit of each large point took the time in which all others had got theirs, and
    most rows of a run ended with two visits. Then those that can be settled in the time that is left, the
    cheapest first, which settles most. Where these want less than a quarter of it, half of what they leave over goes to
    the rest, those first that have cost least: else the last quarter of a run went to visits of two or three points,
    one behind the other and time and again, while fifty waited. Before, too few are known well enough to say what is
    over.
    """
    new = sorted((wish for wish in wishes if wish.seen < LEAST_VISITS), key=Wish.to_interval_s)
    known = sorted((wish for wish in wishes if wish.seen >= LEAST_VISITS), key=Wish.to_settle_s)
    unborn_s = sum(wish.to_interval_s() for wish in new)
    chosen = _fitting(new, [wish.to_interval_s() for wish in new], left_s / 2)
    chosen = chosen or _fitting(new, [wish.visit_s for wish in new], left_s)
    chosen += _fitting(known, [wish.to_settle_s() for wish in known], left_s - unborn_s)
    rest = sorted(
        (wish for wish in wishes if wish not in chosen), key=lambda wish: (wish.seen * wish.visit_s, wish.visit_s)
    )
    wanted_s = unborn_s + sum(wish.to_settle_s() for wish in chosen if wish.seen >= LEAST_VISITS)
    chosen += _fitting(rest, [wish.visit_s for wish in rest], _for_the_rest(wanted_s, left_s) if chosen else left_s)
    return [wish.point for wish in chosen]


def _for_the_rest(wanted_s: float, left_s: float) -> float:
    """Seconds beside what those within reach want."""
    return (left_s - wanted_s) / 2 if wanted_s < left_s / 4 else 0.0


def _fitting(wishes: Sequence[Wish[P]], costs_s: Sequence[float], left_s: float) -> list[Wish[P]]:
    """As many wishes as fit, in their order; one that costs too much is skipped."""
    taken: list[Wish[P]] = []
    for wish, cost in zip(wishes, costs_s, strict=True):
        if cost <= left_s and cost < inf:
            left_s -= cost
            taken.append(wish)
    return taken
