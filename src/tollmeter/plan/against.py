# SPDX-License-Identifier: Apache-2.0
"""Pairs of an interleaved comparison: a point, and the same with another parameter value, ABI or probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import msgspec

from tollmeter.catalog import Catalog, check_known, unknown
from tollmeter.model import Failure, Machine, Point
from tollmeter.plan import values


def counterparts(
    points: Iterable[Point], words: Sequence[str], catalog: Catalog, machine: Machine
) -> dict[Point, Point]:
    """The counterpart of each point: the point with every word applied. A point that the words leave unchanged is the
    counterpart of others. Raises Failure (2) for a word that names nothing, or where the words change no point."""
    changed = {
        point: reduce(lambda so_far, word: _changed(so_far, word, catalog, machine), words, point) for point in points
    }
    pairs = {point: other for point, other in changed.items() if other != point}
    if words and not pairs:
        raise Failure(f"--against {' '.join(words)}: this changes no point")
    return pairs


def _changed(point: Point, word: str, catalog: Catalog, machine: Machine) -> Point:
    """The point with one word applied: NAME=VALUE, an ABI's name, or a probe's."""
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
    check_known(f"parameter of {point.probe}", name, [*parameters])
    (value, *more) = values.read(parameters[name], written, machine)
    if more:
        raise Failure(f"--against {name}={written}: expected one value")
    return msgspec.structs.replace(
        point, parameters=tuple((known, value if known == name else old) for known, old in point.parameters)
    )


def groups(pairs: Mapping[Point, Point]) -> list[tuple[Point, ...]]:
    """The points that are compared with the same reference point, and that reference point last."""
    by_reference: dict[Point, list[Point]] = {}
    for point, other in pairs.items():
        by_reference.setdefault(other, []).append(point)
    return [(*several, other) for other, several in by_reference.items()]


def interleaved(pairs: Mapping[Point, Point], round_: int) -> list[Point]:
    """The points of one round: each group forth in one and back in the next."""
    return [point for group in groups(pairs) for point in (group if round_ % 2 == 0 else reversed(group))]
