# SPDX-License-Identifier: Apache-2.0
"""Makes points from selections: each combines a probe, an ABI, a target and values of the parameters."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from msgspec.structs import replace

from tollmeter.catalog import Catalog, Executable, unknown
from tollmeter.experiment.limits import MIB, OF_LAST_CACHE
from tollmeter.model import Failure, Machine, Parameter, Point, Probe, Program, Record, RowOf, Select, Suite, Value
from tollmeter.model.topology import RELATION, memory_nodes
from tollmeter.plan import values
from tollmeter.plan.effort import counts_instructions, has_machines_time
from tollmeter.plan.placement import is_by_relation, layout_of

HERE = "local"
NATIVE = "native"
_COUNTED_BYTES = MIB
"""Size in bytes of the largest cache by which sizes are chosen if instructions are counted."""
_COUNTED_MEMORY = OF_LAST_CACHE * _COUNTED_BYTES
"""Bytes of memory by which sizes are chosen if instructions are counted."""


class SweepCurve(Record, frozen=True):
    """Points that differ only in a refined parameter. like: one of the points. grid: possible values. begun: the values
    with which a run begins. refused: parameters of a replacement curve if no point of this one can run."""

    like: Point
    parameter: str
    grid: tuple[int, ...]
    begun: tuple[int, ...] = ()
    refused: tuple[tuple[str, Value], ...] = ()

    def at(self, value: int) -> Point:
        """Returns the point of the curve at this value."""
        changed = tuple((name, value if name == self.parameter else old) for name, old in self.like.parameters)
        return replace(self.like, parameters=changed)

    def in_place(self) -> SweepCurve:
        """Returns the curve that replaces a refused one."""
        other = dict(self.refused)
        changed = tuple((name, other.get(name, old)) for name, old in self.like.parameters)
        return replace(self, like=replace(self.like, parameters=changed), refused=())


class Entry(Record, frozen=True):
    """The result of resolving one selection. gaps: why points cannot be visited on this machine."""

    points: tuple[Point, ...] = ()
    curves: tuple[SweepCurve, ...] = ()
    gaps: dict[Point, str] = {}


class Ground(NamedTuple):
    """The inputs for resolving selections. abis: requested by the user, in place of those of the selection. relations:
    relations of further pairs of CPUs, each of which gives a point. kinds: the machine with the caches of each other
    kind of core, by target."""

    catalog: Catalog
    machine: Machine
    abis: Sequence[str]
    relations: Sequence[str] = ()
    kinds: Mapping[str, Machine] = {}


Scope = Literal["all", "curves", "typical"]
"""Which values the free parameters of a narrowed selection have. all: every value. curves: every value of refined
parameters, and the typical value of the others. typical: the typical value. A parameter without a typical value has
every value."""


def resolve(select: Select, ground: Ground, scope: Scope = "all") -> Entry:
    """Returns the points with which a selection begins. Raises Failure (2) for an unknown parameter or value."""
    catalog, machine = ground.catalog, ground.machine
    if select.cpu and machine.architecture not in select.cpu:
        return Entry()
    if select.nodes > 1 and len(memory_nodes(machine.topology)) < select.nodes:
        return Entry()
    points: dict[Point, None] = {}
    curves: list[SweepCurve] = []
    gaps: dict[Point, str] = {}
    for name, probe in accepting(select, catalog.probes()).items():
        for abi in _abis(ground.abis or select.abi, catalog, name):
            executable = catalog.executables.get((name, abi))
            if executable is None:
                place = Point(probe=name, abi=abi, target=HERE)
                typical_values = [
                    (parameter.name, values.typical(parameter, machine)) for parameter in probe.parameters
                ]
                missing = catalog.gaps.get(abi, f"{name} is not built for {abi}")
                gaps[_at(place, typical_values)] = catalog.broken.get((name, abi)) or missing
                continue
            kinds = ground.kinds if select.kinds and layout_of(probe) == "one" and executable.target == HERE else {}
            for target in (*_targets(executable, select), *kinds):
                place = Point(probe=name, abi=abi, target=target)
                seen_machine = _emulated(machine) if counts_instructions(place) else kinds.get(target, machine)
                axes = [_axis(parameter, select, seen_machine, scope) for parameter in executable.probe.parameters]
                points_of_place = [
                    point for point in _product(place, axes) if not select.own_node or _is_of_one_node(point)
                ]
                points.update(dict.fromkeys(points_of_place))
                if is_by_relation(probe) and all(map(has_machines_time, points_of_place)):
                    others = (
                        (*point.parameters, (RELATION, other))
                        for other in ground.relations
                        for point in points_of_place
                    )
                    points.update(dict.fromkeys(_at(place, parameters) for parameters in others))
                curves.extend(_curves(place, axes, select, seen_machine))
    return Entry(points=tuple(points), curves=tuple(curves), gaps=gaps)


def why_nothing(selects: Sequence[Select], ground: Ground) -> str:
    """Returns why none of the selections has a point or a gap: the first condition that leaves none."""
    architecture, nodes = ground.machine.architecture, max(1, len(memory_nodes(ground.machine.topology)))
    here = [select for select in selects if not select.cpu or architecture in select.cpu]
    if not here:
        cpus = dict.fromkeys(cpu for select in selects for cpu in select.cpu)
        return f"its selections are for {' and '.join(cpus)}, and this machine is {architecture}"
    if all(select.nodes > nodes for select in here):
        least = min(select.nodes for select in here)
        return f"its selections need {least} nodes with memory, and this machine has {nodes}"
    built = ground.catalog.probes()
    if targets := dict.fromkeys(target for select in here if accepting(select, built) for target in select.target):
        return f"no requested probe has a target of its selections: {' or '.join(targets)}"
    return "none of its probes is built"


def _emulated(machine: Machine) -> Machine:
    """Returns the machine with small caches and little memory. Beyond some size instruction counts no longer depend on
    the size, so that shorter sweeps suffice."""
    bounded = (replace(cache, size_bytes=min(cache.size_bytes or _COUNTED_BYTES, _COUNTED_BYTES))
               for cache in machine.caches)  # fmt: skip
    memory = min(machine.memory_bytes or _COUNTED_MEMORY, _COUNTED_MEMORY)
    return replace(machine, caches=tuple(bounded), memory_bytes=memory)


def chosen(select: Select, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """Returns the probes that a selection names, by name."""
    return {
        name: probe
        for name, probe in probes.items()
        if fnmatchcase(name, select.probe) and (select.libraries or not probe.library)
    }


def accepting(select: Select, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """Returns the probes that accept the selection's parameters. Raises Failure (2) if none does."""
    matching = chosen(select, probes)
    accepted = {name: probe for name, probe in matching.items() if accepts(probe, select.parameters)}
    if matching and not accepted:
        raise refusal(select.probe, select.parameters, list(matching.values()))
    return accepted


