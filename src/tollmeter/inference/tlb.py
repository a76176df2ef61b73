# SPDX-License-Identifier: Apache-2.0
"""How many translations each buffer holds and what a miss in it costs, from the extra cost of one line a page over as
many lines in few pages: nothing while all translations fit, and a step for each buffer that overflows.

A step between two numbers of pages shows that the buffer holds the smaller and not the larger. The lines themselves lie
in caches. Spread over many pages they are distributed over the sets differently from adjacent lines, and a prefetcher
that brings lines in pairs doubles them. So a step no higher than from one cache to the next, at a number of lines that
may overflow this cache, is no evidence of translation, and is discarded. Costs in ns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from tollmeter.inference.answers import InferredNumber, absolute_error, middle, number
from tollmeter.inference.steps import Jump, jumps
from tollmeter.model import Level, Probe, Record, Row
from tollmeter.numbers.meanings import meaning

LEAST_POINTS = 4
LEAST_STEP_NS = 0.4
USUAL_LINE = 64
NEAR_CAPACITY = (0.3, 2.1)
HIGHER = 1.2


class Buffer(Record, frozen=True):
    """One level of translation buffers: how many pages it reaches, and what a load pays once it must look further."""

    entries: InferredNumber
    miss_ns: InferredNumber


class Reach(Record, frozen=True):
    """The buffers found for one page mode, nearest first; none, and why, where they are not resolved."""

    buffers: tuple[Buffer, ...] = ()
    set_aside: tuple[Buffer, ...] = ()
    why: str | None = None


def translation(
    rows: Sequence[Row],
    probes: Mapping[str, Probe],
    levels: Sequence[Level] = (),
    pages: str = "small",
    line_bytes: float = USUAL_LINE,
) -> Reach:
    """From rows that mean `translation-of-pages`, of one ABI and target. A difference that is not resolved from zero
    counts as none."""
    meant = [row for row in rows if meaning(row, probes) == "translation-of-pages" and _has_answer(row)]
    points = [row for row in meant if row.parameters.get("pages") == pages]
    points.sort(key=lambda row: number(row, "count"))
    known = [absolute_error(row) for row in points if row.median is not None]
    if len(points) < LEAST_POINTS or not known:
        return Reach(why=f"too few numbers of {pages} pages were timed")
    usual = median(known)
    values = [0.0 if row.median is None else middle(row) for row in points]
    errors = [usual if row.median is None else max(absolute_error(row), usual / 4) for row in points]
    counts = [number(row, "count") for row in points]
    steps = [step for step in jumps(values, errors) if step.after - step.before > LEAST_STEP_NS]
    if not steps:
        return Reach(why=f"{counts[-1]} {pages} pages cost no more than {counts[0]}: no buffer overflowed")
    kept: list[Buffer] = []
    aside: list[Buffer] = []
    for step in steps:
        caches = _may_be_cache(step, counts, levels, line_bytes)
        (aside if caches else kept).append(_buffer(step, counts, errors))
    why = None if kept else "every step may be a cache's that overflowed"
    return Reach(buffers=tuple(kept), set_aside=tuple(aside), why=why)


def _may_be_cache(step: Jump, counts: Sequence[int], levels: Sequence[Level], line_bytes: float) -> bool:
    """Whether the lines of so many pages may overflow a cache, and the step is no higher than that costs."""
    height, bytes_held = step.after - step.before, counts[step.at] * line_bytes
    for cache, behind in pairwise(levels):
        if cache.size_bytes and cache.latency_ns and behind.latency_ns:
            near = NEAR_CAPACITY[0] * cache.size_bytes <= bytes_held <= NEAR_CAPACITY[1] * cache.size_bytes
            if near and height <= HIGHER * (behind.latency_ns - cache.latency_ns):
                return True
    return False


def _has_answer(row: Row) -> bool:
    return (row.status == "ok" and row.median is not None) or (row.status == "unstable" and row.samples > 0)


def _buffer(step: Jump, counts: Sequence[int], errors: Sequence[float]) -> Buffer:
    cost, error = step.after, max(errors[step.at - 1], errors[step.at])
    return Buffer(
        entries=InferredNumber(
            value=float(counts[step.at - 1]), low=float(counts[step.low - 1]), high=float(counts[step.high] - 1)
        ),
        miss_ns=InferredNumber(value=cost, low=cost - 1.96 * error, high=cost + 1.96 * error),
    )
