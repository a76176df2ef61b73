# SPDX-License-Identifier: Apache-2.0
"""What a real probe reports of machines that are folders, and how CPUs of them relate."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support import machine_trees
from support.machine_trees import GIB, Made, runs
from support.waiting import LONG_S
from tollmeter.library.places import suites
from tollmeter.model import Abi, Machine, Parameter, Point, Probe, RowOf, Topology
from tollmeter.model.topology import RELATIONS, core_of, kind_of, listed, memory_nodes, numbers, relation, speed_ranks
from tollmeter.plan.placement import Placing, chosen_cpus, other_relations
from tollmeter.plan.points import on_machine
from tollmeter.plan.values import sweep_values
from tollmeter.protocol import head

MOST_BYTES = 65536
LATENCY_SIZE = Parameter(
    name="size", kind="size", summary="bytes", start=1024, stop=4, stop_scale="last-cache", per_octave=16, refine=True
)


@pytest.fixture
def loop(tree: Path, own_abi: Abi) -> Path:
    return tree / "build" / own_abi.name / "kernel.loop"


@pytest.fixture
def whole(loop: Path, tmp_path: Path) -> Callable[[Made], Machine]:
    return lambda made: machine_of(loop, made, tmp_path)


def machine_of(loop: Path, made: Made, folder: Path) -> Machine:
    root = made.write(folder / "machine")
    done = subprocess.run(
        [loop, "--machine"], capture_output=True, check=True, timeout=LONG_S,
        env={**os.environ, "TOLL_SYSTEM_ROOT": str(root)},
    )  # fmt: skip
    assert max(map(len, done.stdout.splitlines(keepends=True))) <= MOST_BYTES
    machine = head(done.stdout).machine
    assert machine is not None
    return machine


def told(loop: Path, made: Made, folder: Path) -> Topology:
    topology = machine_of(loop, made, folder).topology
    assert topology is not None
    return topology


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (machine_trees.XEON, {(0, 8): "sibling thread", (0, 2): "same last-level cache", (0, 1): "other node"}),
        (
            machine_trees.EPYC,
            {
                (0, 128): "sibling thread",
                (0, 7): "same last-level cache",
                (0, 8): "same package",
                (0, 64): "other node",
            },
        ),
        (machine_trees.HYBRID, {(0, 1): "sibling thread", (0, 12): "same last-level cache", (0, 14): "same package"}),
        (machine_trees.CLUSTERS, {(0, 3): "same cluster", (0, 4): "same last-level cache", (0, 8): "same package"}),
        (machine_trees.ARM_SERVER, {(0, 1): "same last-level cache"}),
        (machine_trees.POWER, {(0, 7): "sibling thread", (0, 8): "same package", (0, 32): "other node"}),
        (machine_trees.RISCV_BOARD, {(0, 1): "same package"}),
        (machine_trees.OFFLINE, {(2, 3): "sibling thread", (0, 6): "same last-level cache"}),
        (machine_trees.SPARSE, {(0, 1): "same last-level cache", (0, 7): "other node"}),
        (machine_trees.MANY, {(0, 750): "sibling thread", (0, 14): "same last-level cache", (0, 20): "same package"}),
        (machine_trees.CONTAINER, {(2, 2): "same thread", (2, 3): "sibling thread", (2, 0): "same last-level cache"}),
    ],
)
def test_two_cpus_have_the_closest_relation_that_the_system_reports(
    made: Made, expected: dict[tuple[int, int], str], loop: Path, tmp_path: Path
) -> None:
    topology = told(loop, made, tmp_path)
    assert {pair: relation(topology, *pair) for pair in expected} == expected
    assert {pair: relation(topology, *pair[::-1]) for pair in expected} == expected


def test_packages_of_one_node_are_other_packages() -> None:
    two = Topology(online="0-3", packages=("0-1", "2-3"))
    assert [relation(two, 0, cpu) for cpu in (0, 1, 2)] == ["same thread", "same package", "other package"]
    assert RELATIONS.index("other package") < RELATIONS.index("other node")


RATED = replace(machine_trees.HYBRID, kinds=[*machine_trees.HYBRID.kinds, (1024, "0-15")])
"""Linux 6.18 gives every CPU of a hybrid whose cores have two threads the same capacity."""


@pytest.mark.parametrize(
    ("made", "cpus"),
    [
        (machine_trees.HYBRID, "0-11"), (RATED, "0-11"), (machine_trees.BIG_LITTLE, "7"),
        (machine_trees.ARM_SERVER, "0-7"), (machine_trees.OFFLINE, "0,2-3,6"),
    ],
)  # fmt: skip
def test_the_fastest_cores_are_found_by_capacity_or_by_the_counters_of_their_kind(
    made: Made, cpus: str, loop: Path, tmp_path: Path
) -> None:
    topology = told(loop, made, tmp_path)
    ranks = speed_ranks(topology)
    assert listed(cpu for cpu in numbers(topology.online) if not ranks.get(cpu, 0)) == cpus


def test_nodes_have_memory_distances_and_any_number(loop: Path, tmp_path: Path) -> None:
    arm = told(loop, machine_trees.ARM_SERVER, tmp_path / "arm")
    assert [(node.node, node.cpus, node.memory_bytes // GIB) for node in arm.nodes] == [
        (0, "0-7", 128), (1, "", 64), (2, "", 512)
    ]  # fmt: skip
    assert arm.nodes[2].distances == (40, 40, 10)
    sparse = told(loop, machine_trees.SPARSE, tmp_path / "sparse")
    assert [node.node for node in memory_nodes(sparse)] == [0, 8, 252, 900]


def test_a_process_has_the_cpus_and_nodes_that_it_may_use(loop: Path, tmp_path: Path) -> None:
    one_node = machine_of(loop, machine_trees.ONE_NODE, tmp_path / "node")
    assert one_node.allowed_cpus == (4, 5, 6, 7) and one_node.cpus == 8
    assert [node.node for node in memory_nodes(one_node.topology)] == [1]
    container = machine_of(loop, machine_trees.CONTAINER, tmp_path / "container")
    assert container.allowed_cpus == (2,) and container.facts["cpu_quota"] == "50000 100000"
    offline = machine_of(loop, machine_trees.OFFLINE, tmp_path / "offline")
    assert offline.allowed_cpus == (0, 2, 3, 6) and offline.cores == ((2, 3),)
    assert offline.topology and offline.topology.offline == "1,4-5,7"
    isolated = told(loop, machine_trees.ISOLATED, tmp_path / "isolated")
    assert (isolated.isolated, isolated.nohz_full) == ("2-3", "3")


def test_a_machine_of_1500_cpus_fits_one_record(loop: Path, tmp_path: Path) -> None:
    machine = machine_of(loop, machine_trees.MANY, tmp_path)
    assert machine.topology and len(machine.allowed_cpus) == machine.cpus == 1500
    assert len(machine.topology.cores) == 750 and len(machine.topology.last_caches) == 50


def test_sets_whose_cpus_are_numbered_in_turn_are_one_term_each(loop: Path, tmp_path: Path) -> None:
    assert told(loop, machine_trees.XEON, tmp_path).packages == ("0-14/2", "1-15/2")
    assert numbers("0-14/2,3") == (0, 2, 3, 4, 6, 8, 10, 12, 14)


def test_the_topology_of_this_machine_is_read_without_a_folder(loop: Path) -> None:
    done = subprocess.run([loop, "--machine"], capture_output=True, check=True, timeout=LONG_S)
    machine = head(done.stdout).machine
    assert machine and machine.topology
    assert set(machine.allowed_cpus) <= set(numbers(machine.topology.online))
    assert {cpu for core in machine.topology.cores for cpu in numbers(core)} == set(numbers(machine.topology.online))


@pytest.mark.parametrize(
    ("made", "first", "host", "others"),
    [
        (machine_trees.XEON, (15, 13, 11, 9), 0, ["sibling_thread", "other_node"]),
        (machine_trees.EPYC, (255, 254, 253), 0, ["sibling_thread", "same_package", "other_node"]),
        (machine_trees.HYBRID, (11, 9, 7, 5, 3, 1, 13, 12, 15, 10), 14, ["sibling_thread", "same_package"]),
        (machine_trees.CLUSTERS, (15, 14, 13, 12, 11), 0, ["same_last-level_cache", "same_package"]),
        (machine_trees.BIG_LITTLE, (7, 6, 5, 4, 3, 2, 1), 0, []),
        (machine_trees.POWER, (63, 55, 47, 39, 31, 23, 15, 7), 0, ["sibling_thread", "other_node"]),
        (machine_trees.ISOLATED, (1, 3, 2), 0, []),
        (machine_trees.OFFLINE, (6, 3, 2), 0, []),
        (machine_trees.ONE_NODE, (7, 6, 5), 4, []),
        (machine_trees.CONTAINER, (2,), None, []),
        (machine_trees.MANY, (1499, 1498, 1497), 0, ["sibling_thread", "same_package", "other_node"]),
    ],
)
def test_workers_are_placed_by_kind_and_relation(
    made: Made, first: tuple[int, ...], host: int | None, others: list[str], whole: Callable[[Made], Machine]
) -> None:
    machine = whole(made)
    measured, host_cpu = chosen_cpus(machine, ())
    assert (measured[: len(first)], host_cpu) == (first, host)
    assert other_relations(machine, measured) == others


def test_a_dry_run_names_distinct_cores_and_a_point_for_each_relation(root: Path, tmp_path: Path) -> None:
    words = ["memory.transfer", "state=modified", "access=load", "home=timed", "--dry-run", "--format", "json"]
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(machine_trees.XEON.write(tmp_path / "machine"))}
    done = subprocess.run(
        [root / "toll", "run", *words], env=environment, capture_output=True, check=True, timeout=LONG_S, cwd=tmp_path
    )
    told = {point["parameters"].rpartition("=")[2]: point["cpus"] for point in json.loads(done.stdout)}
    assert told["timed"].startswith("15,13,11,9,14,12,10,8")
    assert told["sibling_thread"].startswith("15,7,") and told["other_node"].startswith("15,14,")


def test_a_point_of_one_worker_is_visited_on_a_cpu_of_each_kind_of_core(root: Path, tmp_path: Path) -> None:
    """The kind of one CPU, which is the host's, has no points; nor has a probe with companions."""
    (tmp_path / "kinds.toml").write_text(
        'question = "?"\n[[select]]\nprobe = "memory.latency"\nkinds = true\nparameters = {size = "0.5xL1"}\n'
        'others = "typical"\n[[select]]\nprobe = "memory.ping_pong"\nkinds = true\nothers = "typical"\n'
    )
    hybrid = replace(machine_trees.HYBRID, packages=["0-14"], last_caches=["0-13", "14"], nodes=[(0, "0-14", 32, "10")])
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(hybrid.write(tmp_path / "machine"))}
    words = [root / "toll", "run", tmp_path / "kinds.toml", "--dry-run", "--format", "json"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=LONG_S, cwd=tmp_path)
    given = {(point["probe"], point["target"]): point["cpus"] for point in json.loads(done.stdout)}
    latency = {target: cpus for (probe, target), cpus in given.items() if probe == "memory.latency"}
    assert latency == {"local": "11", "core:cpu_atom": "13"}
    assert {target for probe, target in given if probe == "memory.ping_pong"} == {"local"}


