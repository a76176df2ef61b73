# SPDX-License-Identifier: Apache-2.0
"""The values of a parameter: its default sweep, and the values that a user or a suite writes in its place.

A size is written `4096`, `32KiB`, `1.5MiB`, or in terms of this machine's data caches: `0.5xL1`, `2xL2`, `4xLAST`.
`1KiB..64KiB` is the default sweep between these two. `1xCPUS` is the number of usable CPUs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from tollmeter.catalog import unknown
from tollmeter.experiment.limits import KIB
from tollmeter.model import ASSUMED_LAST_CACHE_BYTES, USUAL_LINE_BYTES, Failure, Machine, Parameter, Value
from tollmeter.model.topology import memory_nodes, numbers

_ASSUMED = {1: 32 * KIB, 2: 256 * KIB, 3: ASSUMED_LAST_CACHE_BYTES}
"""Assumed data caches of a machine that reports no size, in bytes by level. Half of an assumed size fits into usual
caches: 16 to 64 KiB in the first level, 128 KiB to 2 MiB in the second."""
_LEAST_SHARE = 4
"""Ratio of the memory to the largest buffer: a probe may need two buffers, and the system some memory."""

_UNITS = {"": 1, "b": 1} | {f"{prefix}ib": KIB**power for power, prefix in enumerate("kmgt", 1)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([a-z]*)", re.IGNORECASE)
_RELATIVE = re.compile(r"([0-9]+(?:\.[0-9]+)?)x(L[1-9]|LAST)", re.IGNORECASE)
_OF_CPUS = re.compile(r"([0-9]+(?:\.[0-9]+)?)xCPUS", re.IGNORECASE)
_LONGEST_QUOTED = 60
"""Characters of a wrong value that a message quotes."""


def sweep_values(parameter: Parameter, machine: Machine) -> tuple[Value, ...]:
    """Returns all values of the default sweep."""
    if parameter.kind == "choice":
        return parameter.choices
    if parameter.values:
        return parameter.values
    if parameter.stop_scale in ("cpu-nodes", "memory-nodes"):
        allowed = set(machine.allowed_cpus)
        nodes = (
            node.node for node in memory_nodes(machine.topology)
            if parameter.stop_scale == "memory-nodes" or allowed & set(numbers(node.cpus))
        )  # fmt: skip
        return tuple(nodes) or (parameter.start,)
    if parameter.stop_scale == "cpus":
        return _numbers_of_cpus(parameter, machine)
    beyond = parameter.stop_scale == "last-cache"
    stop = _beyond_last(parameter.stop, machine) if beyond else parameter.stop
    if parameter.kind == "size":
        stop = min(stop, most_bytes(machine))
    return tuple(steps(parameter.start, stop, parameter.per_octave)) or (parameter.start,)


def _numbers_of_cpus(parameter: Parameter, machine: Machine) -> tuple[Value, ...]:
    """Returns the numbers of CPUs of a sweep: steps up to all usable CPUs, all of them, the number of cores of each
    package, and the number of all cores."""
    allowed = set(machine.allowed_cpus) or set(range(machine.cpus))
    most = parameter.stop * len(allowed)
    packages, cores = (
        [members for cpus in sets if (members := allowed.intersection(numbers(cpus)))]
        for sets in ((machine.topology.packages, machine.topology.cores) if machine.topology else ((), ()))
    )
    full = {sum(bool(core & package) for core in cores) for package in packages} | {len(cores), most}
    return tuple(sorted({*steps(parameter.start, most, parameter.per_octave), *full} - {0}))


def extended(parameter: Parameter, machine: Machine, grid: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the grid of a refined sweep with further doublings beyond the last-level cache, up to the largest buffer:
    if the latency still rises at the end of the sweep, there is a cache that the system does not report."""
    sizes = [value for value in grid if isinstance(value, int)]
    if parameter.stop_scale != "last-cache" or not sizes or not machine.memory_bytes:
        return tuple(grid)
    beyond = itertools.takewhile(lambda size: size <= most_bytes(machine), (sizes[-1] << n for n in range(1, 64)))
    return (*grid, *beyond)


def steps(start: int, stop: int, per_octave: int) -> Iterator[int]:
    """Yields start .. stop with steps of equal length inside every doubling: 1024 1280 1536 1792 2048 2560 ...

    These sizes are multiples of a line and include the real sizes of caches, unlike powers of a root of two.
    per_octave: number of steps in each doubling."""
    if start == 0:
        yield 0
    base, last = max(1, start), -1
    while base <= stop:
        for step in range(per_octave):
            value = base + base * step // per_octave
            if last < value <= stop:
                yield value
                last = value
        base *= 2


def coarse(parameter: Parameter, grid: Sequence[Value]) -> tuple[Value, ...]:
    """Returns the values with which a grid begins: all; or, if it is refined, one in each doubling and the last, which
    is beyond all caches."""
    if not parameter.refine or parameter.values:
        return tuple(grid)
    octaves = {*steps(parameter.start, int(grid[-1]), 1), grid[-1]}
    return tuple(value for value in grid if value in octaves)


