# SPDX-License-Identifier: Apache-2.0
"""Events that real probes count beside their samples: page faults everywhere, and the PMU where there is one."""

from __future__ import annotations

import subprocess

import pytest

from probes.visiting import executable
from support.waiting import LONG_S
from tollmeter.model import Outcome
from tollmeter.protocol import outcome

ACCOUNTS = 3
"""The turn of page faults and context switches among the groups."""


def visit(abi: str, probe: str, *words: str, turn: int = ACCOUNTS) -> Outcome:
    command = [executable(abi, probe), "--samples=4", "--sample-ns=100000", f"--round={turn}", *words]
    done = subprocess.run([*map(str, command)], capture_output=True, check=True, timeout=LONG_S)
    return outcome(done.stdout)


@pytest.mark.parametrize("turn", range(ACCOUNTS + 1))
def test_a_worker_that_gives_up_its_cpu_is_switched_out_once_a_round(own_abi_name: str, turn: int) -> None:
    """In each turn: a counter of the PMU would lengthen its switches."""
    told = visit(own_abi_name, "kernel.switch", turn=turn)
    assert told.status == "ok" and told.events, told.reason
    assert told.events.by == "account" and told.events.partial == 0
    assert 0.9 <= told.events.body["context-switches"] <= 1.5
    assert told.events.control["context-switches"] < 0.5


def test_a_probe_whose_body_pauses_the_timer_counts_nothing(own_abi_name: str) -> None:
    told = visit(own_abi_name, "kernel.page_fault")
    assert told.status == "ok" and told.events is None


def test_a_loop_has_none(own_abi_name: str) -> None:
    told = visit(own_abi_name, "kernel.loop")
    assert told.events
    assert told.events.body["page-faults"] < 0.001


def test_a_visit_counts_nothing_where_that_is_asked_for(own_abi_name: str) -> None:
    told = visit(own_abi_name, "kernel.loop", "--counters=off")
    assert told.status == "ok" and told.events is None


def test_the_pmu_counts_instructions_of_a_loop_or_the_system_says_why_not(own_abi_name: str) -> None:
    told = visit(own_abi_name, "kernel.loop", turn=0)
    assert told.events
    if told.events.by == "account":
        assert told.events.refused
    else:
        assert told.events.body["instructions"] >= 1
