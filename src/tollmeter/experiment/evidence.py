# SPDX-License-Identifier: Apache-2.0
"""Which samples were disturbed, judged by what was seen beside them and never by their value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tollmeter.model import Outcome, Probe, Sample, Witness

CONTROL_MAY_MOVE = 0.05
MOST_LOST = 0.01
"""Of a sample's time, to whoever else ran: what a short interrupt takes is less, and is part of any machine's day."""


def reasons(visit_samples: Sequence[Sample], probe: Probe) -> list[str | None]:
    """Why each sample of one visit is not used, in order; None where it is."""
    usual = usual_control_hz(visit_samples)
    return [set_aside(sample, usual, probe) for sample in visit_samples]


def usual_control_hz(visit_samples: Sequence[Sample]) -> float:
    """Median rate of dependent additions seen beside the samples of one visit; 0 where none was taken."""
    rates = [rate for sample in visit_samples for rate in control_rates(sample.witness)]
    return median(rates) if rates else 0.0


def control_rates(witness: Witness) -> list[float]:
    return [rate for rate in (witness.control_before_hz, witness.control_hz) if rate > 0]


def set_aside(sample: Sample, usual_hz: float, probe: Probe) -> str | None:
    """usual_hz: of the control loop in the sample's visit; 0 where it is not known."""
    witness = sample.witness
    if not probe.switches and _lost_time(sample):
        return "its CPU was somebody else's"
    if (witness.major_faults or 0) > 0 and not probe.faults:
        return "major fault"
    if witness.cpu_before != witness.cpu_after and min(witness.cpu_before, witness.cpu_after) >= 0:
        return "moved to another CPU"
    if (witness.steal_ticks or 0) > 0:
        return "time stolen by the hypervisor"
    return "control loop off its rate" if usual_hz > 0 and _is_off(witness, usual_hz) else None


def unseen(told: Outcome, probe: Probe) -> tuple[str, ...]:
    """What nobody saw beside a visit's samples, in words. A sample that nothing speaks against was then not found calm
    but not looked at. A count of instructions has nothing to be disturbed by.
    """
    if told.clock.kind == "instructions" or not told.samples:
        return ()
    seen = [sample.witness for sample in told.samples]
    missing = {
        "whether somebody else had its CPU": not probe.switches
        and any(one.delay_ns is None and one.involuntary is None for one in seen),
        "whether it waited for a page": not probe.faults and any(one.major_faults is None for one in seen),
        "on which CPU it ran": told.pinned is False and any(min(one.cpu_before, one.cpu_after) < 0 for one in seen),
    }
    return tuple(what for what, lacks in missing.items() if lacks)


def unseen_share(outcomes: Sequence[Outcome], probes: Mapping[str, Probe]) -> float:
    """Of all samples, those of visits where some of it was not seen."""
    counts = [(len(told.samples), bool(unseen(told, probes[told.point.probe]))) for told in outcomes]
    total = sum(count for count, _ in counts)
    return sum(count for count, lacks in counts if lacks) / total if total else 0.0


def _lost_time(sample: Sample) -> bool:
    """By the time lost, where the system tells it; else by whether the worker was switched out at all."""
    if sample.witness.delay_ns is None:
        return (sample.witness.involuntary or 0) > 0
    return sample.witness.delay_ns > MOST_LOST * timed_ns(sample)


def _is_off(witness: Witness, usual_hz: float) -> bool:
    """On both sides of the sample: one alone is a burst that was itself interrupted, and says nothing of the sample."""
    moved = [rate / usual_hz - 1 for rate in control_rates(witness)]
    return bool(moved) and (min(moved) > CONTROL_MAY_MOVE or max(moved) < -CONTROL_MAY_MOVE)


def timed_ns(sample: Sample) -> int:
    """What lay in the timed batches of a sample."""
    return sum(sample.body) + sum(sample.control or ())
