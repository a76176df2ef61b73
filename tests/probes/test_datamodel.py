# SPDX-License-Identifier: Apache-2.0
"""What pointer width costs: footprints follow the pointer, and no check can be fooled."""

from __future__ import annotations

import os
import re
import subprocess
from functools import partial
from pathlib import Path

import pytest

from probes.visiting import all_points, asked_of, control_cost, cost, describe, executable, in_turns, visit, visits
from tollmeter.model import Outcome
from tollmeter.targets.profiling_visit import DISTANCES, loads_of, measure_distances
from tollmeter.targets.qemu_user import emulator_lack
from tollmeter.toolchain.abis import open_here, read_abi

ROOT = Path(__file__).resolve().parents[2]
OF_THE_C_LIBRARY = True
"""Memory is allocated by it: each ABI compares for itself."""
BREAKS = (
    (
        "datamodel/pointer_chase.c",
        "walk_on(&((struct walk *)r->state)->cursor, r->iterations);",
        "walk_on(&((struct walk *)r->state)->cursor, r->iterations - 32);",
        {"nodes": 1000},
    ),
    ("datamodel/virtual_call.cc", "return size_ * size_ / 2;", "return size_ * size_ / 3;", {}),
    (
        "datamodel/event_store.cc",
        "&& store->events[cold]->is_as_built();",
        "&& cold && store->events[cold]->is_as_built();",
        {"events": 10},
    ),
    (
        "datamodel/histogram_tree.cc",
        "into->count += from->count;",
        "into->count |= from->count;",
        {"act": "merge", "bins": 1000},
    ),
    (
        "datamodel/event_queue.cc",
        "if (is_earlier(second->due, first->due)) {",
        "if (is_earlier(second->due, first->due - 64)) {",
        {"packets": 100},
    ),
    (
        "datamodel/bit_boards.c",
        "return one << 16 | one >> 16 | two << 8 | two >> 8;",
        "return one << 16 | one >> 16 | two << 8;",
        {},
    ),
    ("datamodel/malloc_threshold.c", "byte[at] = 1;", "byte[at] = at != 0;", {"size": 4096}),
    (
        "datamodel/network_simplex.cc",
        ".supplyMap(network->supply)",
        "",
        {"arcs": 1000},
    ),
)


def pointer_bytes(abi: str) -> int:
    """4 for a 32-bit program on a 64-bit CPU too: the ABI file says what the executable's header must say."""
    return int(read_abi(ROOT / f"abis/{abi}.toml").elf["class"]) // 8


@pytest.mark.parametrize(("name", "where"), [(name, where) for name, _, _, where in BREAKS])
def test_a_broken_probe_has_no_number(broken: Path, own_abi_name: str, name: str, where: dict[str, int]) -> None:
    done = visit(own_abi_name, name.rpartition(".")[0].replace("/", "."), root=broken, samples=1, **where)
    if "is not here" in (done.reason or ""):
        pytest.skip(f"{done.reason}")
    assert done.status == "wrong_answer"


@pytest.mark.parametrize("probe", ["datamodel.virtual_call", "datamodel.event_store", "datamodel.bit_boards"])
def test_every_point_has_a_number(abi: str, probe: str) -> None:
    for done in visits(abi, probe, asked_of(abi, all_points(describe(abi, probe)))):
        assert done.status == "ok", (done.point, done.reason)


@pytest.mark.machine
def test_a_node_is_three_pointers_and_a_number(abi: str) -> None:
    done = visit(abi, "datamodel.pointer_chase", nodes=4096)
    assert done.gauges["node"] == 4 * pointer_bytes(abi)
    assert done.gauges["footprint"] == 4096 * done.gauges["node"]


@pytest.mark.machine
def test_a_long_list_costs_more_a_step_than_a_short_one(abi: str) -> None:
    short, long = (cost(visit(abi, "datamodel.pointer_chase", nodes=nodes)) for nodes in (256, 1 << 20))
    assert long > 3 * short


