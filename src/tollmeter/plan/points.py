# SPDX-License-Identifier: Apache-2.0
"""Makes points from selections: the probe, the ABI, and the values."""

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
"""Size of the largest cache by which sizes are chosen where instructions are counted."""
_COUNTED_MEMORY = OF_LAST_CACHE * _COUNTED_BYTES
"""Memory of that machine."""


class SweepCurve(Record, frozen=True):
    """Points that differ only in a refined parameter. grid: its possible values; begun: its first ones. refused: values
    of a replacement curve if no point of this one can run."""

    like: Point
    parameter: str
    grid: tuple[int, ...]
    begun: tuple[int, ...] = ()
    refused: tuple[tuple[str, Value], ...] = ()

    def at(self, value: int) -> Point:
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
    """The inputs for resolving selections. abis: the user's, which replace the selection's own. relations: relations of
    further pairs of CPUs, each of which gives a point. kinds: the machine as seen by each other kind of core, by
    target."""

    catalog: Catalog
    machine: Machine
    abis: Sequence[str]
    relations: Sequence[str] = ()
    kinds: Mapping[str, Machine] = {}


Scope = Literal["all", "curves", "typical"]
"""Values of the parameters that a narrowed selection does not name: every value; every value of the parameters over
which a curve is drawn, and the typical one of the others; or the typical value of all. A parameter without a typical
value keeps all."""


def resolve(select: Select, ground: Ground, scope: Scope = "all") -> Entry:
    """Returns the points that a selection begins with. Raises Failure (2) for an unknown parameter or value."""
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
                usual = [(parameter.name, values.typical(parameter, machine)) for parameter in probe.parameters]
                missing = catalog.gaps.get(abi, f"{name} is not built for {abi}")
                gaps[_at(place, usual)] = catalog.broken.get((name, abi)) or missing
                continue
            kinds = ground.kinds if select.kinds and layout_of(probe) == "one" and executable.target == HERE else {}
            for target in (*_targets(executable, select), *kinds):
                place = Point(probe=name, abi=abi, target=target)
                seen = _emulated(machine) if counts_instructions(place) else kinds.get(target, machine)
                axes = [_axis(parameter, select, seen, scope) for parameter in executable.probe.parameters]
                several = [point for point in _product(place, axes) if not select.own_node or _is_of_one_node(point)]
                points.update(dict.fromkeys(several))
                if is_by_relation(probe) and all(map(has_machines_time, several)):
                    others = ((*point.parameters, (RELATION, other)) for other in ground.relations for point in several)
                    points.update(dict.fromkeys(_at(place, parameters) for parameters in others))
                curves.extend(_curves(place, axes, select, seen))
    return Entry(points=tuple(points), curves=tuple(curves), gaps=gaps)


def _emulated(machine: Machine) -> Machine:
    """Returns the machine with small caches and little memory. Instruction counts do not depend on a size that a cache
    bounds, so that sweeps end where the counts become constant."""
    bounded = (replace(cache, size_bytes=min(cache.size_bytes or _COUNTED_BYTES, _COUNTED_BYTES))
               for cache in machine.caches)  # fmt: skip
    memory = min(machine.memory_bytes or _COUNTED_MEMORY, _COUNTED_MEMORY)
    return replace(machine, caches=tuple(bounded), memory_bytes=memory)


def chosen(select: Select, probes: Mapping[str, Probe]) -> dict[str, Probe]:
    """Returns the probes of a selection, by name."""
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
    """Returns the targets of an executable: those that the user named, or the default; for a selection with its own
    targets, those of them that can run it."""
    wanted = (executable.target, *executable.also)
    if not select.target:
        return list(wanted)
    places = dict.fromkeys((*wanted, *executable.could))
    return [place for place in places if any(fnmatchcase(place, form) for form in select.target)]


Axis = tuple[Parameter, tuple[Value, ...], bool]
"""A parameter, its values, and whether they are its own sweep, which may begin coarse."""


def _axis(parameter: Parameter, select: Select, machine: Machine, scope: Scope) -> Axis:
    written = select.parameters.get(parameter.name)
    if written is None:
        if is_only_typical(parameter, select, scope):
            return parameter, (values.typical(parameter, machine),), False
        return parameter, values.sweep_values(parameter, machine), True
    several = several_of(written)
    read = [value for text in several for value in values.read_value(parameter, text, machine)]
    is_sweep = any(isinstance(text, str) and ".." in text for text in several)
    return parameter, tuple(dict.fromkeys(read)), is_sweep


def is_only_typical(parameter: Parameter, select: Select, scope: Scope) -> bool:
    """Returns whether a parameter that the selection leaves free has only its typical value."""
    is_narrowed = select.narrows and (scope == "typical" or (scope == "curves" and not parameter.refine))
    return select.others == "typical" or (is_narrowed and parameter.typical is not None)


