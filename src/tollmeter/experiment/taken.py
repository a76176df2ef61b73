# SPDX-License-Identifier: Apache-2.0
"""The samples of several visits as one table. A visit has a dozen samples, and to ask a thousand visits one by one
takes a thousand times as long as to ask them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from itertools import groupby
from operator import attrgetter
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tollmeter.model import Sample, Samples

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
T = TypeVar("T", np.float64, np.bool_)


class Taken:
    """counts: samples of each visit; starts: where each visit's begin, and the end behind them."""

    def __init__(self, visits: Iterable[Sequence[Sample]]) -> None:
        self.visits = [Samples.of(samples) for samples in visits]
        self._count(np.array([len(samples) for samples in self.visits], dtype=np.int64))
        blocks = groupby(self.visits, key=attrgetter("columns"))
        self._held = [(columns, _places(samples)) for columns, samples in blocks]

    def __len__(self) -> int:
        return int(self.starts[-1])

    def column(self, name: str) -> Floats:
        """A column of model.Columns. A value that the system does not report is -1."""
        return np.concatenate([np.empty(0), *(columns.column(name)[places] for columns, places in self._held)])

    def where(self, mask: Mask) -> Taken:
        """Some of the samples."""
        some = copy(self)
        some._select(mask)  # noqa: SLF001  its own kind
        return some

    def _select(self, mask: Mask) -> None:
        self._count(self.of_visits(mask))
        ends = np.cumsum([len(places) for _, places in self._held])[:-1]
        parts = zip(self._held, np.split(mask, ends), strict=True) if self._held else ()
        self._held = [(columns, places[kept]) for (columns, places), kept in parts]

    def of_visits(self, mask: Mask) -> Counts:
        """How many samples of each visit are so."""
        return np.asarray(np.diff(np.concatenate([[0], np.cumsum(mask)])[self.starts]))

    def spread(self, of_visits: NDArray[T]) -> NDArray[T]:
        """A value of each visit, for each of its samples."""
        return np.repeat(of_visits, self.counts)

    def timed_ns(self) -> Floats:
        """What lay in the timed batches of each sample."""
        body = self.column("body_n") + self.column("body_2n")
        control = self.column("control_n")
        return np.where(control >= 0, body + control + self.column("control_2n"), body)

    def _count(self, counts: Counts) -> None:
        self.counts = counts
        self.starts = np.concatenate([[0], np.cumsum(counts)])


def _places(visits: Iterable[Samples]) -> Counts:
    """The positions of the visits' samples in their block."""
    starts, stops = np.array([(samples.start, samples.stop) for samples in visits]).T
    counts = stops - starts
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts))


def ranked(values: Floats, owner: Counts, visits: int) -> tuple[Floats, Counts]:
    """The positive values of each visit in order, one visit behind the other; and where each visit's begin. owner:
    whose each value is."""
    kept = values > 0
    values, owner = values[kept], owner[kept]
    order = np.lexsort((values, owner))
    return values[order], np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=visits))])
