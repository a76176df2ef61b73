# SPDX-License-Identifier: Apache-2.0
"""What a core could read from each level at most, derived from other measurements, and the share that it reached.

* The first cache: clock x loads a cycle x width of a load. Two loads a cycle are what cores since 2011 start at their
  widest; a core that starts three of them reaches a share above one.
* Each level behind: so many lines under way, each of which takes the level's latency (Little 1961):
  parallelism x line / latency. Prefetchers have buffers of their own, and may carry a level beyond this bound.

Rates in bytes a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tollmeter.analysis.answers import asked
from tollmeter.model import Level, Probe, Record, Row

LOADS_PER_CYCLE = 2
WIDTHS = {"portable": 8, "sse2": 16, "neon": 16, "avx2": 32, "avx2_prefetch": 32, "avx512": 64}


class Bound(Record, frozen=True):
    """by: in words, what the bound is made of. share: of it that was reached; None, with why, where one is missing."""

    level: str
    by: str
    bytes_per_second: float | None = None
    share: float | None = None
    why: str | None = None


def bounds(
    levels: Sequence[Level], clock_hz: float | None, load_bytes: int | None, line_bytes: float
) -> tuple[Bound, ...]:
    """One for each level. load_bytes: of the widest load that this CPU can do; None where it is not known."""
    return tuple(
        _ports(level, clock_hz, load_bytes) if level.level == "L1d" else _misses(level, line_bytes) for level in levels
    )


def widest_load_bytes(rows: Sequence[Row], probes: Mapping[str, Probe]) -> int | None:
    """Of the kernels that read here, the widest of those whose width is known."""
    names = {str(row.parameters.get("kernel")) for row in asked(rows, probes, "read-bandwidth-of-size")}
    return max((WIDTHS[name] for name in names if name in WIDTHS), default=None)


def _ports(level: Level, clock_hz: float | None, load_bytes: int | None) -> Bound:
    by = f"clock x {LOADS_PER_CYCLE} loads a cycle x width"
    if not clock_hz or not load_bytes:
        return Bound(level=level.level, by=by, why="the core clock or the width of a load is not known")
    return _reached(level, by, clock_hz * LOADS_PER_CYCLE * load_bytes)


def _misses(level: Level, line_bytes: float) -> Bound:
    by = "parallelism x line / latency"
    if not level.parallelism or not level.latency_ns:
        return Bound(level=level.level, by=by, why="its latency or its parallelism was not measured")
    return _reached(level, by, level.parallelism * line_bytes / (level.latency_ns * 1e-9))


def _reached(level: Level, by: str, rate: float) -> Bound:
    reached = level.read_bytes_per_second
    if reached is None:
        return Bound(level=level.level, by=by, bytes_per_second=rate, why="its read bandwidth was not measured")
    return Bound(level=level.level, by=by, bytes_per_second=rate, share=reached / rate)
