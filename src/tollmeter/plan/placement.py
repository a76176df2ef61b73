# SPDX-License-Identifier: Apache-2.0
"""Chooses the CPUs of workers: by the kind of their core and by their relation to each other, not by their numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from math import ceil, comb
from typing import Literal

from tollmeter.model import Failure, Machine, PlaceRelation, Point, Probe, Topology, Value
from tollmeter.model.topology import (
    RELATION,
    RELATIONS,
    core_of,
    listed,
    numbers,
    other_kinds,
    relations,
    speed_ranks,
)

_PAIRWISE, _OF_PARTNER = "core-to-core", "transfer-of-state"
_EACH_CPU = "step-of-cpu"
_OF_NODE = ("latency-of-node", "bandwidth-of-node", "move-of-page", "latency-of-traffic")
MOST_PAIRS = comb(8, 2)
"""Largest number of pairs in the first round, over all relations: every pair of 8 CPUs."""
_MOST_LATER = 256
"""Largest number of pairs in a later round, over all relations."""
_MOST_ALIKE = 8
"""Largest number of CPUs that a visit tries, for 20 us each, if all cores are contended."""
_MOST_OF_MATRIX = 512
"""Largest number of CPUs of a matrix, evenly distributed if there are more: 1,500 CPUs have a million pairs."""


def _word(place: PlaceRelation) -> str:
    """Returns the name of a relation as a parameter value."""
    return place.replace(" ", "_")


def topology_of(machine: Machine) -> Topology:
    """Returns the recorded topology; for an older record one with the cores only."""
    return machine.topology or Topology(cores=tuple(map(listed, machine.cores)))


def chosen_cpus(machine: Machine, asked: Sequence[int]) -> tuple[tuple[int, ...], int | None]:
    """Returns the CPUs to measure on, the CPU of single workers first, and the CPU of the host process, None if there
    is none for it. If no CPUs were requested, the host process gets the CPU with the lowest number among those of the
    slowest kind, which has most interrupts; on a machine of two CPUs, the one that single workers do not use. asked:
    requested CPUs. Raises Failure (2) for one that is not available."""
    allowed = sorted(machine.allowed_cpus) or list(range(machine.cpus))
    missing = [cpu for cpu in asked if cpu not in allowed]
    if missing:
        raise Failure(f"CPU {missing[0]} is not available; available: {', '.join(map(str, allowed))}")
    topology = topology_of(machine)
    ranks = speed_ranks(topology)
    if asked:
        measured = tuple(dict.fromkeys(asked))
    elif len(allowed) > 2:
        kept = min(allowed, key=lambda cpu: (-ranks.get(cpu, 0), cpu))
        measured = _in_order(topology, [cpu for cpu in allowed if cpu != kept])
    else:
        measured = _in_order(topology, allowed)
    free = [cpu for cpu in allowed if cpu not in measured] or [cpu for cpu in allowed if cpu != measured[0]]
    return measured, min(free, key=lambda cpu: (-ranks.get(cpu, 0), cpu)) if free else None


def _in_order(topology: Topology, cpus: Sequence[int]) -> tuple[int, ...]:
    """Returns the CPUs in order of preference, the CPU of the timed worker first: of the fastest kind, and not isolated
    unless all are. Then follows one CPU of each other core, the nearest first; then their sibling hyperthreads; last
    the cores with a hyperthread that is not among these CPUs."""
    cores, ranks, isolated = core_of(topology), speed_ranks(topology), set(numbers(topology.isolated))
    partly = {cores[cpu] for cpu in cores if cpu not in cpus}

    def preferred(cpu: int) -> tuple[int, ...]:
        return (cpu in isolated, ranks.get(cpu, 0), cores.get(cpu, -1) in partly, -cpu)

    ordered = sorted(cpus, key=preferred)
    related = relations(topology)
    firsts = {cores.get(cpu, -1 - cpu): cpu for cpu in reversed(ordered)}

    def rank(cpu: int) -> tuple[int, ...]:
        is_other_thread = firsts[cores.get(cpu, -1 - cpu)] != cpu
        *kind, number = preferred(cpu)
        return (is_other_thread, *kind, RELATIONS.index(related(ordered[0], cpu)), number)

    return tuple(sorted(ordered, key=rank))


def replacement_cpus(machine: Machine, cpu: int) -> tuple[int, ...]:
    """Returns CPUs that may replace a CPU: of its core kind, last cache and memory node, one for each core, with the
    CPU itself first. The sibling hyperthread of each core may be busy at other times."""
    topology = topology_of(machine)
    cores, isolated = core_of(topology), set(numbers(topology.isolated))
    sets_of_cpu = [
        set(numbers(candidates))
        for candidates in (
            *(kind.cpus for kind in topology.kinds), *topology.last_caches, *(node.cpus for node in topology.nodes)
        )
        if cpu in numbers(candidates)
    ]  # fmt: skip
    candidates = [cpu, *(other for other in sorted(machine.allowed_cpus, reverse=True) if other != cpu)]
    equivalent = [
        other
        for other in candidates
        if all(other in cpus for cpus in sets_of_cpu) and (other in isolated) == (cpu in isolated)
    ]
    firsts = {cores.get(other, -1 - other): other for other in reversed(equivalent)}
    return tuple(other for other in equivalent if firsts[cores.get(other, -1 - other)] == other)[:_MOST_ALIKE]


def is_by_relation(probe: Probe) -> bool:
    """Returns whether the probe measures a cache line or word between two CPUs."""
    return any(metric.means in (_PAIRWISE, _OF_PARTNER) for metric in probe.metrics) and bool(probe.roles)


def other_relations(machine: Machine, cpus: Sequence[int]) -> list[str]:
    """Returns the relations that other CPUs have to the CPU of the timed worker, except that of its default partner."""
    if machine.topology is None or len(cpus) < 2:
        return []
    related = relations(machine.topology)
    present = {related(cpus[0], cpu) for cpu in cpus[1:]}
    return [_word(one) for one in RELATIONS if one in present - {related(*cpus[:2])}]


def is_of_each(probe: Probe) -> bool:
    """Returns whether a visit of the probe times a loop on each of its CPUs."""
    return any(metric.means == _EACH_CPU for metric in probe.metrics)


def _relation_of(point: Point) -> str:
    """Returns the requested relation of the CPUs of a point; empty for the default."""
    return next((str(value) for name, value in point.parameters if name == RELATION), "")


def layout_of(probe: Probe) -> Literal["one", "all", "pairs", "node"]:
    """Returns which CPUs a visit of the probe uses: one, all, one pair after the other, or those of the requested
    memory node."""
    means = {metric.means for metric in probe.metrics}
    if means.intersection(_OF_NODE):
        return "node"
    if not probe.roles:
        return "all" if probe.spreads else "one"
    return "pairs" if _PAIRWISE in means else "all"


def _wants_all(point: Point, probe: Probe, cpus: Sequence[int]) -> bool:
    """Returns whether the point uses every CPU, including the CPU of the host process."""
    if is_of_each(probe):
        return True
    scaled = {parameter.name for parameter in probe.parameters if parameter.stop_scale == "cpus"}
    return any(name in scaled and isinstance(value, int) and value > len(cpus) for name, value in point.parameters)


class Placing:
    """Chooses the CPUs of the visits of one plan. It is made once, since 128 CPUs have 8,128 pairs."""

    def __init__(self, cpus: tuple[int, ...], topology: Topology | None, seed: int, spare_cpu: int | None) -> None:
        self._cpus, self._topology, self._seed, self._spare_cpu = cpus, topology, seed, spare_cpu
        self._related = relations(topology) if topology else None
        kinds = other_kinds(topology, cpus[0]) if cpus else {}
        self._of_kinds = {target: numbers(kind.cpus) for target, kind in kinds.items()}
        self._by_relation: dict[str, list[tuple[int, ...]]] = {}
        self._orders: dict[tuple[str, int], list[tuple[int, ...]]] = {}
        self._layouts: dict[str, tuple[Probe, str]] = {}
        """The result of layout_of by probe. A plan of 100,000 points needs it half a million times."""
        self._alone: dict[str, tuple[int, ...]] = {}
        """The CPU of a single worker, by target."""

    def placements(self, point: Point, probe: Probe, seen: int) -> list[tuple[int, ...]]:
        """Returns the CPUs of one visit; for a matrix of CPUs, those of one visit for each pair of a round. seen:
        number of earlier visits."""
        layout = self._layout(probe)
        if layout == "one":
            return [self._alone.get(point.target) or self._cpu_of(point.target)]
        wanted = _relation_of(point)
        if layout == "node":
            cpus = self._cpus_of_node(point.values().get("node"))
            return [cpus if probe.roles else cpus[:1]]
        if layout == "pairs" and len(self._cpus) > 1:
            return self._of_round(wanted, seen)
        cpus = self._beside(wanted)
        host_cpu = () if self._spare_cpu is None or self._spare_cpu in cpus else (self._spare_cpu,)
        return [(*cpus, *host_cpu) if _wants_all(point, probe, cpus) else cpus]

    def _cpus_of_node(self, wanted_node: Value | None) -> tuple[int, ...]:
        """Returns the usable CPUs of a memory node. For a node without CPUs returns the first CPU, and the probe then
        reports the gap. Without a topology all memory is one node."""
        nodes = self._topology.nodes if self._topology else ()
        if not nodes:
            return self._cpus
        of_node = {cpu for node in nodes if node.node == wanted_node for cpu in numbers(node.cpus)}
        return tuple(cpu for cpu in self._cpus if cpu in of_node) or self._cpus[:1]

    def _layout(self, probe: Probe) -> str:
        """Returns the result of layout_of, kept by probe."""
        known = self._layouts.get(probe.probe)
        if known is None or known[0] is not probe:
            known = self._layouts[probe.probe] = probe, layout_of(probe)
        return known[1]

    def _cpu_of(self, target: str) -> tuple[int, ...]:
        """Returns the CPU of a single worker on a target, and keeps it."""
        of_kind = self._of_kinds.get(target) or self._cpus
        self._alone[target] = tuple(cpu for cpu in self._cpus if cpu in of_kind)[:1]
        return self._alone[target]

    def pairs(self, point: Point, probe: Probe) -> int:
        """Returns the number of pairs of CPUs of a point in a matrix; 0 for all other points."""
        is_of_matrix = self._layout(probe) == "pairs" and len(self._cpus) > 1
        count = len(self._pairs(_relation_of(point))) if is_of_matrix else 0
        return count if count > 1 else 0

    def _beside(self, wanted: str) -> tuple[int, ...]:
        """Returns all CPUs, with a CPU of the wanted relation directly after the CPU of the timed worker."""
        worker, *others = self._cpus
        related = self._related
        if not wanted or related is None:
            return self._cpus
        near = next((cpu for cpu in others if _word(related(worker, cpu)) == wanted), None)
        return self._cpus if near is None else (worker, near, *(cpu for cpu in others if cpu != near))

    def _of_round(self, wanted: str, seen: int) -> list[tuple[int, ...]]:
        """Returns the pairs of one relation that follow the visited ones. seen: number of visited pairs."""
        pairs = len(self._pairs(wanted))
        if not pairs:
            return [self._cpus[:2]]
        count = min(pairs, ceil((_MOST_LATER if seen else MOST_PAIRS) / len(self._by_relation)))
        places = (divmod(seen + place, pairs) for place in range(count))
        return [self._in_turn(wanted, turn)[place] for turn, place in places]

    def _in_turn(self, wanted: str, turn: int) -> list[tuple[int, ...]]:
        """Returns the pairs in the order of visits in this turn. The order differs between turns, so that the state of
        the machine at a moment does not affect the same pairs again. The first half of the pairs always precedes the
        second half, so that two visits of a pair are at least half a turn apart."""
        if (wanted, turn) not in self._orders:
            pairs, rng = self._pairs(wanted), random.Random(f"{self._seed} {turn}")
            halves = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
            self._orders[wanted, turn] = [pair for half in halves for pair in rng.sample(half, len(half))]
        return self._orders[wanted, turn]

    def _pairs(self, wanted: str) -> list[tuple[int, ...]]:
        """Returns the pairs of one relation, shuffled by the seed. If none is requested, returns those of the default
        partner's relation, or all pairs if no relation is known."""
        if not self._by_relation:
            cpus = self._cpus[:: ceil(len(self._cpus) / _MOST_OF_MATRIX)]
            for pair in itertools.combinations(cpus, 2):
                named = _word(self._related(*pair)) if self._related else ""
                self._by_relation.setdefault(named, []).append(pair)
            for pairs in self._by_relation.values():
                random.Random(self._seed).shuffle(pairs)
        default = _word(self._related(*self._cpus[:2])) if self._related and len(self._cpus) > 1 else ""
        return self._by_relation.get(wanted or default, [])
