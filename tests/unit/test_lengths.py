# SPDX-License-Identifier: Apache-2.0
"""Where a rate over length falls, and which cache it is, if it is one: by hand-written curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from support import builders
from support.fake_catalog import KIB, MACHINE, MIB
from tollmeter.inference.rate_falls import lengths, times_as_fast
from tollmeter.model import Lengths, Level, Outcome, Parameter, Row, Work

RATE = builders.metric("rate", "flop/s", means="flops-of-n")
WAYS = Parameter(name="way", kind="choice", summary="how", choices=("hardware", "emulated"))
PROBES = {"float.dot": builders.probe(RATE, name="float.dot", parameters=[WAYS])}
OCTAVES = [1 << power for power in range(4, 21)]
WIDTH = 16
"""Bytes of two doubles."""
FIRST = 2048
"""The last length of these whose vectors the first cache, of 48 KiB, holds."""

Cost = Callable[[int], float]
Curve = tuple[list[Row], list[Outcome]]


def swept(cost_ns: Cost, way: str = "hardware", ns: Sequence[int] = OCTAVES, **place: Any) -> Curve:
    """A rate at each length, and the visits that say how much memory it was over. place: the rows' target and clock."""
    rows, outcomes = [], []
    for n in ns:
        parameters = {"n": n, "precision": "double", "way": way}
        row = builders.row(1e9 / cost_ns(n), of="float.dot", name="rate", unit="flop/s", parameters=parameters)
        rows.append(msgspec.structs.replace(row, better="more", **place))
        work = Work(footprint_bytes=n * WIDTH)
        outcomes.append(builders.outcome(name="float.dot", parameters=parameters, work=work))
    return rows, outcomes


def found(*curves: Curve) -> dict[object, Lengths]:
    rows = [row for curve in curves for row in curve[0]]
    outcomes = [outcome for curve in curves for outcome in curve[1]]
    return {told.parameters["way"]: told for told in lengths(outcomes, rows, PROBES, MACHINE)}


def step(before: float, after: float, beyond: int) -> Cost:
    return lambda n: after if n > beyond else before


