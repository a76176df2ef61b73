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

import trees
from tollmeter.library.places import suites
from tollmeter.model import Abi, Machine, RowOf, Topology
from tollmeter.model.topology import RELATIONS, listed, memory_nodes, numbers, relation, speed_ranks
from tollmeter.plan.placement import chosen_cpus, other_relations
from tollmeter.plan.points import on_machine
from tollmeter.protocol import head
from trees import GIB, Made, runs
from waiting import LONG_S

MOST_BYTES = 65536


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
        (trees.XEON, {(0, 8): "sibling thread", (0, 2): "same last-level cache", (0, 1): "other node"}),
        (
            trees.EPYC,
            {
                (0, 128): "sibling thread",
                (0, 7): "same last-level cache",
                (0, 8): "same package",
                (0, 64): "other node",
            },
        ),
        (trees.HYBRID, {(0, 1): "sibling thread", (0, 12): "same last-level cache", (0, 14): "same package"}),
        (trees.CLUSTERS, {(0, 3): "same cluster", (0, 4): "same last-level cache", (0, 8): "same package"}),
        (trees.ARM_SERVER, {(0, 1): "same last-level cache"}),
        (trees.POWER, {(0, 7): "sibling thread", (0, 8): "same package", (0, 32): "other node"}),
        (trees.RISCV_BOARD, {(0, 1): "same package"}),
        (trees.OFFLINE, {(2, 3): "sibling thread", (0, 6): "same last-level cache"}),
        (trees.SPARSE, {(0, 1): "same last-level cache", (0, 7): "other node"}),
        (trees.MANY, {(0, 750): "sibling thread", (0, 14): "same last-level cache", (0, 20): "same package"}),
        (trees.CONTAINER, {(2, 2): "same thread", (2, 3): "sibling thread", (2, 0): "same last-level cache"}),
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


@pytest.mark.parametrize(
    ("made", "cpus"),
    [(trees.HYBRID, "0-11"), (trees.BIG_LITTLE, "7"), (trees.ARM_SERVER, "0-7"), (trees.OFFLINE, "0,2-3,6")],
)
def test_the_fastest_cores_are_found_by_capacity_or_by_the_counters_of_their_kind(
    made: Made, cpus: str, loop: Path, tmp_path: Path
) -> None:
    topology = told(loop, made, tmp_path)
    ranks = speed_ranks(topology)
    assert listed(cpu for cpu in numbers(topology.online) if not ranks.get(cpu, 0)) == cpus


