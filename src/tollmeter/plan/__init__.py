# SPDX-License-Identifier: Apache-2.0
"""Plans a suite on this machine: its points, their order, and the effort for each. This package runs nothing.

Suite, machine, catalog, budget and seed determine the plan, so that an interrupted run can be resumed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from math import ceil

import msgspec

from tollmeter.catalog import Catalog, check_known, unknown
from tollmeter.experiment.limits import FEW, KIB, MIB, SOME
from tollmeter.experiment.pairs import LAYOUT_SERVES, LEAST_BLOCKS
from tollmeter.experiment.precision import PAIR_VISITS
from tollmeter.model import (
    BEST_KNOWN,
    PRECISION,
    Failure,
    Machine,
    Point,
    Priority,
    Probe,
    Record,
    RowOf,
    Suite,
    Topology,
    Visit,
    is_best_known,
    layout_seed,
)
from tollmeter.model.topology import is_here, numbers, other_kinds
from tollmeter.plan import values
from tollmeter.plan.effort import (
    EFFORTS,
    OF_EACH_CPU,
    OF_EMULATED,
    OF_MATRIX,
    USUAL,
    Costs,
    Effort,
    is_whole_system,
    planned_visits,
    stated_bytes,
)
from tollmeter.plan.placement import MOST_PAIRS, Placing, chosen_cpus, is_of_each, other_relations, replacement_cpus
from tollmeter.plan.points import UNCLAIMED, Entry, Ground, Scope, SweepCurve, check_abis, claim_rank, resolve

__all__ = [
    "LAYOUT_SERVES", "Costs", "Effort", "Entry", "Plan", "SweepCurve", "check_abis", "expected_seconds",
    "groups", "is_of_level", "is_shown", "make", "measured_caches", "memory_points", "visit_order",
]  # fmt: skip

_MOST_BESIDE_OTHERS = 0.25
"""Highest shares of the budget for all pairs of a matrix of CPUs: in a run of the matrix alone, and of other points
too."""
_SPARE = 2.5
"""Ratio of the time in which nearly all points converge to their planned time, since a plan cannot know which points
scatter. On a quiet machine 83 % of the 287 points of a default run converged in 89 s, 2.5 times their planned time."""
_OF_LEVELS = {"latency-of-size", "read-bandwidth-of-size"}
_OF_MEMORY = {*_OF_LEVELS, "load-of-chains"}
_DEADLINE_MS = 15_000
"""Deadline of a visit: thirty times the longest visit of our suites."""
_DEADLINE_MS_PER_GIB = 30_000
"""Deadline for memory: three times what a guest takes if its host must provide the memory first."""


class Plan(Record, frozen=True):
    """The plan of a run. cpus: CPUs to measure on, the preferred first. host_cpu: CPU of the host process, None without
    a choice. folder: folder in which probes may create files. peer: serves the network probes. asked: number of
    requested points if only typical ones are planned, else 0; asked_s: measuring time in which most of them converge.
    topology: None if unreported. also: CPUs that may stand in for the one that single workers are measured on. against:
    each pair's reference; is_of_pairs: whether every measured point is compared, as with --against, and not only those
    of a study's ratios."""

    suite: Suite
    entries: tuple[Entry, ...]
    probes: dict[str, Probe]
    cpus: tuple[int, ...]
    host_cpu: int | None
    seed: int
    budget_seconds: float
    effort: Effort
    priority: Priority = "real-time"
    counters: bool = True
    precision: float = PRECISION
    against: dict[Point, Point] = {}
    is_of_pairs: bool = False
    folder: str = ""
    peer: str = ""
    asked: int = 0
    asked_s: float = 0.0
    topology: Topology | None = None
    also: tuple[int, ...] = ()

    def points(self) -> list[Point]:
        """Returns every point that a run begins with, once."""
        return interleaved(self.against, 0) if self.is_of_pairs else _all_points(self.entries)

    def ratios(self) -> list[tuple[Point, Point]]:
        """Returns each point with its reference, both in one group; includes a study's points whose reference in the
        group is another point."""
        if self.is_of_pairs:
            return list(self.against.items())
        of_group = {point: group[-1] for group in groups(self.against) for point in group}
        asked = _ratios_of_study(self.suite, self.points())
        return [pair for pair in asked if of_group.get(pair[0]) == of_group.get(pair[1], pair)]

    def curves(self) -> list[SweepCurve]:
        """Returns the refinable curves; none in an interleaved comparison, where an added point would have no
        counterpart."""
        several = () if self.is_of_pairs else self.entries
        return list(dict.fromkeys(curve for entry in several for curve in entry.curves))

    def gaps(self) -> dict[Point, str]:
        return {point: reason for entry in self.entries for point, reason in entry.gaps.items()}

    def costs(self) -> Costs:
        return Costs(self.probes)

    @property
    def spare_cpu(self) -> int | None:
        """Returns the host's CPU for visits of all CPUs, since the host process sleeps during a visit; None if CPUs
        were requested."""
        return self.host_cpu if self.also else None

    def placements(self, point: Point, seen: int = 0) -> list[tuple[int, ...]]:
        """Returns the CPUs of a point's visits in a round: one visit, or one for each pair of CPUs. seen: its visits so
        far."""
        placing = _placing(self.cpus, self.topology, self.seed, self.spare_cpu)
        return placing.placements(point, self.probes[point.probe], seen)

    def pairs(self, point: Point) -> int:
        """Returns the number of CPU pairs of a matrix point; 0 for all other points."""
        placing = _placing(self.cpus, self.topology, self.seed, self.spare_cpu)
        return placing.pairs(point, self.probes[point.probe])

    def visits_of_pairs(self, point: Point) -> int:
        """Returns the planned visits of all pairs of a matrix point: PAIR_VISITS for each pair, or fewer if the budget
        is too short. Its time is then divided among the matrix points by their numbers of pairs. 0 for other points."""
        several = {point: pairs for point in self.points() if (pairs := self.pairs(point))}
        if point not in several:
            return 0
        share = 1 - FEW if len(several) == len(self.points()) else _MOST_BESIDE_OTHERS
        each_s = self.costs().visit_s(point, self.effort_of(point))
        part = min(1.0, share * self.budget_seconds / (each_s * PAIR_VISITS * sum(several.values())))
        return int(part * PAIR_VISITS * several[point])

    def effort_of(self, point: Point, effort: Effort | None = None) -> Effort:
        """Returns the effort of one visit: `effort`, or the plan's; a short one if a matrix has more pairs than its
        first round."""
        if self.pairs(point) > MOST_PAIRS and is_here(point.target) and not self.is_of_pairs:
            return OF_MATRIX
        if is_of_each(self.probes[point.probe]):
            return OF_EACH_CPU
        return OF_EMULATED if is_whole_system(point) else effort or self.effort

    def visit(
        self, number: int, point: Point, round_: int, cpus: tuple[int, ...], *, layout: int = 0, stays: bool = False
    ) -> Visit:
        """Returns a visit. Each layout has its own seed, so random placement differs between layouts and can be
        repeated. A point has one seed under all ABIs and on all targets, and interleaved points share a seed, so
        that the variance between layouts cancels. stays: whether the visit stays on its CPU, since the host is busy on
        its own."""
        whose = "interleaved" if self.is_of_pairs else (point.probe, point.parameters)
        seed = layout_seed(self.seed, layout, whose, cpus)
        probe, effort, is_local = self.probes[point.probe], self.effort_of(point), is_here(point.target)
        # A run of few points and a long budget may have long visits, and a large layout takes long to set up. A probe
        # that hangs costs the run this much.
        share_ms = int(1000 * self.budget_seconds / max(1, len(self.points())))
        set_up_ms = int(_DEADLINE_MS_PER_GIB * stated_bytes(point, probe) / (KIB * MIB))
        # A layout that is set up before its first visit is requested makes what the system accounts to a visit the same
        # for all of its visits. Not where the set-up starts or moves workers.
        moves = probe.switches or probe.spreads or any(role.pace != "background" for role in probe.roles)
        may_go = cpus == self.cpus[:1] and not stays
        return Visit(
            id=number, point=point, round=round_, cpus=cpus, samples=effort.samples, sample_ns=effort.sample_ns,
            seed=seed, deadline_ms=max(share_ms, _DEADLINE_MS + set_up_ms), priority=self.priority,
            counters=self.counters, folder=self.folder if is_local else "", peer=self.peer if is_local else "",
            forks=effort.forks, sets_up_first=is_local and not moves,
            also=self.also if may_go and is_local and not moves and not probe.roles else (),
        )  # fmt: skip


