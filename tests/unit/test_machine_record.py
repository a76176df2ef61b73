# SPDX-License-Identifier: Apache-2.0
"""The machine's record against itself: an honest one breaks no rule, and a planted contradiction breaks its own."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tollmeter.experiment.machine_record import unlikely
from tollmeter.model import Cache, Machine, MemoryNode, Topology
from tollmeter.model.described import Kind
from tollmeter.model.topology import CoreKind, HugePages

CACHES = (
    Cache(level=1, kind="data", size_bytes=48 << 10, line_bytes=64, ways=12, shared_cpus="0,2"),
    Cache(level=1, kind="instruction", size_bytes=32 << 10, line_bytes=64, ways=8, shared_cpus="0,2"),
    Cache(level=2, kind="unified", size_bytes=1 << 20, line_bytes=64, ways=16, shared_cpus="0,2"),
    Cache(level=3, kind="unified", size_bytes=32 << 20, line_bytes=64, ways=16, shared_cpus="0-3"),
)
TOPOLOGY = Topology(
    online="0-3", offline="4-7", isolated="3", packages=("0-3",), dies=("0-3",), last_caches=("0-3",),
    clusters=("0,2", "1,3"), cores=("0,2", "1,3"), kinds=(CoreKind(cpus="0-3", capacity=1024, max_khz=3_000_000),),
    nodes=(MemoryNode(node=0, cpus="0-3", memory_bytes=8 << 30, distances=(10,)),), allowed_nodes="0",
    huge_page_bytes=2 << 20, hugetlb=(HugePages(bytes=2 << 20, pages=9), HugePages(bytes=1 << 30)),
)  # fmt: skip
MACHINE = Machine(
    host="h", cpu="c", kernel="k", hypervisor=None, cpus=4, memory_bytes=16 << 30, caches=CACHES,
    core_clock_hz=4.2e9, allowed_cpus=(0, 1, 2, 3), architecture="x86_64", cores=((0, 2), (1, 3)), topology=TOPOLOGY,
    facts={"smt": "1", "numa_nodes": "0", "load_average": "0.98 0.75 0.37 2/93 12950"},
)  # fmt: skip


def cached(place: int, **fields: object) -> Machine:
    caches = [replace(cache, **fields) if at == place else cache for at, cache in enumerate(CACHES)]
    return replace(MACHINE, caches=tuple(caches))


def arranged(**fields: object) -> Machine:
    return replace(MACHINE, topology=replace(TOPOLOGY, **fields))


def stated(**facts: str) -> Machine:
    return replace(MACHINE, facts=MACHINE.facts | facts)


SOUND: dict[str, Machine] = {
    "a server": MACHINE,
    "a system that reports little": replace(MACHINE, topology=None, caches=(), cores=(), facts={}),
    "a container that is shown two CPUs of four": replace(
        arranged(online="0-1"), cpus=2, allowed_cpus=(0, 1, 2, 3)
    ),
    "packages of s390x with CPUs that are offline": arranged(packages=("0-5",), dies=()),
    "cores without a last cache": replace(arranged(last_caches=("0,2",)), caches=CACHES[:3]),
    "a cache that is listed twice": replace(MACHINE, caches=(*CACHES, CACHES[0])),
    "pages of sparc64": replace(
        arranged(huge_page_bytes=8 << 20, hugetlb=()), page_bytes=8192, architecture="sparc64"
    ),
    "RISC-V cores without numbers": replace(
        arranged(cores=("0-3",), clusters=()), architecture="riscv64", facts={"smt": "0"}, cores=()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_record_breaks_no_rule(name: str) -> None:
    assert [*unlikely(SOUND[name])] == []


BROKEN: dict[str, tuple[Machine, str]] = {
    "ways that do not divide the sets": (cached(2, ways=3), "whole lines"),
    "no way": (cached(1, ways=-1), "whole lines"),
    "a third level below the second": (cached(3, size_bytes=1 << 18), "the next level"),
    "a cache larger than memory": (cached(3, size_bytes=1 << 40), "smaller than memory"),
    "an instruction cache that is unified": (cached(1, kind="unified"), "of data and of instructions"),
    "a level that is left out": (replace(MACHINE, caches=CACHES[:2] + CACHES[3:]), "none is left out"),
    "no data cache": (replace(MACHINE, caches=CACHES[1:]), "of data and of instructions"),
    "a ninth level": (cached(3, level=9), "none is left out"),
    "a page of another architecture": (replace(MACHINE, page_bytes=65536), "of the architecture's"),
    "an odd byte of memory": (replace(MACHINE, memory_bytes=(16 << 30) + 777), "whole KiB"),
    "a CPU of two kinds of caches": (
        replace(MACHINE, kinds=(Kind(cpus=(0, 1), caches=CACHES), Kind(cpus=(1,), caches=CACHES))), "kind of caches",
    ),
    "load is negative": (stated(load_average="0.9 0.7 0.3 9/3 12"), "no more processes"),
    "a load below 0": (stated(load_average="-3.00 0.7 0.3 1/81 12"), "load is negative"),
    "a package less": (arranged(packages=("0-1",)), "that are online"),
    "a node without some CPUs": (
        arranged(nodes=(MemoryNode(node=0, cpus="0", distances=(10,)),)), "that are online",
    ),
    "a core in two packages": (arranged(packages=("0-1", "2-3")), "one package"),
    "an isolated CPU that is not there": (arranged(isolated="77"), "isolated"),
    "threads that are denied": (stated(smt="0"), "hardware threads"),
    "threads of a core that are on two": (replace(MACHINE, cores=((0, 1),)), "hardware threads"),
    "threads that are claimed": (
        replace(arranged(cores=("0", "1", "2", "3"), clusters=()), cores=()), "hardware threads",
    ),
    "nodes that are claimed": (stated(numa_nodes="0-3"), "those that are online"),
    "a table of other nodes": (
        arranged(nodes=(MemoryNode(node=0, cpus="0-3", distances=(10, 20)),)), "the shortest, is",
    ),
    "a huge page of eight pages": (arranged(huge_page_bytes=8 * 4096), "of several pages"),
    "a huge page of a larger page's table": (arranged(huge_page_bytes=8 << 20), "of several pages"),
    "huge pages of one size twice": (arranged(hugetlb=TOPOLOGY.hugetlb * 2), "of several pages"),
    "more huge pages than memory": (arranged(hugetlb=(HugePages(bytes=1 << 30, pages=10**6),)), "fit into memory"),
    "a line of two pages": (cached(0, line_bytes=8192), "no larger than a page"),
    "a page larger than memory": (replace(MACHINE, memory_bytes=2048, topology=None), "no larger than memory"),
    "a core far slower than it is": (arranged(kinds=(CoreKind(cpus="0-3", max_khz=650_000),)), "core is at most"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_contradiction_is_named(name: str) -> None:
    machine, expected = BROKEN[name]
    assert any(expected in sentence for sentence in unlikely(machine))
