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
from tollmeter.plan.points import UNCLAIMED, Entry, Ground, Scope, SweepCurve, claim_rank, resolve, why_nothing

__all__ = [
    "LAYOUT_SERVES", "Costs", "Effort", "Entry", "Plan", "SweepCurve", "expected_seconds",
    "groups", "is_of_level", "is_shown", "make", "measured_caches", "memory_points", "visit_order",
]  # fmt: skip

_MOST_BESIDE_OTHERS = 0.25
"""Highest share of the budget for all pairs of a matrix of CPUs in a run that also has other points."""
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
    """The plan of a run. cpus: CPUs to measure on, the preferred first. host_cpu: CPU of the host process, None if it
    has no fixed one. precision: requested relative half-width of the intervals. against: the reference of each compared
    point. is_of_pairs: whether every measured point is compared, as with --against, and not only those of a study's
    ratios. folder: folder in which probes may create files. peer: address of the machine that serves the network
    probes. asked: number of requested points if only some of them are planned, else 0. asked_s: measuring time in
    seconds in which most of the requested points converge. topology: None if unreported. also: CPUs that may replace
    the CPU on which single workers are measured."""

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
        """Returns every point with which a run begins, once."""
        return interleaved(self.against, 0) if self.is_of_pairs else _all_points(self.entries)

    def ratios(self) -> list[tuple[Point, Point]]:
        """Returns each compared point with the point it is divided by. In a study a point may have several ratios, to
        any point of its interleaved group."""
        if self.is_of_pairs:
            return list(self.against.items())
        of_group = {point: group[-1] for group in groups(self.against) for point in group}
        wanted = _ratios_of_study(self.suite, self.points())
        return [pair for pair in wanted if of_group.get(pair[0]) == of_group.get(pair[1], pair)]

    def curves(self) -> list[SweepCurve]:
        """Returns the curves to which points may be added; none in an interleaved comparison, where an added point
        would have no counterpart."""
        entries = () if self.is_of_pairs else self.entries
        return list(dict.fromkeys(curve for entry in entries for curve in entry.curves))

    def gaps(self) -> dict[Point, str]:
        """Returns the points that cannot be visited, with the reason."""
        return {point: reason for entry in self.entries for point, reason in entry.gaps.items()}

    def costs(self) -> Costs:
        return Costs(self.probes)

    @property
    def spare_cpu(self) -> int | None:
        """Returns the CPU of the host process for visits of all CPUs, since the host process sleeps during a visit;
        None if the user requested CPUs."""
        return self.host_cpu if self.also else None

    def placements(self, point: Point, seen: int = 0) -> list[tuple[int, ...]]:
        """Returns the CPUs of each visit of a point in one round: one visit, or one for each pair of CPUs. seen: number
        of visits so far."""
        placing = _placing(self.cpus, self.topology, self.seed, self.spare_cpu)
        return placing.placements(point, self.probes[point.probe], seen)

    def pairs(self, point: Point) -> int:
        """Returns the number of CPU pairs of a matrix point; 0 for all other points."""
        placing = _placing(self.cpus, self.topology, self.seed, self.spare_cpu)
        return placing.pairs(point, self.probes[point.probe])

    def visits_of_pairs(self, point: Point) -> int:
        """Returns the planned visits of all pairs of a matrix point: PAIR_VISITS for each pair, or fewer if the budget
        is too short; its time is then divided among the matrix points by their numbers of pairs. 0 for other points."""
        pairs_of_points = {point: pairs for point in self.points() if (pairs := self.pairs(point))}
        if point not in pairs_of_points:
            return 0
        share = 1 - FEW if len(pairs_of_points) == len(self.points()) else _MOST_BESIDE_OTHERS
        each_s = self.costs().visit_s(point, self.effort_of(point))
        part = min(1.0, share * self.budget_seconds / (each_s * PAIR_VISITS * sum(pairs_of_points.values())))
        return int(part * PAIR_VISITS * pairs_of_points[point])

    def effort_of(self, point: Point, effort: Effort | None = None) -> Effort:
        """Returns the effort of one visit. A matrix with more pairs than one round visits, a probe of each CPU, and an
        emulated system have fixed efforts; other points have `effort`, by default the effort of the plan."""
        if self.pairs(point) > MOST_PAIRS and is_here(point.target) and not self.is_of_pairs:
            return OF_MATRIX
        if is_of_each(self.probes[point.probe]):
            return OF_EACH_CPU
        return OF_EMULATED if is_whole_system(point) else effort or self.effort

    def visit(
        self, number: int, point: Point, round_: int, cpus: tuple[int, ...], *, layout: int = 0, stays: bool = False
    ) -> Visit:
        """Returns a visit. Each layout has its own seed, so that random placement differs between layouts and can be
        repeated. A point has the same seeds under all ABIs and on all targets, and interleaved points share a seed, so
        that the variance between layouts cancels. number, round_, layout: their numbers. stays: whether the visit may
        not move to another CPU, since the host process is busy on its own."""
        owner = "interleaved" if self.is_of_pairs else (point.probe, point.parameters)
        seed = layout_seed(self.seed, layout, owner, cpus)
        probe, effort, is_local = self.probes[point.probe], self.effort_of(point), is_here(point.target)
        # A run of few points and a long budget may have long visits, and a large layout takes long to set up. A probe
        # that hangs costs the run this much.
        share_ms = int(1000 * self.budget_seconds / max(1, len(self.points())))
        set_up_ms = int(_DEADLINE_MS_PER_GIB * stated_bytes(point, probe) / (KIB * MIB))
        # If a layout is set up before its first visit is requested, the system accounts the same work to all of its
        # visits. This is not possible where the set-up starts or moves workers.
        moves_workers = probe.switches or probe.spreads or any(role.pace != "background" for role in probe.roles)
        is_on_preferred = cpus == self.cpus[:1] and not stays
        return Visit(
            id=number, point=point, round=round_, cpus=cpus, samples=effort.samples, sample_ns=effort.sample_ns,
            seed=seed, deadline_ms=max(share_ms, _DEADLINE_MS + set_up_ms), priority=self.priority,
            counters=self.counters, folder=self.folder if is_local else "", peer=self.peer if is_local else "",
            forks=effort.forks, sets_up_first=is_local and not moves_workers,
            also=self.also if is_on_preferred and is_local and not moves_workers and not probe.roles else (),
        )  # fmt: skip