def test_an_emulator_reports_the_reuse_distances_of_a_list(abi: str) -> None:
    """Some nodes share a line, so that it comes again after a part of the list; never after more than all of it."""
    target = {"x86_64": "qemu-user:x86_64", "ia32": "qemu-user:i386"}.get(abi)
    if target is None or emulator_lack(target.partition(":")[2]):
        pytest.skip("no emulator of one process runs this ABI here")
    open_here(ROOT, target, (DISTANCES,)).close()
    told = measure_distances(
        target, [f"{ROOT}/build/{abi}/datamodel.pointer_chase", "nodes=2048"], 200, ROOT / "build/emulator"
    )
    footprint, near = 2048 * 4 * pointer_bytes(abi), 4096
    far = [(size, foreseen, others) for size, foreseen, others in loads_of(told.written) if size > near]
    count = sum(others for _, _, others in far)
    assert count > 2048
    assert sum(foreseen for _, foreseen, _ in far) < 0.05 * count
    assert 0.3 * footprint < sum(size * others for size, _, others in far) / count < footprint
    assert sum(others for size, _, others in far if size > 1.3 * footprint) < 0.05 * count


@pytest.mark.machine
def test_a_call_that_cannot_be_guessed_costs_more_than_one_that_can(abi: str) -> None:
    one, four = in_turns(
        *(partial(visit, abi, "datamodel.virtual_call", classes=classes, objects=16384) for classes in (1, 4))
    )
    assert cost(four) > 1.5 * cost(one)
    assert cost(four) > control_cost(four)


def stored(abi: str, events: int) -> Outcome:
    return visit(abi, "datamodel.event_store", events=events)


@pytest.mark.machine
def test_ten_times_the_events_are_ten_times_the_bytes(abi: str) -> None:
    few, many = stored(abi, 100), stored(abi, 1000)
    assert many.gauges["objects"] == 10 * few.gauges["objects"]
    assert many.gauges["asked"] == pytest.approx(10 * few.gauges["asked"], rel=0.02)
    assert many.gauges["resident_peak"] > few.gauges["resident_peak"] + many.gauges["asked"] / 2
    assert many.gauges["minor_faults"] > few.gauges["minor_faults"]


@pytest.mark.machine
@pytest.mark.parametrize("name", ["event_store", "event_queue", "histogram_tree"])
def test_what_malloc_took_and_was_written_is_resident(abi: str, name: str) -> None:
    """The kernel's high-water mark lags by pages that a CPU or a task has not added yet: seen, 4 KiB in all."""
    least = {axis.name: axis.values[0] for axis in describe(abi, f"datamodel.{name}").parameters if axis.values}
    done = visit(abi, f"datamodel.{name}", **least)
    code = 64 * 1024
    assert done.gauges["resident_peak"] > done.gauges["taken"] + code


@pytest.mark.machine
def test_malloc_takes_more_than_is_asked(abi: str) -> None:
    done = stored(abi, 100)
    assert done.gauges["asked"] < done.gauges["taken"] < 3 * done.gauges["asked"]


def test_a_sparse_system_asks_for_its_matrix_and_vectors(abi: str) -> None:
    """At most ten vectors are alive beside the matrix, of numbers or of indices; malloc adds a few words to a block."""
    done = visit(abi, "datamodel.sparse", samples=1, side=40)
    if done.status == "unsupported":
        pytest.skip(f"{done.reason}")
    beside = done.gauges["asked"] - done.gauges["matrix"]
    assert beside % (pointer_bytes(abi) * 40 * 40) == 0
    assert 5 <= beside / (8 * 40 * 40) <= 10
    assert done.gauges["asked"] < done.gauges["taken"] < 1.05 * done.gauges["asked"]


def test_a_dense_system_asks_for_its_matrices(abi: str) -> None:
    done = visit(abi, "datamodel.dense", samples=1, order=50)
    if done.status == "unsupported":
        pytest.skip(f"{done.reason}")
    assert 2 * 8 * 50 * 50 < done.gauges["asked"] < 2.2 * 8 * 50 * 50
    assert done.gauges["asked"] < done.gauges["taken"] < 1.05 * done.gauges["asked"]


