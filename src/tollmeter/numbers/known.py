# SPDX-License-Identifier: Apache-2.0
"""Knowledge that a row uses beyond its own visits: from the whole run, and from earlier runs of the machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isclose
from operator import is_
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from tollmeter.experiment.core import ClockEvidence, core_seen, follows_clock
from tollmeter.experiment.limits import NEGLIGIBLE
from tollmeter.experiment.precision import Scatter
from tollmeter.experiment.runs_differ import USUAL_SHARED, group_of, learned_sd, name_words, size_in_name
from tollmeter.experiment.taken import MANY_VISITS
from tollmeter.model import PRECISION, REAL_CLOCKS, Metric, Outcome, Point, Probe, Row, StateName, assignments
from tollmeter.numbers.readings import Overheads, Reading, overheads, readings
from tollmeter.numbers.series import Series, series_of

T = TypeVar("T")

Place = tuple[str, str]
"""Target and ABI."""


class SharedCache(NamedTuple):
    """The last cache of a guest, which other guests of its host also use. low, high: data of more than `low` and at
    most `high` bytes are in this cache."""

    name: str
    low: int
    high: int


class Learned(NamedTuple):
    """Results of earlier runs of the machine. runs_sd: between-run standard deviation of logarithms, by group of rows,
    and by row where it exceeds that of its group. widths: widths of the uncontended core, in additions per cycle.
    private_bytes: bytes that certainly fit into private caches, or 0. shared: the shared cache beyond the private ones,
    None if there is none."""

    runs_sd: Mapping[str, float] = {}
    widths: Mapping[Place, float] = {}
    private_bytes: int = 0
    shared: SharedCache | None = None


class ReadingCache(NamedTuple):
    """A cache of readings by the identity of their outcome, and of results with their inputs. Scatter, rows and
    convergence use it."""

    readings: dict[int, Reading]
    results: dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]]

    def clear(self) -> None:
        """Removes all readings and results."""
        self.readings.clear()
        self.results.clear()


def nothing_made() -> ReadingCache:
    """Returns an empty cache."""
    return ReadingCache({}, {})


class Known(NamedTuple):
    """Knowledge from the whole run. clocks_hz: core clock by target, to which times are converted. widths: width of the
    uncontended core by target and ABI, in additions per cycle. contended: share of the width readings below 95 % of
    this width, if known. alternating: targets and ABIs whose sibling hyperthread becomes busy and idle within a sample,
    so that the state of no sample is known. scatter: prior knowledge of the scatter of visits, by probe, metric and
    state. evidence: evidence that costs follow the core clock, by probe, metric and target. learned: results of earlier
    runs. precision: requested half-width, as a share. made: cache of results; None if nothing is cached. counts:
    whether the runtime counts the work of a visit, which old runtimes do not."""

    clocks_hz: Mapping[str, float] = {}
    widths: Mapping[Place, float] = {}
    scatter: Mapping[tuple[str, str, StateName | None], Scatter] = {}
    evidence: Mapping[tuple[str, str, str], ClockEvidence] = {}
    learned: Learned = Learned()
    precision: float = PRECISION
    made: ReadingCache | None = None
    alternating: frozenset[Place] = frozenset()
    contended: Mapping[Place, float] = {}
    counts: bool = False

    def is_of_like_machine(self, other: Known) -> bool:
        """Returns whether results that were cached with this knowledge are valid for the other: widths and clocks agree
        within their error."""
        return (
            self.made is not None
            and _are_close(self.widths, other.widths)
            and _are_close(self.clocks_hz, other.clocks_hz)
            and (self.alternating, self.counts) == (other.alternating, other.counts)
        )

    def width_for_states(self, outcome: Outcome) -> float:
        """Returns the width of the uncontended core (additions per cycle) by which the samples of a visit are
        classified; 0 if it is unknown, or if the states cannot be known."""
        place = outcome.point.target, outcome.point.abi
        return 0.0 if place in self.alternating else self.widths.get(place, 0.0)

    def readings(self, outcomes: Sequence[Outcome], probe: Probe) -> list[Reading]:
        """Returns the readings of visits of one probe, cached or new."""
        unread = self.unread(outcomes)
        new = self.read(unread, [probe] * len(unread))
        return new if self.made is None else [self.made.readings[id(outcome)] for outcome in outcomes]

    def unread(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Returns the outcomes whose readings are not cached."""
        cached = self.made.readings if self.made is not None else {}
        return [
            outcome for outcome in outcomes if (read := cached.get(id(outcome))) is None or read.outcome is not outcome
        ]

    def read(self, outcomes: Sequence[Outcome], probes: Sequence[Probe]) -> list[Reading]:
        """Reads visits together, which takes less time than one by one, and returns and caches their readings. probes:
        probe of each visit."""
        new = readings(outcomes, probes, [self.width_for_states(outcome) for outcome in outcomes])
        if self.made is not None:
            self.made.readings.update((id(read.outcome), read) for read in new)
        return new

    def once(self, name: tuple[Any, ...], of: Iterable[Any], make: Callable[[], T]) -> T:
        """Returns the cached result of this name. Makes it if an input is another object than before, or if nothing is
        cached. of: the inputs."""
        if self.made is None:
            return make()
        inputs = tuple(of)
        cached_inputs, result = self.made.results.get(name, ((), None))
        if len(cached_inputs) != len(inputs) or not all(map(is_, cached_inputs, inputs)):
            result = make()
            self.made.results[name] = inputs, result
        return cast("T", result)

    def overheads(self, readings: Sequence[Reading]) -> Overheads:
        """Returns the overheads of the batches of one point."""
        if not readings:
            return overheads(readings)
        return self.once(("paid", readings[0].outcome.point), readings, lambda: overheads(readings))

    def series(self, readings: Sequence[Reading], metric: Metric, paid: Overheads) -> Series | None:
        """Returns the series of one metric of one point; None if no visit has it."""
        if not readings or len(readings) > MANY_VISITS:
            return series_of(readings, metric, paid, self.clocks_hz)
        name = "series", readings[0].outcome.point, metric.name
        return self.once(name, readings, lambda: series_of(readings, metric, paid, self.clocks_hz))

    def stated(self, series: Series, point: Point, metric: str) -> Series:
        """Returns the series converted to the common core clock if its times consist of core cycles, else as it was
        read."""
        cost = series.cost()
        evidence = self.evidence.get((point.probe, metric, point.target)) or ClockEvidence([cost], [series.evidence])
        follows = series.clock_hz and cost > 0 and follows_clock(cost, evidence)
        return series if follows else series.as_read()

    def runs_sd(self, name: str) -> float:
        """Returns the between-run standard deviation of the logarithm of a row's times. name: as `row_name` returns
        it."""
        learned, (_, _, abi, target, *_) = self.learned.runs_sd, name_words(name)
        sd = learned.get(name) or learned_sd(
            learned, group_of(name, self.learned.private_bytes), self.contended.get((target, abi), 0.0)
        )
        return max(sd, USUAL_SHARED) if self.shares(name) and name not in learned else sd

    def shares(self, name: str) -> str:
        """Returns the name of the shared cache that contains the data of a row; empty if none does. name: as `row_name`
        returns it."""
        shared, size = self.learned.shared, size_in_name(name)
        return shared.name if shared and " local " in name and shared.low < size <= shared.high else ""