_placing = cache(Placing)


def measured_caches(machine: Machine, asked: Sequence[int]) -> Machine:
    """Returns the machine with the caches of the CPU on which single workers run, since the cores of a hybrid CPU
    differ. asked: requested CPUs."""
    (first, *_), _ = chosen_cpus(machine, asked)
    return _seen_from(machine, first)


def _seen_from(machine: Machine, cpu: int) -> Machine:
    """Returns the machine with the caches that one CPU has."""
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

    If the budget does not suffice for most of the requested points, the selections that permit it (`narrows`) are
    planned with fewer points. all_points: plan all of them nevertheless. against: words of --against."""
    measured, host_cpu = chosen_cpus(machine, cpus)
    if cpus:
        machine = msgspec.structs.replace(machine, allowed_cpus=measured)
    # The machine with the caches of each other kind of core, if one of the measured CPUs is of this kind.
    members = {target: numbers(kind.cpus) for target, kind in other_kinds(machine.topology, measured[0]).items()}
    first = {
        target: next((cpu for cpu in measured if cpu in cpus_of_kind), None) for target, cpus_of_kind in members.items()
    }
    machine_of_kind = {target: _seen_from(machine, cpu) for target, cpu in first.items() if cpu is not None}
    kinds = {} if against else machine_of_kind
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
        raise Failure(f"nothing of {suite.name} can run here: {why_nothing(suite.select, ground)}", exit_code=6)
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
    """Returns the wall time in seconds of the planned visits to the points with which a run begins."""
    return sum(_seconds_of_points(plan))


def _seconds_to_settle(each_s: Sequence[float]) -> float:
    """Returns the wall time in seconds in which most points converge on a quiet machine, where the cheapest are visited
    first. each_s: planned seconds of each point."""
    return _SPARE * sum(sorted(each_s)[: ceil((1 - SOME) * len(each_s))])


def _seconds_of_points(plan: Plan) -> list[float]:
    """Returns the wall time in seconds of the planned visits of each point."""
    costs = plan.costs()
    visits: Callable[[Point], int] = (lambda _: LEAST_BLOCKS * LAYOUT_SERVES) if plan.is_of_pairs else planned_visits
    return [
        visits(point) * costs.visit_s(point, plan.effort_of(point)) * len(plan.placements(point))
        for point in plan.points()
    ]


def visit_order(plan: Plan, points: Iterable[Point], round_: int, costs: Costs | None = None) -> list[Point]:
    """Returns the points of one round, shuffled by the seed, with each selection spread evenly; the points of a study's
    claims first, then those of the toll table. Large points are last, consecutively, since each reuses the memory pages
    of the previous one. costs: learned from visits; by default as planned."""
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
    """Returns whether the toll table has a line of the point: its probe has a toll, and each parameter with a typical
    value has this value."""
    probe, values_of_point = plan.probes[point.probe], point.values()
    typical_values = (
        (parameter.typical, str(values_of_point.get(parameter.name)))
        for parameter in probe.parameters
        if parameter.typical is not None
    )
    return any(metric.toll for metric in probe.metrics) and all(typical == value for typical, value in typical_values)


def is_shown(plan: Plan, point: Point) -> bool:
    """Returns whether the first screen may show the number of the point: a level of memory, a best known toll, or the
    only toll of a probe without a meaning, under the first ABI."""
    is_toll = _is_best_known(plan, point) or _has_one_line(plan.probes[point.probe])
    is_candidate = is_of_level(plan, point) or (is_toll and is_typical(plan, point))
    return is_candidate and _is_of_first_abi(plan, point)


def _is_of_first_abi(plan: Plan, point: Point) -> bool:
    """Returns whether the point has the ABI and the target of the first planned point."""
    first = next(planned for entry in plan.entries for planned in entry.points)
    return (point.abi, point.target) == (first.abi, first.target)


def _is_best_known(plan: Plan, point: Point) -> bool:
    """Returns whether the point has one of the best known tolls. If the plan lacks the parameters of a best known toll,
    any point with its meaning has it."""
    return any(
        is_best_known(means, point.values())
        or not any(is_best_known(means, other.values()) for other in plan.points() if means in _means(plan, other))
        for means in _means(plan, point) & BEST_KNOWN.keys()
    )


def _has_one_line(probe: Probe) -> bool:
    """Returns whether the toll table has one line of this probe, and no metric of the probe has a meaning."""
    lines = sum(metric.toll is not None for metric in probe.metrics)
    varies = any(parameter.typical is None for parameter in probe.parameters)
    return lines == 1 and not varies and not any(metric.means for metric in probe.metrics)


def is_of_level(plan: Plan, point: Point) -> bool:
    """Returns whether the point is one of the many that together show the memory levels."""
    return bool(_means(plan, point) & _OF_LEVELS)


def memory_points(plan: Plan) -> list[Point]:
    """Returns the points that show memory on the first screen: for the latency, for each read kernel and for each
    number of chains, the point of the smallest size that is at least half of the probe's largest
    (inference/hierarchy.py)."""
    sized = [
        (stated_bytes(point, plan.probes[point.probe]), point)
        for point in plan.points()
        if _is_of_first_abi(plan, point) and _means(plan, point) & _OF_MEMORY
    ]
    sized.sort(key=lambda pair: pair[0])
    largest = {point.probe: size for size, point in sized}
    chosen: dict[tuple[object, ...], Point] = {}
    for size, point in sized:
        if 2 * size >= largest[point.probe]:
            curve = {name: value for name, value in point.parameters if name not in ("size", "pages")}
            chosen.setdefault((point.probe, *curve.items()), point)
    return [*chosen.values()]


def _means(plan: Plan, point: Point) -> set[str | None]:
    return {metric.means for metric in plan.probes[point.probe].metrics}


def _groups(plan: Plan, wanted: set[Point]) -> list[list[Point]]:
    """Returns the wanted points, grouped by the selection that requested them; points that refinement added are grouped
    by probe."""
    left = set(wanted)
    groups: list[list[Point]] = []
    for entry in plan.entries:
        groups.append([point for point in entry.points if point in left])
        left.difference_update(entry.points)
    added = sorted(left, key=lambda point: (point.probe, point.abi, point.target, str(point.parameters)))
    groups += [list(group) for _, group in itertools.groupby(added, key=lambda point: point.probe)]
    return [group for group in groups if group]


# ---- interleaved comparison: a point and the point with another parameter value, ABI or probe ------------------------


def counterparts(
    points: Iterable[Point], words: Sequence[str], catalog: Catalog, machine: Machine
) -> dict[Point, Point]:
    """Returns the counterpart of each point: the point with every word applied. A point that the words leave unchanged
    has none, and may be the counterpart of others. words: as in _changed. Raises Failure (2) for an unknown word, or if
    the words change no point."""
    changed = {
        point: reduce(lambda so_far, word: _changed(so_far, word, catalog, machine), words, point) for point in points
    }
    pairs = {point: other for point, other in changed.items() if other != point}
    if words and not pairs:
        raise Failure(f"--against {' '.join(words)}: this changes no point")
    return pairs


def of_a_study(suite: Suite, points: Sequence[Point]) -> dict[Point, Point]:
    """Returns the reference of each point of a study's ratios. Points that share a ratio have one reference; their
    visits are interleaved, so that slow drift cancels in the ratios."""
    references: dict[Point, Point] = {}
    for point, divisor in _ratios_of_study(suite, points):
        reference_of_point, reference_of_divisor = references.get(point, point), references.get(divisor, divisor)
        references |= {
            each: reference_of_divisor for each, reference in references.items() if reference == reference_of_point
        } | {reference_of_point: reference_of_divisor, reference_of_divisor: reference_of_divisor}
    return {point: reference for point, reference in references.items() if point != reference}


def _ratios_of_study(suite: Suite, points: Sequence[Point]) -> list[tuple[Point, Point]]:
    """Returns each point with the point it is divided by: for a claim the points of its two rows, for each further
    option the point of the first option, and for the tables the same point under the first requested ABI."""
    here = [point for point in points if is_here(point.target)]
    ratios = [(claim.row, claim.over) for claim in suite.published if claim.row and claim.over]
    ratios += [(option.row, suite.option[0].row) for option in suite.option[1:]]
    pairs = [pair for above, below in ratios for pair in _both(above, below, here)]
    first: dict[tuple[str, object], Point] = {}
    claimed = (point for point in here if claim_rank(suite, point) != UNCLAIMED)
    pairs += [(point, first.setdefault((point.probe, point.parameters), point)) for point in claimed]
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]


def _both(above: RowOf, below: RowOf, points: Sequence[Point]) -> Iterator[tuple[Point, Point]]:
    """Yields the points of two rows of a study under each ABI where each row is exactly one point."""

    def answering(row: RowOf, abi: str) -> list[Point]:
        wanted = abi if row.abi is None else points[0].abi if row.abi == "native" else row.abi
        return [
            point for point in points
            if (point.probe, point.abi) == (row.probe, wanted) and row.parameters.items() <= point.values().items()
        ]  # fmt: skip

    for abi in dict.fromkeys(point.abi for point in points):
        sides = answering(above, abi), answering(below, abi)
        if all(len(side) == 1 for side in sides):
            yield sides[0][0], sides[1][0]


def _changed(point: Point, word: str, catalog: Catalog, machine: Machine) -> Point:
    """Returns the point with one word applied: NAME=VALUE, the name of an ABI, or the name of a probe."""
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
    names = [parameter.name for parameter in probes[other.probe].parameters]
    if sorted(names) != sorted(name for name, _ in point.parameters):
        raise Failure(f"--against {word}: {other.probe} has not the parameters of {point.probe}")
    return other


def _with_value(point: Point, name: str, written: str, catalog: Catalog, machine: Machine) -> Point:
    """Returns the point with another value of one parameter. written: the value as typed. Raises Failure (2) unless it
    is one value."""
    parameters = {parameter.name: parameter for parameter in catalog.probes()[point.probe].parameters}
    check_known("parameter", name, [*parameters], f"of {point.probe}")
    (value, *more) = values.read_value(parameters[name], written, machine)
    if more:
        raise Failure(f"--against {name}={written}: expected one value")
    return msgspec.structs.replace(
        point, parameters=tuple((known, value if known == name else old) for known, old in point.parameters)
    )


def groups(pairs: Mapping[Point, Point]) -> list[tuple[Point, ...]]:
    """Returns the groups of compared points: the points with one reference point, which is last. pairs: reference of
    each point."""
    by_reference: dict[Point, list[Point]] = {}
    for point, other in pairs.items():
        by_reference.setdefault(other, []).append(point)
    return [(*points, other) for other, points in by_reference.items()]


def interleaved(pairs: Mapping[Point, Point], round_: int) -> list[Point]:
    """Returns the points of one round, group by group. Odd rounds reverse the order in each group."""
    return [point for group in groups(pairs) for point in (group if round_ % 2 == 0 else reversed(group))]
