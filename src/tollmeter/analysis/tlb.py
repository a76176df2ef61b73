# SPDX-License-Identifier: Apache-2.0
"""How many translations each buffer holds and what missing in it costs, from what one line a page costs above as many
lines in few pages: nothing while all translations fit, and a step for each buffer that overflows.

A step between two numbers of pages says that the buffer holds the smaller and not the larger. Costs in ns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from tollmeter.analysis.answers import Answer, absolute_error, middle, number
from tollmeter.analysis.meanings import meaning
from tollmeter.analysis.steps import Jump, jumps
from tollmeter.model import Probe, Record, Row

LEAST_POINTS = 4
LEAST_STEP_NS = 0.4


class Buffer(Record, frozen=True):
    """One level of translation buffers: how many pages it reaches, and what a load pays once it must look further."""

    entries: Answer
    miss_ns: Answer


class Reach(Record, frozen=True):
    """The buffers found for one page mode, nearest first; none, and why, where it cannot be told."""

    pages: str
    buffers: tuple[Buffer, ...] = ()
    why: str | None = None


def translation(rows: Sequence[Row], probes: Mapping[str, Probe], pages: str = "small") -> Reach:
    """From rows that mean `translation-of-pages`, of one ABI and target. A difference too small to be told from nothing
    counts as none."""
    meant = [row for row in rows if meaning(row, probes) == "translation-of-pages" and _says(row)]
    points = [row for row in meant if row.parameters.get("pages") == pages]
    points.sort(key=lambda row: number(row, "count"))
    known = [absolute_error(row) for row in points if row.median is not None]
    if len(points) < LEAST_POINTS or not known:
        return Reach(pages=pages, why=f"too few numbers of {pages} pages were timed")
    usual = median(known)
    values = [0.0 if row.median is None else middle(row) for row in points]
    errors = [usual if row.median is None else max(absolute_error(row), usual / 4) for row in points]
    counts = [number(row, "count") for row in points]
    steps = [step for step in jumps(values, errors) if step.after - step.before > LEAST_STEP_NS]
    if not steps:
        return Reach(pages=pages, why=f"{counts[-1]} {pages} pages cost no more than {counts[0]}: no buffer overflowed")
    return Reach(pages=pages, buffers=tuple(_buffer(step, counts, errors) for step in steps))


def _says(row: Row) -> bool:
    return (row.status == "ok" and row.median is not None) or (row.status == "unstable" and row.samples > 0)


def _buffer(step: Jump, counts: Sequence[int], errors: Sequence[float]) -> Buffer:
    cost, error = step.after, max(errors[step.at - 1], errors[step.at])
    return Buffer(
        entries=Answer(
            value=float(counts[step.at - 1]), low=float(counts[step.low - 1]), high=float(counts[step.high] - 1)
        ),
        miss_ns=Answer(value=cost, low=cost - 1.96 * error, high=cost + 1.96 * error),
    )