_placing = cache(Placing)


def measured_caches(machine: Machine, asked: Sequence[int]) -> Machine:
    """Returns the machine with the caches of the CPU that single workers run on, since the cores of a hybrid CPU
    differ."""
    (first, *_), _ = chosen_cpus(machine, asked)
    return _seen_from(machine, first)


def _seen_from(machine: Machine, cpu: int) -> Machine:
    kind = next((kind for kind in machine.kinds if cpu in kind.cpus), None)
    return msgspec.structs.replace(machine, caches=kind.caches) if kind else machine


def make_plan(
    suite: Suite,
    catalog: Catalog,
    machine: Machine,
    *,
    budget_seconds: float,
    seed: int,
    abis: Sequence[str] = (),
    cpus: Sequence[int] = (),
    priority: Priority = "real-time",
    counters: bool = True,
    precision: float = PRECISION,
    against: Sequence[str] = (),
    all_points: bool = False,
) -> Plan:
    """Returns the plan of a suite. Raises Failure: 2 for an unknown name, 6 if no point of the suite can run.

    If the budget does not suffice for most of the requested points, selections that narrow give fewer points.
    all_points: all of them nevertheless."""
    measured, host_cpu = chosen_cpus(machine, cpus)
    if cpus:
        machine = msgspec.structs.replace(machine, allowed_cpus=measured)
    # The machine as each other kind of core sees it that has a CPU among those measured.
    members = {target: numbers(kind.cpus) for target, kind in other_kinds(machine.topology, measured[0]).items()}
    first = {target: next((cpu for cpu in measured if cpu in own), None) for target, own in members.items()}
    seen = {target: _seen_from(machine, cpu) for target, cpu in first.items() if cpu is not None}
    kinds = {} if against else seen
    ground = Ground(catalog, machine, abis, other_relations(machine, measured), kinds)

    def scoped(scope: Scope) -> Plan:
        entries = tuple(resolve(select, ground, scope) for select in suite.select)
        return Plan(
            suite=suite, entries=entries, probes=catalog.probes(), cpus=measured, host_cpu=host_cpu, seed=seed,
            budget_seconds=budget_seconds, effort=USUAL, priority=priority, counters=counters,
            precision=precision,
            topology=machine.topology, also=() if cpus else replacement_cpus(machine, measured[0]),
            against=counterparts(_all_points(entries), against, catalog, machine) if against
            else of_a_study(suite, _all_points(entries)),
            is_of_pairs=bool(against),
        )  # fmt: skip

    whole = scoped("all")
    if not whole.points() and not whole.gaps():
        raise Failure(f"nothing of {suite.name} can run here: none of its probes is built", exit_code=6)
    each_s = _seconds_of_points(whole)
    asked, asked_s = len(each_s), _seconds_to_settle(each_s)
    plan, usual_s = whole, sum(each_s)
    if asked_s > budget_seconds and not all_points and any(select.narrows for select in suite.select):
        plan = scoped("curves")
        if expected_seconds(msgspec.structs.replace(plan, effort=EFFORTS[-1])) > budget_seconds:
            plan = scoped("typical")
        usual_s = expected_seconds(plan)
    is_less = len(plan.points()) < asked
    plan = msgspec.structs.replace(plan, asked=asked if is_less else 0, asked_s=asked_s)
    # The greatest effort whose visits end in time, else the least.
    for effort in EFFORTS[1:] if usual_s > budget_seconds else ():
        plan = msgspec.structs.replace(plan, effort=effort)
        if effort is EFFORTS[-1] or expected_seconds(plan) <= budget_seconds:
            break
    return plan


