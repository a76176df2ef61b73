# SPDX-License-Identifier: Apache-2.0
"""Keeps the visits of a run as columns, for rules about all visits. A run of 1 GB has 135,000 visits of some hundred
kinds. A rule about properties that all visits of a kind share examines one visit of each kind."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.taken import Counts, Floats, Mask
from tollmeter.model import Outcome, Point, Samples

HERE = "local"
LINUX_CLOCK = "monotonic_raw"
LONGEST_NS = 1 << 62
"""Largest time in ns in a column of 64-bit integers: longer than any run."""


def is_of_this_machine(visit: Outcome) -> bool:
    """Returns whether the visit ran natively on this machine."""
    return visit.point.target == HERE


def has_hardware_time(visit: Outcome) -> bool:
    """Returns whether Linux's clock on this machine timed the visit."""
    return is_of_this_machine(visit) and visit.clock.kind == "hardware" and visit.clock.source == LINUX_CLOCK


class VisitTable:
    """The visits of a run as columns, with one element for each visit unless stated otherwise.

    kinds: number of the visit's kind (`_kind`). firsts: first visit of each kind. counts: number of visits of each
    kind. points: number of the visit's point. of_points: the points by number. probes: number of the probe of each
    point. samples: number of samples. rates: higher rate of the control loops before and after the visit, in additions
    a second; 0 without one. timed: indices of visits with samples that Linux's clock timed on this machine."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes
        number_of_kind, number_of_point = dict[Hashable, int](), dict[Point, int]()
        points_of_kinds = list[int]()
        self.kinds: NDArray[np.int32] = self.column(
            lambda visit: number_of_kind.setdefault(_kind(visit), len(number_of_kind)), np.int32
        )
        self.firsts = [outcomes[place] for place in np.unique(self.kinds, return_index=True)[1].tolist()]
        for visit in self.firsts:
            points_of_kinds.append(number_of_point.setdefault(visit.point, len(number_of_point)))
        self.of_points = [*number_of_point]
        self.probes: Counts = np.unique([point.probe for point in number_of_point], return_inverse=True)[1]
        self.points: NDArray[np.int32] = np.array(points_of_kinds, np.int32)[self.kinds]
        self.counts: Counts = np.bincount(self.kinds, minlength=len(self.firsts))
        self.samples: NDArray[np.int32] = self.column(lambda visit: len(visit.samples), np.int32)
        self.is_here: Mask = self.of_kinds(map(is_of_this_machine, self.firsts), np.bool_)
        self.is_timed: Mask = self.column(has_hardware_time, np.bool_)
        self.timed: Counts = np.flatnonzero(self.is_timed & (self.samples > 0))
        self.at_ns: Counts = self.column(lambda visit: min(visit.at_ns, LONGEST_NS), np.int64)
        self.rates: Floats = self.column(lambda visit: max(visit.controls, default=0.0), np.float64)
        self.resolution_ns: Floats = self.column(lambda visit: visit.clock.resolution_ns, np.float64)
        self.cost_ns: Floats = self.column(lambda visit: visit.clock.cost_ns, np.float64)

    def column(self, of: Callable[[Outcome], Any], kind: Any) -> NDArray[Any]:
        """Returns a column from a function of a visit. kind: number type."""
        return np.fromiter(map(of, self.outcomes), kind, len(self.outcomes))

    def of_kinds(self, values: Iterable[Any], kind: Any) -> NDArray[Any]:
        """Returns a column from one value for each kind."""
        return np.array([*values], kind)[self.kinds]

    def broken(self, why: Callable[[Outcome], str]) -> Iterator[tuple[int, str]]:
        """Yields the index of each visit that breaks a rule, with the rule. why: returns the rule that a visit breaks,
        or an empty text; called once for each kind of visit."""
        sentences = [why(visit) for visit in self.firsts]
        violating = np.flatnonzero(self.of_kinds(map(bool, sentences), np.bool_))
        return (
            (place, sentences[kind])
            for place, kind in zip(violating.tolist(), self.kinds[violating].tolist(), strict=True)
        )


def grouped(places: Counts, owners: NDArray[Any]) -> list[Counts]:
    """Returns the given indices grouped by owner, in ascending order of owners. owners: owner of each visit of the
    table."""
    order = places[np.argsort(owners[places], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(owners[order])) + 1) if len(order) else []


def _kind(visit: Outcome) -> Hashable:
    """Returns a key that is equal for visits that differ only in samples, times, layouts and clocks. Equal values of
    visits are one object, so `id` is compared in a tenth of the time."""
    events = visit.events
    return (
        id(visit.point), id(visit.work), visit.cpus, visit.workers, visit.status, visit.pinned, visit.priority,
        visit.revision, visit.asked_ns, id(visit.counted), visit.seed > 0, visit.at_ns > 0, min(2, len(visit.controls)),
        len(visit.samples) > 0,
        tuple(visit.chosen.items()) if visit.chosen else (), tuple(visit.gauges) if visit.gauges else (),
        companions(visit), _first_cpu(visit),
        events and (events.by, events.kernel, tuple(events.body), tuple(events.control)),
    )  # fmt: skip


def companions(visit: Outcome) -> int:
    """Returns the number of companions of a visit that are timed."""
    samples = Samples.of(visit.samples)
    return len(samples.lanes()[0]) if len(samples) and samples.columns.has_lanes else 0


def _first_cpu(visit: Outcome) -> int:
    """Returns the CPU of the first sample of a visit with several workers; -1 for other visits."""
    return int(Samples.of(visit.samples).column("cpu_before")[0]) if visit.workers and len(visit.samples) else -1
