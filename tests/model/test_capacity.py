# SPDX-License-Identifier: Apache-2.0
"""Pages that fit together, by the probe's own search, in modelled caches whose pages lie at random places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest

from model.machine import KIB, MIB, REPLACEMENTS, Cache, Machine
from model.measured import Noise, capacity_rows, described, description, latency_rows
from model.walks import held_pages
from support.builders import row
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.inference.knees import CurveFit, Knee
from tollmeter.inference.reach import with_counted_sizes, without_false_levels
from tollmeter.model import Row, State

GUEST = Machine(
    caches=(Cache(48 * KIB, 12, 4), Cache(MIB, 16, 14), Cache(16 * MIB, 16, 50)), memory_latency=300, huge_run=1
)
WIDE = CurveFit(
    knees=tuple(Knee(size_bytes=1.1 * size, low=0.7 * size, high=1.6 * size) for size in (48 * KIB, MIB, 14 * MIB)),
    latencies=(4.0, 14.0, 50.0, 300.0),
    spreads=(0.1,) * 4,
)


@pytest.mark.parametrize("replacement", REPLACEMENTS)
def test_no_replacement_changes_what_is_counted(replacement: str) -> None:
    machine = GUEST.with_cache(0, replacement=replacement).with_cache(1, replacement=replacement)
    assert held_pages(machine, 1, second=False) == 12
    assert held_pages(machine, 1, second=True) == pytest.approx(256, rel=0.05)


def test_no_more_is_counted_where_lines_are_fetched_in_pairs() -> None:
    assert held_pages(replace(GUEST, prefetch_pairs=True), 1, second=True) == pytest.approx(256, rel=0.05)


def test_a_count_narrows_the_boundary_that_it_agrees_with() -> None:
    first, second, third = with_counted_sizes(WIDE, (), capacity_rows(GUEST), described()).knees
    assert first.low <= 48 * KIB <= first.high < 1.15 * first.low
    assert second.low <= MIB <= second.high < 1.15 * second.low
    assert third == WIDE.knees[2]


def test_a_count_elsewhere_changes_nothing() -> None:
    far = tuple(Knee(size_bytes=8 * knee.high, low=7 * knee.high, high=9 * knee.high) for knee in WIDE.knees)
    other = CurveFit(knees=far, latencies=WIDE.latencies, spreads=WIDE.spreads)
    assert with_counted_sizes(other, (), capacity_rows(GUEST), described()) == other


def test_a_boundary_of_colours_that_overflow_early_is_moved_to_the_count() -> None:
    early = msgspec.structs.replace(
        WIDE, knees=(Knee(size_bytes=34 * KIB, low=32 * KIB, high=36 * KIB), *WIDE.knees[1:])
    )
    assert with_counted_sizes(early, (), capacity_rows(GUEST), described()).knees[0].size_bytes == pytest.approx(
        48 * KIB, rel=0.05
    )


def test_a_boundary_before_the_count_of_the_first_cache_is_none() -> None:
    knees = (Knee(size_bytes=27 * KIB, low=25 * KIB, high=29 * KIB), *WIDE.knees)
    early = CurveFit(knees=knees, latencies=(4.0, 8.0, 14.0, 50.0, 300.0), spreads=(0.1,) * 5)
    fit = with_counted_sizes(early, (), capacity_rows(GUEST), described())
    assert fit.knees[0].size_bytes == pytest.approx(48 * KIB, rel=0.05)
    assert len(fit.knees) == 3


def test_counts_that_differ_between_visits_may_be_too_low() -> None:
    rows = capacity_rows(GUEST)
    second = msgspec.structs.replace(rows[1], low=0.88 * MIB, median=0.92 * MIB, high=0.93 * MIB, minimum=0.88 * MIB,
                                     quartiles=(0.91 * MIB, 0.93 * MIB))  # fmt: skip
    knee = with_counted_sizes(WIDE, (), [rows[0], second], described()).knees[1]
    assert knee.low < 0.93 * MIB < MIB < knee.high


def test_a_count_beside_a_busy_sibling_is_the_least() -> None:
    rows = capacity_rows(GUEST)
    less = 0.8 * MIB
    count = msgspec.structs.replace(rows[1], low=less, median=less, high=less, minimum=less, quartiles=(less, less))
    busy = State(state="contended", share=0.4, median=1, low=1, high=1)
    load = row(1.0, of="memory.capacity", name="load", parameters=count.parameters, states=(busy,))
    knee = with_counted_sizes(WIDE, (), [rows[0], count, load], described()).knees[1]
    assert knee.is_least and knee.low == pytest.approx(less, rel=0.06)
    swept = latency_rows(GUEST, Noise(GUEST), ("huge",))
    level = hierarchy([*swept, rows[0], count, load], described(), description(GUEST))[1]
    assert level.size_bytes is level.size_high is None
    assert level.size_low is not None and level.size_low < MIB


def test_visits_of_one_layout_are_one_count() -> None:
    once = [msgspec.structs.replace(one, layouts=1) for one in capacity_rows(GUEST)]
    for knee, wide in zip(with_counted_sizes(WIDE, (), once, described()).knees, WIDE.knees, strict=True):
        assert knee.high >= wide.high and not knee.is_least


@pytest.mark.parametrize(("latency", "levels"), [(32.0, 4), (20.0, 5)])
def test_every_second_line_fetched_beside_the_first_makes_no_level(latency: float, levels: int) -> None:
    """Between 14 and 50 ns, half of the loads find their line in the cache of 14 ns."""
    between = Knee(size_bytes=1.8 * MIB, low=1.5 * MIB, high=2 * MIB)
    knees = (WIDE.knees[0], Knee(size_bytes=MIB, low=0.95 * MIB, high=1.05 * MIB), between, WIDE.knees[2])
    fit = CurveFit(knees=knees, latencies=(4.0, 14.0, latency, 50.0, 300.0), spreads=(0.1,) * 5)
    assert len(without_false_levels(fit, ()).latencies) == levels


@pytest.mark.parametrize(("latencies", "levels"), [
    ((92, 121, 154, 185, 217), 3), ((92, 95, 92, 94, 98), 4), ((92, 121, 154), 4),
])  # fmt: skip
def test_a_latency_that_rises_past_a_cache_and_is_nowhere_flat_is_no_level(
    latencies: tuple[float, ...], levels: int
) -> None:
    """Random replacement in a cache of 1.25 MiB, up to the end of a huge page."""
    ends = [(32 * KIB, 1.02), (1.2 * MIB, 1.08), (1.9 * MIB, 1.1)]
    fit = CurveFit(
        knees=tuple(Knee(size_bytes=size, low=size / off, high=size * off) for size, off in ends),
        latencies=(3.0, 9.0, 217.0, 300.0),
        spreads=(0.1,) * 4,
    )
    sizes = [int(MIB * (1.32 + place * 0.36 / (len(latencies) - 1))) for place in range(len(latencies))]
    sweep = [row(latency, parameters={"size": size}) for latency, size in zip(latencies, sizes, strict=True)]
    assert len(without_false_levels(fit, sweep).latencies) == levels


def test_a_count_of_nothing_changes_nothing() -> None:
    none = [msgspec.structs.replace(row, low=0.0) for row in capacity_rows(GUEST)]
    assert with_counted_sizes(WIDE, (), none, described()) == WIDE


def test_a_boundary_between_two_counts_is_none() -> None:
    false = Knee(size_bytes=200 * KIB, low=190 * KIB, high=210 * KIB)
    doubted = CurveFit(
        knees=(WIDE.knees[0], false, *WIDE.knees[1:]), latencies=(4.0, 9.0, 14.0, 50.0, 300.0), spreads=(0.1,) * 5
    )
    found = with_counted_sizes(doubted, (), capacity_rows(GUEST), described())
    assert [knee.size_bytes for knee in found.knees[:2]] == pytest.approx([48 * KIB, MIB], rel=0.05)
    assert found.latencies == WIDE.latencies


def swept_by(latency_of: Callable[[int], float]) -> list[Row]:
    sizes = [16 * KIB << octave for octave in range(10)]
    return [row(latency_of(size), of="memory.latency", parameters={"size": size}) for size in sizes]


def test_counts_part_levels_that_the_fit_has_joined_where_the_sweep_has_two() -> None:
    """As in a short run beside neighbours: one boundary at 4 MiB, between 1 and 150 ns."""
    joined = CurveFit(knees=(WIDE.knees[2],), latencies=(1.0, 150.0), spreads=(0.1, 1.0))
    sweep = swept_by(lambda size: 1.0 if size <= 48 * KIB else 3.4 if size <= MIB else 12.0)
    found = with_counted_sizes(joined, sweep, capacity_rows(GUEST), described())
    assert [knee.size_bytes for knee in found.knees] == pytest.approx(
        [48 * KIB, MIB, WIDE.knees[2].size_bytes], rel=0.05
    )
    assert found.latencies == (1.0, 3.4, 12.0, 150.0)
    assert with_counted_sizes(joined, swept_by(lambda _: 1.0), capacity_rows(GUEST), described()) == joined
