# SPDX-License-Identifier: Apache-2.0
"""Reads the samples of several visits as one table. A visit has a dozen samples, and numpy processes the samples of a
thousand visits in one call a thousand times as fast as one visit at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tollmeter.model import Columns, Sample, Samples
from tollmeter.model.samples import COLUMNS, RECENT, Packed

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Mask = NDArray[np.bool_]
T = TypeVar("T", np.float64, np.int64, np.bool_)
V = TypeVar("V")

_AT_ONCE = 1024
"""Number of visits in a chunk. Each of their columns takes 128 KiB: the C library maps every block of 256 KiB
separately (model/samples.py), and page faults of new mappings took a fifth of the time."""
MANY_VISITS = 8192
"""Number of visits whose derived values take 40 MB. They suffice to estimate the clock and width of a core: 200,000
visits give the same."""


def chunks(visits: Sequence[V], at_once: int = 0) -> Iterator[Sequence[V]]:
    """Yields visits in chunks whose samples fit into a CPU's cache. at_once: number of visits in a chunk, 0 for the
    default."""
    at_once = at_once or _AT_ONCE
    return (visits[start : start + at_once] for start in range(0, len(visits), at_once))


class Taken:
    """The samples of several visits as columns. visits: samples of each visit. counts: number of samples of each visit.
    starts: index of the first sample of each visit, followed by the total."""

    def __init__(self, visits: Iterable[Sequence[Sample]]) -> None:
        self.visits = [Samples.of(samples) for samples in visits]
        begins = np.array([samples.start for samples in self.visits], dtype=np.int64)
        self._count(np.array([samples.stop for samples in self.visits], dtype=np.int64) - begins)
        numbers: dict[Columns, int] = {}
        blocks = [numbers.setdefault(samples.columns, len(numbers)) for samples in self.visits]
        order = np.argsort(np.array(blocks, dtype=np.int64), kind="stable")
        read = self.counts[order]
        places = stretches(begins[order], read)
        ends = np.cumsum(np.bincount(blocks, self.counts, len(numbers))).astype(np.int64)
        self._held = list(zip(numbers, map(_at, np.split(places, ends[:-1])), strict=True)) if numbers else []
        self._read: dict[str, NDArray[Any]] = {}
        # Where the samples of each visit stand when those of each block are read together.
        starts = np.empty_like(read)
        starts[order] = np.cumsum(read) - read
        self._order = stretches(starts, self.counts)
        self._floats: dict[str, Floats] = {}

    def __len__(self) -> int:
        return int(self.starts[-1])

    def column(self, name: str) -> Floats:
        """Returns one column (model.Columns) of all samples as read-only floats. A value that the system does not
        report is -1. The column is cached, since several rules read it."""
        if name not in self._floats:
            self._floats[name] = np.asarray(self.whole((name,))[name], np.float64)
            self._floats[name].flags.writeable = False
        return self._floats[name]

    def whole(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Returns columns in their own types, so that times of many ns are not rounded. They are not cached as floats:
        arrays of less than 256 KiB fragment the heap, by 80 MB for a run of 1 GB."""
        lacking: Sequence[str] = [name for name in names if name not in self._read]
        if lacking and len(self._held) > RECENT:
            # All columns are read together, since the samples of one point may be in 2,000 blocks of a file.
            lacking = COLUMNS
        if lacking:
            read = [[block[name][at] for name in lacking] for block, at in self._blocks()]
            parts = zip(*read, strict=True) if read else ([np.empty(0)] for _ in lacking)
            self._read.update(zip(lacking, map(np.concatenate, parts), strict=True))
        return {name: self._read[name][self._order] for name in names}

    def _blocks(self) -> Iterator[tuple[Packed, slice | Counts]]:
        return ((columns.columns(), at) for columns, at in self._held)

    def where(self, mask: Mask) -> Taken:
        """Returns the samples that a mask selects, as a table of the same visits."""
        selected = copy(self)
        selected._count(self.of_visits(mask))  # noqa: SLF001  its own kind
        selected._order = self._order[mask]  # noqa: SLF001
        selected._floats = {}  # noqa: SLF001
        return selected

    def of_visits(self, mask: Mask) -> Counts:
        """Returns the number of samples of each visit that the mask selects."""
        if not mask.any():
            return np.zeros(len(self.counts), np.int64)
        return np.asarray(np.diff(np.concatenate([[0], np.cumsum(mask)])[self.starts]))

    def spread(self, of_visits: NDArray[T]) -> NDArray[T]:
        """Returns the value of each visit repeated for each of its samples."""
        return np.repeat(of_visits, self.counts)

    def least(self, of_samples: NDArray[T]) -> NDArray[T]:
        """Returns the lowest value of each visit. Each visit must have a sample. of_samples: a value for each
        sample."""
        return np.minimum.reduceat(of_samples, self.starts[:-1])

    def most(self, of_samples: NDArray[T]) -> NDArray[T]:
        """Returns the highest value of each visit. Each visit must have a sample."""
        return np.maximum.reduceat(of_samples, self.starts[:-1])

    def sum(self, of_samples: NDArray[T]) -> NDArray[T]:
        """Returns the sum over the samples of each visit. Each visit must have a sample."""
        return np.add.reduceat(of_samples, self.starts[:-1])

    def timed_ns(self) -> Floats:
        """Returns the ns of the timed batches of each sample."""
        body = self.column("body_n") + self.column("body_2n")
        control = self.column("control_n")
        return np.where(control >= 0, body + control + self.column("control_2n"), body)

    def _count(self, counts: Counts) -> None:
        self.counts = counts
        self.starts = np.concatenate([[0], np.cumsum(counts)])


def _at(places: Counts) -> slice | Counts:
    """Returns a slice if the indices are consecutive, since numpy reads it ten times as fast; else the indices."""
    is_row = len(places) and places[-1] - places[0] == len(places) - 1 and bool((np.diff(places) == 1).all())
    return slice(int(places[0]), int(places[-1]) + 1) if is_row else places


def stretches(starts: Counts, counts: Counts) -> Counts:
    """Returns the concatenated ranges of consecutive numbers that begin at `starts` and have these lengths."""
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts))


def ranked(values: Floats, owner: Counts, visits: int) -> tuple[Floats, Counts]:
    """Returns the positive values of all visits, ascending within each visit, and the index at which each visit begins.
    owner: visit of each value. visits: number of visits."""
    kept = values > 0
    values, owner = values[kept], owner[kept]
    # numpy's stable sort is fastest for 16-bit integers (radix sort).
    by_owner = values[np.argsort(owner.astype(np.uint16 if visits < 1 << 16 else np.int64), kind="stable")]
    counts = np.bincount(owner, minlength=visits)
    starts = np.concatenate([[0], np.cumsum(counts)])
    for count in np.unique(counts[counts > 1]).tolist():
        places = starts[:-1][counts == count, None] + np.arange(count)
        by_owner[places] = np.sort(by_owner[places], axis=1)
    return by_owner, starts
