# SPDX-License-Identifier: Apache-2.0
"""Which samples were disturbed, judged by what was seen beside them and never by their value."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from tollmeter.model import Probe, Sample, Witness

CONTROL_MAY_MOVE = 0.05


def set_aside(sample: Sample, visit_samples: Sequence[Sample], probe: Probe) -> str | None:
    """Why this sample is not used, or None. visit_samples: all samples of its visit, to know the usual control rate."""
    return _reason(sample.witness, usual_control_hz(visit_samples), probe)


def reasons(visit_samples: Sequence[Sample], probe: Probe) -> list[str | None]:
    """The reason of every sample of one visit, in order: `set_aside` for all of them at once."""
    usual = usual_control_hz(visit_samples)
    return [_reason(sample.witness, usual, probe) for sample in visit_samples]


def usual_control_hz(visit_samples: Sequence[Sample]) -> float:
    """Median rate of dependent additions seen after the samples of one visit; 0 where none was taken."""
    rates = [sample.witness.control_hz for sample in visit_samples if sample.witness.control_hz > 0]
    return median(rates) if rates else 0.0


def _reason(witness: Witness, usual_hz: float, probe: Probe) -> str | None:
    if witness.involuntary > 0 and not probe.switches:
        return "involuntary switch"
    if witness.major_faults > 0 and not probe.faults:
        return "major fault"
    if witness.cpu_before != witness.cpu_after and min(witness.cpu_before, witness.cpu_after) >= 0:
        return "moved to another CPU"
    if witness.steal_ticks > 0:
        return "time stolen by the hypervisor"
    if usual_hz > 0 and witness.control_hz > 0 and abs(witness.control_hz / usual_hz - 1) > CONTROL_MAY_MOVE:
        return "control loop off its rate"
    return None
