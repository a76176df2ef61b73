# SPDX-License-Identifier: Apache-2.0
"""The topology of the CPUs and memory nodes of a machine, and the relation of two CPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import get_args

from tollmeter.model.base import PlaceRelation, Record, Size
from tollmeter.model.requested import Point


class CoreKind(Record, frozen=True):
    """Cores of one kind. cpus: their CPUs as a list. name: name of the kind; empty if unreported. capacity: capacity in
    Linux's scheduler, 1024 at most; 0 if unreported. max_khz: highest clock in kHz; 0 if unreported."""

    cpus: str
    name: str = ""
    capacity: int = 0
    max_khz: int = 0


class MemoryNode(Record, frozen=True):
    """A memory node. cpus: its CPUs as a list; empty if it has only memory. distances: distance to each node in the
    order of nodes (10 to itself); empty if unreported."""

    node: int
    cpus: str = ""
    memory_bytes: Size = 0
    distances: tuple[int, ...] = ()


class HugePages(Record, frozen=True):
    """Huge pages that are reserved for explicit requests (hugetlb). bytes: size of a page. pages: number of pages."""

    bytes: Size
    pages: Size = 0


class Topology(Record, frozen=True):
    """The topology of all online CPUs, as the system reports it. A set of CPUs is a list as text: `0-3,8-14/2` is 0 to
    3, 8, 10, 12 and 14. isolated, nohz_full: CPUs that the command line of the kernel isolates, or on which it stops
    the tick. packages, dies, last_caches, clusters, cores: the CPUs of each; empty if not reported. last_caches: CPUs
    that share a cache of the highest level. allowed_nodes: memory nodes that the process may use. huge_page_bytes: size
    of a transparent huge page, 0 without one. hugetlb: reserved huge pages, by size."""

    online: str = ""
    offline: str = ""
    isolated: str = ""
    nohz_full: str = ""
    packages: tuple[str, ...] = ()
    dies: tuple[str, ...] = ()
    last_caches: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cores: tuple[str, ...] = ()
    kinds: tuple[CoreKind, ...] = ()
    nodes: tuple[MemoryNode, ...] = ()
    allowed_nodes: str = ""
    huge_page_bytes: Size = 0
    hugetlb: tuple[HugePages, ...] = ()


@lru_cache(maxsize=4096)
def numbers(listed: str) -> tuple[int, ...]:
    """Returns the first 65,536 members of a list of CPUs or nodes as text, ascending; terms that are not numbers are
    ignored."""
    cpus: set[int] = set()
    for first, last, step in _TERM.findall(listed):
        if len(cpus) >= _MOST:
            break
        members = range(int(first), int(last or first) + 1, max(1, int(step or 1)))
        cpus.update(members[: _MOST - len(cpus)])
    return tuple(sorted(cpus))


_TERM = re.compile(r"(?:^|,)(\d{1,9})(?:-(\d{1,9})?)?(?:/(\d{1,9}))?(?=,|$)", re.ASCII)
_MOST = 1 << 16


def listed(members: Iterable[int]) -> str:
    """Returns these members as the shortest list in text, for example 0-3,8."""
    ordered = sorted(set(members))
    starts = [number for place, number in enumerate(ordered) if not place or ordered[place - 1] != number - 1]
    ends = [number for place, number in enumerate(ordered) if ordered[place + 1 : place + 2] != [number + 1]]
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in zip(starts, ends, strict=True))


@lru_cache(maxsize=256)
def _place_of(sets: tuple[str, ...]) -> dict[int, int]:
    """Returns the index of the set that contains each CPU."""
    return {cpu: index for index, members in enumerate(sets) for cpu in numbers(members)}


def core_of(topology: Topology) -> dict[int, int]:
    """Returns the core of each CPU, as an index in `cores`."""
    return _place_of(topology.cores)


def clusters(topology: Topology) -> tuple[str, ...]:
    """Returns the clusters that are neither a package, nor a core, nor the CPUs of a last-level cache: some systems
    report a core or a package as its cluster."""
    known = {*topology.packages, *topology.last_caches, *topology.cores}
    return tuple(cpus for cpus in topology.clusters if cpus not in known)


def relation(topology: Topology, cpu: int, other: int) -> PlaceRelation:
    """Returns the closest relation of two CPUs that the system reports. An unreported relation counts as the next
    farther one."""
    return relations(topology)(cpu, other)