@pytest.mark.machine
def test_objects_grow_with_the_pointer(abi: str) -> None:
    """Of an object that is mostly pointers, more than four and less than twelve words."""
    size = stored(abi, 100).gauges["object"]
    assert 3.5 * pointer_bytes(abi) < size < 6 * pointer_bytes(abi)


def event_bytes(abi: str) -> float:
    """One event by hand: objects of words and numbers of 4 bytes, each rounded up to its alignment, which is a word's;
    a third of the particles are of each kind, and a hadron's mother stands behind the padding."""
    word = pointer_bytes(abi)

    def rounded(content: int, alignment: int = word) -> int:
        return -(-content // alignment) * alignment

    vertex, hit, track = rounded(word + 12), rounded(3 * word + 4), 4 * word
    plain, lepton = rounded(4 * word + 4), rounded(4 * word + 8)
    hadron = rounded(4 * word + 4) + word
    event = rounded(4 * word, 8 if word == 8 else 4) + 8
    return 8 * vertex + 64 * ((plain + lepton + hadron) / 3 + 4 * hit + track) + event


@pytest.mark.machine
def test_an_event_is_as_large_as_its_layout_says(abi: str) -> None:
    assert stored(abi, 1000).gauges["asked"] / 1000 == pytest.approx(event_bytes(abi), rel=0.02)


@pytest.mark.machine
def test_reported_memory_is_the_same_in_two_visits(abi: str) -> None:
    one, two = stored(abi, 1000), stored(abi, 1000)
    for name in ("resident_peak", "resident", "proportional", "heap", "minor_faults", "asked", "code", "data"):
        assert one.gauges[name] == pytest.approx(two.gauges[name], rel=0.01), name


def test_code_that_another_layout_has_mapped_too_counts_in_whole(abi: str) -> None:
    """Layouts of one program stay side by side in a run, and how many do is the run's doing."""
    alone = visit(abi, "datamodel.bit_boards", samples=1)
    with subprocess.Popen(
        [executable(abi, "datamodel.bit_boards", ROOT), "--visits"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin and other.stdout
        other.stdin.write(b"--samples=1\n")
        other.stdin.flush()
        assert other.stdout.readline(), "it has run once, and stays"
        beside = visit(abi, "datamodel.bit_boards", samples=1)
    assert beside.gauges["proportional"] == pytest.approx(alone.gauges["proportional"], rel=0.1)


def test_more_memory_than_there_is_is_refused_with_both_sizes(abi: str) -> None:
    done = visit(abi, "datamodel.event_store", events=1_000_000_000)
    assert done.status == "unsupported"
    assert len(re.findall(r"\d+ MiB", done.reason or "")) == 2


FAULT_AROUND = 1 << 16
UNCOUNTED = 2 * 32 * (os.cpu_count() or 1) * os.sysconf("SC_PAGESIZE")
"""Bytes by which the kernel's account of resident pages may be off: 32 pages of each CPU, of files and of others
(percpu_counter in mm_struct, Linux 6.2)."""
PROGRAMS = ({"network_simplex": {"arcs": 3000}, "sparse": {"side": 100}, "dense": {"order": 100}}).items()


@pytest.mark.machine
@pytest.mark.parametrize(("name", "where"), PROGRAMS)
def test_a_program_reports_its_memory_faults_and_time(abi: str, name: str, where: dict[str, int]) -> None:
    done = visit(abi, f"datamodel.{name}", samples=2, **where)
    if done.status == "unsupported":
        assert "here" in (done.reason or "")
        return
    assert {"cpu_time", "resident_peak", "page_tables", "minor_faults", "code"} <= set(done.gauges)
    assert 0.2 * cost(done) < done.gauges["cpu_time"] < 3 * cost(done)


@pytest.mark.machine
@pytest.mark.parametrize(("name", "where"), PROGRAMS)
def test_a_programs_memory_is_the_same_in_two_visits(abi: str, name: str, where: dict[str, int]) -> None:
    """But for what the kernel maps at once around a page of the executable, as far as it has it at hand, which is less
    of one that was just linked."""
    _, one, two = (visit(abi, f"datamodel.{name}", samples=2, **where) for _ in range(3))
    if one.status == "unsupported":
        pytest.skip(f"{one.reason}")
    for metric in ("resident_peak", "resident", "heap", "mapped", "code", "data"):
        assert one.gauges[metric] == pytest.approx(two.gauges[metric], rel=0.01, abs=4 * FAULT_AROUND + UNCOUNTED), (
            metric
        )


@pytest.mark.parametrize(("name", "answer"), [("network_simplex", "objective"), ("sparse", "checksum")])
def test_a_program_answers_the_same_under_every_abi(name: str, answer: str) -> None:
    where = dict(PROGRAMS)[name]
    both = [visit(abi, f"datamodel.{name}", samples=1, **where) for abi in ("x86_64", "ia32")]
    if any(done.status == "unsupported" for done in both):
        pytest.skip(f"{both[0].reason or both[1].reason}")
    assert both[0].gauges[answer] == pytest.approx(both[1].gauges[answer], rel=1e-9)


@pytest.mark.machine
@pytest.mark.parametrize("act", ["fill", "merge", "walk"])
def test_a_bin_of_a_large_tree_costs_more_than_one_of_a_small_tree(abi: str, act: str) -> None:
    small, large = in_turns(
        *(partial(visit, abi, "datamodel.histogram_tree", act=act, bins=bins) for bins in (1000, 100000))
    )
    assert cost(large) > 1.3 * cost(small)


@pytest.mark.machine
def test_a_bin_is_two_pointers_and_two_numbers(abi: str) -> None:
    done = visit(abi, "datamodel.histogram_tree", act="fill", bins=1000)
    assert done.gauges["asked"] == 1000 * (2 * pointer_bytes(abi) + 8)


@pytest.mark.machine
def test_a_long_queue_costs_more_an_event_than_a_short_one(abi: str) -> None:
    short, long = in_turns(
        *(partial(visit, abi, "datamodel.event_queue", packets=packets) for packets in (100, 100000))
    )
    assert cost(long) > 1.3 * cost(short)
    assert long.gauges["asked"] > 100 * short.gauges["asked"]


@pytest.mark.parametrize(("depth", "leaves"), [(2, 400), (3, 8902), (4, 197281)])
def test_positions_are_as_many_as_is_published(abi: str, depth: int, leaves: int) -> None:
    """Chess after so many half-moves (OEIS A048987). A count that differs from what the probe calls an operation fails
    its check."""
    done = visit(abi, "datamodel.bit_boards", samples=1, depth=depth)
    assert (done.status, done.work.operations) == ("ok", leaves)


@pytest.mark.machine
def test_narrow_registers_cost_wide_integers() -> None:
    both = [abi for abi in ("x86_64", "ia32") if (ROOT / f"build/{abi}/datamodel.bit_boards.describe").is_file()]
    if len(both) < 2:
        pytest.skip("needs two ABIs")
    wide, narrow = in_turns(*(partial(visit, abi, "datamodel.bit_boards", depth=3) for abi in both))
    assert cost(narrow) > 1.2 * cost(wide)


@pytest.mark.machine
def test_a_block_of_the_ceiling_is_cheaper_than_one_a_byte_larger(abi: str) -> None:
    """Where this malloc has a ceiling: the one is kept, the other is mapped anew each time."""
    ceiling = visit(abi, "datamodel.malloc_threshold", size=65536).gauges.get("ceiling")
    if ceiling is None:
        pytest.skip("this malloc does not move its threshold")
    under, over = in_turns(
        *(partial(visit, abi, "datamodel.malloc_threshold", size=int(ceiling) + more) for more in (0, 1))
    )
    assert cost(over) > 8 * cost(under)
