# SPDX-License-Identifier: Apache-2.0
"""The samples of several visits as one table. A visit has a dozen samples; numpy processes the samples of a thousand
visits together a thousand times as fast as one visit at a time."""

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
"""Visits in a chunk. Their columns take 128 KiB each: the C library maps a block of 256 KiB separately
(model/samples.py), and faulting in its pages for each column took a fifth of the time."""
MANY_VISITS = 8192
"""Visits whose derived values take 40 MB; as many visits estimate a core's clock and width as well as 200,000 do."""


def chunks(visits: Sequence[V], at_once: int = 0) -> Iterator[Sequence[V]]:
    """Yields visits in chunks whose samples fit into a CPU's cache."""
    at_once = at_once or _AT_ONCE
    return (visits[start : start + at_once] for start in range(0, len(visits), at_once))


class Taken:
    """The samples of several visits as columns. counts: number of samples of each visit; starts: index of each visit's
    first sample, and the total."""

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
        """Returns one of model.Columns as a read-only array. A value that the system does not report is -1. The column
        is cached, since a rule reads it several times."""
        if name not in self._floats:
            self._floats[name] = np.asarray(self.whole((name,))[name], np.float64)
            self._floats[name].flags.writeable = False
        return self._floats[name]

    def whole(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Returns columns in their own types, so that nanoseconds of a long time are not rounded. They are not cached:
        arrays of less than 256 KiB fragment the heap, by 80 MB for a run of 1 GB."""
        lacking: Sequence[str] = [name for name in names if name not in self._read]
        if lacking and len(self._held) > RECENT:
            # All are read together: the samples of one point may be in 2,000 blocks of a file.
            lacking = COLUMNS
        if lacking:
            read = [[block[name][at] for name in lacking] for block, at in self._blocks()]
            several = zip(*read, strict=True) if read else ([np.empty(0)] for _ in lacking)
            self._read.update(zip(lacking, map(np.concatenate, several), strict=True))
        return {name: self._read[name][self._order] for name in names}

    def _blocks(self) -> Iterator[tuple[Packed, slice | Counts]]:
        return ((columns.columns(), at) for columns, at in self._held)

    def where(self, mask: Mask) -> Taken:
        """Returns the samples that a mask selects."""
        some = copy(self)
        some._count(self.of_visits(mask))  # noqa: SLF001  its own kind
        some._order = self._order[mask]  # noqa: SLF001
        some._floats = {}  # noqa: SLF001
        return some

    def of_visits(self, mask: Mask) -> Counts:
        """Returns how many samples of each visit the mask selects, in most cases none."""
        if not mask.any():
            return np.zeros(len(self.counts), np.int64)
        return np.asarray(np.diff(np.concatenate([[0], np.cumsum(mask)])[self.starts]))

    def spread(self, of_visits: NDArray[T]) -> NDArray[T]:
        """Returns an array with each visit's value repeated for each of its samples."""
        return np.repeat(of_visits, self.counts)

    def least(self, of_samples: NDArray[T]) -> NDArray[T]:
        """Returns the lowest value of each visit. Each visit must have a sample."""
        return np.minimum.reduceat(of_samples, self.starts[:-1])

    def most(self, of_samples: NDArray[T]) -> NDArray[T]:
        return np.maximum.reduceat(of_samples, self.starts[:-1])

    def sum(self, of_samples: NDArray[T]) -> NDArray[T]:
        return np.add.reduceat(of_samples, self.starts[:-1])

    def timed_ns(self) -> Floats:
        """Returns the ns that each sample spent in timed batches."""
        body = self.column("body_n") + self.column("body_2n")
        control = self.column("control_n")
        return np.where(control >= 0, body + control + self.column("control_2n"), body)

    def _count(self, counts: Counts) -> None:
        self.counts = counts
        self.starts = np.concatenate([[0], np.cumsum(counts)])


def _at(places: Counts) -> slice | Counts:
    """Returns a slice for consecutive indices, which reads ten times as fast as the indices themselves."""
    is_row = len(places) and places[-1] - places[0] == len(places) - 1 and bool((np.diff(places) == 1).all())
    return slice(int(places[0]), int(places[-1]) + 1) if is_row else places


def stretches(starts: Counts, counts: Counts) -> Counts:
    """Returns the concatenated ranges of consecutive numbers that begin at `starts` and have these counts."""
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts))


def ranked(values: Floats, owner: Counts, visits: int) -> tuple[Floats, Counts]:
    """Returns the positive values of all visits, visit after visit, each visit's in ascending order, and the index at
    which each visit begins. owner: visit of each value."""
    kept = values > 0
    values, owner = values[kept], owner[kept]
    # A stable sort of 16 bits is numpy's fastest.
    by_owner = values[np.argsort(owner.astype(np.uint16 if visits < 1 << 16 else np.int64), kind="stable")]
    counts = np.bincount(owner, minlength=visits)
    starts = np.concatenate([[0], np.cumsum(counts)])
    for count in np.unique(counts[counts > 1]).tolist():
        places = starts[:-1][counts == count, None] + np.arange(count)
        by_owner[places] = np.sort(by_owner[places], axis=1)
    return by_owner, starts
