# SPDX-License-Identifier: Apache-2.0
"""The machine's CPUs and memory nodes as parts within parts, equal ones folded: for the terminal and the page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tollmeter.model import Machine, Topology
from tollmeter.model.topology import listed, numbers
from tollmeter.report.numbers import size
from tollmeter.report.tables import Column, Line, Table, table

MOST_NAMED = 4
"""Parts of one shape whose CPUs are each named."""


@dataclass(frozen=True)
class Part:
    """Parts of one shape, side by side. what: of one of them; cpus: of each, as lists; parts: within the first."""

    what: str
    cpus: tuple[str, ...]
    parts: tuple[Part, ...] = ()

    @property
    def title(self) -> str:
        return f"{len(self.cpus)} x {self.what}" if len(self.cpus) > 1 else self.what

    @property
    def named(self) -> str:
        """The CPUs: of each, as far as there is room."""
        if len(self.cpus) <= MOST_NAMED:
            return "CPU " + " | ".join(self.cpus)
        return f"CPU {self.cpus[0]} | {self.cpus[1]} | … | {self.cpus[-1]}"


def parts_of(machine: Machine) -> tuple[Part, ...]:
    """The outermost parts; empty where the system does not report them."""
    topology = machine.topology
    return _within(frozenset(numbers(topology.online)), _levels(machine, topology)) if topology else ()


Level = list[tuple[str, frozenset[int]]]
"""What each set of CPUs is, and its CPUs."""


def _levels(machine: Machine, topology: Topology) -> list[Level]:
    """The coarsest first: of two of like size that which usually contains the other."""
    last = max((cache.level for cache in machine.caches), default=0)
    sizes = {cache.size_bytes for cache in machine.caches if cache.level == last}
    cache = f"L{last} cache {size(max(sizes))}" if sizes and not machine.kinds else "last-level cache"
    kinds = topology.kinds if len(topology.kinds) > 1 else ()
    named = (
        [("package", cpus) for cpus in topology.packages],
        [("memory node", node.cpus) for node in topology.nodes if node.cpus],
        [("die", cpus) for cpus in topology.dies if len(topology.dies) > len(topology.packages)],
        [(cache, cpus) for cpus in topology.last_caches],
        [(kind.name or f"cores of capacity {kind.capacity}", kind.cpus) for kind in kinds],
        [("core", cpus) for cpus in topology.cores],
    )
    levels = [[(what, frozenset(numbers(cpus))) for what, cpus in several] for several in named if several]
    return sorted(levels, key=lambda level: -max(len(cpus) for _, cpus in level))


def _within(cpus: frozenset[int], levels: Sequence[Level]) -> tuple[Part, ...]:
    """The parts of some CPUs; those that a level does not report are of the next one."""
    if not levels or not cpus:
        return ()
    found: Level = []
    rest = cpus
    for what, one in levels[0]:  # a target may report one CPU twice
        if one & rest:
            found.append((what, one & rest))
            rest -= one
    return (*_folded(found, levels[1:]), *_within(rest, levels[1:]))


def _folded(sets: Level, finer: Sequence[Level]) -> Iterator[Part]:
    """Parts of one shape together, in the order of their lowest CPUs."""
    alike: dict[tuple[object, ...], list[Part]] = {}
    for what, cpus in sorted(sets, key=lambda one: min(one[1])):
        part = _part(what, cpus, finer)
        alike.setdefault(_shape(part), []).append(part)
    for first, *others in alike.values():
        yield Part(first.what, (first.cpus[0], *(other.cpus[0] for other in others)), first.parts)


def _part(name: str, cpus: frozenset[int], finer: Sequence[Level]) -> Part:
    inner = _within(cpus, finer)
    if len(inner) == 1 and len(inner[0].cpus) == 1 and inner[0].cpus[0] == listed(cpus):
        return Part(f"{name}, {inner[0].what}", inner[0].cpus, inner[0].parts)
    threads = f" of {len(cpus)} threads" if name == "core" and len(cpus) > 1 else ""
    return Part(f"{name}{threads}", (listed(cpus),), inner)


def _shape(part: Part) -> tuple[object, ...]:
    return part.what, len(numbers(part.cpus[0])), tuple((len(inner.cpus), *_shape(inner)) for inner in part.parts)


def lines(parts: Sequence[Part], indent: str = "") -> Iterator[str]:
    """A line for each part, its own parts below it."""
    for part in parts:
        yield f"{indent}{part.title}   {part.named}"
        yield from lines(part.parts, f"{indent}  ")


def node_table(machine: Machine) -> Table | None:
    """None where the system reports no memory node. Distances are in the order of the lines; 10 is local memory."""
    nodes = machine.topology.nodes if machine.topology else ()
    lines = [
        Line((str(node.node), size(node.memory_bytes), listed(numbers(node.cpus)) or "none",
              " ".join(map(str, node.distances))))
        for node in nodes
    ]  # fmt: skip
    columns = [Column("Memory node"), Column("memory", True), Column("CPUs"), Column("distances")]
    return table("Memory node", columns, lines) if lines else None


def _quota(text: str) -> str:
    """Of a control group: microseconds of CPU time, and the period in which it may use them."""
    used_us, _, period_us = text.partition(" ")
    is_limited = re.fullmatch(r"\d{1,15} 0*[1-9]\d{0,14}", text, re.ASCII)
    return f"{int(used_us) / int(period_us):g} CPUs" if is_limited else ""


def limits(machine: Machine) -> Table:
    """What this process may use, and what the system keeps for itself."""
    topology = machine.topology or Topology()
    reserved = [f"{pool.pages} of {size(pool.bytes)}" for pool in topology.hugetlb if pool.pages]
    pages = [f"{size(machine.page_bytes)}"]
    pages += [f"huge {size(topology.huge_page_bytes)}"] if topology.huge_page_bytes else []
    values = {
        "CPUs that may be used": listed(machine.allowed_cpus),
        "memory nodes that may be used": topology.allowed_nodes,
        "CPU quota": _quota(machine.facts.get("cpu_quota", "")),
        "offline CPUs": topology.offline,
        "isolated CPUs": topology.isolated,
        "CPUs without ticks (nohz_full)": topology.nohz_full,
        "pages": ", ".join([*pages, *reserved]),
    }
    lines = [Line((name, value)) for name, value in values.items() if value]
    return table("Limits", [Column("Limits"), Column("value")], lines)
