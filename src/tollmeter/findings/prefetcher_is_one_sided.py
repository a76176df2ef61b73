# SPDX-License-Identifier: Apache-2.0
"""Strides that are followed in one direction and not in the other."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import native_rows
from tollmeter.inference.prefetch import USUAL_LINE, Help, prefetching
from tollmeter.model import Book, Evidence, Finding


def find(book: Book) -> Iterable[Finding]:
    """Where one direction is told to gain and the other is told not to."""
    line = max((cache.line_bytes for cache in book.index.machine.caches), default=0) or USUAL_LINE
    helped = prefetching(native_rows(book), book.probes, line)
    works = [one for one in helped if one.verdict.holds is True]
    fails = [one for one in helped if one.verdict.holds is False]
    if len(works) != 1 or len(fails) != 1:
        return
    yield Finding(
        name="memory.prefetcher_is_one_sided",
        severity="note",
        claim=f"walks {works[0].direction} are fetched ahead, walks {fails[0].direction} are not",
        evidence=(_gain(works[0]), _gain(fails[0])),
        remedy=f"let loops over much memory run {works[0].direction}",
    )


def _gain(one: Help) -> Evidence:
    gain = one.verdict.ratio.value if one.verdict.ratio else 1.0
    return Evidence(what=f"random order over {one.direction}, stride {one.stride}", value=gain, unit="ratio")
