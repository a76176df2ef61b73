# SPDX-License-Identifier: Apache-2.0
"""Determines the number of ways of each cache, from random cycles over lines a power of two apart.

If the distance of the lines is a multiple of the size of one way, all lines fall into one set, and the loads miss as
soon as their number exceeds the ways. A distance is long enough if a longer one gives the same number. The shortest
such distance is the size of one way. Ways times this size is the capacity, which is compared with the capacity from the
latency curve.

A program does not control physical address bits beyond its page or huge page; in a guest it does not control even
these. The result is then random, and ways times the size of one way is not the capacity. Sizes are in bytes, latencies
in ns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, inf, log, sqrt
from statistics import median

from tollmeter.experiment.limits import ALIKE, CLEARLY, FAR_APART
from tollmeter.inference.answers import (
    InferredNumber,
    absolute_error,
    middle,
    number,
    relative_error,
    rows_meaning,
    series,
)
from tollmeter.inference.curves import Jump, jumps
from tollmeter.maths.distributions import NORMAL
from tollmeter.model import Level, Probe, Record, Row


class Edge(Record, frozen=True):
    """A step in latency over the number of lines. fits: largest number of lines that fit into a level. latency_ns:
    latency of this level. low..high: 95 % interval of `fits`."""

    latency_ns: float
    fits: int
    low: int
    high: int


def associativity(
    rows: Sequence[Row], probes: Mapping[str, Probe], levels: Sequence[Level]
) -> dict[str, InferredNumber]:
    """Returns the number of ways of each cache, by its level. rows: of one ABI and target; those of the meaning
    `conflict-of-lines` are used."""
    by_pages = {
        pages: _edges(rows_meaning(rows, probes, "conflict-of-lines", pages=pages)) for pages in ("huge", "small")
    }
    caches = sum(level.size_bytes is not None for level in levels)
    return {levels[place].level: _ways(levels, place, by_pages) for place in range(caches)}


def _edges(rows: Sequence[Row]) -> dict[int, list[Edge]]:
    """Returns the edges of each series of rows, by the distance of its lines in bytes."""
    edges: dict[int, list[Edge]] = {}
    for others, points in series(rows, "lines").items():
        stride = dict(others).get("stride")
        if isinstance(stride, int) and len(points) > 2:
            counts = [number(row, "lines") for row in points]
            steps = jumps([log(middle(row)) for row in points], [relative_error(row) for row in points])
            edges[stride] = [
                Edge(
                    latency_ns=exp(step.before),
                    fits=counts[step.at - 1],
                    low=counts[step.low - 1],
                    high=counts[step.high] - 1,
                )
                for step in steps
                if step.after - step.before > log(1 + CLEARLY)
            ]
    return dict(sorted(edges.items()))


def _ways(levels: Sequence[Level], place: int, by_pages: Mapping[str, Mapping[int, list[Edge]]]) -> InferredNumber:
    """Returns the number of ways of one level. Series on huge pages apply to every level, and series on small pages
    only to the first. place: number of the level, from 0."""
    level = levels[place]
    disagreeing = None
    for pages in ("huge", "small") if not place else ("huge",):
        edges = {
            stride: edge
            for stride, of_distance in by_pages[pages].items()
            if (edge := _edge_of(of_distance, levels, place))
        }
        if ways := _settled(level, edges):
            return ways
        disagreeing = disagreeing or edges
    why = _why_no_edge(levels, place, by_pages)
    if disagreeing:
        stride = max(disagreeing)
        why = (
            f"{disagreeing[stride].fits} lines {stride} bytes apart fit {level.level}, but no two distances and its "
            "capacity agree on a number of ways: its sets are chosen by address bits that the program does not control"
        )
    return InferredNumber(why=why)


def _why_no_edge(levels: Sequence[Level], place: int, by_pages: Mapping[str, Mapping[int, list[Edge]]]) -> str:
    """Returns why no series shows the ways of a level."""
    if not any(by_pages.values()):
        return "no cycle of lines a power of two apart was timed"
    if place and not by_pages["huge"]:
        return "on small pages a program cannot choose the sets of a cache beyond the first"
    level = levels[place].level
    none = f"no timed number of lines had the latency of {level}"
    if not place:
        return f"{none}: it holds all of them"
    return f"{none}: {levels[place - 1].level} holds at least as many lines of one set as {level}"


def _edge_of(edges: Sequence[Edge], levels: Sequence[Level], place: int) -> Edge | None:
    """Returns the first edge whose latency is that of this level, and nearer to it than to any other level's; None
    without one. place: number of the level."""
    latency_ns = levels[place].latency_ns
    for edge in edges:
        differences = [abs(log(edge.latency_ns / level.latency_ns)) if level.latency_ns else inf for level in levels]
        if latency_ns and differences[place] == min(differences) and differences[place] < CLEARLY:
            return edge
    return None


def _settled(level: Level, edges: Mapping[int, Edge]) -> InferredNumber | None:
    """Returns the number of ways on which the longest distances agree, if the shortest of them confirms the capacity;
    else None. Even longer distances may disagree, since translation buffers have sets too. edges: by distance."""
    for run in _runs(edges):
        ways, way_bytes = round(median(edges[stride].fits for stride in run)), min(run)
        # If no shorter distance was timed, the size of a way may be less.
        off = log(ways * way_bytes / level.size_bytes) if level.size_bytes else inf
        is_capacity = abs(off) < ALIKE or (way_bytes == min(edges) and 0 < off < inf)
        if len(run) > 1 and is_capacity:
            low, high = median(edges[stride].low for stride in run), median(edges[stride].high for stride in run)
            return InferredNumber(value=float(ways), low=float(min(low, ways)), high=float(max(high, ways)))
    return None


def _runs(edges: Mapping[int, Edge]) -> list[list[int]]:
    """Returns lists of consecutive distances, each twice the next, whose intervals share a number of lines; the longest
    distances first."""
    runs: list[list[int]] = []
    for stride in sorted(edges, reverse=True):
        together = [edges[distance] for distance in (*(runs[-1] if runs else []), stride)]
        agree = max(edge.low for edge in together) <= min(edge.high for edge in together)
        if runs and runs[-1][-1] == 2 * stride and agree:
            runs[-1].append(stride)
        else:
            runs.append([stride])
    return runs


# ---- lines -----------------------------------------------------------------------------------------------------------

# Determines the size of a cache line, from the cost of a second access at some distance from one that missed.
#
# Within the line the second access hits in the first cache; beyond the line it misses as well. The line ends at the
# first rise of the cost. A prefetcher that fetches lines in pairs causes a second rise. Sizes are in bytes.


def line_bytes(rows: Sequence[Row], probes: Mapping[str, Probe]) -> InferredNumber:
    """Returns the line size: the power of two at which the cost rises. low, high: the lowest and highest power of two
    at which the rise may also lie. rows: of one ABI and target; those of the meaning `line-pair-of-distance` are
    used."""
    pairs = sorted(rows_meaning(rows, probes, "line-pair-of-distance"), key=lambda row: number(row, "distance"))
    distances = [number(row, "distance") for row in pairs]
    steps = jumps([middle(row) for row in pairs], [absolute_error(row) for row in pairs], most=2)
    ends = [jump for jump in steps if jump.after > (1 + FAR_APART) * max(jump.before, 0) and _powers(jump, distances)]
    if not ends:
        return InferredNumber(why=_why_no_line(pairs))
    first = ends[0]
    likely = _powers(first, distances)
    inside = [power for power in likely if power <= distances[first.at]]
    return InferredNumber(value=float(max(inside, default=likely[0])), low=float(likely[0]), high=float(likely[-1]))


def _why_no_line(pairs: Sequence[Row]) -> str:
    """Returns why the end of a line is not resolved."""
    if not pairs:
        return "no distance has a number"
    cost, error = (median(map(statistic, pairs)) for statistic in (middle, absolute_error))
    if NORMAL * sqrt(2) * error > FAR_APART * cost:
        return f"the distances were too noisy to tell: {cost:.3g} ns, each off by {NORMAL * error:.2g} ns or so"
    return "the second access costs the same at every distance that was timed: no line's end is among them"


def _powers(jump: Jump, distances: Sequence[int]) -> list[int]:
    """Returns the powers of two that a line size may be if the cost rises at this jump: above the last distance that is
    certainly inside the line, and up to the first that is certainly outside."""
    last_inside, next_outside = distances[jump.low - 1], distances[jump.high]
    return [1 << power for power in range(3, 12) if last_inside < 1 << power <= next_outside]
