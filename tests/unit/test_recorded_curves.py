# SPDX-License-Identifier: Apache-2.0
"""Real curves of one machine (Zen 4, a guest of two CPUs: 32 KiB, 1 MiB, 32 MiB shared with the host's other guests),
and what must be inferred from each, whatever the system says of its caches."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.builders import metric, probe, row
from tollmeter.inference.hierarchy import hierarchy
from tollmeter.model import Cache, Level, Machine, Row

CURVES = Path(__file__).parents[1] / "recordings" / "curves"
KIB, MIB = 1 << 10, 1 << 20
PROBES = {
    "any.walk": probe(metric("load", means="latency-of-size"), name="any.walk"),
    "any.read": probe(metric("read", unit="B/s", means="read-bandwidth-of-size"), name="any.read"),
}
TOLD = (32 * KIB, MIB, 32 * MIB)
ZEN_3 = (32 * KIB, 512 * KIB, 32 * MIB)


def recorded(name: str, pages: str) -> list[Row]:
    """The rows of one page mode, or of all where none is named."""
    told = json.loads((CURVES / f"{name}.json").read_text())
    walks = [_row(one, "any.walk", "load", "ns", "pages") for one in told["latency"] if pages in ("", one[0])]
    return walks + [_row(one, "any.read", "read", "B/s", "kernel") for one in told["reading"]]


def _row(numbers: list[Any], of: str, name: str, unit: str, first: str) -> Row:
    kind, size, median, low, high, least, lower, upper, visits = numbers
    made = row(median, of=of, name=name, unit=unit, parameters={"size": size, first: kind})
    return msgspec.structs.replace(made, low=low, high=high, minimum=least, quartiles=(lower, upper), visits=visits)


def _machine(told: tuple[int, ...]) -> Machine:
    caches = tuple(
        Cache(level=place, kind="unified" if place > 1 else "data", size_bytes=size)
        for place, size in enumerate(told, start=1)
    )
    return Machine(
        host="h", cpu="c", kernel="k", hypervisor="KVM", cpus=2, memory_bytes=1 << 34, caches=caches,
        core_clock_hz=3.68e9, architecture="x86_64",
    )  # fmt: skip


@cache
def levels(name: str, pages: str, told: tuple[int, ...]) -> dict[str, Level]:
    return {level.level: level for level in hierarchy(recorded(name, pages), PROBES, _machine(told))}


@pytest.mark.parametrize(
    ("name", "pages", "served"),
    [
        ("quiet_small_and_huge", "huge", (5.5 * MIB, 24 * MIB)),
        ("quiet_small_and_huge", "small", (5.6 * MIB, 24 * MIB)),
        ("ia32_small_and_huge", "huge", (7.8 * MIB, 10 * MIB)),
        ("ia32_small_and_huge", "small", (6.2 * MIB, 10 * MIB)),
        ("musl_small", "small", (3.8 * MIB, 24 * MIB)),
        ("beside_a_copy", "huge", (1.9 * MIB, 16 * MIB)),
        ("ia32_beside_a_copy", "small", (2.9 * MIB, 3.5 * MIB)),
    ],
)
def test_three_caches_are_found_and_the_shared_one_is_as_large_as_it_was(
    name: str, pages: str, served: tuple[float, float]
) -> None:
    """served: by latency and, where they disagree, by reading: never all of the 32 MiB that the system has."""
    found = levels(name, pages, TOLD)
    assert list(found) == ["L1d", "L2", "L3", "memory"]
    first, second, third = (found[level] for level in ("L1d", "L2", "L3"))
    assert first.size_bytes == pytest.approx(32 * KIB, rel=0.1)
    assert second.size_low is not None and second.size_high is not None
    assert second.size_low <= MIB <= 1.05 * second.size_high
    assert third.size_low is not None and third.size_high is not None
    assert third.size_low == pytest.approx(served[0], rel=0.2)
    assert third.size_high == pytest.approx(served[1], rel=0.2)
    assert first.latency_cycles == pytest.approx(4, rel=0.07)
    assert second.latency_cycles == pytest.approx(14, rel=0.1)
    assert 140 < (found["memory"].latency_ns or 0) < 185


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_sizes_that_now_one_level_serves_and_now_the_other_are_no_level(pages: str) -> None:
    """From 4 to 16 MiB each visit had 15 or 140 ns: fitted, they were a fourth cache of 15 MiB at 26 ns."""
    found = levels("by_turns_for_long", pages, TOLD)
    assert list(found) == ["L1d", "L2", "L3", "memory"]
    assert (found["L3"].latency_ns or 0) < 17


def test_a_few_visits_beside_a_copy_part_two_caches() -> None:
    """At 2 to 6 MiB each visit had anything from 13 to 150 ns: fitted as they came, both were one cache that ends
    between 2.3 and 5.7 MiB."""
    found = levels("short_beside_a_copy", "huge", TOLD)
    assert list(found) == ["L1d", "L2", "L3", "memory"]
    second, third = found["L2"], found["L3"]
    assert second.size_low is not None and second.size_high is not None
    assert second.size_low <= MIB <= second.size_high < 5 * MIB
    assert third.size_low is not None and third.size_low > 3 * MIB
    assert third.latency_ns == pytest.approx(14, rel=0.4)


@pytest.mark.parametrize(("name", "pages"), [("short_beside_two_copies", "huge"), ("short_beside_a_copy", "small")])
def test_a_cache_hidden_by_contention_is_not_merged_with_the_one_before(name: str, pages: str) -> None:
    """Hardly a size showed the third cache's latency: what is known is that the second was not told from it."""
    found = levels(name, pages, TOLD)
    assert list(found) == ["L1d", "L2", "memory"]
    assert found["L1d"].size_bytes and not found["L1d"].not_apart_from
    second = found["L2"]
    assert second.size_bytes is second.size_low is second.size_high is None
    assert second.not_apart_from == "L3" and "other workloads" in second.not_apart_why
    assert second.latency_cycles == pytest.approx(14, rel=0.05)


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_a_fit_that_misses_what_the_farthest_size_takes_makes_no_answer(pages: str) -> None:
    """It joined all that rises into one step: "1.6 ns from L2 and 12 ns from L3 or memory", where 512 MiB took 243."""
    found = [*levels("one_visit_a_size", pages, (48 * KIB, 2 * MIB, 260 * MIB)).values()]
    farthest = recorded("one_visit_a_size", pages)[-1].median or 0.0
    assert not found or (found[-1].latency_ns or 0.0) > farthest / 2


