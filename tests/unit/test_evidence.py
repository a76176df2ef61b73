# SPDX-License-Identifier: Apache-2.0
"""What speaks against a sample: only what was seen beside it."""

from __future__ import annotations

import msgspec
import pytest

from support.builders import CALM, CLOCK_HZ, outcome, probe, quiet, sample
from support.probe_streams import visit_records
from tollmeter.experiment.evidence import missing_evidence, reasons, usual_control_hz
from tollmeter.experiment.taken import Taken
from tollmeter.model import Probe, Sample
from tollmeter.numbers.rows import rows
from tollmeter.protocol import outcome as read
from tollmeter.protocol import seal

BATCHES_NS = 1_000_000 + 2_000_000
TIMED = {"iterations": 1000, "body": (1_000_000, 2_000_000)}


def judged(of: Probe | None = None, **seen: object) -> str | None:
    """Beside three samples that ran at the usual clock."""
    calm = Sample(**TIMED, witness=quiet(control_before_hz=CLOCK_HZ))  # type: ignore[arg-type]
    return reasons([calm] * 3 + [Sample(**TIMED, witness=quiet(**seen))], of or probe())[3]  # type: ignore[arg-type]


def test_a_sample_is_timed_in_all_its_batches() -> None:
    told = Taken([[sample(10)], [sample(10, 4)]])
    assert told.timed_ns().tolist() == [70 + 10_000 + 70 + 20_000, 30_140 + 70 + 4_000 + 70 + 8_000]


def test_run_queue_delay_decides_regardless_of_context_switches() -> None:
    one_percent = BATCHES_NS // 100
    assert judged(delay_ns=one_percent, involuntary=9) is None
    assert judged(delay_ns=one_percent + 1, involuntary=0) == "another process ran on its CPU"


def test_context_switches_decide_where_run_queue_delay_is_unknown() -> None:
    assert judged(delay_ns=None, involuntary=0) is None
    assert judged(delay_ns=None, involuntary=1) == "another process ran on its CPU"


def test_a_probe_that_switches_may_lose_its_cpu_and_one_that_faults_may_fault() -> None:
    assert judged(probe(switches=True), delay_ns=BATCHES_NS) is None
    assert judged(probe(faults=True), major_faults=1) is None
    assert judged(major_faults=1) == "major fault"


@pytest.mark.parametrize(
    ("before", "after", "is_used"),
    [
        (0.90, 0.90, False),  # slow on both sides: so was the sample between
        (1.10, 1.10, False),
        (0.90, 1.00, True),  # one alone was itself interrupted
        (1.00, 0.90, True),
        (0.90, 1.10, True),  # neither the one nor the other
        (0.96, 1.04, True),
    ],
)
def test_a_control_loop_speaks_only_where_both_its_bursts_do(before: float, after: float, is_used: bool) -> None:
    why = judged(control_before_hz=before * CLOCK_HZ, control_hz=after * CLOCK_HZ)
    assert (why is None) == is_used


def test_a_lone_burst_of_an_older_record_speaks_for_itself() -> None:
    assert judged(control_hz=0.9 * CLOCK_HZ) == "control loop off its rate"
    assert judged(control_hz=0.0) is None, "not measured"


@pytest.mark.parametrize("seen", [{"cpu_after": 0}, {"steal_ticks": 1}])
def test_a_migrated_or_stolen_sample_is_discarded(seen: dict[str, int]) -> None:
    assert judged(**seen)


@pytest.mark.parametrize("seen", [{"voluntary": 3}, {"minor_faults": 9}, {"cpu_before": -1}])
def test_what_does_not_speak_against_it(seen: dict[str, int]) -> None:
    assert judged(**seen) is None


def test_the_usual_rate_is_that_of_its_own_visit() -> None:
    """Five samples at 4 GHz and one at 3.6: that one is off. A visit that ran at 3.6 all along is not."""
    slow = {"control_before_hz": 3.6e9, "control_hz": 3.6e9}
    mixed = [
        *(sample(10, witness=quiet(control_before_hz=CLOCK_HZ)) for _ in range(5)),
        sample(10, witness=quiet(**slow)),
    ]
    assert usual_control_hz(Taken([mixed, [], mixed[5:]])).tolist() == [CLOCK_HZ, 0.0, 3.6e9]
    assert [why is None for why in reasons(mixed, probe())] == [True] * 5 + [False]
    assert reasons([sample(10, witness=quiet(**slow))] * 6, probe()) == [None] * 6


def test_a_value_alone_never_speaks_against_its_sample() -> None:
    several = [*(sample(10, witness=quiet()) for _ in range(5)), sample(10_000, witness=quiet())]
    assert reasons(several, probe()) == [None] * 6


# ---- what nobody saw ----------------------------------------------------------------------------------------------


def lacking(of: Probe | None = None, **seen: object) -> tuple[str, ...]:
    return missing_evidence(outcome([sample(10), sample(10, witness=quiet(**seen))]), of or probe())


def test_what_the_system_refuses_is_named_and_what_the_probe_does_itself_is_not_missed() -> None:
    assert lacking() == ()
    assert lacking(delay_ns=None, involuntary=0) == ()
    assert lacking(delay_ns=None, involuntary=None) == ("other processes on the CPU",)
    assert lacking(probe(switches=True), delay_ns=None, involuntary=None) == ()
    assert lacking(major_faults=None) == ("page faults",)
    assert lacking(probe(faults=True), major_faults=None) == ()
    assert lacking(steal_ticks=None) == ("time stolen by the hypervisor",)


@pytest.mark.parametrize("names", [("delay_ns", "involuntary"), ("major_faults",), ("steal_ticks",)])
def test_a_key_that_a_record_lacks_is_as_unknown_as_one_without_a_value(names: tuple[str, ...]) -> None:
    told = {"delay_ns": 5, **CALM, "cpu_before": 1, "cpu_after": 1}
    forms = ({name: value for name, value in told.items() if name not in names}, told | dict.fromkeys(names))
    before = [*visit_records(0)[:2], {"k": "sample", "i": 0, "iterations": 9, "body": [1000, 2000]}]
    lacks, null = (missing_evidence(read(seal([*before, {"k": "witness", "i": 0, **form}])), probe()) for form in forms)
    assert lacks and lacks == null


def test_a_worker_that_the_system_does_not_let_stay_on_its_cpu_is_named() -> None:
    told = msgspec.structs.replace(outcome([sample(10, witness=quiet())]), pinned=False)
    assert missing_evidence(told, probe()) == ("staying on one CPU",)
    assert missing_evidence(msgspec.structs.replace(told, pinned=True), probe()) == ()


def test_a_number_without_evidence_is_unknown_and_claims_less() -> None:
    def of(**seen: object) -> list[Sample]:
        return [sample(cost, witness=quiet(**seen)) for cost in (90, 90, 100, 100, 100, 100, 110, 110)]

    probes = {"any.probe": probe()}
    (sure,) = rows([outcome(of(), visit=visit) for visit in range(9)], probes)
    (unsure,) = rows([outcome(of(major_faults=None), visit=visit) for visit in range(9)], probes)
    assert sure.low is not None and sure.high is not None
    assert unsure.low is not None and unsure.high is not None
    assert unsure.state == "unknown"
    assert "page faults" in (unsure.reason or "")
    assert unsure.high - unsure.low > 1.5 * (sure.high - sure.low)
    assert not unsure.converged
