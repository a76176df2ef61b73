# SPDX-License-Identifier: Apache-2.0
"""What an instruction of a program takes, and how much of its waiting for memory shows, by its times at several sizes.

The same work is done under each ABI, so that what an instruction takes is one there; from size to size it differs, as
much as mixtures of instructions do. So it is fitted for each size, and held to what it is at the others (ridge
regression: Hoerl and Kennard 1970). Were it one for all sizes, a program that computes less and scans more the larger
it is would have its waiting taken for computing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tollmeter.maths.fits import bounded

_OFF, _APART = 0.01, 0.1
"""What a time is off by, and what an instruction takes more or less at another size: parts of itself."""

Waits = tuple[float, float]
"""ns of an operation: what is foreseen, and all else."""


class Observed(NamedTuple):
    """One operation at one size under one ABI. time_ns: what it took. computed_ns: of that, all but its page faults."""

    time_ns: float
    computed_ns: float
    instructions: float
    waits: Waits


class Fit(NamedTuple):
    """each_ns: of an instruction that waits for nothing. shown: of each kind of waiting the share that is not hidden
    behind other work."""

    each_ns: float
    shown: Waits

    def waited_ns(self, waits: Waits) -> float:
        return sum(share * wait for share, wait in zip(self.shown, waits, strict=True))


def fit(sizes: Sequence[Sequence[Observed]]) -> list[Fit]:
    """One for each size. sizes: at each of them what was seen, under one ABI or more."""
    every = [(place, one) for place, group in enumerate(sizes) for one in group]
    usual = float(np.median([one.computed_ns / one.instructions for _, one in every]))
    rows = [_row(place, one, len(sizes)) for place, one in every]
    wanted = [one.computed_ns / one.time_ns / _OFF for _, one in every]
    alike = np.zeros((len(sizes), 3 + len(sizes)))
    alike[:, 3:] = np.eye(len(sizes)) / (_APART * usual)
    terms = np.vstack([np.array(rows), alike])
    free = [np.inf] * len(sizes)
    low, high = [0.0, 0.0, 0.0, *(-bound for bound in free)], [np.inf, 1.0, 1.0, *free]
    found = bounded(terms, np.append(wanted, np.zeros(len(sizes))), low, high)
    shown = float(found[1]), float(found[2])
    return [Fit(float(found[0] + more), shown) for more in found[3:]]


def _row(place: int, one: Observed, sizes: int) -> list[float]:
    """Unknowns: an instruction's time, the shares of both kinds of waiting, and at each size what an instruction takes
    beside that."""
    beside = [one.instructions if size == place else 0.0 for size in range(sizes)]
    return [value / one.time_ns / _OFF for value in (one.instructions, *one.waits, *beside)]
