# SPDX-License-Identifier: Apache-2.0
"""Reference rates for reading from each level, derived from other measurements. They are no bounds: each may be
exceeded.

* The first cache: clock x two loads a cycle x width of a load. Cores since 2011 start two of their widest loads a
cycle; a core that starts three narrow ones exceeds it.

* Each further level: what its load misses alone would carry, so many lines in flight, each of which takes the level's
latency (Little 1961): parallelism x line / latency. A prefetcher has lines of its own in flight, and exceeds it.

Rates in bytes a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from tollmeter.inference.answers import rows_meaning
from tollmeter.model import Level, Probe, Record, Row

LOADS_PER_CYCLE = 2
WIDTHS = {"portable": 8, "sse2": 16, "neon": 16, "avx2": 32, "avx2_prefetch": 32, "avx512": 64}


class Yardstick(Record, frozen=True):
    """by: in words, what it is derived from. share: of it that reading reached; None, with why, where one is
    missing."""

    level: str
    by: str
    bytes_per_second: float | None = None
    share: float | None = None
    why: str | None = None


def yardsticks(
    levels: Sequence[Level], clock_hz: float | None, load_bytes: int | None, line_bytes: float
) -> tuple[Yardstick, ...]:
    """One for each level. load_bytes: of the widest load that was timed here; None where it is not known."""
    return tuple(
        _ports(level, clock_hz, load_bytes) if level.level == "L1d" else _misses(level, line_bytes) for level in levels
    )


def widest_load_bytes(rows: Sequence[Row], probes: Mapping[str, Probe]) -> int | None:
    """Of the kernels that read here, the widest of those whose width is known."""
    names = {str(row.parameters.get("kernel")) for row in rows_meaning(rows, probes, "read-bandwidth-of-size")}
    return max((WIDTHS[name] for name in names if name in WIDTHS), default=None)


def _ports(level: Level, clock_hz: float | None, load_bytes: int | None) -> Yardstick:
    known = clock_hz is not None and load_bytes is not None
    made = Yardstick(
        level=level.level,
        by=f"{LOADS_PER_CYCLE} loads of {load_bytes} bytes a cycle" if known else f"{LOADS_PER_CYCLE} loads a cycle",
    )
    if clock_hz is None or load_bytes is None:
        return msgspec.structs.replace(made, why="the core clock or the width of a load is not known")
    return _reached(made, level, clock_hz * LOADS_PER_CYCLE * load_bytes)


def _misses(level: Level, line_bytes: float) -> Yardstick:
    made = Yardstick(level=level.level, by="its load misses alone (parallelism x line / latency)")
    if not level.parallelism or not level.latency_ns:
        return msgspec.structs.replace(made, why="its latency or its parallelism was not measured")
    return _reached(made, level, level.parallelism * line_bytes / (level.latency_ns * 1e-9))


def _reached(made: Yardstick, level: Level, rate: float) -> Yardstick:
    reached = level.read_bytes_per_second
    if reached is None:
        return msgspec.structs.replace(made, bytes_per_second=rate, why="its read bandwidth was not measured")
    return msgspec.structs.replace(made, bytes_per_second=rate, share=reached / rate)