def test_nodes_have_memory_distances_and_any_number(loop: Path, tmp_path: Path) -> None:
    arm = told(loop, trees.ARM_SERVER, tmp_path / "arm")
    assert [(node.node, node.cpus, node.memory_bytes // GIB) for node in arm.nodes] == [
        (0, "0-7", 128), (1, "", 64), (2, "", 512)
    ]  # fmt: skip
    assert arm.nodes[2].distances == (40, 40, 10)
    sparse = told(loop, trees.SPARSE, tmp_path / "sparse")
    assert [node.node for node in memory_nodes(sparse)] == [0, 8, 252, 900]


def test_a_process_has_the_cpus_and_nodes_that_it_may_use(loop: Path, tmp_path: Path) -> None:
    one_node = machine_of(loop, trees.ONE_NODE, tmp_path / "node")
    assert one_node.allowed_cpus == (4, 5, 6, 7) and one_node.cpus == 8
    assert [node.node for node in memory_nodes(one_node.topology)] == [1]
    container = machine_of(loop, trees.CONTAINER, tmp_path / "container")
    assert container.allowed_cpus == (2,) and container.facts["cpu_quota"] == "50000 100000"
    offline = machine_of(loop, trees.OFFLINE, tmp_path / "offline")
    assert offline.allowed_cpus == (0, 2, 3, 6) and offline.cores == ((2, 3),)
    assert offline.topology and offline.topology.offline == "1,4-5,7"
    isolated = told(loop, trees.ISOLATED, tmp_path / "isolated")
    assert (isolated.isolated, isolated.nohz_full) == ("2-3", "3")


def test_a_machine_of_1500_cpus_fits_one_record(loop: Path, tmp_path: Path) -> None:
    machine = machine_of(loop, trees.MANY, tmp_path)
    assert machine.topology and len(machine.allowed_cpus) == machine.cpus == 1500
    assert len(machine.topology.cores) == 750 and len(machine.topology.last_caches) == 50


def test_sets_whose_cpus_are_numbered_in_turn_are_one_term_each(loop: Path, tmp_path: Path) -> None:
    assert told(loop, trees.XEON, tmp_path).packages == ("0-14/2", "1-15/2")
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
        (trees.XEON, (15, 13, 11, 9), 0, ["sibling_thread", "other_node"]),
        (trees.EPYC, (255, 254, 253), 0, ["sibling_thread", "same_package", "other_node"]),
        (trees.HYBRID, (11, 9, 7, 5, 3, 1, 13, 12, 15, 10), 14, ["sibling_thread", "same_package"]),
        (trees.CLUSTERS, (15, 14, 13, 12, 11), 0, ["same_last-level_cache", "same_package"]),
        (trees.BIG_LITTLE, (7, 6, 5, 4, 3, 2, 1), 0, []),
        (trees.POWER, (63, 55, 47, 39, 31, 23, 15, 7), 0, ["sibling_thread", "other_node"]),
        (trees.ISOLATED, (1, 3, 2), 0, []),
        (trees.OFFLINE, (6, 3, 2), 0, []),
        (trees.ONE_NODE, (7, 6, 5), 4, []),
        (trees.CONTAINER, (2,), None, []),
        (trees.MANY, (1499, 1498, 1497), 0, ["sibling_thread", "same_package", "other_node"]),
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
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(trees.XEON.write(tmp_path / "machine"))}
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
    hybrid = replace(trees.HYBRID, packages=["0-14"], last_caches=["0-13", "14"], nodes=[(0, "0-14", 32, "10")])
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


@pytest.mark.parametrize(("cpus", "possible"), [(2, 14), (4, 17)])
def test_the_claims_of_cortex_a9_2009_are_planned_where_there_are_cpus_for_them(
    root: Path, loop: Path, tmp_path: Path, cpus: int, possible: int
) -> None:
    """Of 18 that the source prints with a relation."""
    environment = {**os.environ, "TOLL_SYSTEM_ROOT": str(with_cpus(cpus).write(tmp_path / "machine"))}
    words = [root / "toll", "run", "cortex-a9-2009", "--dry-run", "--format", "json"]
    done = subprocess.run(words, env=environment, capture_output=True, check=True, timeout=LONG_S, cwd=tmp_path)
    planned = [{"probe": point["probe"], **dict(word.split("=") for word in point["parameters"].split())}
               for point in json.loads(done.stdout)]  # fmt: skip
    machine = machine_of(loop, with_cpus(cpus), tmp_path)
    claims = [claim for claim in on_machine(suites()["cortex-a9-2009"], machine).published if claim.relation]
    assert len(claims) == 18
    judged = [
        claim for claim in claims
        if claim.bend or (claim.row and claim.over and all(is_in(planned, one) for one in (claim.row, claim.over)))
    ]  # fmt: skip
    assert len(judged) == possible
    assert any("4 instances" in claim.what for claim in judged) == (cpus == 4)


def is_in(planned: list[dict[str, str]], wanted: RowOf) -> bool:
    named = {"probe": wanted.probe, **{name: str(value) for name, value in wanted.parameters.items()}}
    return any(named.items() <= point.items() for point in planned)


def test_asked_cpus_override_the_placement(whole: Callable[[Made], Machine]) -> None:
    machine = whole(trees.XEON)
    assert chosen_cpus(machine, (1, 9)) == ((1, 9), 0)
    assert other_relations(machine, (1, 9)) == []
