# SPDX-License-Identifier: Apache-2.0
"""What a row needs to know beyond its own visits: from all of its run, and from the machine's earlier runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tollmeter.experiment.core_states import core_hz, full_width
from tollmeter.experiment.precision import USUAL_RUNS_SD, Scatter
from tollmeter.model import PRECISION, Outcome, Probe
from tollmeter.numbers.readings import Reading, reading

Place = tuple[str, str]
"""Target and ABI."""


class Learned(NamedTuple):
    """What earlier runs of the same machine say: how much runs differ, by probe, as the standard deviation of
    logarithms; and the widths of its core."""

    runs_sd: Mapping[str, float] = {}
    widths: Mapping[Place, float] = {}


class Known(NamedTuple):
    """clocks_hz: core clock by target, which times are stated at; widths: of the whole core; scatter: by probe and
    metric. readings: those that were made already, by the outcome's identity; None where none is kept."""

    clocks_hz: Mapping[str, float] = {}
    widths: Mapping[Place, float] = {}
    scatter: Mapping[tuple[str, str], Scatter] = {}
    learned: Learned = Learned()
    precision: float = PRECISION
    readings: dict[int, Reading] | None = None

    def reading(self, told: Outcome, probe: Probe) -> Reading:
        """Of one visit. Rows, settlement and pairs all ask for it."""
        kept = None if self.readings is None else self.readings.get(id(told))
        if kept is not None and kept.outcome is told:
            return kept
        made = reading(told, probe, self.widths.get((told.point.target, told.point.abi)))
        if self.readings is not None:
            self.readings[id(told)] = made
        return made

    def scatter_of(self, probe: str, metric: str) -> Scatter:
        return self.scatter.get((probe, metric)) or Scatter(runs_sd=self.runs_sd(probe))

    def runs_sd(self, probe: str) -> float:
        return self.learned.runs_sd.get(probe, USUAL_RUNS_SD)


def machine_known(outcomes: Sequence[Outcome], learned: Learned = Learned(), precision: float = PRECISION) -> Known:
    """All but the scatter, which takes the machine's state to be read."""
    seen = core_widths(outcomes)
    widths = {place: max(width, learned.widths.get(place, 0.0)) for place, width in seen.items()}
    return Known(core_clocks_hz(outcomes), widths, {}, learned, precision, {})


def core_clocks_hz(outcomes: Iterable[Outcome]) -> dict[str, float]:
    """Core clock of each target: median over its visits by the hardware's clock."""
    rates: dict[str, list[float]] = {}
    for outcome in outcomes:
        rate = core_hz(outcome)
        if rate is not None and outcome.status == "ok" and outcome.clock.kind == "hardware":
            rates.setdefault(outcome.point.target, []).append(rate)
    return {target: float(np.median(seen)) for target, seen in rates.items()}


def core_widths(outcomes: Iterable[Outcome]) -> dict[Place, float]:
    """Width of the whole core by target and ABI, whose registers bound it too."""
    groups: dict[Place, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if outcome.status == "ok" and outcome.clock.kind == "hardware":
            groups[outcome.point.target, outcome.point.abi].append(outcome)
    found = {place: full_width(group) for place, group in groups.items()}
    return {place: width for place, width in found.items() if width}