@pytest.mark.parametrize("path", sorted(CURVES.glob("*.json")), ids=lambda path: path.stem)
def test_the_systems_word_changes_no_number(path: Path) -> None:
    """As many levels and the same sizes where it says nothing, too little, or something else."""
    for pages in {one[0] for one in json.loads(path.read_text())["latency"]}:
        numbers = [
            [
                (one.size_bytes, one.size_low, one.size_high, one.latency_ns)
                for one in levels(path.stem, pages, told).values()
            ]
            for told in (TOLD, (), (32 * KIB, 1 * MIB), (48 * KIB, 2 * MIB, 4 * MIB, 256 * MIB))
        ]
        assert all(one == numbers[0] for one in numbers)


@pytest.mark.parametrize("pages", ["huge", "small"])
def test_few_visits_join_no_levels_where_a_share_of_the_last_cache_ends_inside_it(pages: str) -> None:
    """Of 20 s in a guest of a Zen 3, whose neighbours left it 2 MiB of 32: the first two caches were called L2."""
    found = levels("../few_visits/two_visits_in_a_share_of_l3", pages, ZEN_3)
    assert found["L1d"].latency_ns == pytest.approx(1.4, rel=0.1)
    assert found["L2"].latency_ns == pytest.approx(4.4, rel=0.1)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        # One boundary of huge pages lies in the second cache, since the first two are one level of the fit.
        ("huge_pages_join_two_caches", {"L1d": 1.42, "L2": 4.6, "L3 or memory": 156}),
        # Between 16 KiB and 1 MiB one size was visited: it shows no level.
        ("second_cache_at_one_size", {"L1d": 1.29, "L3": 16.1, "memory": 143}),
        # One boundary of huge pages lies at 1.3 MiB, behind two caches.
        ("three_caches_joined", {"L1d": 1.32, "L2": 4.4, "L3 or memory": 183}),
    ],
)
def test_one_visit_a_size_puts_no_latency_beside_the_name_of_another_level(name: str, shown: dict[str, float]) -> None:
    """Runs that ended early in a guest of a Zen 3 with busy siblings: L1d 1.4 ns, L2 4, L3 15 to 20, memory 150."""
    found = levels(f"../few_visits/{name}", "", ZEN_3)
    assert {level: one.latency_ns for level, one in found.items()} == pytest.approx(shown, rel=0.05)
    first = found["L1d"]
    assert (first.size_low or 0) <= ZEN_3[0]
    assert first.size_low or first.not_apart_from == "L2"


def test_what_is_behind_a_wide_boundary_is_behind_each_cache_in_it() -> None:
    """Nothing was visited from 32 KiB to 1 MiB: 150 ns behind it are not those of a cache of 512 KiB."""
    sizes = [size * KIB for size in (1, 2, 4, 8, 16, 32, 1024, 2048, 4096, 8192, 16384)]
    walked = [
        _row(["huge", size, ns, ns / 1.1, ns * 1.1, ns, ns, ns, 1], "any.walk", "load", "ns", "pages")
        for size in sizes
        for ns in [1.4 if size < MIB else 150.0]
    ]
    assert [level.level for level in hierarchy(walked, PROBES, _machine(ZEN_3))] == ["L1d", "L3 or memory"]


def test_no_level_is_numbered_beyond_the_caches_of_the_system() -> None:
    """A part of a Zen 4's last cache has a boundary of its own, and the sweep ends within that cache: it was "L4"."""
    found = levels("../few_visits/ends_within_the_last_cache", "", (32 * KIB, MIB, 32 * MIB))
    assert [*found] == ["L1d", "L2", "L3", "L3 or memory"]