def _all_points(entries: Iterable[Entry]) -> list[Point]:
    return list(dict.fromkeys(point for entry in entries for point in entry.points))


def expected_seconds(plan: Plan) -> float:
    """Returns the wall time in seconds of the required visits to a run's initial points."""
    return sum(_seconds_of_points(plan))


def _seconds_to_settle(each_s: Sequence[float]) -> float:
    """Returns the wall time in seconds in which most points converge on a quiet machine: the cheapest are visited
    first."""
    return _SPARE * sum(sorted(each_s)[: ceil((1 - SOME) * len(each_s))])


def _seconds_of_points(plan: Plan) -> list[float]:
    costs = plan.costs()
    visits: Callable[[Point], int] = (lambda _: LEAST_BLOCKS * LAYOUT_SERVES) if plan.is_of_pairs else planned_visits
    return [
        visits(point) * costs.visit_s(point, plan.effort_of(point)) * len(plan.placements(point))
        for point in plan.points()
    ]


def visit_order(plan: Plan, points: Iterable[Point], round_: int, costs: Costs | None = None) -> list[Point]:
    """Returns the points of one round, shuffled by the seed, each selection spread evenly; a study's claims first, then
    lines of the toll table. Large points are last, consecutively, since each reuses the pages of the previous one.
    costs: learned from visits."""
    wanted = set(points)
    if plan.is_of_pairs:
        return [point for point in interleaved(plan.against, round_) if point in wanted]
    rng = random.Random(f"{plan.seed} order {round_}")
    placed: list[tuple[float, int, Point]] = []
    for number, group in enumerate(_groups(plan, wanted)):
        rng.shuffle(group)
        placed += [((place + rng.random()) / len(group), number, point) for place, point in enumerate(group)]
    learned = costs or plan.costs()
    ordered = [point for _, _, point in sorted(placed, key=lambda item: (learned.is_large(item[2]), *item[:2]))]
    ordered.sort(key=lambda point: (claim_rank(plan.suite, point), not is_typical(plan, point)))
    of_group = {point: group for group in groups(plan.against) for point in group}
    turns = (of_group.get(point, (point,))[:: -1 if round_ % 2 else 1] for point in ordered)
    return [point for point in dict.fromkeys(itertools.chain.from_iterable(turns)) if point in wanted]


