# SPDX-License-Identifier: Apache-2.0
"""The memory's tolls: every point has a number or a sentence, and the numbers stand to each other as physics wants."""

from __future__ import annotations

import os
import platform
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from probes.visiting import (
    all_points,
    asked_of,
    control_cost,
    cost,
    cpus,
    describe,
    in_turns,
    need_cpus_at_a_time,
    visit,
    visits,
)
from tollmeter.model import Outcome, Value

TWO_CPUS = len(os.sched_getaffinity(0)) >= 2
X86 = platform.machine() in ("x86_64", "i686")
MIB = 1 << 20
VISITS = 5

# Few enough values of the long axes that every combination with the others is made.
FEW: dict[str, dict[str, tuple[Value, ...]]] = {
    "memory.associativity": {"lines": (1, 8, 64), "stride": (4096, 65536)},
    "memory.capacity": {},
    "memory.copy_conflict": {"offset": (0, 64), "size": (16384,)},
    "memory.dram_page": {"distance": (1 << 20,)},
    "memory.huge_page_gain": {},
    "memory.latency": {},
    "memory.latency_scaling": {"instances": (1, 2)},
    "memory.line": {},
    "memory.line_sharing": {"distance": (8, 512)},
    "memory.loaded_latency": {"node": (0, 7), "delay": (0, 65536), "size": (32 * MIB,)},
    "memory.libc_mem": {"bytes": (8, 100)},
    "memory.numa_bandwidth": {"node": (0, 7), "home": (0, 7), "size": (32 * MIB,)},
    "memory.numa_latency": {"node": (0, 7), "home": (0, 7)},
    "memory.page_move": {"node": (0, 7), "home": (0, 7)},
    "memory.page_walk": {},
    "memory.parallelism": {},
    "memory.ping_pong": {},
    "memory.read_bandwidth": {"size": (1024, 1280, 65536)},
    "memory.write_bandwidth": {"size": (1024, 1280, 65536)},
    "memory.copy_bandwidth": {"size": (1024, 1280, 65536)},
    "memory.update_bandwidth": {"size": (1024, 1280, 65536)},
    "memory.scaling": {"instances": (1, 2)},
    "memory.stream": {"size": (4 * MIB,), "threads": (1, 2)},
    "memory.stream2": {"size": (4 * MIB,), "threads": (1, 2)},
    "memory.stride": {"stride": (16, 64, 4096)},
    "memory.tlb": {"count": (8, 100)},
    "memory.transfer": {"home": ("timed",)},
    "memory.write_policy": {},
}


def points(abi: str, probe: str) -> list[dict[str, Value]]:
    """All points of a probe, with the few values above in place of an axis' own."""
    every: list[dict[str, Value]] = all_points(describe(abi, probe))
    for axis, values in FEW[probe].items():
        others = {tuple((k, v) for k, v in point.items() if k != axis): None for point in every}
        every = [{**dict(other), axis: value} for other in others for value in values]
    return every


def rate(done: Outcome) -> float:
    """Bytes a nanosecond of the shortest batch."""
    assert done.work.bytes > 0
    return done.work.bytes / (cost(done) * done.work.operations)


# Their companions spin: beside other tests a visit takes up to 30 times its CPU time.
SPINNING = {"memory.latency_scaling", "memory.line_sharing", "memory.loaded_latency", "memory.ping_pong"}


@pytest.mark.parametrize(
    "probe", [pytest.param(probe, marks=[pytest.mark.machine] if probe in SPINNING else []) for probe in FEW]
)
def test_every_point_has_a_number_or_a_sentence(abi: str, probe: str) -> None:
    for done in visits(abi, probe, asked_of(abi, points(abi, probe))):
        assert done.status == "ok" or (done.status == "unsupported" and done.reason), (done.point, done.reason)


def test_walks_on_both_kinds_of_page_take_as_many_loads_whatever_was_found_before(abi: str) -> None:
    """The walk of fewer loads comes round more seldom, and lost its lines to neighbours: its pages were blamed."""
    told: dict[str, Value] = {"--iterations": 20480, "--control-iterations": 3008}
    done = visit(abi, "memory.huge_page_gain", samples=2, size=2 * MIB, **told)
    if done.status == "unsupported":
        pytest.skip(done.reason or "")
    assert done.samples
    assert all(sample.control_iterations in (0, sample.iterations) for sample in done.samples)


def test_every_probe_of_the_family_is_held_here(root: Path) -> None:
    found = {f"memory.{path.stem}" for path in root.glob("probes/memory/*.c")}
    assert found == set(FEW) | {"memory.clock", "memory.clock_of_cpus", "memory.each_cpu"}


