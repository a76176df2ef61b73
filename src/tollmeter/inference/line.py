# SPDX-License-Identifier: Apache-2.0
"""How many bytes a cache line has, from the cost of a second access at some distance from one that missed.

Up to the line's end the second access hits in the first cache; beyond it, it misses as well. The line ends at the
first rise. There may be another further out, where lines are fetched in pairs. Sizes in bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.inference.answers import InferredNumber, absolute_error, middle, number, rows_meaning
from tollmeter.inference.steps import Jump, jumps
from tollmeter.model import Probe, Row

LEAST_CONTRAST = 1.5


def line_bytes(rows: Sequence[Row], probes: Mapping[str, Probe]) -> InferredNumber:
    """From rows that mean `line-pair-of-distance`, of one ABI and target: the power of two at which the cost rises. The
    interval holds the powers of two between the distances at which it may rise instead."""
    pairs = sorted(rows_meaning(rows, probes, "line-pair-of-distance"), key=lambda row: number(row, "distance"))
    distances = [number(row, "distance") for row in pairs]
    steps = jumps([middle(row) for row in pairs], [absolute_error(row) for row in pairs], most=2)
    ends = [jump for jump in steps if jump.after > LEAST_CONTRAST * max(jump.before, 0) and _powers(jump, distances)]
    if not ends:
        return InferredNumber(
            why="the second access costs the same at every distance that was timed: no line's end is among them"
        )
    first = ends[0]
    likely = _powers(first, distances)
    inside = [power for power in likely if power <= distances[first.at]]
    return InferredNumber(value=float(max(inside, default=likely[0])), low=float(likely[0]), high=float(likely[-1]))


def _powers(jump: Jump, distances: Sequence[int]) -> list[int]:
    """Powers of two at which a line may end that rises here: beyond the last distance inside, not beyond the next."""
    last_inside, next_outside = distances[jump.low - 1], distances[jump.high]
    return [1 << power for power in range(3, 12) if last_inside < 1 << power <= next_outside]
