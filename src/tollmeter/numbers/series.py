# SPDX-License-Identifier: Apache-2.0
"""The values of one metric from all visits of one point, by state of the core, at one clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.batches import Array
from tollmeter.experiment.core_clock import follows_clock
from tollmeter.experiment.core_states import usual
from tollmeter.experiment.precision import LEAST_VISITS, middle_of
from tollmeter.model import REAL_CLOCKS, Metric, StateName
from tollmeter.numbers.readings import Overheads, Reading, costs

_LEAST_VALUES = 4


class Part(NamedTuple):
    """The values of those samples that were taken in one state. visits: one array each, none empty; layouts: of each
    visit; raw: the same values as read off the clock; medians: of the values of each visit. share: of all samples.
    """

    visits: tuple[Array, ...]
    layouts: tuple[int, ...]
    raw: tuple[Array, ...]
    medians: tuple[float, ...]
    share: float = 1.0

    def chosen(self, which: Sequence[bool]) -> Part:
        """Some of the visits."""
        kept = [place for place, wanted in enumerate(which) if wanted]
        share = self.share * len(kept) / len(self.visits)
        return Part(
            tuple(self.visits[i] for i in kept), tuple(self.layouts[i] for i in kept),
            tuple(self.raw[i] for i in kept), tuple(self.medians[i] for i in kept), share,
        )  # fmt: skip

    def where(self, masks: Sequence[NDArray[np.bool_]]) -> Part:
        """Some values of each visit; those of visits that have enough of them, where there are enough of these."""
        visits, raw = ([array[mask] for array, mask in zip(of, masks, strict=True)] for of in (self.visits, self.raw))
        medians = tuple(middle_of(values) if len(values) else 0.0 for values in visits)
        some = Part(tuple(visits), self.layouts, tuple(raw), medians).chosen([bool(mask.any()) for mask in masks])
        seen = sum(int(mask.sum()) for mask in masks) / sum(len(mask) for mask in masks)
        return _without_brief_visits(some)._replace(share=self.share * seen)


class Series(NamedTuple):
    """all: every usable sample; parts: by state, those that were seen often enough to speak; state: of the whole
    series, None where the core's state was not measured. clock_hz: what times are stated at, None where none follows
    the clock.
    """

    all: Part
    parts: Mapping[StateName, Part]
    state: StateName | None
    clock_hz: float | None

    def headline(self) -> tuple[StateName | None, Part]:
        """What the row speaks of: the whole core if it was seen, else whatever there was."""
        return ("whole", self.parts["whole"]) if "whole" in self.parts else (self.state, self.all)


def series_of(
    readings: Sequence[Reading], metric: Metric, paid: Overheads, clocks_hz: Mapping[str, float]
) -> Series | None:
    """None where no visit has a usable value."""
    costed = [(read, array) for read in readings if (array := costs(read, metric, paid)) is not None and len(array)]
    if not costed:
        return None
    stated = _stated_clock(costed, metric, clocks_hz)
    shifts = [read.clock_hz / stated if stated and read.clock_hz else 1.0 for read, _ in costed]
    flat = [array.ravel() for _, array in costed]
    layouts = [read.outcome.seed or -read.outcome.visit - 1 for read, _ in costed]
    everything = _part(flat, shifts, layouts)
    seen = np.repeat(np.concatenate([read.states for read, _ in costed]), costed[0][1].shape[1])
    if (seen == "unknown").all():
        return Series(everything, {}, None, stated)
    names: tuple[StateName, ...] = ("whole", "shared")
    parts = {name: _without_brief_visits(_part(flat, shifts, layouts, seen == name)) for name in names}
    enough = {name: part for name, part in parts.items() if _is_enough(part, len(costed))}
    return Series(everything, enough, usual(seen), stated)


def _stated_clock(
    costed: Sequence[tuple[Reading, Array]], metric: Metric, clocks_hz: Mapping[str, float]
) -> float | None:
    """The clock that a time is stated at, if it follows the clock."""
    outcome = costed[0][0].outcome
    stated = clocks_hz.get(outcome.point.target)
    if stated is None or metric.unit == "cycle" or outcome.clock.kind not in REAL_CLOCKS:
        return None
    clocked = [(middle_of(array), read.clock_hz) for read, array in costed if read.clock_hz]
    return stated if follows_clock([cost for cost, _ in clocked], [clock for _, clock in clocked]) else None


def _part(
    flat: Sequence[Array], shifts: Sequence[float], layouts: Sequence[int], mask: NDArray[np.bool_] | None = None
) -> Part:
    """flat: the values of each visit. mask: of all of them, those that are meant."""
    ends = np.cumsum([len(values) for values in flat])
    counts = (
        np.diff(np.concatenate([[0], np.cumsum(mask)[ends - 1]])).tolist() if mask is not None else [*map(len, flat)]
    )
    kept = [place for place, count in enumerate(counts) if count]
    raw = tuple(
        flat[place] if mask is None or counts[place] == len(flat[place])
        else flat[place][mask[ends[place] - len(flat[place]) : ends[place]]]
        for place in kept
    )  # fmt: skip
    visits = tuple(
        values if shifts[place] == 1 else values * shifts[place] for place, values in zip(kept, raw, strict=True)
    )
    share = sum(counts) / int(ends[-1])
    medians = tuple(middle_of(values) for values in visits)
    return Part(visits, tuple(layouts[place] for place in kept), raw, medians, share)


def _without_brief_visits(part: Part) -> Part:
    """Without the visits that were in the state for a sample or two only, where enough others were there for longer: a
    moment between two visitors is the least sure to have been without one."""
    longer = [len(values) >= _LEAST_VALUES for values in part.visits]
    return part.chosen(longer) if sum(longer) >= LEAST_VISITS else part


def _is_enough(part: Part, visits: int) -> bool:
    return len(part.visits) >= min(LEAST_VISITS, visits) and sum(map(len, part.visits)) >= _LEAST_VALUES
