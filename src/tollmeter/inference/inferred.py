# SPDX-License-Identifier: Apache-2.0
"""Properties of the machine that follow from the rows besides the hierarchy, each computed once: line size,
associativity, translation, write policy, prefetching, yardsticks, scaling and load. Each has its interval and the
system's own value, or the reason why it is not resolved.

Findings and report read these records, and compute none of them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tollmeter.inference.answers import InferredNumber, YesOrNo
from tollmeter.inference.associativity import associativity, line_bytes
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.inference.load_and_scaling import ScalingShare, efficiency, load_curves, slowdown
from tollmeter.inference.properties import (
    USUAL_LINE,
    prefetching,
    translation,
    widest_load_bytes,
    write_allocate,
    write_back,
    yardsticks,
)
from tollmeter.model import Inference, InferenceKind, Level, Machine, Probe, Row, Value
from tollmeter.numbers.meanings import meaning, native
from tollmeter.numbers.stats import Estimate
from tollmeter.numbers.units import short

Probes = Mapping[str, Probe]


class _Inputs(NamedTuple):
    """rows: of the machine's own ABI and clock, and what they mean. line: as measured, or as most machines have it."""

    rows: Sequence[Row]
    probes: Probes
    levels: Sequence[Level]
    machine: Machine
    meanings: frozenset[str]
    line: InferredNumber

    def has(self, *meanings: str) -> bool:
        return self.meanings.issuperset(meanings)

    def line_or_usual(self) -> int:
        return int(self.line.value or USUAL_LINE)


def inferred(rows: Sequence[Row], probes: Probes, levels: Sequence[Level], machine: Machine) -> tuple[Inference, ...]:
    """The properties that at least one row was measured for."""
    own = native(rows, machine.architecture)
    meanings = frozenset(filter(None, (meaning(row, probes) for row in own)))
    line = line_bytes(own, probes) if "line-pair-of-distance" in meanings else InferredNumber()
    seen = _Inputs(own, probes, levels, machine, meanings, line)
    return tuple(inference for part in PARTS for inference in part(seen))


def _line(seen: _Inputs) -> Iterator[Inference]:
    if seen.has("line-pair-of-distance"):
        reported = sorted({cache.line_bytes for cache in os_sizes(seen.machine) if cache.line_bytes})
        yield _of_answer("line", "line", seen.line, "B", system=", ".join(f"{size} B" for size in reported) or None)


def _ways(seen: _Inputs) -> Iterator[Inference]:
    if seen.has("conflict-of-lines"):
        reported = {f"L{cache.level}": str(cache.ways) for cache in os_sizes(seen.machine) if cache.ways}
        for level, ways in associativity(seen.rows, seen.probes, seen.levels).items():
            system = reported.get(level.removesuffix("d"))
            yield _of_answer(f"ways of {level}", "ways", ways, "count", system=system, level=level)


def _translation(seen: _Inputs) -> Iterator[Inference]:
    for pages in ("small", "huge") if seen.has("translation-of-pages") else ():
        reach = translation(seen.rows, seen.probes, seen.levels, pages)
        for place, buffer in enumerate(reach.buffers, start=1):
            of: dict[str, Value] = {"pages": pages, "buffer": place}
            name = f"translations kept, level {place}, {pages} pages"
            yield _of_answer(name, "translations", buffer.entries, "count", parameters=of)
            name = f"a miss of level {place}, {pages} pages"
            yield _of_answer(name, "translation_miss", buffer.miss_ns, "ns", parameters=of)
        if not reach.buffers:
            name = f"translations kept, {pages} pages"
            yield _of_answer(name, "translations", InferredNumber(why=reach.why), "count", parameters={"pages": pages})


def _writes(seen: _Inputs) -> Iterator[Inference]:
    if seen.has("write-policy", "write-policy-baseline"):
        back = write_back(seen.rows, seen.probes, seen.levels)
        yield _of_verdict("the caches are write-back", "write_back", back)
        yield from _judged_by("a store that fits, against one that does not", "store_that_fits", back)
        allocate = write_allocate(seen.rows, seen.probes, seen.levels)
        yield _of_verdict("a store that misses allocates its line (write-allocate)", "write_allocate", allocate)
        yield from _judged_by("a chase after stores, against one elsewhere", "reload_after_store", allocate)