def _targets(executable: Executable, select: Select) -> list[str]:
    """Returns the targets of an executable: those that the user named, or the default. A selection with targets of its
    own gets those of them that can run the executable."""
    wanted = (executable.target, *executable.also)
    if not select.target:
        return list(wanted)
    places = dict.fromkeys((*wanted, *executable.could))
    return [place for place in places if any(fnmatchcase(place, form) for form in select.target)]


Axis = tuple[Parameter, tuple[Value, ...], bool]
"""A parameter, its values, and whether these are a range, which may begin with fewer values."""


def _axis(parameter: Parameter, select: Select, machine: Machine, scope: Scope) -> Axis:
    """Returns the values of one parameter in a selection."""
    written = select.parameters.get(parameter.name)
    if written is None:
        if is_only_typical(parameter, select, scope):
            return parameter, (values.typical(parameter, machine),), False
        return parameter, values.sweep_values(parameter, machine), True
    written_values = several_of(written)
    parsed = [value for text in written_values for value in values.read_value(parameter, text, machine)]
    is_sweep = any(isinstance(text, str) and ".." in text for text in written_values)
    return parameter, tuple(dict.fromkeys(parsed)), is_sweep


def is_only_typical(parameter: Parameter, select: Select, scope: Scope) -> bool:
    """Returns whether a parameter without a value in the selection has only its typical value."""
    is_narrowed = select.narrows and (scope == "typical" or (scope == "curves" and not parameter.refine))
    return select.others == "typical" or (is_narrowed and parameter.typical is not None)


def _product(place: Point, axes: Sequence[Axis]) -> list[Point]:
    """Returns the points with which the axes begin: all combinations of their first values."""
    begun = [values.coarse(parameter, grid) if is_sweep else grid for parameter, grid, is_sweep in axes]
    names = [parameter.name for parameter, _, _ in axes]
    return [_at(place, zip(names, chosen, strict=True)) for chosen in itertools.product(*begun)]


def _is_of_one_node(point: Point) -> bool:
    """Returns whether the memory of a point is on the node of the CPUs that read it."""
    parameters = point.values()
    return parameters.get("node") == parameters.get("home")


def _at(place: Point, chosen: Iterable[tuple[str, Value]]) -> Point:
    """Returns the point of this probe, ABI and target with these parameters."""
    return Point(probe=place.probe, abi=place.abi, target=place.target, parameters=tuple(chosen))


