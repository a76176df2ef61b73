# SPDX-License-Identifier: Apache-2.0
"""Clocks of young kernels: one that ticks with the kernel's timer, and one that is set. Judges no time of this machine
but beside another."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.waiting import LONG_S
from tollmeter.model import Abi, Outcome
from tollmeter.protocol import head, lines_of, outcome

CLOCK = Path(__file__).parents[1] / "probes/other_clock.c"
WORDS = ("--samples=4", "--sample-ns=300000", "--deadline-ms=12000")


@pytest.fixture
def visited(tree: Path, tmp_path: Path, own_abi: Abi, own_compiler: str) -> Visited:
    return Visited(tree / "build" / own_abi.name, tmp_path, [own_compiler, *own_abi.flags])


class Visited:
    """Visits of kernel.loop under a clock."""

    def __init__(self, built: Path, folder: Path, compiler: list[str]) -> None:
        self._built, self._folder, self._compiler = built, folder, compiler

    def __call__(self, *macros: str) -> Outcome:
        return outcome(self.said(*macros, words=WORDS))

    def said(self, *macros: str, words: Sequence[str]) -> bytes:
        program = self._folder / "program"
        inputs = [CLOCK, *self._built.glob("obj/kernel/loop/*.o"), self._built / "libtoll.a"]
        flags = ["-static", "-no-pie", "-Wl,--wrap=clock_gettime", *(f"-D{macro}" for macro in macros)]
        subprocess.run([*self._compiler, *flags, *inputs, "-pthread", "-lm", "-o", program], check=True)
        return subprocess.run([program, *words], capture_output=True, check=False, timeout=LONG_S).stdout


def cost(told: Outcome) -> float:
    """ns of an iteration."""
    return sum(sum(sample.body) for sample in told.samples) / sum(3 * sample.iterations for sample in told.samples)


@pytest.mark.machine
def test_a_clock_that_ticks_with_the_kernels_timer_has_numbers(visited: Visited) -> None:
    coarse, fine = visited("COARSE_NS=10000000"), visited()
    assert (coarse.status, fine.status) == ("ok", "ok")
    assert coarse.clock and coarse.clock.resolution_ns >= 10_000_000
    assert 1 / 4 < cost(coarse) / cost(fine) < 4


def test_a_clock_that_ticks_tells_the_rate_of_the_core_before_the_run(visited: Visited) -> None:
    """The fastest of three readings each: a neighbour may have the core for some steps of 4 ms."""

    def fastest_hz(ns: int) -> float:
        machines = [head(lines_of(visited.said(f"COARSE_NS={ns}", words=["--machine"]))).machine for _ in range(3)]
        return max((machine.core_clock_hz or 0.0) for machine in machines if machine)

    assert 1 / 4 < fastest_hz(4_000_000) / fastest_hz(1) < 4


def test_a_clock_that_is_set_back_inside_a_sample_has_no_number(visited: Visited) -> None:
    """Which readings lie in a batch depends on how often the core was looked at before."""
    told = [visited(f"SET_AFTER={readings}u") for readings in (3, 5, 7)]
    assert ("failed", "the clock went back while a sample was taken") in {(one.status, one.reason) for one in told}


def test_a_clock_that_is_seldom_set_has_numbers(visited: Visited) -> None:
    assert visited("SET_AFTER=100000u").status == "ok"
