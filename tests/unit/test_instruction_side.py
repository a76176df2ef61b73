# SPDX-License-Identifier: Apache-2.0
"""What structures of the instruction side hold, from curves whose answer is known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from support.builders import grid, metric, probe, row
from support.example_runs import derived, empty, with_index, with_rows
from tollmeter.inference.instruction_side import instruction_side
from tollmeter.model import Inference
from tollmeter.report.machine_tables import instruction_table

PROBES = {
    f"any.{means}": probe(metric(unit="cycle", means=means), name=f"any.{means}")
    for means in ("jump-of-chain", "translation-of-code", "mispredicted-branch", "cost-of-fillers", "code-of-size")
}


def jumps(cost: Callable[[int], float], spacing: int = 16, per_octave: int = 16) -> dict[str, Inference]:
    rows = [
        row(cost(count), of="any.jump-of-chain", unit="cycle", parameters={"jumps": count, "spacing": spacing})
        for count in grid(64, 32768, per_octave)
    ]
    return {str(one.parameters["structure"]): one for one in instruction_side(rows, PROBES)}


def two_levels(count: int) -> float:
    """As Zen 4 has them: the first level's share of hits falls until twice its number."""
    if count <= 1024:
        return 1.0
    return 1.5 if count <= 4096 else 2.1 if count <= 8192 else 12.0


def test_both_levels_end_at_the_last_number_that_fits() -> None:
    held = jumps(two_levels)
    assert {name: one.value for name, one in held.items()} == {"L1 BTB": 1024.0, "L2 BTB": 8192.0}
    for one in held.values():
        assert one.low is not None and one.high is not None and one.low <= float(one.value or 0) <= one.high


def test_steps_of_neighbouring_numbers_are_one_rise() -> None:
    def cost(count: int) -> float:
        return 1.19 if count <= 1024 else 1.55 if count <= 1152 else 2.0 if count <= 8192 else 12.0

    held = jumps(cost)
    assert {name: one.value for name, one in held.items()} == {"L1 BTB": 1024.0, "L2 BTB": 8192.0}


@pytest.mark.parametrize("cost", [lambda _: 1.0, lambda count: 1.0 if count <= 4096 else 12.0])
def test_fewer_rises_than_structures_name_none(cost: Callable[[int], float]) -> None:
    held = jumps(cost)
    assert all(one.value is None and one.reason for one in held.values()) and len(held) == 2


def test_a_rise_between_distant_numbers_has_no_number() -> None:
    held = jumps(two_levels, per_octave=1)
    assert all(one.value is None and one.reason for one in held.values())


def test_one_instruction_names_one_structure() -> None:
    rows = [
        row(
            100.0 if count <= holds else 200.0,
            of="any.cost-of-fillers",
            parameters={"fillers": count, "filler": filler},
        )
        for filler, holds in (("mix", 320), ("store", 64), ("other", 100))
        for count in grid(16, 1024, 16)
    ]
    held = {one.name: one.value for one in instruction_side(rows, PROBES)}
    assert held == {"reorder buffer": 320.0, "store queue": 64.0}


def test_the_op_cache_is_counted_in_instructions_and_the_first_cache_in_bytes() -> None:
    rows = [
        row(2.7 if size <= ends else 4.0, of="any.code-of-size", unit="cycle", parameters={"size": size, "code": code})
        for code, ends in (("moves", 16384), ("nops", 32768), ("jumps", 16384))
        for size in grid(4096, 131072, 16)
    ]
    held = {one.name: (one.value, one.unit) for one in instruction_side(rows, PROBES)}
    assert held == {"op cache": (4096.0, "count"), "L1I": (32768.0, "B")}


def test_an_op_cache_that_decoders_hide_has_no_number() -> None:
    """Six decoders deliver as many moves of 4 bytes as an op cache: they take longer only beyond the L1I."""
    rows = [
        row(2.7 if size <= 65536 else 5.1, of="any.code-of-size", unit="cycle", parameters={"size": size, "code": code})
        for code in ("moves", "nops")
        for size in grid(4096, 131072, 16)
    ]
    held = {one.name: one for one in instruction_side(rows, PROBES)}
    assert (held["op cache"].value, held["L1I"].value) == (None, 65536.0)
    assert "L1I" in str(held["op cache"].reason)


def test_a_translation_level_ends_where_a_jump_costs_more_than_one_in_few_pages() -> None:
    """Near nothing, a difference is negative at times, and has no logarithm of its own."""

    def cost(pages: int) -> float:
        return (-0.1, 0.1)[pages % 2] if pages <= 256 else 12.0 if pages <= 1024 else 40.0

    rows = [
        row(cost(pages), of="any.translation-of-code", unit="cycle", parameters={"pages": pages})
        for pages in grid(16, 4096, 16)
    ]
    held = {one.name: one.value for one in instruction_side(rows, PROBES)}
    assert held == {"L1 ITLB": 256.0, "L2 ITLB": 1024.0}