def test_a_rate_falls_where_its_vectors_outgrow_a_cache() -> None:
    level = {cache.level: cache.size_bytes for cache in MACHINE.caches if cache.kind != "instruction"}[2]
    (fall,) = found(swept(step(0.1, 0.16, level // WIDTH)))["hardware"].falls
    assert (fall.after_n, fall.by_n) == (level // WIDTH, 2 * level // WIDTH)
    assert (fall.after_bytes, fall.by_bytes) == (level, 2 * level)
    assert (fall.cause, fall.levels) == ("memory", ("L2",))
    assert fall.slower == pytest.approx(1.6, rel=0.01)


def test_a_fall_that_memory_cannot_pay_for_is_of_the_length() -> None:
    """It stands right where the first cache ends; but the fastest way reads the same vectors in a fraction of that."""
    told = found(swept(step(0.1, 0.1, 0)), swept(step(5.0, 9.0, FIRST), "emulated"))
    (fall,) = told["emulated"].falls
    assert (fall.after_n, fall.cause, fall.levels) == (FIRST, "length", ())
    assert (fall.lost_ns, fall.least_ns) == (pytest.approx(4.0, rel=0.01), pytest.approx(0.1, rel=0.01))
    assert not told["hardware"].falls


def test_a_trap_that_loses_more_than_wrong_guesses_cost_has_no_cause() -> None:
    """A trapped way's 7,300 ns became 8,200 on a busy machine, and branches were blamed for it."""
    told = found(swept(step(0.1, 0.1, 0)), swept(step(7300.0, 8200.0, FIRST), "trapped"))
    (fall,) = told["trapped"].falls
    assert (fall.cause, fall.levels, fall.least_ns) == ("unknown", (), pytest.approx(0.1, rel=0.01))


def test_without_the_hardware_way_no_cause_is_named() -> None:
    (fall,) = found(swept(step(5.0, 9.0, FIRST), "emulated"))["emulated"].falls
    assert (fall.cause, fall.levels, fall.least_ns) == ("unknown", (), 0)


def test_a_length_without_its_hardware_twin_is_not_held_against_itself() -> None:
    """A short budget leaves hardware's lengths out: the one that was timed judges the whole fall."""
    hardware, emulated = swept(step(0.1, 0.1, 0), ns=OCTAVES[:10]), swept(step(5.0, 9.0, FIRST), "emulated")
    (fall,) = found(hardware, emulated)["emulated"].falls
    assert (fall.cause, fall.least_ns) == ("length", pytest.approx(0.1, rel=0.01))


def test_another_abis_emulation_is_no_evidence_of_memory() -> None:
    curve, other = (swept(step(before, 1.8 * before, FIRST), "emulated") for before in (5.0, 10.0))
    rows = [msgspec.structs.replace(row, abi="ia32") for row in other[0]]
    moved = [msgspec.structs.replace(told, point=msgspec.structs.replace(told.point, abi="ia32")) for told in other[1]]
    told = lengths([*curve[1], *moved], [*curve[0], *rows], PROBES, MACHINE)
    assert [fall.cause for found in told for fall in found.falls] == ["unknown", "unknown"]


def test_a_flat_rate_falls_nowhere_and_noise_is_no_fall() -> None:
    wavering = [1.0, 1.02, 0.99, 1.01, 0.985]
    told = found(swept(lambda n: 5.0 * wavering[n.bit_length() % 5]))["hardware"]
    assert told.falls == ()
    assert (told.first_n, told.last_n, told.usual_ns) == (16, 1 << 20, pytest.approx(5.0, rel=0.02))


def test_a_step_of_a_few_per_cent_is_not_worth_a_name() -> None:
    assert found(swept(step(1.0, 1.07, 4096)))["hardware"].falls == ()
    assert found(swept(step(1.0, 1.2, 4096)))["hardware"].falls


def test_of_caches_that_end_between_two_lengths_each_is_named() -> None:
    ns = [64, 256, 1024, FIRST, 1 << 18, 1 << 19, 1 << 20]
    (fall,) = found(swept(step(0.1, 0.2, FIRST), ns=ns))["hardware"].falls
    assert fall.levels == ("L1d", "L2")


def test_what_a_call_costs_once_is_no_fall() -> None:
    told = found(swept(lambda n: 0.1 + 20 / n))["hardware"]
    assert told.falls == ()
    assert told.usual_ns == pytest.approx(0.1, rel=0.05)


def test_a_slope_is_one_fall_from_its_foot_to_its_end() -> None:
    slope = {4096: 1.3, 8192: 1.7, 16384: 2.2}
    (fall,) = found(swept(lambda n: slope.get(n, 1.0 if n < 4096 else 3.0)))["hardware"].falls
    assert (fall.after_n, fall.by_n) == (2048, 32768)
    assert fall.slower == pytest.approx(3.0, rel=0.02)


def test_a_fall_near_no_cache_has_no_name() -> None:
    (fall,) = found(swept(step(0.1, 0.13, 64)))["hardware"].falls
    assert (fall.cause, fall.levels) == ("unknown", ())
    assert fall.least_ns == pytest.approx(0.13, rel=0.01)


def test_what_an_emulator_counted_and_a_short_sweep_fall_nowhere() -> None:
    curve = step(1.0, 2.0, 256)
    assert not found(swept(curve, clock="virtual"))
    assert not found(swept(curve, ns=OCTAVES[:3]))
    assert found(swept(curve, ns=OCTAVES[:4]))


def test_another_machines_rate_is_not_named_by_this_ones_caches() -> None:
    beyond = MIB // WIDTH
    here, there = swept(step(0.1, 0.16, beyond)), swept(step(0.1, 0.16, beyond), "emulated", target="ssh:board")
    moved = [
        msgspec.structs.replace(told, point=msgspec.structs.replace(told.point, target="ssh:board"))
        for told in there[1]
    ]
    told = found(here, (there[0], moved))
    assert told["hardware"].falls[0].levels and told["emulated"].falls[0].levels == ()


def test_a_measured_cache_stands_above_what_the_system_says() -> None:
    rows, outcomes = swept(step(0.1, 0.16, 256 * KIB // WIDTH))
    level = Level(
        level="L2", size_bytes=300 * KIB, size_low=280 * KIB, size_high=320 * KIB, os_size_bytes=None, latency_ns=None,
        latency_cycles=None, read_bytes_per_second=None, parallelism=None,
    )  # fmt: skip
    assert lengths(outcomes, rows, PROBES, MACHINE)[0].falls[0].levels == ()
    assert lengths(outcomes, rows, PROBES, MACHINE, [level])[0].falls[0].levels == ("L2",)


def test_times_as_fast_knows_which_way_a_unit_counts() -> None:
    fast, slow = (msgspec.structs.replace(builders.row(rate, unit="flop/s"), better="more") for rate in (3e9, 1e9))
    few, many = (
        msgspec.structs.replace(builders.row(count, unit="instruction", clock="instructions"), better="less")
        for count in (2.0, 50.0)
    )
    assert times_as_fast(fast, slow) == pytest.approx(3)
    assert times_as_fast(few, many) == pytest.approx(25)