@pytest.mark.machine
def test_the_clock_is_the_rate_of_the_control_loop(abi: str) -> None:
    done = visit(abi, "memory.clock", samples=9)
    assert 1 / cost(done) == pytest.approx(max(done.controls) / 1e9, rel=0.2)


@pytest.mark.machine
def test_memory_answers_later_than_the_first_cache(abi: str) -> None:
    near, far = (visit(abi, "memory.latency", size=size, pages="small") for size in (16384, 128 * MIB))
    assert cost(far) > 4 * cost(near)


@pytest.mark.machine
def test_the_first_cache_answers_after_whole_cycles(own_abi_name: str) -> None:
    """Either clock may have moved between the loops, so some try has to meet the same clock."""
    seen = []
    for _ in range(8):
        done = visit(own_abi_name, "memory.latency", samples=9, size=8192, pages="small")
        seen.append(cost(done) * max(done.controls) / 1e9)
        if abs(seen[-1] - round(seen[-1])) < 0.05 * seen[-1]:
            break
    else:
        pytest.fail(f"cycles: {seen}")
    assert 1 < seen[-1] < 12


@pytest.mark.machine
def test_a_page_at_a_time_saves_translations(own_abi_name: str) -> None:
    small, local = in_turns(
        *(partial(visit, own_abi_name, "memory.latency", size=128 * MIB, pages=pages) for pages in ("small", "local"))
    )
    assert cost(local) < cost(small)


@pytest.mark.machine
def test_chains_overlap_but_never_more_than_they_are(abi: str) -> None:
    alone, eight = in_turns(
        *(partial(visit, abi, "memory.parallelism", chains=chains, size=256 << 10) for chains in (1, 8))
    )
    assert cost(alone) / 9 < cost(eight) < cost(alone) / 2


@pytest.mark.machine
def test_a_second_access_is_nearly_free_in_the_same_line_only(abi: str) -> None:
    """The least of three visits each: who shares the core may be there for the body and not for its control."""
    inside, beyond = (
        min(cost(done) - control_cost(done) for done in (visit(abi, "memory.line", distance=distance) for _ in "123"))
        for distance in (16, 256)
    )
    assert inside < 0.6 * beyond


@pytest.mark.machine
@pytest.mark.skipif(not TWO_CPUS, reason="one CPU")
def test_words_of_one_line_are_dearer_to_count_on_two_cpus(own_abi_name: str) -> None:
    need_cpus_at_a_time(own_abi_name)
    shared, apart = (
        median(sample.body[1] / sample.iterations for sample in done.samples)
        for done in (visit(own_abi_name, "memory.line_sharing", samples=15, distance=d) for d in (8, 1024))
    )
    assert shared > 1.2 * apart


@pytest.mark.machine
def test_more_lines_than_ways_conflict(abi: str) -> None:
    few, many = in_turns(
        *(partial(visit, abi, "memory.associativity", lines=lines, stride=4096, pages="small") for lines in (2, 64))
    )
    assert cost(many) > 2 * cost(few)


@pytest.mark.machine
def test_many_pages_cost_translations(abi: str) -> None:
    """By the middle of some visits: what each costs depends on the pages that it was given."""
    told = [visit(abi, "memory.tlb", count=4096, pages="small") for _ in range(VISITS)]
    assert median(cost(done) / control_cost(done) for done in told) > 1.2


@pytest.mark.machine
def test_a_longer_reach_costs_longer_walks(own_abi_name: str) -> None:
    done = visit(own_abi_name, "memory.page_walk", reach=1 << 30)
    assert cost(done) > 1.5 * control_cost(done)


def test_every_byte_is_counted_and_no_more(abi: str) -> None:
    """1.25 KiB is no power of two, and a sparse kernel touches 4 of 16 bytes."""
    for operation, sides in (("read", 1), ("write", 1), ("copy", 2), ("update", 1)):
        probe = f"memory.{operation}_bandwidth"
        whole, sparse = (visit(abi, probe, samples=1, size=1280, kernel=kernel) for kernel in ("portable", "sparse"))
        assert whole.work.bytes == 1280 / sides
        assert sparse.work.bytes == whole.work.bytes / 4
        assert sparse.work.bus_bytes == whole.work.bus_bytes >= whole.work.bytes


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="these kernels are x86's")
@pytest.mark.parametrize("operation", ["read", "write", "copy", "update"])
def test_wider_kernels_are_faster_in_the_first_cache(own_abi_name: str, operation: str) -> None:
    probe = f"memory.{operation}_bandwidth"
    narrow, wide = in_turns(
        *(partial(visit, own_abi_name, probe, size=16384, kernel=kernel) for kernel in ("portable", "avx2"))
    )
    if wide.status == "unsupported":
        pytest.skip(str(wide.reason))
    assert rate(wide) > 1.5 * rate(narrow)


