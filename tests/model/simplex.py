# SPDX-License-Identifier: Apache-2.0
"""Address streams of a network simplex, as LEMON's goes over its arrays (probes/datamodel/network_simplex.cc)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from model.library import Numbers, Operations
from model.walks import LOADS, STORE

LINE_BYTES, PAGE_BYTES, INDEX_BYTES = 64, 4096, 4
TREE = 0
Places = NDArray[np.int64]


class Stream(NamedTuple):
    """A program's loads and stores, by line, and the instructions that it executed for them. settled: how many of the
    operations lie before what is timed. timed: operations of the program, such as pivots, in the rest."""

    lines: Numbers
    operations: Operations
    instructions: int
    settled: int
    timed: int
    bytes: int


@dataclass(frozen=True)
class Network:
    """Five nodes for each of the root of the arcs; costs, flows and potentials of `word` bytes. steps: from a node to
    where a cycle closes. moved: nodes whose potential changes with a pivot."""

    arcs: int
    word: int
    steps: int = 12
    moved: int = 24
    blocks: int = 2

    @property
    def nodes(self) -> int:
        return 5 * int(self.arcs**0.5)

    @property
    def block(self) -> int:
        """Arcs that are looked at until one is found that pays."""
        return self.blocks * int(self.arcs**0.5)

    def layout(self) -> dict[str, tuple[int, int]]:
        """Where each array begins, and bytes of its elements: one behind the other, each on a page of its own."""
        arrays = {"state": (self.arcs, 1)} | dict.fromkeys(("source", "target"), (self.arcs, INDEX_BYTES))
        arrays |= dict.fromkeys(("cost", "flow", "cap"), (self.arcs, self.word))
        arrays |= dict.fromkeys(("parent", "pred", "count", "thread", "last"), (self.nodes, INDEX_BYTES))
        arrays |= {"pi": (self.nodes, self.word)}
        made, at = {}, PAGE_BYTES
        for name, (count, each) in arrays.items():
            made[name] = at, each
            at += -(-count * each // PAGE_BYTES) * PAGE_BYTES
        return made | {"end": (at, 0)}


class Walker:
    """Makes the stream, pivot by pivot, of a tree and a network by chance."""

    def __init__(self, network: Network, seed: int) -> None:
        self.network, self.random = network, np.random.default_rng(seed)
        nodes, arcs = network.nodes, network.arcs
        self.source, self.target = self.random.integers(nodes, size=(2, arcs))
        self.parent = np.array([0, *(int(self.random.integers(max(0, i - 40), i)) for i in range(1, nodes))])
        self.names = self.random.permutation(nodes)
        self.pred = self.random.integers(arcs, size=nodes)
        self.layout = network.layout()
        self.parts: list[tuple[Places, NDArray[np.uint8]]] = []
        self.instructions = 0

    def lines(self, name: str, elements: Places) -> Places:
        start, each = self.layout[name]
        return (start + elements * each) // LINE_BYTES

    def together(self, *columns: tuple[Places, int], each: int) -> None:
        """One of each column after the other, row by row. each: instructions of a row."""
        lines = np.column_stack([lines for lines, _ in columns])
        operations = np.broadcast_to(np.array([operation for _, operation in columns], np.uint8), lines.shape)
        self.parts.append((lines.ravel(), operations.ravel()))
        self.instructions += each * len(lines)

    def price(self, first: int) -> None:
        """Block search: a stretch of all arcs, each with the potentials of its ends."""
        arcs = np.arange(first, first + self.network.block) % self.network.arcs
        self.together(
            (self.lines("state", arcs), LOADS), (self.lines("cost", arcs), LOADS + 1),
            (self.lines("source", arcs), LOADS + 2), (self.lines("pi", self.source[arcs]), LOADS + 3),
            (self.lines("target", arcs), LOADS + 4), (self.lines("pi", self.target[arcs]), LOADS + 5), each=11,
        )  # fmt: skip

    def path(self) -> Places:
        """Nodes on the way from one by chance towards the root."""
        node, found = int(self.random.integers(self.network.nodes)), []
        for _ in range(self.network.steps):
            found.append(self.names[node])
            node = int(self.parent[node])
        return np.array(found)

    def cycle(self) -> None:
        """Both ways to where they meet, three times: to find it, to see what leaves, and to change the flow."""
        for path in (self.path(), self.path()):
            arcs = self.pred[path]
            self.together((self.lines("count", path), LOADS + 6), (self.lines("parent", path), TREE), each=7)
            self.together(
                (self.lines("pred", path), TREE), (self.lines("flow", arcs), LOADS + 7),
                (self.lines("cap", arcs), LOADS + 8), (self.lines("parent", path), TREE), each=14,
            )  # fmt: skip
            self.together((self.lines("flow", arcs), STORE), (self.lines("parent", path), TREE), each=9)

    def move(self) -> None:
        """The subtree that hangs elsewhere now, along its thread."""
        first = int(self.random.integers(self.network.nodes))
        nodes = self.names[np.arange(first, first + self.network.moved) % self.network.nodes]
        self.together((self.lines("thread", nodes), TREE), (self.lines("pi", nodes), LOADS + 9),
                      (self.lines("pi", nodes), STORE), each=6)  # fmt: skip

    def pivots(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.price(number * self.network.block % self.network.arcs)
            self.cycle()
            self.move()


def stream(network: Network, seed: int, laps: int = 1) -> Stream:
    """So many laps over all arcs, after one that is not timed."""
    walker = Walker(network, seed)
    lap = -(-network.arcs // network.block)
    walker.pivots(range(lap))
    settled, walker.instructions = sum(len(lines) for lines, _ in walker.parts), 0
    walker.pivots(range(lap, (1 + laps) * lap))
    lines = np.concatenate([lines for lines, _ in walker.parts]).astype(np.uint32)
    operations = np.concatenate([operations for _, operations in walker.parts])
    return Stream(lines, operations, walker.instructions, settled, laps * lap, walker.layout["end"][0])
