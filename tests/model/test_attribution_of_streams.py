# SPDX-License-Identifier: Apache-2.0
"""What a difference between two ABIs is made of, on a modelled machine: the truth comes from address streams through
its caches, and not from the formula that attributes it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np

from books import empty, with_rows
from made import metric, probe, program, row
from model.machine import KIB, MIB, Cache, Machine, Tlb
from model.measured import Noise, described, latency_rows
from model.streams import started
from model.walks import CHASE, order, settled
from tollmeter.judgement.attribution import Attribution, attributed
from tollmeter.model import Book, Row

MACHINE = Machine(
    caches=(Cache(32 * KIB, 8, 4), Cache(256 * KIB, 8, 14), Cache(2 * MIB, 16, 45)), memory_latency=250,
    tlbs=(Tlb(64, 4, 7), Tlb(1024, 8, 30)), noise=0.01,
)  # fmt: skip
EACH_NS, FAULT_NS = 0.1, 400.0
WIDE, NARROW = ("x86_64", 8), ("x32", 4)
PROGRAM = program("step")
FAULT = probe(metric("fault", means="price-of-fault"), name="any.fault")
NODES = (1000, 4000, 6000, 12000, 24000, 48000, 100000, 200000)
INSTRUCTIONS, LEAST_STEPS = 5, 4096


class Taken(NamedTuple):
    """Of one step. waited_ns: for memory."""

    waited_ns: float
    instructions: int
    footprint_bytes: int


def chase(nodes: int, word: int) -> Taken:
    """A step along a list of three pointers and a number, laid out at random: probes/datamodel/pointer_chase.c."""
    node = 4 * word
    walk = (order(1, nodes, node, "random").astype(np.int64) * node // MACHINE.line_bytes).astype(np.uint32)
    with started(MACHINE, nodes * node // MACHINE.line_bytes, huge=False) as machine:
        settled(machine, walk)
        laps = np.tile(walk, -(-LEAST_STEPS // nodes))
        return Taken(MACHINE.ns(machine.run(laps, CHASE)) / len(laps), INSTRUCTIONS, nodes * node)


@lru_cache(maxsize=1)
def priced() -> tuple[Row, ...]:
    walk = latency_rows(replace(MACHINE, huge_pages=False), Noise(MACHINE), ["small"])
    return (*walk, row(FAULT_NS, 0.01, of="any.fault", name="fault", parameters={"kind": "anonymous_write"}))


def book(taken: dict[tuple[str, int], Taken]) -> Book:
    made: list[Row] = list(priced())
    for (abi, size), one in taken.items():
        where = {"of": "any.program", "abi": abi, "parameters": {"size": size}}
        values = {"cpu_time": ("ns", time_of(one)), "resident_peak": ("B", one.footprint_bytes),
                  "faults_each": ("fault", 0.0), "footprint": ("B", one.footprint_bytes)}  # fmt: skip
        made += [row(value, 0.01, name=name, unit=unit, **where) for name, (unit, value) in values.items()]
        counted = {"name": "step", "unit": "instruction", "clock": "instructions", "target": "qemu-user:any"}
        made.append(row(one.instructions, 0.0, **counted, **where))
    probes = {one.probe: one for one in (PROGRAM, FAULT)} | described()
    return msgspec.structs.replace(with_rows(empty(), made), probes=probes)


def time_of(one: Taken) -> float:
    return one.waited_ns + EACH_NS * one.instructions


def part(one: Attribution, name: str) -> float:
    found = next(part.ns for part in one.parts if part.name == name)
    assert found is not None
    return found


@lru_cache(maxsize=1)
def told() -> list[tuple[Attribution, float]]:
    """By size, the smallest first, each with what it truly differs by."""
    taken = {(abi, nodes): chase(nodes, word) for nodes in NODES for abi, word in (WIDE, NARROW)}
    found = sorted(attributed(book(taken), WIDE[0], NARROW[0]), key=lambda one: one.first_ns)
    truth = [time_of(taken[WIDE[0], nodes]) - time_of(taken[NARROW[0], nodes]) for nodes in NODES]
    return list(zip(found, truth, strict=True))


def test_over_all_sizes_the_caches_part_covers_most_of_what_the_streams_differ_by() -> None:
    """Instructions and faults are the same under both: whatever differs is waiting."""
    caches, truth = sum(part(one, "caches") for one, _ in told()), sum(true for _, true in told())
    assert 0.8 * truth < caches < 1.2 * truth


def test_no_single_size_is_far_from_the_truth() -> None:
    """A few nodes share a line, and one walk is not any walk: that is what the parts at one size are off by."""
    for one, truth in told()[1:]:
        assert 0.6 * truth < part(one, "caches") < 1.4 * truth, one


def test_where_the_first_cache_holds_both_nothing_is_saved() -> None:
    one, truth = told()[0]
    assert abs(part(one, "caches")) < 0.02 * one.first_ns
    assert abs(truth) < 0.02 * one.first_ns
