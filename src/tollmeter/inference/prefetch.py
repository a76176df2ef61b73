# SPDX-License-Identifier: Apache-2.0
"""The gain of a constant stride over random order, for each direction: the prefetchers' help.

Compared are walks over the same places, through more than any cache holds, at strides of a few lines. Below a line, the
order matters without any prefetcher, since one line then serves several loads; at one line it matters where lines are
fetched in pairs, which has no direction. A walk in page-local order replaces random order if it is faster, so that the
cost of translation in random order is not counted as prefetching."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.inference.answers import YesOrNo, middle, number, ratio, rows_meaning
from tollmeter.model import Probe, Record, Row

LEAST_GAIN = 1.35
STRIDES_IN_LINES = (2, 8)
LIKE_SIZE = 0.7
USUAL_LINE = 64
DIRECTIONS = ("forward", "backward")


class Help(Record, frozen=True):
    """holds: whether strides in this direction are prefetched; ratio: random order over it, at `stride` bytes."""

    direction: str
    verdict: YesOrNo
    stride: int | None = None


def prefetching(rows: Sequence[Row], probes: Mapping[str, Probe], line_bytes: int = USUAL_LINE) -> tuple[Help, Help]:
    """Forward and backward, from rows that mean `latency-of-stride`, of one ABI and target."""
    forward, backward = (_direction(rows, probes, direction, line_bytes) for direction in DIRECTIONS)
    return forward, backward


def _direction(rows: Sequence[Row], probes: Mapping[str, Probe], direction: str, line_bytes: int) -> Help:
    """The best gain over the strides that any prefetcher follows."""
    walks = [row for row in rows_meaning(rows, probes, "latency-of-stride", order=direction) if _fits(row, line_bytes)]
    pairs = [(row, other) for row in walks if (other := _unhelped(rows, probes, row)) is not None]
    if not pairs:
        why = f"no walk {direction} by a few lines was timed beside one in random order"
        return Help(direction=direction, verdict=YesOrNo(why=why))
    largest = max(number(row, "size") for row, _ in pairs)
    gains = [(ratio(other, row), number(row, "stride")) for row, other in pairs if number(row, "size") == largest]
    best, stride = max(gains, key=lambda gain: gain[0].value)
    if best.low <= LEAST_GAIN <= best.high:
        why = f"random order takes {best.low:.2f} to {best.high:.2f} times as long: open memory pages might gain that"
        return Help(direction=direction, verdict=YesOrNo(ratio=best, why=why), stride=stride)
    return Help(direction=direction, verdict=YesOrNo(holds=best.value > LEAST_GAIN, ratio=best), stride=stride)


def _fits(row: Row, line_bytes: int) -> bool:
    least, most = STRIDES_IN_LINES
    return least * line_bytes <= number(row, "stride") <= most * line_bytes


def _unhelped(rows: Sequence[Row], probes: Mapping[str, Probe], walk: Row) -> Row | None:
    """The fastest walk over the same bytes whose order no prefetcher can predict."""
    size, stride = number(walk, "size"), number(walk, "stride")
    others = rows_meaning(rows, probes, "latency-of-stride", order="random", size=size, stride=stride)
    local = [row for row in rows_meaning(rows, probes, "latency-of-size", pages="local") if number(row, "size") <= size]
    nearest = max(local, key=lambda row: number(row, "size"), default=None)
    if others and nearest is not None and number(nearest, "size") >= LIKE_SIZE * size:
        others.append(nearest)
    return min(others, key=middle, default=None)