def relations(topology: Topology) -> Callable[[int, int], PlaceRelation]:
    """Returns the function `relation` for one topology, prepared for many pairs."""
    sets: tuple[tuple[PlaceRelation, tuple[str, ...]], ...] = (
        ("sibling thread", topology.cores), ("same cluster", clusters(topology)),
        ("same last-level cache", topology.last_caches), ("same package", topology.packages),
    )  # fmt: skip
    by_distance = [(name, _place_of(groups)) for name, groups in sets]
    nodes = _place_of(tuple(node.cpus for node in topology.nodes))

    def related(cpu: int, other: int) -> PlaceRelation:
        if cpu == other:
            return "same thread"
        for name, places in by_distance:
            if cpu in places and places[cpu] == places.get(other):
                return name
        return "other package" if nodes.get(cpu) == nodes.get(other) else "other node"

    return related


def farthest(topology: Topology, cpus: Sequence[int]) -> PlaceRelation | None:
    """Returns the farthest relation of the first CPU to the others; None for a single CPU. cpus: CPUs of the workers,
    the timed one first."""
    related = relations(topology)
    all_relations = [related(cpus[0], other) for other in cpus[1:]]
    return max(all_relations, key=RELATIONS.index, default=None)


RELATION = "relation"
"""Name of a parameter that Tollmeter adds to points on another pair of CPUs than the default: the relation of the
companion's CPU to the timed worker's, for example `sibling_thread`. The probe repeats it in its record and does not use
it."""
RELATIONS: tuple[PlaceRelation, ...] = get_args(PlaceRelation)
"""Relations, nearest first."""


def in_order(topology: Topology, cpus: Iterable[int]) -> tuple[int, ...]:
    """Returns the CPUs in an order in which those of one package, cache, cluster and core are adjacent."""
    set_lists = (topology.packages, topology.last_caches, clusters(topology), topology.cores)
    levels = [_place_of(sets) for sets in set_lists]
    return tuple(sorted(cpus, key=lambda cpu: (*(level.get(cpu, -1) for level in levels), cpu)))


def speed_ranks(topology: Topology) -> dict[int, int]:
    """Returns for each CPU the rank of its kind of core, 0 for the fastest; empty if the system reports no kinds."""
    ordered = sorted(topology.kinds, key=lambda kind: (kind.capacity, kind.max_khz), reverse=True)
    return {cpu: rank for rank, kind in enumerate(ordered) for cpu in numbers(kind.cpus)}


KIND = "core:"
"""Prefix of targets that are a kind of core. Points of such a target are measured on a CPU of this kind, if the timed
worker usually runs on another kind, whose clock, caches and width differ."""


def is_here(target: str) -> bool:
    """Returns whether a target is this machine, on any kind of core."""
    return target == "local" or target.startswith(KIND)


def kind_name(kind: CoreKind) -> str:
    """Returns the name of a kind of core; if unreported, one from its capacity or clock."""
    return kind.name or f"capacity-{kind.capacity or kind.max_khz}"


def kind_of(topology: Topology | None, cpu: int) -> CoreKind | None:
    """Returns the kind of a CPU's core; None if the system does not report several kinds."""
    kinds = topology.kinds if topology and len(topology.kinds) > 1 else ()
    return next((kind for kind in kinds if cpu in numbers(kind.cpus)), None)


def other_kinds(topology: Topology | None, cpu: int) -> dict[str, CoreKind]:
    """Returns the kinds of core other than that of a CPU, fastest first, by the target of their points."""
    kind_of_cpu = kind_of(topology, cpu)
    if topology is None or kind_of_cpu is None:
        return {}
    ordered = sorted(topology.kinds, key=lambda kind: (kind.capacity, kind.max_khz), reverse=True)
    return {f"{KIND}{kind_name(kind)}": kind for kind in ordered if kind is not kind_of_cpu}


def memory_nodes(topology: Topology | None) -> tuple[MemoryNode, ...]:
    """Returns the nodes with memory that this process may use."""
    allowed = numbers(topology.allowed_nodes) if topology else ()
    return tuple(node for node in topology.nodes if node.memory_bytes and node.node in allowed) if topology else ()


def matrix_of(point: Point) -> tuple[str, ...]:
    """Returns a key that is equal for all points of one matrix of CPUs, which differ only in the relation of their
    CPUs."""
    others = sorted(f"{name}={value}" for name, value in point.parameters if name != RELATION)
    return point.probe, point.abi, point.target, *others
