# SPDX-License-Identifier: Apache-2.0
"""The finer inferences on memory by hand-written numbers, and that they say so where they cannot tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.builders import metric, probe, row
from tollmeter.inference.answers import ratio
from tollmeter.inference.associativity import associativity, line_bytes
from tollmeter.inference.curves import jumps
from tollmeter.inference.load_and_scaling import efficiency, load_curves, slowdown
from tollmeter.inference.properties import (
    prefetching,
    translation,
    widest_load_bytes,
    write_allocate,
    write_back,
    yardsticks,
)
from tollmeter.model import Level, Probe, Row, Value

KIB = 1 << 10
MEANINGS = ("line-pair-of-distance", "bandwidth-of-instances", "latency-of-instances", "translation-of-pages",
            "read-bandwidth-of-size")  # fmt: skip


def described(*means: str) -> dict[str, Probe]:
    return {name: probe(metric(means=name), name=name) for name in means}


PROBES = described(*MEANINGS)
LOADED = probe(
    metric("load", means="latency-of-traffic"), metric("beside", "B/s", means="traffic-beside"), name="loaded"
)


def of(means: str, median: float | None, spread: float = 0.01, **parameters: Value) -> Row:
    return row(median, spread, of=means, parameters=dict(parameters))


def level(name: str, size: float | None, latency: float, **more: float) -> Level:
    return Level(
        level=name, size_bytes=size, size_low=size, size_high=size, os_size_bytes=None, latency_ns=latency,
        latency_cycles=None, read_bytes_per_second=more.get("read"), parallelism=more.get("parallelism"),
    )  # fmt: skip


def test_jumps_are_where_the_series_rises_and_nowhere_else() -> None:
    assert jumps([1.0, 1.1, 0.9, 1.0, 1.05], [0.1] * 5) == ()
    (only,) = jumps([1.0, 1.1, 0.9, 5.0, 5.1], [0.1] * 5)
    assert (only.at, only.low, only.high) == (3, 3, 3)
    assert (only.before, only.after) == pytest.approx((1.0, 5.05))
    assert jumps([5.0, 5.0, 5.0, 1.0, 1.0, 1.0], [0.1] * 6) == ()
    assert jumps([1.0, 0.95, 1.02, 1.1, 1.04, 1.12], [0.1] * 6) == ()


def test_errors_of_a_ratio_add_as_squares() -> None:
    found = ratio(of("a", 10.0, 0.03), of("b", 5.0, 0.04))
    assert found.value == 2
    assert found.high / 2 == pytest.approx(1.051, abs=0.002)


def test_what_may_be_nothing_is_no_sure_part_of_a_ratio() -> None:
    found = ratio(of("a", 10.0), of("b", 5.0, 1.2))
    assert found.low < found.value / 2 < found.value * 2 < found.high
    never = ratio(of("a", 10.0), of("b", 5.0, 1e6))
    assert never.low == pytest.approx(0) and never.high > 1e9


def test_the_line_ends_at_the_first_rise() -> None:
    costs = {16: 1.0, 32: 1.0, 56: 1.0, 64: 4.0, 72: 4.0, 128: 9.0, 256: 9.0}
    assert line_bytes([of("line-pair-of-distance", cost, distance=d) for d, cost in costs.items()], PROBES).value == 64
    flat = line_bytes([of("line-pair-of-distance", 4.0, distance=d) for d in costs], PROBES)
    assert flat.value is None
    noisy = line_bytes([of("line-pair-of-distance", cost, 2.0, distance=d) for d, cost in costs.items()], PROBES)
    assert noisy.value is None
    assert flat.why and noisy.why and flat.why != noisy.why


def test_a_buffer_that_one_number_of_pages_shows_is_none() -> None:
    """Beside others the last point of a sweep took 41 ns: no other point is of that buffer."""
    costs = {count: (0.1 if count <= 64 else 5.0) for count in (8, 16, 32, 48, 64, 96, 128, 512, 1024, 2048, 4096)}
    clear = [of("translation-of-pages", cost, 0.05, count=count, pages="small") for count, cost in costs.items()]
    last = [of("translation-of-pages", 41.0, 0.3, count=12288, pages="small")]
    levels = [one.value for one in translation(clear + last, PROBES) if one.kind == "translations"]
    assert levels == [64]


def test_efficiency_is_of_so_many_times_one() -> None:
    rows = [of("bandwidth-of-instances", 10.0 * gain, instances=n, size=KIB) for n, gain in ((1, 1), (2, 2), (4, 3))]
    assert [(share.parameters["instances"], share.value) for share in efficiency(rows, PROBES)] == [(2, 1.0), (4, 0.75)]
    assert not [*efficiency(rows[1:], PROBES)]
    slower = [of("latency-of-instances", 100.0 * n, instances=n, size=KIB) for n in (1, 2)]
    assert [share.value for share in slowdown(slower, PROBES)] == [2]


def test_a_load_curve_has_latencies_at_shares_of_its_traffic_and_saturates_at_twice_the_unloaded() -> None:
    probes = {"loaded": LOADED}
    points = {0: (300.0, 10e9), 64: (120.0, 6e9), 128: (100.0, 1e9)}
    rows = [one for delay, (ns, rate) in points.items() for one in _loaded(delay, ns, rate)]
    curve = {inference.kind: inference for inference in load_curves(rows, probes)}
    assert (curve["idle_latency"].value, curve["loaded_latency"].value, curve["latency_rise"].value) == (100, 300, 3)
    knee = curve["latency_knee"]
    assert knee.value == pytest.approx(6e9 + 4e9 * 80 / 180)
    shares = {one.parameters["share"]: one for one in load_curves(rows, probes) if one.kind == "latency_at_share"}
    assert (shares[50].value, shares[80].value) == (pytest.approx(116), pytest.approx(210))
    assert all(one.low and one.value and one.high and one.low < one.value < one.high for one in shares.values())
    assert knee.low is not None
    assert knee.low < knee.value
    level_rows = [one for delay in points for one in _loaded(delay, 100.0, 1e9 * (9 - delay / 64))]
    flat = [*load_curves(level_rows, probes)][-1]
    assert flat.value is None
    assert flat.reason


def _loaded(delay: int, ns: float, rate: float) -> list[Row]:
    parameters: dict[str, Value] = {"delay": delay, "mix": "1:0"}
    return [row(ns, of="loaded", name="load", parameters=parameters),
            row(rate, of="loaded", name="beside", unit="B/s", parameters=parameters)]  # fmt: skip


def test_reading_is_held_against_ports_for_the_first_cache_and_lines_under_way_behind_it() -> None:
    levels = [level("L1d", 32 * KIB, 1.0, read=100e9), level("memory", None, 100.0, parallelism=10.0, read=3.2e9)]
    first, _, memory, share = yardsticks(levels, 4e9, 16, 64)
    assert first.value == 128e9
    assert memory.value == pytest.approx(6.4e9)
    assert share.value == pytest.approx(0.5)
    assert {held.level for held in yardsticks(levels, None, 16, 64)} == {"memory"}
    kernels = [of("read-bandwidth-of-size", 1e9, kernel=name, size=KIB) for name in ("portable", "avx2", "what")]
    assert widest_load_bytes(kernels, PROBES) == 32


def test_no_rows_give_reasons_and_no_numbers() -> None:
    levels = [level("L1d", 32 * KIB, 1.0), level("memory", None, 100.0)]
    assert line_bytes([], PROBES).why
    assert [buffer.reason for buffer in translation([], PROBES)] == ["too few numbers of small pages were timed"]
    assert write_back([], PROBES, levels).why
    assert write_allocate([], PROBES, levels).why
    assert all(gain.reason for gain in prefetching([], PROBES))
    assert all(ways.why for ways in associativity([], PROBES, levels).values())


def test_a_translation_step_that_may_be_a_caches_is_excluded() -> None:
    levels = [level("L1d", 32 * KIB, 1.0), level("L2", 512 * KIB, 4.0)]
    costs = {16: 0.01, 32: 0.01, 64: 0.01, 96: 2.0, 128: 2.0, 256: 2.0, 512: 4.0, 1024: 4.0, 2048: 4.0}
    rows = [of("translation-of-pages", cost, 0.05, count=count, pages="small") for count, cost in costs.items()]
    assert [buffer.value for buffer in translation(rows, PROBES, levels) if buffer.kind == "translations"] == [64]
    assert [buffer.value for buffer in translation(rows, PROBES) if buffer.kind == "translations"] == [64, 256]


def test_no_length_in_a_memory_probe_is_an_int() -> None:
    """Lengths beyond 2 GiB are asked for. What counts pages, lines or bytes is as wide as an address."""
    folder = Path(__file__).parent.parent.parent / "probes" / "memory"
    narrow = [
        f"{source.name}: {line.strip()}"
        for source in sorted(folder.glob("*.[ch]"))
        for line in source.read_text().splitlines()
        if any(
            f"int {name}" in line or f"long {name}" in line for name in ("bytes", "size", "length", "stride", "lines")
        )
    ]
    assert narrow == []
