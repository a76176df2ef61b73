# SPDX-License-Identifier: Apache-2.0
"""Vectors of our own natively, where a trap's time goes, and what is taken from a busy loop."""

from __future__ import annotations

import os

import pytest

from probes.visiting import executable, visit
from tollmeter.toolchain.disassemble import instructions

GUESTS = os.access("/dev/kvm", os.R_OK | os.W_OK)


@pytest.mark.parametrize(
    "test",
    [
        "loop",
        "abort_at_once",
        "abort_compared",
        "call",
        "gate",
        "object_same_address_space",
        "object_other_address_space",
    ],
)
def test_a_guest_of_our_own_answers_or_says_why_not(abi: str, test: str) -> None:
    back = visit(abi, "kernel.custom_vectors", samples=2, test=test)
    if back.status != "ok":
        assert back.status == "unsupported" and back.reason
        assert not (GUESTS and abi == "x86_64" and test == "loop"), back.reason


def test_a_call_gets_an_answer_in_a_guest_by_its_instruction_or_by_an_interrupt(abi: str) -> None:
    """A hypervisor in software may know SYSCALL no more than to jump to where it goes: then the row says that."""
    loop = visit(abi, "kernel.custom_vectors", samples=1, test="loop")
    if loop.status != "ok":
        pytest.skip(str(loop.reason))
    call, gate = (visit(abi, "kernel.custom_vectors", samples=1, test=test) for test in ("call", "gate"))
    assert gate.status == "ok", gate.reason
    assert call.status == "ok" or "SYSCALL" in (call.reason or "")


def test_what_left_the_guest_is_counted(abi: str) -> None:
    """A loop leaves it once a batch; where a fault leaves it each time, the row says so."""
    several = (visit(abi, "kernel.custom_vectors", samples=2, test="loop") for _ in range(5))
    seen = [back.gauges["exits"] for back in several if back.status == "ok" and "exits" in back.gauges]
    assert not seen or min(seen) < 0.01, "interrupts for others leave it too, in some visits"


@pytest.mark.parametrize("trap", ["undefined_instruction", "null_store"])
def test_the_parts_of_a_trap_are_reported_and_are_less_than_the_whole(abi: str, trap: str) -> None:
    back = visit(abi, "kernel.trap_parts", samples=2, trap=trap)
    if back.status == "unsupported":
        pytest.skip(str(back.reason))
    assert back.status == "ok" and {"delivery", "return"} <= back.gauges.keys()
    longest = max(one.body[1] / one.iterations for one in back.samples)
    assert 0 < back.gauges["return"] < longest


def test_both_ways_to_a_bus_error_reach_the_handler(abi: str) -> None:
    for trap in ("store_past_end", "misaligned_store"):
        assert visit(abi, "kernel.fault_segv", samples=2, trap=trap).status in ("ok", "unsupported")


def test_noise_counts_each_detour_in_one_bin(abi: str) -> None:
    back = visit(abi, "kernel.noise", samples=2)
    assert back.status == "ok" and 0 <= back.gauges["share"] <= 1
    bins = [value for name, value in back.gauges.items() if name.startswith("at_")]
    assert len(bins) == 8 and min(bins) >= 0
    assert (sum(bins) > 0) == (back.gauges["longest"] > 0)


def test_the_loop_that_listens_for_noise_is_there(abi: str) -> None:
    code = instructions(executable(abi, "kernel.noise"), "look")
    assert any(one.target is not None and code[0].address <= one.target <= one.address for one in code)
