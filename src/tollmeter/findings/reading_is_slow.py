# SPDX-License-Identifier: Apache-2.0
"""Reading that gets a small share of what two loads a cycle, or the misses under way alone, would carry."""

from __future__ import annotations

from collections.abc import Iterable

from tollmeter.findings._evidence import inferences
from tollmeter.inference.yardsticks import LOADS_PER_CYCLE
from tollmeter.model import Book, Evidence, Finding, Inference
from tollmeter.numbers.percent import in_percent

LEAST_SHARE = 0.4
FEATURE_BYTES = 16
"""Every 64-bit core of today loads 16 bytes twice a cycle. Wider loads are not required here, and there is no finding
about the first cache where no timed kernel loads as much."""


def find(book: Book) -> Iterable[Finding]:
    """Each level whose best reading is under 40 % of its yardstick: load ports for L1d, lines under way elsewhere."""
    for held, reached in zip(inferences(book, "yardstick"), inferences(book, "reading_share"), strict=True):
        rate, share = (float(inference.value or 0) for inference in (held, reached))
        wider = int(held.parameters.get("load_bytes", FEATURE_BYTES)) / FEATURE_BYTES
        if wider >= 1 and share * wider < LEAST_SHARE:
            yield _finding(held, share * wider, rate / wider)


def _finding(held: Inference, share: float, rate: float) -> Finding:
    loads = f"{LOADS_PER_CYCLE} loads of {FEATURE_BYTES} bytes a cycle"
    by = loads if "load_bytes" in held.parameters else held.name.partition(" by ")[2]
    return Finding(
        name="memory.reading_is_slow",
        severity="warning",
        claim=f"reading from {held.level} goes at {in_percent(share)} of {rate / 1e9:.0f} GB/s, what {by} would carry",
        evidence=(
            Evidence(what=f"best read bandwidth, {held.level}", value=share * rate, unit="B/s"),
            Evidence(what=by, value=rate, unit="B/s"),
        ),
        remedy="look for a bandwidth limit of the guest, empty memory channels, or traffic of others",
    )
