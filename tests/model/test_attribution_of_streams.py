# SPDX-License-Identifier: Apache-2.0
"""What a difference between two ABIs is made of, on a modelled machine: the truth comes from address streams through
its caches, with loads that overlap and a prefetcher, and not from the formula that attributes it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from model.library import Operations, distances
from model.machine import KIB, MIB, Cache, Machine, Tlb
from model.measured import Noise, described, latency_rows, reading_rows
from model.simplex import Network, Stream, stream
from model.streams import started
from model.walks import CHASE, order
from support.builders import metric, probe, program, row
from support.example_runs import empty, with_rows
from tollmeter.model import Distances, Results, Row
from tollmeter.studies.attribution import Attribution, attributed
from tollmeter.targets.profiling_visit import LINE_BYTES, ONE_IN

SMALL = Machine(
    caches=(Cache(32 * KIB, 8, 4), Cache(256 * KIB, 8, 14), Cache(2 * MIB, 16, 45)), memory_latency=250,
    tlbs=(Tlb(64, 4, 7), Tlb(1024, 8, 30)), noise=0.01, huge_pages=False,
)  # fmt: skip
OTHER = replace(
    SMALL, caches=(Cache(48 * KIB, 12, 5), Cache(512 * KIB, 8, 12), Cache(4 * MIB, 16, 60)), memory_latency=400, seed=2,
)  # fmt: skip
EACH_NS, FAULT_NS, TIMED = 0.1, 400.0, 0.002
WIDE, NARROW = ("x86_64", 8), ("x32", 4)
PROGRAM = program("step")
FAULT = probe(metric("fault", means="price-of-fault"), name="any.fault")
NODES = (1000, 4000, 12000, 48000, 200000)
ARCS = (3000, 30000, 100000, 300000)
INSTRUCTIONS, LEAST_STEPS = 5, 4096
PARTS = ("instructions", "faults", "caches")


class Taken(NamedTuple):
    """Of one operation. waited_ns: for memory. apart: lines until a line is loaded again, with the loads."""

    waited_ns: float
    instructions: float
    footprint_bytes: int
    apart: tuple[tuple[float, float, float], ...]


def taken(machine: Machine, program: Stream) -> Taken:
    settled = program.settled
    with started(machine, program.bytes // machine.line_bytes, huge=False) as running:
        running.run(program.lines[:settled], program.operations[:settled])
        waited = running.run(program.lines[settled:], program.operations[settled:])
    seen = distances(program.lines, program.operations, settled, ONE_IN) / [1 / LINE_BYTES, *[program.timed] * 2]
    apart = tuple((float(size), float(foreseen), float(others)) for size, foreseen, others in seen)
    return Taken(machine.ns(waited) / program.timed, program.instructions / program.timed, program.bytes, apart)


def chase(nodes: int, word: int, _: int) -> Stream:
    """A walk along a list of three pointers and a number, laid out at random: probes/datamodel/pointer_chase.c."""
    node = 4 * word
    walk = (order(1, nodes, node, "random").astype(np.int64) * node // LINE_BYTES).astype(np.uint32)
    laps = 1 + max(1, -(-LEAST_STEPS // nodes))
    operations: Operations = np.full(laps * nodes, CHASE, np.uint8)
    timed = (laps - 1) * nodes
    return Stream(np.tile(walk, laps), operations, INSTRUCTIONS * timed, nodes, timed, nodes * node)


def simplex(arcs: int, word: int, seed: int) -> Stream:
    return stream(Network(arcs, word), seed)


PROGRAMS = {"chase": (chase, NODES), "simplex": (simplex, ARCS)}


@lru_cache(maxsize=2)
def priced(machine: Machine) -> tuple[Row, ...]:
    noise = Noise(machine)
    fault = row(FAULT_NS, 0.01, of="any.fault", name="fault", parameters={"kind": "anonymous_write"})
    return (*latency_rows(machine, noise, ["small"]), *reading_rows(machine, noise), fault)


def rows_of(abi: str, size: int, one: Taken, off: float) -> list[Row]:
    where = {"of": "any.program", "abi": abi, "parameters": {"size": size}}
    values = {"cpu_time": ("ns", time_of(one) * off), "resident_peak": ("B", one.footprint_bytes),
              "faults_each": ("fault", 0.0), "footprint": ("B", one.footprint_bytes)}  # fmt: skip
    made = [row(value, 0.01, name=name, unit=unit, **where) for name, (unit, value) in values.items()]
    counted = {"name": "step", "unit": "instruction", "clock": "instructions", "target": "qemu-user:any"}
    return [*made, row(one.instructions, 0.0, **counted, **where)]


def results(machine: Machine, every: dict[tuple[str, int], Taken], seed: int) -> Results:
    noise = np.random.default_rng(seed)
    made = [one for (abi, size), taken in every.items()
            for one in rows_of(abi, size, taken, 1 + TIMED * float(noise.normal()))]  # fmt: skip
    apart = [Distances(probe="any.program", abi=abi, target="qemu-user:any", parameters={"size": size}, loads=one.apart)
             for (abi, size), one in every.items()]  # fmt: skip
    probes = {one.probe: one for one in (PROGRAM, FAULT)} | described()
    return msgspec.structs.replace(with_rows(empty(), [*priced(machine), *made]), probes=probes, distances=tuple(apart))


def time_of(one: Taken) -> float:
    return one.waited_ns + EACH_NS * one.instructions


def part(one: Attribution, *names: str) -> float:
    return sum(part.ns or 0.0 for part in one.parts if part.name in names)


@lru_cache(maxsize=8)
def told(name: str, machine: Machine, seed: int) -> list[tuple[Attribution, float]]:
    """By size, the smallest first, each with what it truly differs by."""
    make, sizes = PROGRAMS[name]
    every = {(abi, size): taken(machine, make(size, word, seed)) for size in sizes for abi, word in (WIDE, NARROW)}
    found = {one.parameters["size"]: one for one in attributed(results(machine, every, seed), WIDE[0], NARROW[0])}
    return [(found[size], time_of(every[WIDE[0], size]) - time_of(every[NARROW[0], size])) for size in sizes]


@pytest.mark.parametrize(
    ("name", "machine", "seed"), [("chase", SMALL, 0), ("simplex", SMALL, 0), ("simplex", OTHER, 1)]
)
def test_the_named_parts_cover_most_of_what_the_streams_differ_by(name: str, machine: Machine, seed: int) -> None:
    """Over all sizes, and at the largest alone."""
    every = told(name, machine, seed)
    truth = sum(true for _, true in every)
    assert truth > 0.04 * sum(one.first_ns for one, _ in every)
    assert 0.8 * truth < sum(part(one, *PARTS) for one, _ in every) < 1.2 * truth
    largest, truth = every[-1]
    assert 0.8 * truth < part(largest, *PARTS) < 1.2 * truth


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_instructions_that_are_as_many_explain_nothing(name: str) -> None:
    assert all(part(one, "instructions") == 0 for one, _ in told(name, SMALL, 0))


def test_no_single_size_is_far_from_the_truth() -> None:
    for one, truth in told("chase", SMALL, 0)[1:]:
        assert 0.8 * truth < part(one, "caches") < 1.2 * truth, one


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_where_the_first_cache_holds_both_nothing_is_saved(name: str) -> None:
    one, truth = told(name, SMALL, 0)[0]
    assert abs(part(one, "caches")) < 0.02 * one.first_ns
    assert abs(truth) < 0.02 * one.first_ns