def _product(place: Point, axes: Sequence[Axis]) -> list[Point]:
    begun = [values.coarse(parameter, grid) if is_sweep else grid for parameter, grid, is_sweep in axes]
    names = [parameter.name for parameter, _, _ in axes]
    return [_at(place, zip(names, chosen, strict=True)) for chosen in itertools.product(*begun)]


def _is_of_one_node(point: Point) -> bool:
    """Returns whether a point's memory is on the node whose CPUs read it."""
    own = point.values()
    return own.get("node") == own.get("home")


def _at(place: Point, chosen: Iterable[tuple[str, Value]]) -> Point:
    return Point(probe=place.probe, abi=place.abi, target=place.target, parameters=tuple(chosen))


def _curves(place: Point, axes: Sequence[Axis], select: Select, machine: Machine) -> list[SweepCurve]:
    """Returns one curve along each refinable parameter, for every combination of the other parameters."""
    made = []
    for parameter, grid, is_sweep in axes:
        if parameter.refine and is_sweep and parameter.kind != "choice":
            held = [(p, (g[0],) if p.name == parameter.name else g, s and p.name != parameter.name) for p, g, s in axes]
            whole = grid if parameter.name in select.parameters else values.extended(parameter, machine, grid)
            numbers, begun = (
                tuple(value for value in some if isinstance(value, int))
                              for some in (whole, values.coarse(parameter, grid))
            )  # fmt: skip
            refused = tuple(select.refused.items())
            made += [
                SweepCurve(like=like, parameter=parameter.name, grid=numbers, begun=begun, refused=refused)
                for like in _product(place, held)
            ]
    return made


def _abis(wanted: Iterable[str], catalog: Catalog, probe: str) -> list[str]:
    """Returns the names of ABIs for one probe. An ABI of another CPU that the build does not list has no row."""
    chosen: dict[str, None] = {}
    for abi in wanted:
        name = (catalog.first_abi(probe) or catalog.abis[0]) if abi == NATIVE else abi
        if name in catalog.abis or name in catalog.gaps:
            chosen[name] = None
    return list(chosen)


def accepts(probe: Probe, parameters: Mapping[str, Value | Sequence[Value]]) -> bool:
    """Returns whether the probe has each of these parameters and, for a choice, each of these values."""
    own = {parameter.name: parameter for parameter in probe.parameters}
    return all(
        name in own and (own[name].kind != "choice" or set(several_of(written)) <= set(own[name].choices))
        for name, written in parameters.items()
    )


def several_of(written: Value | Sequence[Value]) -> Sequence[Value]:
    return written if isinstance(written, list | tuple) else (written,)


def refusal(of: str, parameters: Mapping[str, Value | Sequence[Value]], probes: Sequence[Probe]) -> Failure:
    """Returns why no probe accepts the parameters: the first unknown name or value. of: the probes, as the user named
    them."""
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


def check_abis(catalog: Catalog, abis: Sequence[str]) -> None:
    """Raises Failure (2), with the nearest names, for an unknown ABI."""
    for abi in abis:
        if abi != NATIVE and abi not in catalog.abis and abi not in catalog.gaps:
            raise unknown("ABI", abi, [*catalog.abis, *catalog.gaps])


# ---- a study's claims on this machine: their points, and sizes that are written in terms of its caches ---------------

UNCLAIMED = 2
_INSTRUCTIONS = "instructions"
"""Subject of claims that a count of instructions can answer (studies/study.py)."""


def on_machine(suite: Suite, machine: Machine) -> Suite:
    """Returns the suite with claims that name the rows that this machine will have."""

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
    """Returns 0 for a point of a published figure; 1 for a line of the study's tables or of a figure of single numbers;
    else UNCLAIMED. ABI and target do not matter. Claims by meaning alone do not count, and counting targets count
    only for claims about instructions."""
    if not (suite.published or suite.figure or suite.program):
        return UNCLAIMED
    counted = counts_instructions(point)
    claims = [claim for claim in suite.published if not counted or claim.about == _INSTRUCTIONS]
    named = [row for claim in claims for row in (claim.row, claim.over, *claim.order) if row is not None and row.probe]
    single = [line.row for figure in suite.figure if figure.drawn == "points" for line in figure.line]
    own = point.values().items()

    def is_among(several: Iterable[RowOf | Program]) -> bool:
        return any(row.probe == point.probe and row.parameters.items() <= own for row in several)

    if RELATION in point.values():
        return UNCLAIMED
    if is_among(named):
        return 0
    return 1 if not counted and is_among((*suite.program, *single)) else UNCLAIMED