def is_typical(plan: Plan, point: Point) -> bool:
    """Returns whether each parameter of the point that has a typical value is at it, so that the toll table has a line
    of the point."""
    probe, own = plan.probes[point.probe], point.values()
    usual = (
        (parameter.typical, str(own.get(parameter.name)))
        for parameter in probe.parameters
        if parameter.typical is not None
    )
    return any(metric.toll for metric in probe.metrics) and all(typical == value for typical, value in usual)


def is_shown(plan: Plan, point: Point) -> bool:
    """Returns whether the first screen may have the point's number: a level of memory, a best known toll, or the one
    line of a probe without a meaning, under the first ABI."""
    first = next(point for entry in plan.entries for point in entry.points)
    is_toll = _is_best_known(plan, point) or _has_one_line(plan.probes[point.probe])
    is_one = is_of_level(plan, point) or (is_toll and is_typical(plan, point))
    return is_one and (point.abi, point.target) == (first.abi, first.target)


def _is_best_known(plan: Plan, point: Point) -> bool:
    """Returns whether the point has a line of a best known meaning; any point of a meaning does if the plan has none of
    its lines."""
    return any(
        is_best_known(means, point.values())
        or not any(is_best_known(means, other.values()) for other in plan.points() if means in _means(plan, other))
        for means in _means(plan, point) & BEST_KNOWN.keys()
    )


def _has_one_line(probe: Probe) -> bool:
    """Returns whether a probe without a meaning has one line in the toll table."""
    lines = sum(metric.toll is not None for metric in probe.metrics)
    varies = any(parameter.typical is None for parameter in probe.parameters)
    return lines == 1 and not varies and not any(metric.means for metric in probe.metrics)


def is_of_level(plan: Plan, point: Point) -> bool:
    """Returns whether the point is one of the many that together show the memory levels."""
    return bool(_means(plan, point) & _OF_LEVELS)


def memory_points(plan: Plan) -> list[Point]:
    """Returns the points that show memory on the first screen: for the latency, for each read kernel and for each
    number of chains the smallest size in the farther half of the probe's sizes (inference/hierarchy.py)."""
    first = next(point for entry in plan.entries for point in entry.points)
    sized = [
        (stated_bytes(point, plan.probes[point.probe]), point)
        for point in plan.points()
        if (point.abi, point.target) == (first.abi, first.target) and _means(plan, point) & _OF_MEMORY
    ]
    largest = {point.probe: size for size, point in sorted(sized, key=lambda one: one[0])}
    chosen: dict[tuple[object, ...], Point] = {}
    for size, point in sorted(sized, key=lambda one: one[0]):
        if 2 * size >= largest[point.probe]:
            curve = {name: value for name, value in point.parameters if name not in ("size", "pages")}
            chosen.setdefault((point.probe, *curve.items()), point)
    return [*chosen.values()]


def _means(plan: Plan, point: Point) -> set[str | None]:
    return {metric.means for metric in plan.probes[point.probe].metrics}


def _groups(plan: Plan, wanted: set[Point]) -> list[list[Point]]:
    """Returns the wanted points by the selection that requested them; refinement points by their probe."""
    left = set(wanted)
    groups: list[list[Point]] = []
    for entry in plan.entries:
        groups.append([point for point in entry.points if point in left])
        left.difference_update(entry.points)
    added = sorted(left, key=lambda point: (point.probe, point.abi, point.target, str(point.parameters)))
    groups += [list(group) for _, group in itertools.groupby(added, key=lambda point: point.probe)]
    return [group for group in groups if group]


# ---- an interleaved comparison: pairs of a point, and the same with another parameter value, ABI or probe ------------