def _prefetch(seen: _Inputs) -> Iterator[Inference]:
    for prefetch in prefetching(seen.rows, seen.probes, seen.line_or_usual()) if seen.has("latency-of-stride") else ():
        of: dict[str, Value] = {"direction": prefetch.direction}
        yield _of_verdict(f"walks {prefetch.direction} are prefetched", "prefetched", prefetch.verdict, parameters=of)
        at = of | ({"stride": prefetch.stride} if prefetch.stride else {})
        name = f"a prefetcher's help, {prefetch.direction}"
        yield from _judged_by(name, "prefetch_gain", prefetch.verdict, parameters=at)


def _yardsticks(seen: _Inputs) -> Iterator[Inference]:
    widest = widest_load_bytes(seen.rows, seen.probes)
    for held in yardsticks(seen.levels, seen.machine.core_clock_hz, widest, seen.line_or_usual()):
        of = {"load_bytes": widest} if held.level == "L1d" and widest else {"line_bytes": seen.line_or_usual()}
        name = f"reading {held.level} by {held.by}"
        rate, share = InferredNumber(value=held.bytes_per_second), InferredNumber(value=held.share)
        yield _of_answer(name, "yardstick", rate, "B/s", level=held.level, parameters=of)
        yield _of_answer(f"{name}, reached", "reading_share", share, "ratio", level=held.level, parameters=of)


def _several(seen: _Inputs) -> Iterator[Inference]:
    for share in efficiency(seen.rows, seen.probes):
        name = f"bandwidth of each of {share.instances}, {_where(share)}, against one"
        yield _of_share(name, "efficiency", share)
    for share in slowdown(seen.rows, seen.probes):
        name = f"latency of {share.instances} walks at once, {_where(share)}, against one"
        yield _of_share(name, "slowdown", share)


def _load(seen: _Inputs) -> Iterator[Inference]:
    for curve in load_curves(seen.rows, seen.probes):
        of = dict(curve.parameters)
        mix = f"mix {of.get('mix', '')}"
        idle, loaded = (
            InferredNumber(value=point.latency_ns, low=point.low, high=point.high)
            for point in (curve.points[0], curve.points[-1])
        )
        yield _of_answer(f"latency beside the least traffic, {mix}", "idle_latency", idle, "ns", parameters=of)
        yield _of_answer(f"latency beside the most traffic, {mix}", "loaded_latency", loaded, "ns", parameters=of)
        rise = _estimated(curve.rise)
        yield _of_answer(
            f"latency under full traffic, {mix}, against idle", "latency_rise", rise, "ratio", parameters=of
        )
        most = InferredNumber(value=curve.points[-1].traffic)
        yield _of_answer(f"most traffic, {mix}", "most_traffic", most, "B/s", parameters=of)
        name = f"traffic at which latency turns up, {mix}"
        yield _of_answer(name, "latency_knee", curve.knee, "B/s", parameters=of)


PARTS = (_line, _ways, _translation, _writes, _prefetch, _yardsticks, _several, _load)


def _estimated(estimate: Estimate) -> InferredNumber:
    return InferredNumber(value=estimate.value, low=estimate.low, high=estimate.high)


def _of_share(name: str, kind: InferenceKind, share: ScalingShare) -> Inference:
    of = {**dict(share.parameters), "instances": share.instances}
    return _of_answer(name, kind, _estimated(share.of_one), "ratio", parameters=of)


def _where(share: ScalingShare) -> str:
    """The kernel and the size, as people write it."""
    words = dict(share.parameters)
    size = int(words.get("size", 0))
    return ", ".join(filter(None, (str(words.get("operation", "")), short(size, "B") if size else "")))


def _of_answer(name: str, kind: InferenceKind, answer: InferredNumber, unit: str, **more: Any) -> Inference:
    reason = answer.why if answer.value is None else None
    return Inference(
        name=name, kind=kind, value=answer.value, low=answer.low, high=answer.high, unit=unit, reason=reason, **more
    )


def _of_verdict(name: str, kind: InferenceKind, answer: YesOrNo, **more: Any) -> Inference:
    reason = answer.why if answer.holds is None else None
    return Inference(name=name, kind=kind, value=answer.holds, low=None, high=None, unit=None, reason=reason, **more)


def _judged_by(name: str, kind: InferenceKind, answer: YesOrNo, **more: Any) -> Iterator[Inference]:
    """The number that a yes or no rests on, where there is one."""
    if answer.ratio is not None:
        yield _of_answer(name, kind, _estimated(answer.ratio), "ratio", **more)
