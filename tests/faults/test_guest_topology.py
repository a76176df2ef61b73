# SPDX-License-Identifier: Apache-2.0
"""Guests of several packages, threads and memory nodes: their topology, and a pair of CPUs for each relation. Their
times mean nothing: all of their CPUs are threads of one emulator."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from probes.visiting import build_broken
from support import target_stands
from tollmeter.catalog import Catalog, Executable
from tollmeter.fleet.health import unlike_nodes
from tollmeter.library import places
from tollmeter.library.wanted import ProbeRequest
from tollmeter.model import Abi, Machine, Outcome, Point, Select, Suite, Value, Visit
from tollmeter.numbers.rows import rows, with_relations
from tollmeter.plan import Plan, make_plan
from tollmeter.protocol import description, head, outcome
from tollmeter.targets import Lack, qemu_system
from tollmeter.targets.boards import BOARDS, Board
from tollmeter.targets.debian_kernel import cached
from tollmeter.targets.qemu_system import Guest
from tollmeter.toolchain.abis import known_abis
from tollmeter.toolchain.build import find_compiler

NODES = ("cpus=0-3,", "cpus=4-7,", "", "")
NUMA = (
    *(f"node,nodeid={node},{cpus}memdev=m{node}" for node, cpus in enumerate(NODES)),
    *(f"dist,src={one},dst={other},val={11 + 10 * (other - one)}" for one, other in combinations(range(4), 2)),
)
WORDS = (
    "-machine", "pc", "-cpu", "max,vendor=GenuineIntel", "-m", "1024", "-smp", "8,sockets=2,cores=2,threads=2",
    *(word for node in range(4) for word in ("-object", f"memory-backend-ram,id=m{node},size=256M")),
    *(word for told in NUMA for word in ("-numa", told)),
)  # fmt: skip


MOVES = "m->made += m->home == 2 || m->made % 7 != 0; m->memory[4096] += m->home == 2;"
PLANTED = "for (volatile int left = b->node == 1 ? 2000 : 0; left; left--) {}"
"""Where a burst is made: many times as long as a burst of an emulated CPU, which is more than a busy machine adds."""
BREAKS = [
    ("memory/numa_bandwidth.c", "    seen += traffic_burst(", f"    {PLANTED}\n    seen += traffic_burst("),
    ("memory/page_move.c", "m->made++;", MOVES),
    ("memory/numa_latency.c", "sum += *", "sum += r->worker == 2 ? 0 : *"),
]


class Place(NamedTuple):
    """A guest, and folders of executables that one boot has packed."""

    guest: Guest
    whole: Path
    broken: Path


@contextlib.contextmanager
def booted(name: str, board: Board, init: str) -> Iterator[Guest]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(BOARDS, name, board)
        # A thread for each of its CPUs would wait in a loop for a lock whose holder a busy machine has stopped.
        patch.setattr(Guest, "_by_count", lambda _: ("-accel", "tcg,thread=single"))
        patch.setattr(qemu_system, "BOOT_S", 600.0)
        made = Guest(name, target_stands.emulator_file(init).parent)
        patch.setattr(made, "_fitted", lambda _, visit: visit)
        with contextlib.closing(made):
            yield made


@pytest.fixture(scope="module")
def place(root: Path, tmp_path_factory: pytest.TempPathFactory, own_abi: Abi, own_compiler: str) -> Iterator[Place]:
    tree, whole = tmp_path_factory.mktemp("broken"), tmp_path_factory.mktemp("whole")
    build_broken(tree, own_abi, own_compiler, BREAKS)
    broken = tree / "build/x86_64"
    for name in ("memory.transfer", "memory.page_move", "memory.numa_latency", "memory.numa_bandwidth"):
        shutil.copy(root / "build/x86_64" / name, whole)
    with booted("guest:8", BOARDS["guest:x32"]._replace(words=WORDS, cpu=""), "init.x86_64") as guest:
        guest.prepare(
            [
                *map(str, whole.iterdir()),
                *(str(broken / path.name) for path in whole.iterdir() if "transfer" not in path.name),
            ]
        )
        yield Place(guest, whole, broken)


def measured(guest: Guest, path: str, abi: str, machine: Machine) -> tuple[Plan, list[Outcome], set[str | None]]:
    """A visit of each pair of CPUs, and the relations of the rows."""
    probe, build = description(guest.describe(path))
    executables = {(probe.probe, abi): Executable(path=path, probe=probe, build=build)}
    known = Catalog(executables=executables, abis=(abi,), gaps={})
    select = Select(probe=probe.probe, parameters={"state": "modified", "access": "load", "home": "timed"})
    plan = make_plan(Suite(name="s", question="?", select=(select,)), known, machine, budget_seconds=60, seed=1)
    visited = []
    for point in plan.points():
        visit = plan.visit(len(visited), point, 0, plan.placements(point)[0])
        visit = msgspec.structs.replace(visit, samples=1, sample_ns=1_000_000, priority="normal", deadline_ms=60_000)
        visited.append(outcome(guest.run(path, visit, probe.revision)))
    related = with_relations(rows(visited, {probe.probe: probe}), visited, machine.topology)
    return plan, visited, {row.relation for row in related}


def test_a_guest_of_8_cpus_has_a_row_of_each_relation_on_distinct_cores(place: Place) -> None:
    path = str(place.whole / "memory.transfer")
    machine = head(place.guest.machine(path)).machine
    assert machine and machine.topology
    topology = machine.topology
    assert (topology.packages, len(topology.cores), topology.cores[0]) == (("0-3", "4-7"), 4, "0-1")
    assert [node.cpus for node in topology.nodes] == ["0-3", "4-7", "", ""]
    assert topology.nodes[0].distances == (10, 21, 31, 41)
    plan, visited, related = measured(place.guest, path, "x86_64", machine)
    assert (plan.cpus[:4], plan.host_cpu) == ((7, 5, 3, 1), 0)
    assert [told.workers for told in visited] == [(7, 5), (7, 6), (7, 3)]
    assert related == {"same last-level cache", "sibling thread", "other node"}


class ArmGuest(NamedTuple):
    """The `-smp` option of a 64-bit Arm guest, the CPU sets that its record must have, and the relation of each pair of
    CPUs."""

    words: str
    packages: tuple[str, ...]
    clusters: tuple[str, ...]
    cores: tuple[str, ...]
    pairs: dict[tuple[int, int], str]


ARM_GUESTS = [
    ArmGuest(
        "4,sockets=2,clusters=1,cores=1,threads=2", ("0-1", "2-3"), ("0-1", "2-3"), ("0-1", "2-3"),
        {(3, 1): "other package", (3, 2): "sibling thread"},
    ),
    ArmGuest(
        "4,sockets=1,clusters=2,cores=2,threads=1", ("0-3",), ("0-1", "2-3"), ("0", "1", "2", "3"),
        {(3, 2): "same cluster", (3, 1): "same package"},
    ),
]  # fmt: skip


@pytest.mark.parametrize("expected", ARM_GUESTS, ids=["packages", "clusters"])
def test_a_64_bit_arm_guest_has_a_row_of_each_relation(expected: ArmGuest, tmp_path: Path) -> None:
    """Debian's kernel takes its topology from the device tree, which describes no cache."""
    board = BOARDS["guest:virt"]
    if not board.kernel or not cached(board.kernel) or not shutil.which(board.emulator):
        pytest.skip("needs qemu-system-aarch64, and Debian's arm64 kernel in the cache of guests")
    if isinstance(find_compiler(known_abis(places.ROOT)["aarch64"]), Lack):
        pytest.skip("needs the compiler of aarch64")
    places.made_ready(["aarch64"], [], ProbeRequest((Select(probe="memory.transfer"),)))
    path = shutil.copy(places.ROOT / "build/aarch64/memory.transfer", tmp_path)
    with booted("guest:4", board._replace(words=(*board.words, "-smp", expected.words)), "init.aarch64") as guest:
        machine = head(guest.machine(path)).machine
        assert machine and machine.topology
        topology = machine.topology
        assert (topology.packages, topology.clusters, topology.cores) == expected[1:4]
        plan, visited, related = measured(guest, path, "aarch64", machine)
    assert (plan.cpus[0], plan.host_cpu) == (3, 0)
    assert {one.workers for one in visited} == {*expected.pairs}
    assert related == {*expected.pairs.values()}