def _curves(place: Point, axes: Sequence[Axis], select: Select, machine: Machine) -> list[SweepCurve]:
    """Returns one curve along each refined parameter, for every combination of the other parameters."""
    curves = []
    for parameter, grid, is_sweep in axes:
        if parameter.refine and is_sweep and parameter.kind != "choice":
            other_axes = [
                (p, (g[0],) if p.name == parameter.name else g, s and p.name != parameter.name) for p, g, s in axes
            ]
            whole = grid if parameter.name in select.parameters else values.extended(parameter, machine, grid)
            numbers, begun = (
                tuple(value for value in some if isinstance(value, int))
                              for some in (whole, values.coarse(parameter, grid))
            )  # fmt: skip
            refused = tuple(select.refused.items())
            curves += [
                SweepCurve(like=like, parameter=parameter.name, grid=numbers, begun=begun, refused=refused)
                for like in _product(place, other_axes)
            ]
    return curves


def _abis(wanted: Iterable[str], catalog: Catalog, probe: str) -> list[str]:
    """Returns the names of the ABIs of one probe. An ABI that the build does not know at all is left out."""
    chosen: dict[str, None] = {}
    for abi in wanted:
        name = (catalog.first_abi(probe) or catalog.abis[0]) if abi == NATIVE else abi
        if name in catalog.abis or name in catalog.gaps:
            chosen[name] = None
    return list(chosen)


def accepts(probe: Probe, parameters: Mapping[str, Value | Sequence[Value]]) -> bool:
    """Returns whether the probe has each of these parameters and, for a choice, each of these values."""
    known = {parameter.name: parameter for parameter in probe.parameters}
    return all(
        name in known and (known[name].kind != "choice" or set(several_of(written)) <= set(known[name].choices))
        for name, written in parameters.items()
    )


def several_of(written: Value | Sequence[Value]) -> Sequence[Value]:
    """Returns one value, or several, as a sequence."""
    return written if isinstance(written, list | tuple) else (written,)


def refusal(of: str, parameters: Mapping[str, Value | Sequence[Value]], probes: Sequence[Probe]) -> Failure:
    """Returns the failure that states why no probe accepts the parameters: the first unknown name or value. of: the
    probes, as the user named them."""
    for name, written in parameters.items():
        having = [parameter for probe in probes for parameter in probe.parameters if parameter.name == name]
        if not having:
            known = sorted({parameter.name for probe in probes for parameter in probe.parameters})
            return unknown("parameter", name, known, place=f"of {of}")
        choices = list(dict.fromkeys(choice for parameter in having for choice in parameter.choices))
        for value in several_of(written):
            if having[0].kind == "choice" and value not in choices:
                return unknown("value", str(value), choices, place=f"for {name} of {of}")
    return Failure(f"no probe of {of} has all of {', '.join(parameters)} with these values")


# ---- points of a study's claims, with sizes in terms of this machine's caches ----------------------------------------

UNCLAIMED = 2
_INSTRUCTIONS = "instructions"
"""Subject of claims that a count of instructions can answer (studies/study.py)."""


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """Returns the suite with sizes in terms of caches replaced by bytes of this machine, in the rows that claims and
    figures name."""

    def value(written: Value) -> Value:
        number = values.relative_bytes(written, machine) if isinstance(written, str) else None
        return written if number is None else number

    def named(row: RowOf) -> RowOf:
        return replace(row, parameters={name: value(written) for name, written in row.parameters.items()})

    claims = [
        replace(claim, row=claim.row and named(claim.row), over=claim.over and named(claim.over),
                order=tuple(map(named, claim.order)))
        for claim in suite.published
    ]  # fmt: skip
    figures = [
        replace(figure, line=tuple(replace(line, row=named(line.row), over=line.over and named(line.over))
                                   for line in figure.line))
        for figure in suite.figure
    ]  # fmt: skip
    return replace(suite, published=tuple(claims), figure=tuple(figures))


def claim_rank(suite: Suite, point: Point) -> int:
    """Returns 0 for a point of a published claim; 1 for a point of the study's tables or of a figure of single numbers;
    else UNCLAIMED. ABI and target do not matter. Claims that name no probe are ignored, and targets that count
    instructions are used only for claims about instructions."""
    if not (suite.published or suite.figure or suite.program):
        return UNCLAIMED
    counted = counts_instructions(point)
    claims = [claim for claim in suite.published if not counted or claim.about == _INSTRUCTIONS]
    named = [row for claim in claims for row in (claim.row, claim.over, *claim.order) if row is not None and row.probe]
    single = [line.row for figure in suite.figure if figure.drawn == "points" for line in figure.line]
    parameters = point.values().items()

    def is_among(several: Iterable[RowOf | Program]) -> bool:
        return any(row.probe == point.probe and row.parameters.items() <= parameters for row in several)

    if RELATION in point.values():
        return UNCLAIMED
    if is_among(named):
        return 0
    return 1 if not counted and is_among((*suite.program, *single)) else UNCLAIMED
