# SPDX-License-Identifier: Apache-2.0
"""Where a probe's time goes, function by function."""

from __future__ import annotations

from tollmeter.model.base import Record, StateName, Value


class Share(Record, frozen=True):
    """One function of the executable. hits: samples, or counted instructions. inlined: of those, in functions inlined
    into it, by name. within: half the 95 % interval in percentage points; 0 of a count, None if not recorded."""

    function: str
    hits: int
    inlined: dict[str, int] = {}
    within: float | None = None


class Modelled(Record, frozen=True):
    """The misses of a modelled cache for one point's own loads; never compared with a measurement. misses, flushes: per
    operation. reason: why there are none."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    misses: float = 0.0
    flushes: float = 0.0
    reason: str | None = None


class Distances(Record, frozen=True):
    """How far apart one point's loads of the same line lie, by an emulator that saw their addresses. loads: by size in
    bytes, those with a stride and others, per operation; a smaller cache no longer holds the line. reason: why there
    are none."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    loads: tuple[tuple[float, float, float], ...] = ()
    reason: str | None = None


class Profile(Record, frozen=True):
    """One point's body, the most frequent function first. source: perf's CPU clock, SIGPROF, or an exact count of
    instructions. operation_ns: while profiled; instructions where counted. state: of the core; "unknown" if mixed, None
    if not observed. reason: why there is none."""

    probe: str
    abi: str
    target: str
    parameters: dict[str, Value]
    source: str = ""
    state: StateName | None = None
    shares: tuple[Share, ...] = ()
    lost: int = 0
    operation_ns: float = 0.0
    reason: str | None = None

    @property
    def hits(self) -> int:
        return sum(share.hits for share in self.shares)

    def part(self, function: str) -> float:
        """A function's share of all, 0 where it was never met."""
        return sum(share.hits for share in self.shares if share.function == function) / (self.hits or 1)
