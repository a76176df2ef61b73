# SPDX-License-Identifier: Apache-2.0
"""The numbers of a journal that no machine exceeds: the least and the largest possible ones, and those beyond."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest
from msgspec.structs import replace

from support.builders import machine
from tollmeter.experiment.consistency import checked
from tollmeter.experiment.described import Asked, Recorded
from tollmeter.experiment.run_record import run_contradictions
from tollmeter.experiment.visit_table import LINUX_CLOCK
from tollmeter.model import Cache, ClockReading, Machine, Surroundings, Topology
from tollmeter.model.topology import CoreKind

MACHINE = machine()
SECONDS = 0.8


def recorded(machine: Machine = MACHINE, asked: Asked = Asked(), seen: Surroundings | None = None) -> Recorded:
    return Recorded(machine, None, {}, (), (), SECONDS, asked=asked, notes=[(SECONDS, 0, seen)])


def of_kind(kind: CoreKind) -> Recorded:
    return recorded(replace(MACHINE, topology=Topology(kinds=(kind,))))


def of_cache(**fields: int) -> Recorded:
    return recorded(replace(MACHINE, caches=(replace(Cache(level=1, kind="data"), **fields),)))


def of_second(number: float) -> float:
    """Returns the count of a run of SECONDS on the machine's CPUs, with the allowance for the time of a note."""
    return number * MACHINE.cpus * (SECONDS + 0.2)


CASES: dict[str, tuple[Callable[[float], Recorded], float, float]] = {
    "interrupts": (lambda rate: recorded(seen=Surroundings(interrupts={"LOC": rate * MACHINE.cpus})), 0, 1e8),
    "memory management": (lambda rate: recorded(seen=Surroundings(paging={"pswpin": int(of_second(rate))})), 0, 1e8),
    "additions in a cycle": (lambda width: recorded(asked=Asked(widths=[width])), 0.5, 16),
    "the deviation of a row": (lambda sd: recorded(asked=Asked(deviations=[sd])), 0, 3.46),
    "the rate of a core": (lambda rate: recorded(replace(MACHINE, core_clock_hz=rate)), 1e6, 1e10),
    "rate of a core": (lambda khz: of_kind(CoreKind(cpus="0-1", max_khz=int(khz))), 1e3, 1e7),
    "the level of a cache": (lambda level: of_cache(level=int(level)), 1, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_number_within_its_bounds_is_possible_and_one_beyond_is_not(name: str) -> None:
    made, least, most = CASES[name]
    for number in (least, most):
        assert number == inf or not [*run_contradictions(made(number))]
    beyond = [number for number in (least * 0.75, most * 1.25) if 0 < number < inf]
    assert beyond and all(any(name in sentence for sentence in run_contradictions(made(number))) for number in beyond)


@pytest.mark.parametrize(("timer", "hz"), [("acpi_pm", 3.579545e6), ("jiffies", 1000.0)])
def test_a_clock_has_the_steps_of_its_timer_or_longer_ones(timer: str, hz: float) -> None:
    def contradictions(steps: float) -> tuple[str, ...]:
        clock = ClockReading(source=LINUX_CLOCK, kind="hardware", resolution_ns=steps * 1e9 / hz, cost_ns=1000.0)
        return checked(recorded(replace(MACHINE, facts={"clocksource": timer}))._replace(clock=clock)).contradictions

    assert contradictions(1.0) == ()
    assert any("steps of the timer" in sentence for sentence in contradictions(0.75))
