# SPDX-License-Identifier: Apache-2.0
"""The samples of several visits as one table. A visit has a dozen samples, and to ask a thousand visits one by one
takes a thousand times as long as to ask them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tollmeter.model import Columns, Sample, Samples
from tollmeter.model.samples import COLUMNS

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
T = TypeVar("T", np.float64, np.bool_)
V = TypeVar("V")

_AT_ONCE = 4096


def parts(visits: Sequence[V], at_once: int = _AT_ONCE) -> Iterator[Sequence[V]]:
    """Visits, as many at a time as are looked at together: their samples take some megabytes meanwhile."""
    return (visits[start : start + at_once] for start in range(0, len(visits), at_once))


class Taken:
    """counts: samples of each visit; starts: where each visit's begin, and the end after the last."""

    def __init__(self, visits: Iterable[Sequence[Sample]]) -> None:
        self.visits = [Samples.of(samples) for samples in visits]
        begins = np.array([samples.start for samples in self.visits], dtype=np.int64)
        self._count(np.array([samples.stop for samples in self.visits], dtype=np.int64) - begins)
        numbers: dict[Columns, int] = {}
        blocks = [numbers.setdefault(samples.columns, len(numbers)) for samples in self.visits]
        order = np.argsort(np.array(blocks, dtype=np.int64), kind="stable")
        read = self.counts[order]
        places = _stretches(begins[order], read)
        ends = np.cumsum(np.bincount(blocks, self.counts, len(numbers))).astype(np.int64)
        self._held = list(zip(numbers, np.split(places, ends[:-1]), strict=True)) if numbers else []
        # All columns are read together: the samples of one point may be in 2,000 blocks of a file.
        self._read: dict[str, NDArray[Any]] = {}
        # Where the samples of each visit stand when those of each block are read together.
        starts = np.empty_like(read)
        starts[order] = np.cumsum(read) - read
        self._order = _stretches(starts, self.counts)

    def __len__(self) -> int:
        return int(self.starts[-1])

    def column(self, name: str) -> Floats:
        """Of model.Columns. What the system does not report is -1."""
        return np.asarray(self.whole((name,))[name], np.float64)

    def whole(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Columns in their own types: nanoseconds of a long time are not rounded."""
        if not self._read:
            read = [[column[places] for column in columns.columns().values()] for columns, places in self._held]
            lanes = zip(*read, strict=True) if read else ([np.empty(0)] for _ in COLUMNS)
            self._read.update(zip(COLUMNS, map(np.concatenate, lanes), strict=True))
        return {name: self._read[name][self._order] for name in names}

    def where(self, mask: Mask) -> Taken:
        """Some of the samples."""
        some = copy(self)
        some._count(self.of_visits(mask))  # noqa: SLF001  its own kind
        some._order = self._order[mask]  # noqa: SLF001
        return some

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


def _stretches(starts: Counts, counts: Counts) -> Counts:
    """So many consecutive numbers from each start, one stretch after the other."""
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts))


def ranked(values: Floats, owner: Counts, visits: int) -> tuple[Floats, Counts]:
    """The positive values of each visit in order, one visit behind the other; and where each visit's begin. owner:
    whose each value is."""
    kept = values > 0
    values, owner = values[kept], owner[kept]
    by_value = np.argsort(values)
    # A stable sort of 16 bits is numpy's fastest.
    order = by_value[np.argsort(owner[by_value].astype(np.uint16 if visits < 1 << 16 else np.int64), kind="stable")]
    return values[order], np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=visits))])
