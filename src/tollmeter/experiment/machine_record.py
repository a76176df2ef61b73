# SPDX-License-Identifier: Apache-2.0
"""Compares the machine's record with itself: sets of CPUs, memory, caches and pages. Each rule is a sentence that is
true of every honest record, with a function that returns whether the record breaks it (docs/measuring.md lists
them)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, pairwise

from tollmeter.experiment.limits import KIB
from tollmeter.model import USUAL_PAGE_BYTES, Cache, Machine
from tollmeter.model.topology import Topology, numbers

X86 = ("x86_64", "i386", "i486", "i586", "i686")
ANY_WAY = 0xFFFF
"""Number of ways that Linux reports for a fully associative cache."""
LOCAL_DISTANCE = 10
"""Distance of a memory node to itself, as Linux reports it."""
MOST_OVER_NAMED = 6.0
"""Highest ratio of the core clock to the highest or present frequency that the system reports: acpi-cpufreq reports 1.0
GHz for a core that reaches 3.9 GHz by turbo. Also the highest ratio of the present frequency to the core clock, since
some systems report the requested frequency."""
LEAST_OF_HUGE, ENTRY_BYTES = 16, 4
"""Smallest number of base pages of a transparent huge page, and size in bytes of the smallest page-table entry (i686
without PAE). The entries of one table fill at most a page."""
_LOAD = re.compile(r"[0-9.]+ [0-9.]+ [0-9.]+ ([0-9]+)/([0-9]+) [0-9]+")
_NEGATIVE = re.compile(r"(^|[ /])-")

Cpus = set[int]
_PARTITIONS = ("packages", "dies", "clusters", "cores", "last_caches")


def unlikely(machine: Machine) -> Iterator[str]:
    """Yields the rules that a machine record breaks."""
    yield from (why for is_broken, why in OF_MACHINE if is_broken(machine))
    if machine.topology and machine.topology.online:
        yield from _of_topology(machine, machine.topology)


def _of_topology(machine: Machine, topology: Topology) -> Iterator[str]:
    """Yields the rules that the topology breaks."""
    online = {*numbers(topology.online)}
    if len(online) != machine.cpus:
        yield f"{machine.cpus} CPUs are online, and they are CPUs {topology.online}"
    parts = _parts(topology)
    for name, sets in parts.items():
        if len({*chain(*sets)}) < sum(map(len, sets)):
            yield f"a CPU is in one of the {name.replace('_', ' ')}"
    yield from (why for is_broken, why in OF_TOPOLOGY if is_broken(machine, topology))
    # A container may be shown as many CPUs as it pays for, and the cores of the whole machine.
    if {*machine.allowed_cpus} <= online:
        yield from (why for is_broken, why in OF_ALL_CPUS if is_broken(machine, topology, parts, online))


def _parts(topology: Topology) -> Mapping[str, Sequence[Cpus]]:
    """Returns the sets of CPUs of the topology, by the name of its parts: packages, dies, clusters, cores, last caches,
    kinds and nodes."""
    named = {name: [{*numbers(cpus)} for cpus in getattr(topology, name)] for name in _PARTITIONS}
    return named | {name: [{*numbers(part.cpus)} for part in getattr(topology, name)] for name in ("kinds", "nodes")}


# ---- without a topology ----------------------------------------------------------------------------------------------


def _threads_are_elsewhere(machine: Machine) -> bool:
    """Returns whether a hardware thread is in two cores, or is not an allowed CPU."""
    threads = [*chain(*machine.cores)]
    return len({*threads}) < len(threads) or not {*threads} <= {*machine.allowed_cpus}


def _is_power(number: int) -> bool:
    """Returns whether a number is a power of two."""
    return number > 0 and number & (number - 1) == 0


def _lines_are_odd(machine: Machine) -> bool:
    """Returns whether the size of a cache line is not a power of two."""
    lines = [cache.line_bytes for cache in machine.caches if cache.line_bytes]
    return not all(map(_is_power, lines))


def _sets_are_broken(machine: Machine) -> bool:
    """Returns whether a cache contains a part of a line or, on x86, of a set: x86 systems compute the size from lines,
    ways and sets."""
    is_derived = machine.architecture.startswith(X86)
    return any(_has_part_of_a_set(cache, is_derived) for cache in machine.caches if cache.size_bytes)


def _has_part_of_a_set(cache: Cache, is_derived: bool) -> bool:
    """Returns whether the size of a cache is no multiple of its line or, if is_derived, of its line times its ways."""
    line, size = cache.line_bytes or 1, cache.size_bytes or 0
    ways = 1 if cache.ways in (None, ANY_WAY) else cache.ways or 1
    return ways < 1 or size < line * ways or bool(size % (line * (ways if is_derived else 1)))


def _sizes_fall(machine: Machine) -> bool:
    """Returns whether a cache is larger than that of the next level."""
    for kind in ("data", "instruction"):
        sizes = [cache.size_bytes for cache in sorted(machine.caches, key=lambda cache: cache.level)
                 if cache.kind in (kind, "unified") and cache.size_bytes]  # fmt: skip
        if any(size > larger for size, larger in pairwise(sizes)):
            return True
    return False


def _levels_are_odd(machine: Machine) -> bool:
    """Returns whether a level has a unified and another cache, or one for instructions alone, or a level is missing
    (x86)."""
    kinds = Counter((cache.level, cache.kind) for cache in machine.caches)
    levels = {level for level, _ in kinds}
    has_unified_and_other = any(
        (level, "unified") in kinds and len([one for one in kinds if one[0] == level]) > 1 for level in levels
    )
    has_instructions_alone = any(kind == "instruction" and (level, "data") not in kinds for level, kind in kinds)
    has_gap = machine.architecture.startswith(X86) and levels != {*range(1, len(levels) + 1)}
    return has_unified_and_other or has_instructions_alone or has_gap


def _is_shared_further_in(machine: Machine) -> bool:
    """Returns whether CPUs share a cache but not a further level, or a level has two sizes of one kind of cache.
    VirtualBox lists one cache twice, which is permitted."""
    kinds = Counter((level, kind) for level, kind, _ in {(cache.level, cache.kind, cache.size_bytes)
                                                         for cache in machine.caches})  # fmt: skip
    shared = [(cache.level, {*numbers(cache.shared_cpus)}) for cache in machine.caches if cache.shared_cpus]
    return any(count > 1 for count in kinds.values()) or any(
        inner < outer and not cpus <= others for inner, cpus in shared for outer, others in shared
    )


def _page_is_odd(machine: Machine) -> bool:
    """Returns whether the page size is not a power of two, or on x86 is not 4 KiB."""
    page = machine.page_bytes
    is_other = machine.architecture.startswith(X86) and page != USUAL_PAGE_BYTES
    return is_other or not _is_power(page)


def _kinds_overlap(machine: Machine) -> bool:
    """Returns whether a CPU is in two kinds."""
    cpus = [cpu for kind in machine.kinds for cpu in kind.cpus]
    return len({*cpus}) < len(cpus)


def _runs_more_than_there_are(machine: Machine) -> bool:
    """Returns whether the load average counts more running processes than exist, or is negative."""
    load = machine.facts.get("load_average", "")
    read = _LOAD.fullmatch(load)
    return _NEGATIVE.search(load) is not None or (read is not None and int(read[1]) > int(read[2]))


OF_MACHINE: Sequence[tuple[Callable[[Machine], bool], str]] = (
    (lambda machine: len({*machine.allowed_cpus}) < len(machine.allowed_cpus) or machine.cpus < 1,
     "a CPU is listed once as allowed, and at least one is online"),
    (_threads_are_elsewhere, "the threads of a core are allowed CPUs, each of one core"),
    (_lines_are_odd, "the size of a cache line is a power of two"),
    (lambda machine: not _lines_are_odd(machine) and _sets_are_broken(machine),
     "a cache holds whole lines, at least one in each way"),
    (_sizes_fall, "no cache is larger than that of the next level"),
    (_is_shared_further_in, "a level has one cache of a kind, and CPUs that share it share all further levels"),
    (_levels_are_odd, "a level has caches of data and of instructions, or one for both, and none is left out"),
    (lambda machine: any((cache.size_bytes or 0) > machine.memory_bytes > 0 for cache in machine.caches),
     "a cache is smaller than memory"),
    (lambda machine: max((cache.line_bytes or 0 for cache in machine.caches), default=0) > machine.page_bytes
                     or 0 < machine.memory_bytes < machine.page_bytes,
     "a cache line is no larger than a page, and a page no larger than memory"),
    (_page_is_odd, "the size of a page is a power of two, and one of the architecture's"),
    (lambda machine: bool(machine.memory_bytes % KIB), "the size of memory is in whole KiB"),
    (_kinds_overlap, "a CPU has one kind of caches"),
    (_runs_more_than_there_are, "no more processes run than exist, and no load is negative"),
)  # fmt: skip

# ---- the topology ----------------------------------------------------------------------------------------------------


def _nodes_are_odd(_: Machine, topology: Topology) -> bool:
    """Returns whether the memory nodes are impossible: numbers repeat, a table of distances has the wrong length, or
    the distance of a node to itself is not 10, which Linux refuses."""
    nodes = [node.node for node in topology.nodes]
    tables = [node.distances for node in topology.nodes if node.distances]
    return len({*nodes}) < len(nodes) or any(min(table) != LOCAL_DISTANCE or len(table) != len(nodes)
                                             for table in tables)  # fmt: skip


def _uses_other_nodes(_: Machine, topology: Topology) -> bool:
    """Returns whether an allowed memory node does not exist."""
    allowed = {*numbers(topology.allowed_nodes)}
    return bool(allowed and topology.nodes) and not allowed <= {node.node for node in topology.nodes}


def _huge_pages_are_odd(machine: Machine, topology: Topology) -> bool:
    """Returns whether the size of a huge page is no power of two, below the page size, beyond the reach of one page
    table, or listed twice."""
    page, huge = machine.page_bytes, topology.huge_page_bytes
    sizes = [one.bytes for one in topology.hugetlb]
    is_out_of_range = huge and not LEAST_OF_HUGE * page <= huge <= page * (page // ENTRY_BYTES)
    return bool(is_out_of_range) or len({*sizes}) < len(sizes) or any(
        not _is_power(size) or size < page for size in (huge or page, *sizes)
    )  # fmt: skip


def _reserves_too_much(machine: Machine, topology: Topology) -> bool:
    """Returns whether reserved huge pages exceed the memory."""
    most = max(machine.memory_bytes, sum(node.memory_bytes for node in topology.nodes))
    return sum(one.bytes * one.pages for one in topology.hugetlb) > most


def _last_caches_differ(machine: Machine, topology: Topology) -> bool:
    """Returns whether the topology lacks a set of CPUs that share a last cache."""
    last = max((cache.level for cache in machine.caches), default=0)
    shared = [{*numbers(cache.shared_cpus)} for cache in machine.caches if cache.level == last and cache.shared_cpus]
    groups = [{*numbers(part)} for part in topology.last_caches]
    return bool(groups) and any(cpus not in groups for cpus in shared)


def _outruns_its_kind(machine: Machine, topology: Topology) -> bool:
    """Returns whether the core clock far exceeds the highest clock of all kinds of core."""
    fastest = max((kind.max_khz for kind in topology.kinds), default=0)
    return fastest > 0 and (machine.core_clock_hz or 0.0) > MOST_OVER_NAMED * fastest * 1e3


OF_TOPOLOGY: Sequence[tuple[Callable[[Machine, Topology], bool], str]] = (
    (_nodes_are_odd, f"a memory node is listed once, and its distance to itself, the shortest, is {LOCAL_DISTANCE}"),
    (_uses_other_nodes, "the memory nodes that a process may use exist"),
    (_huge_pages_are_odd, "the size of a huge page is a power of two, and that of several pages"),
    (_reserves_too_much, "reserved huge pages fit into memory"),
    (_last_caches_differ, "the topology and the list of caches agree on the CPUs that share the last cache"),
    (_outruns_its_kind, f"a core is at most {MOST_OVER_NAMED:g} times as fast as the system says of its kind"),
    (lambda _, topology: bool({*numbers(topology.online)} & {*numbers(topology.offline)}),
     "no CPU is both online and offline"),
)  # fmt: skip

# ---- all CPUs --------------------------------------------------------------------------------------------------------

Parts = Mapping[str, Sequence[Cpus]]


def _are_not_all(_: Machine, __: Topology, parts: Parts, online: Cpus) -> bool:
    """Returns whether packages, dies, cores, kinds or nodes omit an online CPU. Last caches and clusters are not
    judged: some cores of a hybrid CPU lack the last cache level, and some systems report clusters of only some cores.
    More CPUs than the online ones are permitted: packages of s390x contain offline CPUs, and lxcfs shows a container
    its own CPUs as online beside the packages of the whole machine."""
    members = {name: {*chain(*sets)} for name, sets in parts.items() if sets}
    return any(name not in ("clusters", "last_caches") and not online <= cpus for name, cpus in members.items())


def _are_not_nested(_: Machine, __: Topology, parts: Parts, ___: Cpus) -> bool:
    """Returns whether a core lies in two packages or two last caches."""
    nested = ("cores", "packages"), ("cores", "last_caches")
    return any(
        inner & outer and not inner <= outer
        for small, large in nested
        for outer in parts[large]
        for inner in parts[small]
    )


def _are_not_there(machine: Machine, topology: Topology, _: Parts, online: Cpus) -> bool:
    """Returns whether an isolated CPU, or one that shares a core, does not exist."""
    known = online | {*numbers(topology.offline)}
    named = {*numbers(topology.isolated)} | {*numbers(topology.nohz_full)} | {*chain(*machine.cores)}
    return not named <= known | {*chain(*(numbers(cache.shared_cpus) for cache in machine.caches))}


def _threads_are_denied(machine: Machine, _: Topology, parts: Parts, __: Cpus) -> bool:
    """Returns whether threads share a core that the topology lacks, or the recorded SMT setting of an x86 machine
    contradicts the threads of its cores. A topology without cores is exempt."""
    if parts["cores"] and any(not any({*threads} <= core for core in parts["cores"]) for threads in machine.cores):
        return True
    active = machine.facts.get("smt", "") if machine.architecture.startswith(X86) else ""
    return (
        active in ("0", "1") and bool(parts["cores"]) and any(len(core) > 1 for core in parts["cores"]) != int(active)
    )


def _nodes_are_denied(machine: Machine, topology: Topology, _: Parts, __: Cpus) -> bool:
    """Returns whether the listed memory nodes differ from those of the topology."""
    listed = machine.facts.get("numa_nodes", "")
    return bool(listed and topology.nodes) and {*numbers(listed)} != {node.node for node in topology.nodes}


OF_ALL_CPUS: Sequence[tuple[Callable[[Machine, Topology, Parts, Cpus], bool], str]] = (
    (_are_not_all, "packages, dies, cores, kinds and nodes contain all CPUs that are online"),
    (_are_not_nested, "a core is in one package and last cache"),
    (_are_not_there, "a CPU that is isolated or shares a core exists"),
    (_threads_are_denied, "hardware threads are active where a core has several"),
    (_nodes_are_denied, "the memory nodes are those that are online"),
)  # fmt: skip
