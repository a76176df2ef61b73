# SPDX-License-Identifier: Apache-2.0
"""The values of one metric from all visits of one point, by state of the core, at one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.core import clock_evidence, usual
from tollmeter.experiment.precision import LEAST_VISITS, middles_of
from tollmeter.experiment.taken import Counts, Mask
from tollmeter.model import REAL_CLOCKS, Metric, StateName
from tollmeter.numbers.readings import Overheads, Reading, costs_of

_LEAST_VALUES = 4


class Part(NamedTuple):
    """The values of those samples that were taken in one state, of one visit after the other. raw: the same values as
    read off the clock; counts: values of each visit, none 0; layouts: of each visit; medians: of the values of each
    visit. share: of all samples.
    """

    values: Array
    raw: Array
    counts: Counts
    layouts: tuple[int, ...]
    medians: Array
    share: float = 1.0

    def visits(self, some: Array | None = None) -> list[Array]:
        """The values of each visit; some: in place of all, as many."""
        ends = np.cumsum(self.counts).tolist()
        values = self.values if some is None else some
        return [values[end - count : end] for end, count in zip(ends, self.counts.tolist(), strict=True)]

    def as_read(self) -> Part:
        return self._replace(values=self.raw, medians=middles_of(self.raw, self.counts))

    def where(self, mask: Mask) -> Part:
        """Some of the values; those of visits that have enough of them, where there are enough of these."""
        some = _part(self.values, self.raw, self.counts, self.layouts, mask)
        return without_brief_visits(some)._replace(share=self.share * some.share)


class Series(NamedTuple):
    """all: every usable sample; parts: by state, those that were seen often enough to speak; state: of the whole
    series, None where the core's state was not measured. clock_hz: what times are stated at, None where they are as
    read. evidence: that they consist of core cycles, as `clock_evidence` gives it.
    """

    all: Part
    parts: Mapping[StateName, Part]
    state: StateName | None
    clock_hz: float | None
    evidence: float = 0.0

    def as_read(self) -> Series:
        """With times of each visit's own clock."""
        parts = {name: part.as_read() for name, part in self.parts.items()}
        return self._replace(all=self.all.as_read(), parts=parts, clock_hz=None)

    def cost(self) -> float:
        """The middle of its visits, as `readings` states costs."""
        return float(np.median(self.headline()[1].medians))

    def headline(self) -> tuple[StateName | None, Part]:
        """What the row speaks of: the whole core if it was seen, else whatever there was."""
        return ("whole", self.parts["whole"]) if "whole" in self.parts else (self.state, self.all)


def series_of(
    readings: Sequence[Reading], metric: Metric, paid: Overheads, clocks_hz: Mapping[str, float]
) -> Series | None:
    """Stated at the clock, where there is one. None where no visit has a usable value."""
    timed, costs = costs_of(readings, metric, paid)
    if not timed:
        return None
    raw, counts = costs.ravel(), np.array([len(read.iterations) for read in timed]) * costs.shape[1]
    during = np.repeat(np.concatenate([(read.clock_hz or 0.0) * read.slowed for read in timed]), costs.shape[1])
    clocks = middles_of(during, counts)
    first = timed[0].outcome
    is_time = metric.unit != "cycle" and first.clock.kind in REAL_CLOCKS
    stated = clocks_hz.get(first.point.target) if is_time else None
    evidence = clock_evidence(middles_of(raw, counts)[clocks > 0], clocks[clocks > 0]) if stated else 0.0
    layouts = tuple([read.outcome.seed or -read.outcome.visit - 1 for read in timed])
    values = raw * np.where(during > 0, during / stated, 1.0) if stated else raw
    everything = Part(values, raw, counts, layouts, middles_of(values, counts))
    seen = np.concatenate([read.states for read in timed])
    if (seen == "unknown").all():
        return Series(everything, {}, None, stated, evidence)
    names: tuple[StateName, ...] = ("whole", "shared")
    masks = ((name, np.repeat(seen == name, costs.shape[1])) for name in names)
    parts = {name: without_brief_visits(_part(values, raw, counts, layouts, mask)) for name, mask in masks}
    least = min(LEAST_VISITS, len(timed))
    enough = {
        name: part for name, part in parts.items() if len(part.counts) >= least and len(part.values) >= _LEAST_VALUES
    }
    return Series(everything, enough, usual(seen), stated, evidence)


def _part(values: Array, raw: Array, counts: Counts, layouts: Sequence[int], mask: Mask) -> Part:
    """Some of the values, without the visits that then have none. counts, layouts: of each visit, all values."""
    ends = np.cumsum(counts)
    some = np.diff(np.concatenate([[0], np.cumsum(mask)[ends - 1]]))
    kept = some > 0
    share, counts = int(mask.sum()) / len(mask), some[kept]
    seen = raw[mask]
    used = seen if values is raw else values[mask]
    return Part(used, seen, counts, tuple(compress(layouts, kept)), middles_of(used, counts), share)


def without_brief_visits(part: Part) -> Part:
    """Without the visits that were in the state for a sample or two only, where enough others were there for longer: a
    moment between two visitors is the least sure to have been without one."""
    longer = part.counts >= _LEAST_VALUES
    if longer.sum() < LEAST_VISITS:
        return part
    mask, layouts = np.repeat(longer, part.counts), tuple(compress(part.layouts, longer))
    share = part.share * len(layouts) / len(part.layouts)
    return Part(part.values[mask], part.raw[mask], part.counts[longer], layouts, part.medians[longer], share)
