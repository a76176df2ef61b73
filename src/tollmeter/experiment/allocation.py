# SPDX-License-Identifier: Apache-2.0
"""Where the next visits are worth most."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import inf
from typing import Generic, NamedTuple, TypeVar

from tollmeter.experiment.precision import LEAST_VISITS

P = TypeVar("P", bound=Hashable)


class Wish(NamedTuple, Generic[P]):
    """A point that is not settled. seen: visits so far; wanted: in all, as far as its scatter tells; infinite where no
    number of them would do. visit_s: wall time of one.
    """

    point: P
    seen: int
    wanted: float
    visit_s: float

    def to_settle_s(self) -> float:
        return max(1.0, self.wanted - self.seen) * self.visit_s


def next_visits(wishes: Sequence[Wish[P]], left_s: float) -> list[P]:
    """The points that one more round visits once.

    First whoever has no interval yet, the cheapest first. Then those that can be settled in the time that is left, the
    cheapest first, which settles most. Only where nothing is within reach the rest, those with the fewest visits first.
    """
    new = sorted((wish for wish in wishes if wish.seen < LEAST_VISITS), key=lambda wish: (wish.seen, wish.visit_s))
    known = sorted((wish for wish in wishes if wish.seen >= LEAST_VISITS), key=Wish.to_settle_s)
    unborn_s = sum((LEAST_VISITS - wish.seen) * wish.visit_s for wish in new)
    chosen = _fitting(new, [wish.visit_s for wish in new], left_s)
    chosen += _fitting(known, [wish.to_settle_s() for wish in known], left_s - unborn_s)
    if chosen:
        return [wish.point for wish in chosen]
    rest = sorted(wishes, key=lambda wish: (wish.seen * wish.visit_s, wish.visit_s))
    return [wish.point for wish in _fitting(rest, [wish.visit_s for wish in rest], left_s)]


def _fitting(wishes: Sequence[Wish[P]], costs_s: Sequence[float], left_s: float) -> list[Wish[P]]:
    """As many as fit, in their order; what is too dear is passed over."""
    taken: list[Wish[P]] = []
    for wish, cost in zip(wishes, costs_s, strict=True):
        if cost <= left_s and cost < inf:
            left_s -= cost
            taken.append(wish)
    return taken
