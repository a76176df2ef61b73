# SPDX-License-Identifier: Apache-2.0
"""Determines which samples were disturbed, by evidence recorded with them and never by their value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tollmeter.experiment.limits import HARDLY, SAME_WITHIN
from tollmeter.experiment.taken import Floats, Taken, chunks, ranked
from tollmeter.model import Outcome, Probe, Sample, Samples

TICK_NS = 10_000_000
"""Length in ns of a tick by which the kernel accounts stolen time."""
REASONS = (
    None, "another process ran on its CPU", "major fault", "moved to another CPU", "time stolen by the hypervisor",
    "control loop off its rate",
)  # fmt: skip
"""Reasons by the index that `disturbances` returns, gravest first; index 0 is no disturbance."""


def reasons(visit_samples: Sequence[Sample], probe: Probe) -> list[str | None]:
    """Returns for each sample of one visit why it is discarded; None if it is used."""
    return [REASONS[why] for why in disturbances(Taken([visit_samples]), [probe]).tolist()]


def reasons_of(taken: Taken, visits: Sequence[Outcome], probes: Mapping[str, Probe]) -> NDArray[np.object_]:
    """Returns for each sample of several visits why it is discarded; None if it is used. taken: their samples."""
    return np.array(REASONS, object)[disturbances(taken, [probes[outcome.point.probe] for outcome in visits])]


def disturbances(taken: Taken, probes: Sequence[Probe]) -> NDArray[np.int64]:
    """Returns for each sample the index of its reason in REASONS, 0 if it is undisturbed. probes: the probe of each
    visit."""
    before, after = taken.column("cpu_before"), taken.column("cpu_after")
    may_switch = taken.spread(np.array([probe.switches for probe in probes], dtype=bool))
    may_fault = taken.spread(np.array([probe.faults for probe in probes], dtype=bool))
    # By the time lost, if the system reports it; else by whether the worker was switched out.
    lost_ns = taken.column("delay_ns")
    is_lost = np.where(lost_ns < 0, taken.column("involuntary") > 0, lost_ns > HARDLY * taken.timed_ns())
    is_disturbed = [
        is_lost & ~may_switch,
        (taken.column("major_faults") > 0) & ~may_fault,
        (before != after) & (np.minimum(before, after) >= 0),
        taken.column("steal_ticks") > 0,
        _is_off(taken),
    ]
    return np.select(is_disturbed, range(1, len(REASONS)), 0)


def usual_control_hz(taken: Taken) -> Floats:
    """Returns the median rate of dependent additions around the samples of each visit, per second; 0 without a
    reading."""
    visits = len(taken.counts)
    owner = np.repeat(np.arange(visits), taken.counts)
    rates = np.concatenate([taken.column("control_before_hz"), taken.column("control_hz")])
    ordered, starts = ranked(rates, np.concatenate([owner, owner]), visits)
    counts = np.diff(starts)
    has_readings = counts > 0
    first, count = starts[:-1][has_readings], counts[has_readings]
    medians = np.zeros(visits)
    medians[has_readings] = (ordered[first + (count - 1) // 2] + ordered[first + count // 2]) / 2
    return medians


def sleeping(outcomes: Sequence[Outcome], probe: Probe, waits: Floats) -> str | None:
    """Returns why a point has no number, if its worker gave up the CPU in most samples although its probe does not
    declare that it waits; else None. Exempt are probes with companions, with which a worker synchronises, and external
    clocks, whose marks may make it wait. waits: voluntary switches of each sample."""
    if probe.switches or probe.roles or any(outcome.clock.kind != "hardware" for outcome in outcomes):
        return None
    often = float(np.median(waits)) if len(waits) else 0.0
    if often <= 0:
        return None
    return f"its worker waited {often:g} times in a sample, and the probe does not declare that it switches"


def missing_evidence(outcome: Outcome, probe: Probe) -> tuple[str, ...]:
    """Returns the names of the evidence that the samples of a visit lack. A sample without it is unobserved rather than
    undisturbed. An instruction count needs none, since it cannot be disturbed."""
    if outcome.clock.kind == "instructions" or not outcome.samples:
        return ()
    samples, is_hardware = Samples.of(outcome.samples), outcome.clock.kind == "hardware"
    if outcome.pinned is not False and samples.reports_all():
        return ()
    missing = {
        "other processes on the CPU": not probe.switches and samples.lacks("delay_ns", "involuntary"),
        "page faults": not probe.faults and samples.lacks("major_faults"),
        "time stolen by the hypervisor": is_hardware and samples.lacks("steal_ticks"),
        "the CPU that it ran on": outcome.pinned is False
        and bool((np.minimum(samples.column("cpu_before"), samples.column("cpu_after")) < 0).any()),
        "staying on one CPU": outcome.pinned is False and is_hardware,
    }
    return tuple(name for name, lacks in missing.items() if lacks)


def unseen_share(outcomes: Sequence[Outcome], probes: Mapping[str, Probe]) -> float:
    """Returns the share of all samples that belong to visits with missing evidence."""
    counts = [
        (len(outcome.samples), bool(missing_evidence(outcome, probes[outcome.point.probe]))) for outcome in outcomes
    ]
    total = sum(count for count, _ in counts)
    return sum(count for count, lacks in counts if lacks) / total if total else 0.0


def stolen_share(outcomes: Sequence[Outcome]) -> float:
    """Returns the share of the time of all samples that the hypervisor gave to other guests. The kernel counts it in
    whole ticks, so a short sample may seem to lose more than its own time."""
    ticks, measured_ns = 0, 0.0
    for chunk in chunks(outcomes):
        taken = Taken(outcome.samples for outcome in chunk)
        ticks += int(np.maximum(taken.column("steal_ticks"), 0.0).sum())
        measured_ns += float(taken.timed_ns().sum())
    return min(1.0, TICK_NS * ticks / measured_ns) if measured_ns > 0 else 0.0


def _is_off(taken: Taken) -> NDArray[np.bool_]:
    """Returns for each sample whether the control-loop rate is off both before and after it. A reading that is off on
    one side only was itself interrupted, which says nothing about the sample. Most visits are skipped, since no two of
    their rates differ by 5 %."""
    rates = np.stack([taken.column("control_before_hz"), taken.column("control_hz")])
    has_samples, varies = taken.counts > 0, np.zeros(len(taken.counts), dtype=bool)
    if len(taken):
        begins = taken.starts[:-1][has_samples]
        least = np.minimum.reduceat(np.where(rates > 0, rates, np.inf).min(axis=0), begins)
        varies[has_samples] = np.maximum.reduceat(rates.max(axis=0), begins) > (1 + SAME_WITHIN) * least
    is_examined, off = taken.spread(varies), np.zeros(len(taken), dtype=bool)
    off[is_examined] = _is_off_usual(taken.where(is_examined))
    return off


def _is_off_usual(taken: Taken) -> NDArray[np.bool_]:
    """Returns for each sample whether both its rates are above, or both below, the median of its visit by more than 5
    %. An unmeasured rate is ignored."""
    median_hz = taken.spread(usual_control_hz(taken))
    rates = np.stack([taken.column("control_before_hz"), taken.column("control_hz")])
    is_measured = (rates > 0) & (median_hz > 0)
    deviation = rates / np.where(median_hz > 0, median_hz, 1.0) - 1
    above, below = (deviation > SAME_WITHIN) | ~is_measured, (deviation < -SAME_WITHIN) | ~is_measured
    return np.asarray(is_measured.any(axis=0) & (above.all(axis=0) | below.all(axis=0)))