def typical(parameter: Parameter, machine: Machine) -> Value:
    """Returns the value that represents the parameter: its typical value, else the first of its sweep."""
    if parameter.typical is not None:
        return read_value(parameter, parameter.typical, machine)[0]
    return sweep_values(parameter, machine)[0]


def read_value(parameter: Parameter, text: Value, machine: Machine) -> tuple[Value, ...]:
    """Returns the values that a text stands for: one value, or several for a range. Raises Failure (2) for an invalid
    text."""
    if parameter.kind == "choice":
        if text not in parameter.choices:
            raise unknown("value", str(text), parameter.choices, place=f"for {parameter.name}")
        return (text,)
    if isinstance(text, int):
        return (text,)
    begin, dots, end = text.partition("..")
    if not dots:
        return (_number(parameter, text, machine),)
    start, stop = _number(parameter, begin, machine), _number(parameter, end, machine)
    values = tuple(steps(start, stop, parameter.per_octave))
    if not values:
        raise Failure(f"{parameter.name}={text}: the range is empty")
    return values


def cache_bytes(machine: Machine, level: str) -> int:
    """Returns the size in bytes of the data cache at a level, L1 .. L9 or LAST; for a level that does not exist, of the
    last-level cache."""
    sizes = machine.data_sizes() or _ASSUMED
    last = max(sizes.values())
    return last if level.upper() == "LAST" else sizes.get(int(level[1:]), last)


def most_bytes(machine: Machine) -> int:
    """Returns the largest buffer that a plan uses, in bytes."""
    return machine.memory_bytes // _LEAST_SHARE or 1 << 60


def _beyond_last(times: float, machine: Machine) -> int:
    """Returns this multiple of the last-level cache, in bytes. A multiple above one is taken of at least the assumed
    size of a last-level cache, so that it exceeds a cache that is not reported."""
    last = cache_bytes(machine, "LAST")
    return int(min(times * (max(last, ASSUMED_LAST_CACHE_BYTES) if times > 1 else last), 2.0**63))


def relative_bytes(text: str, machine: Machine) -> int | None:
    """Returns the bytes of a size in terms of a cache, rounded down to whole lines; None if the text is not of this
    form."""
    relative = _RELATIVE.fullmatch(text)
    if not relative:
        return None
    times, is_last = float(relative[1]), relative[2].upper() == "LAST"
    exact = _beyond_last(times, machine) if is_last else min(times * cache_bytes(machine, relative[2]), 2.0**63)
    return max(USUAL_LINE_BYTES, min(round(exact), most_bytes(machine)) // USUAL_LINE_BYTES * USUAL_LINE_BYTES)


def with_bytes(text: str, machine: Machine) -> str:
    """Returns the text with each size in terms of a cache replaced by its bytes."""
    return _RELATIVE.sub(lambda size: str(relative_bytes(size[0], machine)), text)


def _number(parameter: Parameter, text: str, machine: Machine) -> int:
    """Returns the number of a size or count as typed. Raises Failure (2) for an invalid one."""
    text = text.strip()
    if parameter.stop_scale == "cpus" and (of_cpus := _OF_CPUS.fullmatch(text)):
        return max(1, int(float(of_cpus[1]) * (len(machine.allowed_cpus) or machine.cpus)))
    relative = relative_bytes(text, machine) if parameter.kind == "size" else None
    number = _plain_number(parameter, text) if relative is None else relative
    if parameter.stop_scale == "last-cache" and 0 < machine.memory_bytes < number:
        raise Failure(f"{parameter.name}={text}: this machine has {machine.memory_bytes / (1 << 30):.2g} GiB of memory")
    return number


def portable(parameter: Parameter, text: str) -> str:
    """Returns a number or size as text for the runner of a bundle, which resolves it on the machine that it measures.
    Raises Failure (2) for an invalid one."""
    if parameter.stop_scale == "cpus" and (of_cpus := _OF_CPUS.fullmatch(text.strip())):
        return f"{of_cpus[1]}xCPUS"
    relative = _RELATIVE.fullmatch(text.strip())
    return f"{relative[1]}x{relative[2].upper()}" if relative else f"{_plain_number(parameter, text.strip())}"


def _plain_number(parameter: Parameter, text: str) -> int:
    """Returns the number of a text without reference to a cache. Raises Failure (2) for an invalid one."""
    size = _SIZE.fullmatch(text)
    unit = _UNITS.get(size[2].lower()) if size else None
    if not size or unit is None or (unit > 1 and parameter.kind != "size"):
        wanted = "a size such as 32KiB" if parameter.kind == "size" else "a number"
        raise Failure(f"{parameter.name}={text}: expected {wanted}")
    number = float(size[1]) * unit
    if number == 0 and parameter.kind == "size" and parameter.start > 0:
        raise Failure(f"{parameter.name}={text}: expected a size above 0")
    if number >= 2**63 or number != int(number):
        raise Failure(f"{parameter.name}={text[:_LONGEST_QUOTED]} is not a whole number below 2^63")
    return int(number)