def counterparts(
    points: Iterable[Point], words: Sequence[str], catalog: Catalog, machine: Machine
) -> dict[Point, Point]:
    """Returns the counterpart of each point: the point with every word applied. A point that the words leave
    unchanged is the counterpart of others.
    Raises Failure (2) for an unknown word, or if the words change no point."""
    changed = {
        point: reduce(lambda so_far, word: _changed(so_far, word, catalog, machine), words, point) for point in points
    }
    pairs = {point: other for point, other in changed.items() if other != point}
    if words and not pairs:
        raise Failure(f"--against {' '.join(words)}: this changes no point")
    return pairs


def of_a_study(suite: Suite, points: Sequence[Point]) -> dict[Point, Point]:
    """Returns the points of a study's ratios in groups with interleaved visits, each point with its group's reference,
    so that slow drift cancels in a ratio. Points that share a ratio are in one group."""
    references: dict[Point, Point] = {}
    for point, below in _ratios_of_study(suite, points):
        one, other = references.get(point, point), references.get(below, below)
        references |= {each: other for each, own in references.items() if own == one} | {one: other, other: other}
    return {point: own for point, own in references.items() if point != own}


def _ratios_of_study(suite: Suite, points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Returns each point with its divisor: for a claim its two rows, for an alternative the first one, and for the
    study's tables every ABI with the first requested one."""
    here = [point for point in points if is_here(point.target)]
    ratios = [(claim.row, claim.over) for claim in suite.published if claim.row and claim.over]
    ratios += [(option.row, suite.option[0].row) for option in suite.option[1:]]
    asked = [pair for above, below in ratios for pair in _both(above, below, here)]
    first: dict[tuple[str, object], Point] = {}
    claimed = (point for point in here if claim_rank(suite, point) != UNCLAIMED)
    asked += [(point, first.setdefault((point.probe, point.parameters), point)) for point in claimed]
    return [pair for pair in dict.fromkeys(asked) if pair[0] != pair[1]]


def _both(above: RowOf, below: RowOf, points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Yields the points of a claim's two rows under each ABI, if each row is one point."""

    def answering(row: RowOf, abi: str) -> list[Point]:
        wanted = abi if row.abi is None else points[0].abi if row.abi == "native" else row.abi
        return [
            point for point in points
            if (point.probe, point.abi) == (row.probe, wanted) and row.parameters.items() <= point.values().items()
        ]  # fmt: skip

    for abi in dict.fromkeys(point.abi for point in points):
        several = answering(above, abi), answering(below, abi)
        if all(len(side) == 1 for side in several):
            yield several[0][0], several[1][0]


def _changed(point: Point, word: str, catalog: Catalog, machine: Machine) -> Point:
    """Returns the point with one word applied: NAME=VALUE, an ABI's name, or a probe's."""
    name, equals, written = word.partition("=")
    if equals:
        return _with_value(point, name, written, catalog, machine)
    probes = catalog.probes()
    if word in catalog.abis:
        other = msgspec.structs.replace(point, abi=word)
    elif word in probes:
        other = msgspec.structs.replace(point, probe=word)
    else:
        raise unknown("parameter, ABI or probe", word, [*probes, *catalog.abis])
    if (other.probe, other.abi) not in catalog.executables:
        raise Failure(f"--against {word}: {other.probe} is not built for {other.abi}")
    own = [parameter.name for parameter in probes[other.probe].parameters]
    if sorted(own) != sorted(name for name, _ in point.parameters):
        raise Failure(f"--against {word}: {other.probe} has not the parameters of {point.probe}")
    return other


def _with_value(point: Point, name: str, written: str, catalog: Catalog, machine: Machine) -> Point:
    parameters = {parameter.name: parameter for parameter in catalog.probes()[point.probe].parameters}
    check_known("parameter", name, [*parameters], f"of {point.probe}")
    (value, *more) = values.read_value(parameters[name], written, machine)
    if more:
        raise Failure(f"--against {name}={written}: expected one value")
    return msgspec.structs.replace(
        point, parameters=tuple((known, value if known == name else old) for known, old in point.parameters)
    )


def groups(pairs: Mapping[Point, Point]) -> list[tuple[Point, ...]]:
    """Returns the points that are compared with one reference point, and the reference point last."""
    by_reference: dict[Point, list[Point]] = {}
    for point, other in pairs.items():
        by_reference.setdefault(other, []).append(point)
    return [(*several, other) for other, several in by_reference.items()]


def interleaved(pairs: Mapping[Point, Point], round_: int) -> list[Point]:
    """Returns the points of one round: each group in alternating order between rounds."""
    return [point for group in groups(pairs) for point in (group if round_ % 2 == 0 else reversed(group))]