def _are_close(first: Mapping[Any, float], second: Mapping[Any, float]) -> bool:
    """Returns whether both have the same keys, with values that agree within their error."""
    return first.keys() == second.keys() and all(isclose(first[key], second[key], rel_tol=NEGLIGIBLE) for key in first)


def row_name(row: Row, state: StateName | None) -> str:
    """Returns the name under which the history stores a row in one state. It begins with the probe."""
    parameters = " ".join(assignments(sorted(row.parameters.items())))
    return " ".join([row.probe, str(row.revision), row.abi, row.target, row.metric, str(state), parameters])


def machine_known(outcomes: Iterable[Outcome], learned: Learned = Learned(), precision: float = PRECISION) -> Known:
    """Returns the knowledge of clocks and widths. The scatter is empty, since it needs the states of samples, which
    need the widths."""
    groups: dict[Place, list[Outcome]] = defaultdict(list)
    counts = False
    for outcome in outcomes:
        counts = counts or outcome.counted is not None
        if outcome.status == "ok" and outcome.clock.kind in REAL_CLOCKS:
            groups[outcome.point.target, outcome.point.abi].append(outcome)
    rates: dict[str, list[float]] = defaultdict(list)
    widths, contended = dict[Place, float](), dict[Place, float]()
    cores = {place: core_seen(group[:: len(group) // MANY_VISITS + 1]) for place, group in groups.items()}
    for place, core in cores.items():
        rates[place[0]] += core.clocks_hz[core.clocks_hz > 0].tolist()
        if core.width:
            widths[place] = max(core.width, learned.widths.get(place, 0.0))
            contended[place] = core.contended_share(widths[place])
    clocks_hz = {
        target: float(np.median(rates_of_target)) for target, rates_of_target in rates.items() if rates_of_target
    }
    alternating = frozenset(place for place, core in cores.items() if core.alternates)
    return Known(clocks_hz, widths, {}, {}, learned, precision, nothing_made(), alternating, contended, counts)


def core_widths(outcomes: Iterable[Outcome]) -> Mapping[Place, float]:
    """Returns the width of the uncontended core by target and ABI, in additions per cycle. It depends on the ABI, since
    the number of registers limits it."""
    return machine_known(outcomes).widths