def with_cpus(count: int) -> Made:
    """So many cores of one cache of the second level each and one of the third together."""
    cpus = f"0-{count - 1}"
    second = {"type": "Unified", "level": "2", "size": "512K"}
    files = [(f"sys/devices/system/cpu/cpu{cpu}/cache/index2/{name}", text) for cpu in range(count)
             for name, text in {**second, "shared_cpu_list": str(cpu)}.items()]  # fmt: skip
    return Made(packages=[cpus], cores=runs(count, 1), last_caches=[cpus], nodes=[(0, cpus, 16, "10")], files=files)


@pytest.mark.parametrize(("cpus", "possible"), [(2, 15), (4, 18)])
def test_the_claims_of_cortex_a9_2009_are_planned_where_there_are_cpus_for_them(
    root: Path, loop: Path, tmp_path: Path, cpus: int, possible: int
) -> None:
    """Of 20 that the source prints with a relation."""
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(with_cpus(cpus).write(tmp_path / "machine"))}
    words = [root / "toll", "run", "cortex-a9-2009", "--dry-run", "--format", "json"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=LONG_S, cwd=tmp_path)
    planned = [{"probe": point["probe"], **dict(word.split("=") for word in point["parameters"].split())}
               for point in json.loads(done.stdout)]  # fmt: skip
    machine = machine_of(loop, with_cpus(cpus), tmp_path)
    claims = [claim for claim in on_machine(suites()["cortex-a9-2009"], machine).published if claim.relation]
    assert len(claims) == 20
    judged = [
        claim for claim in claims
        if claim.bend or (claim.row and claim.over and all(is_in(planned, one) for one in (claim.row, claim.over)))
    ]  # fmt: skip
    assert len(judged) == possible
    assert any("4 instances" in claim.what for claim in judged) == (cpus == 4)