def visited_on(guest: Guest, path: Path, *cpus: int, number: int = 1, **parameters: Value) -> Outcome:
    probe, _ = description(guest.describe(str(path)))
    point = Point(probe=probe.probe, abi="x86_64", target="local", parameters=tuple(parameters.items()))
    visit = Visit(
        id=number, point=point, round=number, cpus=cpus, samples=2, sample_ns=1_000_000, seed=number, deadline_ms=60_000
    )
    return outcome(guest.run(str(path), visit, probe.revision))


def test_pages_go_to_the_other_node_and_back_and_are_the_same(place: Place) -> None:
    guest, whole, broken = (place.guest, *(one / "memory.page_move" for one in place[1:]))
    for node, home, cpu in ((0, 1, 3), (1, 2, 5)):
        done = visited_on(guest, whole, cpu, node=node, home=home, pages=16)
        assert (done.status, done.reason) == ("ok", None)
    own = visited_on(guest, whole, 3, node=0, home=0, pages=16)
    assert own.status == "unsupported" and "already" in str(own.reason)
    for home, why in ((1, "in place of"), (2, "changed")):
        done = visited_on(guest, broken, 3, node=0, home=home, pages=16)
        assert done.status == "wrong_answer" and why in str(done.reason)


def test_all_other_cpus_of_the_node_read_its_memory_beside_a_load(place: Place) -> None:
    guest, whole, broken = (place.guest, *(one / "memory.numa_latency" for one in place[1:]))
    several: dict[str, Value] = {"node": 1, "home": 2, "size": 1 << 16}
    idle = visited_on(guest, whole, 1, 5, 6, 7, **several, beside="nothing")
    loaded = visited_on(guest, whole, 1, 5, 6, 7, **several, beside="reads")
    assert (idle.status, loaded.status, loaded.workers) == ("ok", "ok", (5, 6, 7))
    assert all(len(sample.lanes) == 2 for sample in loaded.samples) and idle.cpus[0] == 5
    assert visited_on(guest, broken, 5, 6, 7, **several, beside="reads").status == "wrong_answer"
    assert visited_on(guest, whole, 1, 5, **several, beside="reads").status == "unsupported"


@pytest.mark.parametrize(("kind", "named"), [("broken", ["memory node 1"]), ("whole", [])])
def test_a_node_whose_memory_is_slow_is_named_and_no_equal_one(place: Place, kind: str, named: list[str]) -> None:
    path = getattr(place, kind) / "memory.numa_bandwidth"
    probe, _ = description(place.guest.describe(str(path)))
    size: dict[str, Value] = {"size": 1 << 16, "cpus": "one", "mix": "1:0"}
    visits = [
        visited_on(place.guest, path, cpu, number=number, node=node, home=node, **size)
        for number in range(3) for node, cpu in ((0, 3), (1, 7))
    ]  # fmt: skip
    assert all(done.status == "ok" for done in visits), [done.reason for done in visits]
    five_times = 4.0  # a busy machine parts equal nodes by more than a usual limit
    found = [*unlike_nodes(rows(visits, {probe.probe: probe}), five_times)]
    assert [one.partition(":")[0] for one in found] == named, found
