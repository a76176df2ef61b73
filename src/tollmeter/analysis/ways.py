# SPDX-License-Identifier: Apache-2.0
"""How many ways each cache has, from random cycles over lines a power of two apart.

Where that distance covers a whole number of ways of a cache, all lines fall into one of its sets, and the load turns
from a hit into a miss as their number passes its ways. Whether the distance is long enough shows in itself: a longer
one changes nothing. The shortest such distance is what one way covers, so ways times that is the capacity, found a
second time without any knee of size.

On small pages the program rules only the address bits inside a page. A first cache that takes its sets from those is
told apart by its capacity: ways times page is then what the latency curve says. Sizes in bytes, latencies in ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, log

from tollmeter.analysis.answers import Answer, asked, middle, number, relative_error, series
from tollmeter.analysis.steps import Jump, jumps
from tollmeter.model import Level, Probe, Record, Row

LEAST_RATIO = 1.25
SAME_LATENCY = 0.3
SAME_CAPACITY = 0.25


class Ways(Record, frozen=True):
    """Of one level. way_bytes: the shortest distance at which its lines share a set, None where only one was timed."""

    level: str
    ways: Answer
    way_bytes: int | None = None


class Edge(Record, frozen=True):
    """Up to `fits` lines of a series fit a level that answers in `latency_ns`; low..high: 95 %."""

    latency_ns: float
    fits: int
    low: int
    high: int


def associativity(rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]) -> tuple[Ways, ...]:
    """Of each cache of a measured hierarchy, from rows that mean `conflict-of-lines`, of one ABI and target."""
    caches = [level for level in levels if level.size_bytes is not None]
    by_pages = {pages: _edges(asked(rows, probes, "conflict-of-lines", pages=pages)) for pages in ("huge", "small")}
    return tuple(_ways(levels, place, by_pages) for place in range(len(caches)))


def _edges(rows: Sequence[Row]) -> dict[int, list[Edge]]:
    """The edges of each series, by the distance of its lines."""
    found = {}
    for others, points in series(rows, "lines").items():
        apart = dict(others).get("apart")
        if isinstance(apart, int) and len(points) > 2:
            found[apart] = _edges_of(points)
    return dict(sorted(found.items()))


def _edges_of(points: Sequence[Row]) -> list[Edge]:
    steps = jumps([log(middle(row)) for row in points], [relative_error(row) for row in points])
    counts = [number(row, "lines") for row in points]
    return [_edge(step, counts) for step in steps if step.after - step.before > log(LEAST_RATIO)]


def _edge(step: Jump, counts: Sequence[int]) -> Edge:
    fits, low, high = counts[step.at - 1], counts[step.low - 1], counts[step.high] - 1
    return Edge(latency_ns=exp(step.before), fits=fits, low=low, high=high)


def _ways(levels: Sequence[Level], place: int, by_pages: Mapping[str, Mapping[int, list[Edge]]]) -> Ways:
    """Huge pages tell for every level, where they are to be had; small ones for the first."""
    level = levels[place]
    seen = {
        pages: {apart: edge for apart, found in edges.items() if (edge := _edge_of(found, levels, place)) is not None}
        for pages, edges in by_pages.items()
    }
    if seen["huge"]:
        return _settled(level, seen["huge"])
    if not place and seen["small"]:
        return _within_page(level, seen["small"])
    return Ways(level=level.level, ways=Answer(why=_why_unseen(levels, place, by_pages)))


def _why_unseen(levels: Sequence[Level], place: int, by_pages: Mapping[str, Mapping[int, list[Edge]]]) -> str:
    if not any(by_pages.values()):
        return "no cycle of lines a power of two apart was timed"
    if place and not by_pages["huge"]:
        return "on small pages the sets of a cache beyond the first are not the program's to choose"
    before = f"{levels[place - 1].level} holds as many lines of one set, or more" if place else "it holds all of them"
    return f"no number of lines was answered by {levels[place].level} alone: {before}"


def _edge_of(found: Sequence[Edge], levels: Sequence[Level], place: int) -> Edge | None:
    """The edge of the flat piece that has this level's latency, and no other level's more nearly."""
    latencies = [level.latency_ns for level in levels]
    own = latencies[place]
    for edge in found:
        off = [abs(log(edge.latency_ns / latency)) if latency else float("inf") for latency in latencies]
        if own and off[place] == min(off) and off[place] < SAME_LATENCY:
            return edge
    return None


def _settled(level: Level, edges: Mapping[int, Edge]) -> Ways:
    """The longest distances agree where the set is one; the shortest of those that agree is what a way covers."""
    aparts = sorted(edges, reverse=True)
    longest = edges[aparts[0]]
    agreeing = [aparts[0]]
    for longer, apart in pairwise(aparts):
        if edges[apart].fits != longest.fits or apart * 2 != longer:
            break
        agreeing.append(apart)
    ways = Answer(value=float(longest.fits), low=float(longest.low), high=float(longest.high))
    if len(agreeing) > 1:
        return Ways(level=level.level, ways=ways, way_bytes=agreeing[-1])
    if _same_capacity(level, longest.fits * aparts[0]):
        return Ways(level=level.level, ways=ways, way_bytes=aparts[0])
    why = f"at most {longest.fits}: with lines further than {aparts[0]} bytes apart, fewer might share a set"
    return Ways(level=level.level, ways=Answer(why=why))


def _within_page(level: Level, edges: Mapping[int, Edge]) -> Ways:
    apart = min(edges)
    edge = edges[apart]
    if not _same_capacity(level, edge.fits * apart):
        why = f"{edge.fits} lines a page apart fit, which is not its size: its sets are not chosen inside a page"
        return Ways(level=level.level, ways=Answer(why=why))
    ways = Answer(value=float(edge.fits), low=float(edge.low), high=float(edge.high))
    return Ways(level=level.level, ways=ways, way_bytes=apart)


def _same_capacity(level: Level, capacity: int) -> bool:
    return level.size_bytes is not None and abs(log(capacity / level.size_bytes)) < SAME_CAPACITY
