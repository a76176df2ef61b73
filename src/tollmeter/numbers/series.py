# SPDX-License-Identifier: Apache-2.0
"""Collects the values of one metric from all visits of one point, by state of the core, and converts them to one core
clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Literal, NamedTuple

import numpy as np

from tollmeter.experiment.batches import Array
from tollmeter.experiment.core import clock_evidence
from tollmeter.experiment.limits import LEAST_VALUES, LEAST_VISITS, UNDISTURBED
from tollmeter.experiment.precision import middles_of, quantiles_of
from tollmeter.experiment.taken import Counts, Mask
from tollmeter.model import REAL_CLOCKS, Metric, StateName
from tollmeter.numbers.readings import Overheads, Reading, costs_of, together

_ONE_SIDED = ("body", "control")
"""Sources whose batches can only be lengthened by other workloads. The error of a difference has both signs, as has
that of values from companions."""

Location = Literal["quantile", "median", "mean"]


class Part(NamedTuple):
    """The values of samples that were taken in one state, visit after visit. values: costs (readings.py), converted to
    one core clock or as read. raw: costs as read. counts: number of values of each visit, never 0. layouts: layout of
    each visit. weights: iterations of each value, for a mean over time. by: the statistic that represents a visit.
    costs: this statistic of each visit. share: number of these values as a share of all."""

    values: Array
    raw: Array
    counts: Counts
    layouts: tuple[int, ...]
    weights: Array
    by: Location
    costs: Array
    share: float = 1.0

    def visits(self, some: Array | None = None) -> list[Array]:
        """Returns the values of each visit. some: other values to split in the same way, equal in number."""
        ends = np.cumsum(self.counts).tolist()
        split = self.values if some is None else some
        return [split[end - count : end] for end, count in zip(ends, self.counts.tolist(), strict=True)]

    def as_read(self) -> Part:
        """Returns the part with times as read, not converted to another clock."""
        return self._replace(values=self.raw, costs=_costs(self.raw, self.counts, self.weights, self.by))

    def where(self, mask: Mask, by: Location) -> Part:
        """Returns the part with the values that a mask selects, without visits that become empty. by: statistic that
        represents a visit."""
        ends = np.cumsum(self.counts)
        selected = np.diff(np.concatenate([[0], np.cumsum(mask)[ends - 1]])) if len(ends) else self.counts
        kept = selected > 0
        values, weights, counts = self.values[mask], self.weights[mask], selected[kept]
        raw = values if self.values is self.raw else self.raw[mask]
        share = self.share * int(mask.sum()) / max(1, len(mask))
        costs = _costs(values, counts, weights, by)
        return Part(values, raw, counts, tuple(compress(self.layouts, kept)), weights, by, costs, share)

    def of_long_visits(self) -> Part:
        """Returns the part without visits that have fewer than LEAST_VALUES values."""
        return self.where(np.repeat(self.counts >= LEAST_VALUES, self.counts), self.by)


def _costs(values: Array, counts: Counts, weights: Array, by: Location) -> Array:
    """Returns the cost that represents each visit. counts: number of values of each visit. by: the statistic."""
    if by == "quantile":
        return quantiles_of(values, counts, UNDISTURBED)
    if by == "median" or not len(counts):
        return middles_of(values, counts)
    starts = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(values * weights, starts) / np.add.reduceat(weights, starts))


class Series(NamedTuple):
    """The values of one metric at one point. all: every usable sample. parts: samples by core state, for states that
    enough visits have. state: state under which `all` is stated, None if the state of the core was not measured.
    clock_hz: clock to which times are converted, None if they are as read. evidence: whether times consist of core
    cycles, by `clock_evidence`."""

    all: Part
    parts: Mapping[StateName, Part]
    state: StateName | None
    clock_hz: float | None
    evidence: float = 0.0

    def as_read(self) -> Series:
        """Returns the series with times as read, not converted to another clock."""
        parts = {name: part.as_read() for name, part in self.parts.items()}
        return self._replace(all=self.all.as_read(), parts=parts, clock_hz=None)

    def cost(self) -> float:
        """Returns the median cost of the visits in the main state, as costs are defined in readings.py."""
        return float(np.median(self.headline()[1].costs))

    def by_state(self) -> dict[StateName | None, Part]:
        """Returns the parts that a row states, its main state first: the cost on an uncontended core if measured, then
        the cost over all samples, then the cost beside a busy sibling."""
        by_name: tuple[tuple[StateName | None, Part | None], ...] = (
            ("uncontended", self.parts.get("uncontended")), (self.state, self.all),
            ("contended", self.parts.get("contended")),
        )  # fmt: skip
        return {name: part for name, part in by_name if part is not None}

    def headline(self) -> tuple[StateName | None, Part]:
        """Returns the main state of the row and its part."""
        return next(iter(self.by_state().items()))


def series_of(
    readings: Sequence[Reading], metric: Metric, paid: Overheads, clocks_hz: Mapping[str, float]
) -> Series | None:
    """Returns the series, converted to the common core clock if one is given; None if no visit has a usable value.
    clocks_hz: common core clock by target."""
    timed, costs = costs_of(readings, metric, paid)
    if not timed:
        return None
    columns = costs.shape[1]
    of_visits = np.array([read.many for read in timed])
    raw, counts = costs.ravel(), of_visits * columns
    slowed, iterations, states = together(timed, "slowed", "iterations", "states")
    clock_of_value = np.repeat(np.repeat([read.clock_hz or 0.0 for read in timed], of_visits) * slowed, columns)
    clocks = middles_of(clock_of_value, counts)
    first = timed[0].outcome
    is_time = metric.unit != "cycle" and first.clock.kind in REAL_CLOCKS
    common_hz = clocks_hz.get(first.point.target) if is_time else None
    evidence = clock_evidence(middles_of(raw, counts)[clocks > 0], clocks[clocks > 0]) if common_hz else 0.0
    layouts = tuple([read.outcome.seed or -read.outcome.visit - 1 for read in timed])
    values = raw * np.where(clock_of_value > 0, clock_of_value / common_hz, 1.0) if common_hz else raw
    weights = (iterations[:, None] * np.arange(1.0, 1.0 + columns)).ravel()
    state_of_value = np.repeat(states, columns)
    has_states = bool((state_of_value != "unknown").any())
    by: Location = "mean" if has_states else "median"
    everything = Part(values, raw, counts, layouts, weights, by, _costs(values, counts, weights, by))
    if not has_states:
        return Series(everything, {}, None, common_hz, evidence)
    statistic_of_state: dict[StateName, Location] = {
        "uncontended": "quantile" if metric.source in _ONE_SIDED else "median", "contended": "median",
    }  # fmt: skip
    parts = {
        name: everything.where(state_of_value == name, way).of_long_visits() for name, way in statistic_of_state.items()
    }
    least = min(LEAST_VISITS, len(timed))
    stated_parts = {name: part for name, part in parts.items() if len(part.counts) >= least}
    return Series(everything, stated_parts, "all", common_hz, evidence)
