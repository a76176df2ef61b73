# SPDX-License-Identifier: Apache-2.0
"""What follows from the rows beyond the hierarchy: line, ways, translation, write policy, prefetch, yardsticks, load.

Each line stands with its interval, beside the system's word where it has one; where it cannot be told, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tollmeter.inference.answers import Answer, YesOrNo
from tollmeter.inference.associativity import associativity
from tollmeter.inference.hierarchy import os_sizes
from tollmeter.inference.line import line_bytes
from tollmeter.inference.load import load_curves
from tollmeter.inference.prefetch import prefetching
from tollmeter.inference.scaling import Share, efficiency, slowdown
from tollmeter.inference.tlb import translation
from tollmeter.inference.write_policy import write_allocate, write_back
from tollmeter.inference.yardsticks import PASSED_BY, widest_load_bytes, yardsticks
from tollmeter.model import Book, Row
from tollmeter.numbers.meanings import meaning, native
from tollmeter.numbers.stats import Estimate
from tollmeter.report.numbers import Figure, percent, plus_minus, rate, size, time
from tollmeter.report.numbers import count as counted
from tollmeter.report.tables import Cell, Column, Line, Table, table

CANNOT = "cannot tell"
USUAL_LINE = 64


@dataclass(frozen=True)
class _Seen:
    book: Book
    rows: Sequence[Row]
    meanings: frozenset[str]

    def has(self, *wanted: str) -> bool:
        return all(one in self.meanings for one in wanted)


def inferred_table(book: Book) -> Table | None:
    """None where the run measured nothing that more than the hierarchy can be read from."""
    rows = native(book.index.rows, book.index.machine.architecture)
    seen = _Seen(book, rows, frozenset(filter(None, (meaning(row, book.probes) for row in rows))))
    lines = [line for part in PARTS for line in part(seen)]
    columns = [Column("Inferred"), Column("measured", True), Column("system says", True)]
    return table("Inferred", columns, lines) if lines else None


def _line(seen: _Seen) -> Iterable[Line]:
    if seen.has("line-pair-of-distance"):
        told = {cache.line_bytes for cache in os_sizes(seen.book.index.machine) if cache.line_bytes}
        found = line_bytes(seen.rows, seen.book.probes)
        value = size(found.value, found.low, found.high) if found.value else CANNOT
        yield Line(("line", value, ", ".join(str(size(one)) for one in sorted(told))), found.why or "")


def _ways(seen: _Seen) -> Iterable[Line]:
    if seen.has("conflict-of-lines"):
        caches = os_sizes(seen.book.index.machine)
        for place, found in enumerate(associativity(seen.rows, seen.book.probes, seen.book.index.hierarchy)):
            told = str(caches[place].ways) if place < len(caches) and caches[place].ways else ""
            yield Line((f"ways of {found.level}", _count(found.ways), told), found.ways.why or "")


def _translation(seen: _Seen) -> Iterable[Line]:
    for pages in ("small", "huge") if seen.has("translation-of-pages") else ():
        reach = translation(seen.rows, seen.book.probes, seen.book.index.hierarchy, pages)
        for place, buffer in enumerate(reach.buffers, start=1):
            yield Line((f"translations kept, level {place}, {pages} pages", _count(buffer.entries), ""))
            miss = buffer.miss_ns
            yield Line((f"a miss there, {pages} pages", time(miss.value, miss.low, miss.high), ""), miss.why or "")
        if not reach.buffers:
            yield Line((f"translations kept, {pages} pages", CANNOT, ""), reach.why or "")


def _writes(seen: _Seen) -> Iterable[Line]:
    if seen.has("write-policy", "write-policy-baseline"):
        levels = seen.book.index.hierarchy
        back = write_back(seen.rows, seen.book.probes, levels)
        yield Line(("what is written is kept (write-back)", _said(back), ""), back.why or "")
        allocate = write_allocate(seen.rows, seen.book.probes, levels)
        yield Line(("a store that misses fetches its line", _said(allocate), ""), allocate.why or "")


def _prefetch(seen: _Seen) -> Iterable[Line]:
    if seen.has("latency-of-stride"):
        line = line_bytes(seen.rows, seen.book.probes).value or USUAL_LINE
        for found in prefetching(seen.rows, seen.book.probes, int(line)):
            gain = _times(found.verdict.ratio) if found.verdict.ratio else CANNOT
            yield Line((f"a prefetcher's help, {found.direction}", gain, ""), found.verdict.why or "")


def _yardsticks(seen: _Seen) -> Iterable[Line]:
    index = seen.book.index
    line = line_bytes(seen.rows, seen.book.probes).value or USUAL_LINE
    widest = widest_load_bytes(seen.rows, seen.book.probes)
    for held in yardsticks(index.hierarchy, index.machine.core_clock_hz, widest, line):
        if held.bytes_per_second and held.share:
            passed = f": {held.passed}" if held.share > PASSED_BY else ""
            said = f"reading goes at {percent(held.share)} of it{passed}"
            yield Line((f"reading {held.level} by {held.by}", rate(held.bytes_per_second), ""), said)


def _several(seen: _Seen) -> Iterable[Line]:
    if seen.has("bandwidth-of-instances"):
        for share in efficiency(seen.rows, seen.book.probes):
            yield Line((f"bandwidth of each of {share.instances}, {_at(share)}, against one", _times(share.of_one), ""))
    if seen.has("latency-of-instances"):
        for share in slowdown(seen.rows, seen.book.probes):
            yield Line(
                (f"latency of {share.instances} walks at once, {_at(share)}, against one", _times(share.of_one), "")
            )


def _load(seen: _Seen) -> Iterable[Line]:
    if seen.has("latency-of-traffic", "traffic-beside"):
        for found in load_curves(seen.rows, seen.book.probes):
            mix = dict(found.parameters).get("mix", "")
            yield Line((f"latency under full traffic, mix {mix}, against idle", _times(found.rise), ""))
            knee = found.knee
            reached = rate(knee.value, "B/s", knee.low, knee.high) if knee.value else CANNOT
            yield Line((f"traffic at which latency turns up, mix {mix}", reached, ""), knee.why or "")


PARTS = (_line, _ways, _translation, _writes, _prefetch, _yardsticks, _several, _load)


def _count(found: Answer) -> Cell:
    return Figure(counted(found.value), "", plus_minus(found.value, found.low, found.high)) if found.value else CANNOT


def _said(verdict: YesOrNo) -> str:
    return CANNOT if verdict.holds is None else "yes" if verdict.holds else "no"


def _times(found: Estimate) -> Figure:
    return Figure(f"{found.value:.2f}", "×", plus_minus(found.value, found.low, found.high))


def _at(share: Share) -> str:
    words = dict(share.parameters)
    where = str(size(int(words["size"]))) if "size" in words else ""
    return ", ".join(word for word in (str(words.get("operation", "")), where) if word)
