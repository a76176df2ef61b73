# SPDX-License-Identifier: Apache-2.0
"""What an instruction of a program takes, and how much of its waiting for memory shows, by its times at several sizes.

The same work is done under each ABI, so that what an instruction takes is one there; from size to size it differs, as
much as mixtures of instructions do. So it is fitted for each size, and held to what it is at the others (ridge
regression: Hoerl and Kennard 1970). Were it one for all sizes, a program that computes less and scans more the larger
it is would have its waiting taken for computing."""

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
    """each_ns: an instruction that waits for nothing. shown: of each kind of waiting, the share that is not hidden."""

    each_ns: float
    shown: Waits

    def waited_ns(self, waits: Waits) -> float:
        return sum(share * wait for share, wait in zip(self.shown, waits, strict=True))


def fit(sizes: Sequence[Sequence[Observed]]) -> list[Fit]:
    """One for each size. sizes: at each of them what was seen, under one ABI or more."""
    every = [(place, observed) for place, group in enumerate(sizes) for observed in group]
    usual = float(np.median([observed.computed_ns / observed.instructions for _, observed in every]))
    rows = [_row(place, observed, len(sizes)) for place, observed in every]
    wanted = [observed.computed_ns / observed.time_ns / _OFF for _, observed in every]
    alike = np.zeros((len(sizes), 3 + len(sizes)))
    alike[:, 3:] = np.eye(len(sizes)) / (_APART * usual)
    terms = np.vstack([np.array(rows), alike])
    free = [np.inf] * len(sizes)
    low, high = [0.0, 0.0, 0.0, *(-bound for bound in free)], [np.inf, 1.0, 1.0, *free]
    solution = bounded(terms, np.append(wanted, np.zeros(len(sizes))), low, high)
    shown = float(solution[1]), float(solution[2])
    return [Fit(float(solution[0] + more), shown) for more in solution[3:]]


def _row(place: int, observed: Observed, sizes: int) -> list[float]:
    """Unknowns: an instruction's time, the shares of both kinds of waiting, and each size's deviation of that time."""
    beside = [observed.instructions if size == place else 0.0 for size in range(sizes)]
    return [value / observed.time_ns / _OFF for value in (observed.instructions, *observed.waits, *beside)]