GOLDEN_COVE = {
    64: 0.85, 128: 0.9, 160: 1.6, 192: 1.7, 256: 1.97, 512: 1.99, 1024: 2.0, 2048: 2.01, 4096: 2.03, 6144: 2.05,
    6400: 2.16, 6656: 2.25, 6912: 2.35, 7168: 2.44, 8192: 2.67, 9216: 2.89, 10240: 2.89, 12288: 3.07, 12800: 3.97,
    13312: 4.82, 14336: 5.5, 14848: 5.82, 15360: 6.21, 15872: 6.5, 16384: 6.83, 17408: 7.53, 18432: 8.35, 19456: 12.8,
    20480: 13.0, 24576: 13.0, 28672: 13.1, 32768: 13.1,
}  # fmt: skip
"""Cycles of a jump, 32 bytes apart, of a core whose makers state 12 Ki branch targets."""


def test_a_buffer_of_branch_targets_ends_where_the_first_set_overflows() -> None:
    rows = [
        row(cost, of="any.jump-of-chain", unit="cycle", parameters={"jumps": count, "spacing": 32})
        for count, cost in GOLDEN_COVE.items()
    ]
    held = {one.name: one.value for one in instruction_side(rows, PROBES)}
    assert held["L2 BTB, jumps 32 B apart"] == 12288.0


def test_a_rise_may_begin_at_the_second_number() -> None:
    rows = [
        row(cost, of="any.cost-of-fillers", parameters={"fillers": fillers, "filler": "load"})
        for fillers, cost in ((128, 100.0), (136, 200.0), (144, 200.0), (256, 200.0))
    ]
    (held,) = instruction_side(rows, PROBES)
    assert held.value == 128


def test_translations_end_in_the_middle_of_a_slow_rise() -> None:
    """A hash lets some sets overflow before all entries are used: 2,048 of the core whose makers state as many."""
    costs = {
        128: 0.2, 256: 0.1, 272: 3.7, 288: 5.4, 320: 6.8, 352: 8.5, 384: 9.9, 448: 11.1, 512: 11.8, 1024: 12.5,
        1280: 12.9, 1536: 14.6, 1792: 17.0, 1856: 18.0, 1920: 19.1, 1984: 20.0, 2048: 23.0, 2176: 29.0, 2304: 31.0,
        2432: 40.1, 2560: 42.6, 3072: 45.2, 3200: 45.8, 3328: 48.0, 3456: 51.6, 3584: 49.0, 3840: 50.6, 3968: 53.7,
        4096: 58.8,
    }  # fmt: skip
    rows = [
        row(cost, of="any.translation-of-code", unit="cycle", parameters={"pages": pages})
        for pages, cost in costs.items()
    ]
    held = {one.name: one for one in instruction_side(rows, PROBES)}
    low, high = held["L2 ITLB"].low, held["L2 ITLB"].high
    assert held["L1 ITLB"].value == 256.0 and low is not None and high is not None and low <= 2048 <= high


def test_what_runs_differ_by_does_not_blur_a_step() -> None:
    """Both loads miss in a cache that other guests use, whose latency is another one in each run."""
    rows = [
        row(
            760.0 if count <= 192 else 1250.0, of="any.cost-of-fillers", parameters={"fillers": count, "filler": "load"}
        )
        for count in grid(32, 1024, 8)
    ]
    wide = [msgspec.structs.replace(one, low=400.0, high=2400.0, error=0.02, runs_sd=0.3) for one in rows]
    (held,) = instruction_side(wide, PROBES)
    assert held.value == 192


def test_the_table_has_what_was_published_of_this_core() -> None:
    rows = [
        row(two_levels(count), of="any.jump-of-chain", unit="cycle", parameters={"jumps": count, "spacing": 16})
        for count in grid(64, 32768, 16)
    ]
    penalty = row(19.0, of="any.mispredicted-branch", unit="cycle")
    results = msgspec.structs.replace(with_rows(empty(), (*rows, penalty)), probes=PROBES)
    facts = {"cpu_family": "25", "cpu_model_number": "17"}
    results = derived(with_index(results, machine=msgspec.structs.replace(results.index.machine, facts=facts)))
    table = instruction_table(results)
    assert table is not None
    lines = {str(line.cells[0]): (str(line.cells[1]), line.cells[2]) for line in table.rows}
    assert lines["mispredicted branch"][0].startswith("19")
    assert lines["L2 BTB, jumps 16 B apart"] == ("8,192 ±6 %", "2 x 7k")
    assert instruction_table(empty()) is None