def is_in(planned: list[dict[str, str]], wanted: RowOf) -> bool:
    named = {"probe": wanted.probe, **{name: str(value) for name, value in wanted.parameters.items()}}
    return any(named.items() <= point.items() for point in planned)


INSTANCES = Parameter(
    name="instances", kind="count", summary="at once", start=1, stop=1, stop_scale="cpus", per_octave=1
)


@pytest.mark.parametrize(
    ("made", "counts"),
    [
        (machine_trees.XEON, (1, 2, 4, 8, 16)),
        (machine_trees.EPYC, (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        (machine_trees.OFFLINE, (1, 2, 3, 4)),
        (machine_trees.ONE_NODE, (1, 2, 4)),
        (machine_trees.CONTAINER, (1,)),
        (machine_trees.recorded(96, "", threads=2, packages=2), (1, 2, 4, 8, 16, 24, 32, 48, 64, 96)),
        (machine_trees.MANY, (1, 2, 4, 8, 16, 32, 64, 75, 128, 256, 512, 750, 1024, 1500)),
    ],
)
def test_instances_fill_a_package_all_packages_and_all_cpus(
    made: Made, counts: tuple[int, ...], whole: Callable[[Made], Machine]
) -> None:
    """The visit of all CPUs has the host's too, as the last."""
    machine = whole(made)
    assert sweep_values(INSTANCES, machine) == counts
    cpus, host = chosen_cpus(machine, ())
    probe = Probe(probe="memory.scaling", question="?", revision=1, metrics=(), parameters=(INSTANCES,), spreads=True)
    placing = Placing(cpus, machine.topology, 1, host)
    placed = {count: placing.placements(Point(probe="p", abi="a", target="local", parameters=(("instances", count),)),
                                        probe, 0)[0] for count in counts}  # fmt: skip
    assert sorted(placed[counts[-1]]) == sorted(machine.allowed_cpus)
    assert all(len(placed[count]) >= count for count in counts)
    assert host is None or len(machine.allowed_cpus) < 3 or placed[counts[-1]][-1] == host


def test_the_cores_of_one_package_come_before_those_of_the_other(whole: Callable[[Made], Machine]) -> None:
    machine = whole(machine_trees.EPYC)
    cpus, _ = chosen_cpus(machine, ())
    assert machine.topology
    cores, packages = core_of(machine.topology), [set(numbers(one)) for one in machine.topology.packages]
    assert len({cores[cpu] for cpu in cpus[:64]}) == 64 and packages[1].issuperset(cpus[:64])
    assert len({cores[cpu] for cpu in cpus[:128]}) == 128


def test_asked_cpus_override_the_placement(whole: Callable[[Made], Machine]) -> None:
    machine = whole(machine_trees.XEON)
    assert chosen_cpus(machine, (1, 9)) == ((1, 9), 0)
    assert other_relations(machine, (1, 9)) == []


@pytest.mark.parametrize("name", machine_trees.RECORDED)
def test_a_curve_is_planned_beyond_all_caches_on_the_fastest_kind_of_core(
    name: str, whole: Callable[[Made], Machine]
) -> None:
    made, first, end_mib = machine_trees.RECORDED[name]
    machine = whole(made)
    (cpu, *_), _ = chosen_cpus(machine, ())
    kind = kind_of(machine.topology, cpu)
    assert f"{cpu} {kind.name if kind else '-'}" == first
    assert sweep_values(LATENCY_SIZE, machine)[-1] == end_mib << 20


def test_the_kind_of_a_core_is_what_the_core_is(loop: Path, tmp_path: Path) -> None:
    """Equal cores whose firmware rates them a few per cent apart are one kind; unlike cores of one rating are two."""
    kinds = {name: told(loop, machine_trees.RECORDED[name][0], tmp_path / name).kinds for name in
             ("Snapdragon 8 Gen 2", "NVIDIA GB10", "NVIDIA Grace", "Snapdragon 865")}  # fmt: skip
    named = {name: [(kind.name, kind.cpus) for kind in several] for name, several in kinds.items()}
    assert named == {
        "Snapdragon 8 Gen 2": [
            ("Cortex-A510", "0-2"), ("Cortex-A715", "3-4"), ("Cortex-A710", "5-6"), ("Cortex-X3", "7"),
        ],
        "NVIDIA GB10": [("Cortex-A725", "0-4,10-14"), ("Cortex-X925", "5-9,15-19")],
        "NVIDIA Grace": [("Neoverse-V2", "0-71")],
        "Snapdragon 865": [
            ("Cortex-A55", "0-3"), ("Cortex-A77-capacity-1024", "7"), ("Cortex-A77-capacity-757", "4-6"),
        ],
    }  # fmt: skip
    clocks = [(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq", f"{5100000 - 1800000 * (cpu // 4)}")
              for cpu in range(8)]  # fmt: skip
    dense = replace(machine_trees.recorded(8, "1D48/1 1I32/1 2U1024/1 3U16384/4"), files=clocks)
    assert [(kind.name, kind.cpus) for kind in told(loop, dense, tmp_path / "dense").kinds] == [
        ("5100-MHz", "0-3"), ("3300-MHz", "4-7")
    ]  # fmt: skip


def cells(**properties: int) -> dict[str, bytes]:
    return {name.replace("_", "-"): value.to_bytes(4, "big") for name, value in properties.items()}


def of_device_tree(made: Made) -> Made:
    """With a first cache in each CPU's node and a second one that follows it, as boards describe them."""
    tree = "sys/firmware/devicetree/base/cpus/l2-cache0"
    files: list[tuple[str, str | bytes]] = [
        (f"{tree}/{name}", value)
        for name, value in cells(phandle=7, cache_level=2, cache_size=512 << 10, cache_line_size=64).items()
    ]
    own = cells(d_cache_size=32 << 10, d_cache_line_size=64, d_cache_sets=128, next_level_cache=7)
    files += [
        (f"sys/devices/system/cpu/cpu{cpu}/of_node/{name}", value) for cpu in (0, 1) for name, value in own.items()
    ]
    return replace(made, files=[*made.files, *files])


@pytest.mark.parametrize(
    ("made", "caches"),
    [
        (machine_trees.recorded(2, "1D0/1 1I0/1 2U0/2"), "L1 None None, L2 None None"),
        (of_device_tree(machine_trees.recorded(2, "1D0/1 1I0/1 2U0/2")), "L1 32 device tree, L2 512 device tree"),
        (of_device_tree(machine_trees.recorded(2, "")), "L1 32 device tree, L2 512 device tree"),
        (of_device_tree(machine_trees.recorded(2, "1D48/1 2U0/2")), "L1 48 sysfs, L2 512 device tree"),
        (
            machine_trees.RECORDED["z13 in a partition"][0],
            "L1 128 sysfs, L2 2048 sysfs, L3 65536 /proc/cpuinfo, L4 491520 /proc/cpuinfo",
        ),
        (machine_trees.recorded(2, ""), ""),
    ],
)  # fmt: skip
def test_each_cache_has_the_source_of_its_size_and_an_unknown_size_is_none(
    made: Made, caches: str, whole: Callable[[Made], Machine]
) -> None:
    named = [
        f"L{cache.level} {cache.size_bytes >> 10 if cache.size_bytes else None} {cache.source}"
        for cache in whole(made).caches
        if cache.kind != "instruction"
    ]
    assert ", ".join(named) == caches


def test_ways_follow_from_the_sets_of_the_device_tree(whole: Callable[[Made], Machine]) -> None:
    first, _ = whole(of_device_tree(machine_trees.recorded(2, ""))).caches
    assert (first.line_bytes, first.ways) == (64, 4)


def test_the_governor_and_the_highest_clock_are_those_of_the_cpus_that_may_be_used(
    whole: Callable[[Made], Machine],
) -> None:
    """CPU 0 may be offline."""
    files = [(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/{name}", text) for cpu, governor, khz in
             ((4, "performance", 3600000), (5, "powersave", 3900000))
             for name, text in (("scaling_governor", governor), ("cpuinfo_max_freq", f"{khz}"))]  # fmt: skip
    facts = whole(replace(machine_trees.ONE_NODE, files=files)).facts
    assert (facts["governor"], facts["frequency_max_khz"]) == ("performance, powersave", "3900000")