@pytest.mark.machine
@pytest.mark.skipif(not X86, reason="these kernels are x86's")
def test_stores_past_the_caches_do_not_stay_in_them(own_abi_name: str) -> None:
    kept, past = in_turns(
        *(
            partial(visit, own_abi_name, "memory.write_bandwidth", size=16384, kernel=kernel)
            for kernel in ("sse2", "sse2_nt")
        )
    )
    assert rate(kept) > 1.5 * rate(past)
    assert (kept.work.bus_bytes, past.work.bus_bytes) == (2 * 16384, 16384)


@pytest.mark.machine
def test_the_read_rate_stays_below_what_the_load_ports_could_do(own_abi_name: str) -> None:
    """Two loads of 64 bytes a cycle are more than any core of today makes from its first cache."""
    for kernel in ("portable", "avx2", "avx512"):
        done = visit(own_abi_name, "memory.read_bandwidth", size=16384, kernel=kernel)
        if done.status == "ok":
            assert rate(done) < 2 * 64 * max(done.controls) / 1e9 * 1.15


@pytest.mark.skipif(not TWO_CPUS, reason="one CPU")
@pytest.mark.parametrize(("threads", "status"), [("one", "unsupported"), ("other", "ok")])
def test_traffic_is_not_made_on_the_sibling_of_the_measured_core(
    own_abi_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: str, status: str
) -> None:
    first, second = cpus()[:2]
    for cpu in (first, second):
        folder = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        of_core = f"{min(first, second)},{max(first, second)}" if threads == "one" else f"{cpu}"
        (folder / "core_cpus_list").write_text(f"{of_core}\n")
    monkeypatch.setenv("TOLL_SYSTEM_ROOT", str(tmp_path))
    done = visit(own_abi_name, "memory.loaded_latency", samples=1, size=MIB, delay=64)
    assert done.status == status, done.reason


@pytest.mark.machine
@pytest.mark.skipif(not TWO_CPUS, reason="one CPU")
def test_traffic_beside_follows_its_delay(own_abi_name: str) -> None:
    fast, slow = (
        visit(own_abi_name, "memory.loaded_latency", size=32 * MIB, delay=delay, mix="1:0") for delay in (0, 65536)
    )
    bursts = [max(done / ns for sample in one.samples for done, ns in sample.lanes) for one in (fast, slow)]
    assert bursts[0] > 10 * bursts[1]


def test_a_mix_counts_lines_read_and_lines_written(own_abi_name: str) -> None:
    if not TWO_CPUS:
        pytest.skip("one CPU")
    read, mixed, even = (
        visit(own_abi_name, "memory.loaded_latency", samples=1, size=32 * MIB, mix=mix).work.bytes
        for mix in ("1:0", "3:1", "1:1")
    )
    assert (mixed / read, even / read) == (pytest.approx(4 / 3), 2)


@pytest.mark.skipif(not TWO_CPUS, reason="one CPU")
def test_stream_counts_each_vector_once_and_write_allocate_separately(own_abi_name: str) -> None:
    copy, triad = (visit(own_abi_name, "memory.stream", samples=1, size=4 * MIB, kernel=k) for k in ("copy", "triad"))
    assert triad.work.bytes == 1.5 * copy.work.bytes
    assert copy.work.bus_bytes == 1.5 * copy.work.bytes


@pytest.mark.machine
def test_where_a_store_fetches_its_line_a_chase_hits_it(own_abi_name: str) -> None:
    done = visit(own_abi_name, "memory.write_policy", test="reload", size=16384)
    assert cost(done) < control_cost(done)


@pytest.mark.machine(every_abi=True)
def test_each_cpu_has_a_time_of_its_own(abi: str) -> None:
    """Companions in turn make as many iterations as the timed worker; those beside it as many as they can. They spin:
    beside other tests each visit takes ten times as long. Four caches of 480 MiB exceed a 32-bit address space."""
    for done in visits(abi, "memory.each_cpu", asked_of(abi, all_points(describe(abi, "memory.each_cpu")))):
        if len(os.sched_getaffinity(0)) < 2 or "this ABI can address" in str(done.reason):
            assert done.status == "unsupported"
            continue
        in_turn = done.point.values()["beside"] == "nothing"
        assert done.status == "ok" and set(done.workers) == os.sched_getaffinity(0)
        for sample in done.samples:
            assert len(sample.lanes) == len(done.workers) - 1
            for iterations, ns in sample.lanes:
                assert ns > 0 and (iterations == 2 * sample.iterations if in_turn else iterations > 0)
